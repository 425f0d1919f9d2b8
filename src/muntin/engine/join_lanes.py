"""A join on the rows axis: every partition is an axis of its own, counted from recorded starts.

The first offset that a side shows of a partition is recorded for good, and places are counted from
there, so that the two sides are aligned however far apart their offsets are. Partners are in
partitions of the same name.
Source: the Samza SQL window operator design (the note on aligning starting offsets).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from muntin.engine import admission, columns
from muntin.engine.admission import admit
from muntin.engine.join import Batch, JoinShard, clock_of
from muntin.engine.joiner import Arrived, Joiner
from muntin.engine.offsets import Stretch
from muntin.engine.once import Lane
from muntin.engine.runs import Blobs, FrameCache
from muntin.engine.state import State
from muntin.engine.told import Told
from muntin.model.joins import SIDES, SideName

Starts = dict[SideName, dict[Any, int]]


class LanesJoinShard:
    """The messages of some keys on both sides, partition by partition; see ``JoinShard``.

    Args:
        joiner: The join.
        blobs: The store, as the last commit left it.
        cache: Decoded blobs of this process.

    Attributes:
        starts: The recorded start offset of each partition, by side.
    """

    def __init__(self, joiner: Joiner, blobs: Blobs, cache: FrameCache) -> None:
        self.joiner = joiner
        self.spec = joiner.spec
        self.blobs = blobs
        self.cache = cache
        self.state = State(blobs, self.spec)
        extra = self.state.extra
        self.starts: Starts = {side: dict(extra.get("starts", {}).get(side, ())) for side in SIDES}
        self.lanes = {p: Lane(blobs, manifest) for p, manifest in extra.get("lanes", ())}

    def step(self, arrived: Batch, wall: int, *, final: bool = False) -> Told:
        """See ``JoinShard``."""
        rejected = []
        wall = clock_of(arrived, wall, self.state.wall)
        for side in SIDES:
            for part in arrived[side]:
                self.state.count(part.counts)
            rejected += self._lost(side, arrived[side])
            self._record(side, arrived[side])
        parts = {side: self._parted(side, arrived[side]) for side in SIDES}
        new = [partition for side in SIDES for partition in self.starts[side]]
        told = [self._lane(p, parts, wall, final) for p in dict.fromkeys([*self.lanes, *new])]
        self.state.wall = wall
        self.state.extra["starts"] = {side: list(self.starts[side].items()) for side in SIDES}
        self.state.extra["lanes"] = [(p, lane.manifest) for p, lane in self.lanes.items()]
        self.state.save({})
        return Told(
            pl.concat([self.joiner.nothing_told(), *(t.results for t in told)]),
            pl.concat([self.joiner.nothing_rejected, *rejected, *(t.rejected for t in told)]),
            None,
            None,
            self._summed([lane.counts for lane in told]),
            sum(t.pending for t in told),
            sum(t.rows for t in told),
        )

    @property
    def counts(self) -> dict[str, int]:
        """Messages so far, by what became of them."""
        lanes = (JoinShard(self.joiner, lane, self.cache) for lane in self.lanes.values())
        return self._summed([lane.counts for lane in lanes])

    def opened(self, side: SideName) -> Iterator[tuple[Any, int, JoinShard]]:
        """Each partition that a side has shown, with its start offset there and its messages."""
        for partition, start in self.starts[side].items():
            if partition in self.lanes:
                yield partition, start, JoinShard(self.joiner, self.lanes[partition], self.cache)

    def _lost(self, side: SideName, arrived: Sequence[Arrived]) -> list[pl.DataFrame]:
        """Messages that lie nowhere, since their partition or offset is missing."""
        lost = pl.any_horizontal(pl.col(*(self.spec.side(side).offset or ())).is_null())
        found = []
        for part in arrived:
            messages = part.messages.filter(lost)
            taken, rejected = admit(messages, self.spec.side(side).keys, None)
            counts = admission.counts(messages, taken, rejected)
            self.state.count({name: n for name, n in counts.items() if n and name != "seen"})
            found += [self.joiner.set_aside(side, frame, None) for frame in rejected]
        return found

    def _record(self, side: SideName, arrived: Sequence[Arrived]) -> None:
        """Record where the partitions begin that were not seen before."""
        first: dict[Any, int] = {}
        for part in arrived:
            for partition, low, _ in part.offsets:
                first[partition] = min(low, first.get(partition, low))
        for partition, low in first.items():
            self.starts[side].setdefault(partition, low)

    def _parted(self, side: SideName, arrived: Sequence[Arrived]) -> dict[Any, Arrived]:
        """What each partition got: its messages, their places, and how far its offsets reach."""
        offset = self.spec.side(side).offset
        assert offset is not None
        partition, number = offset
        frames = [a.messages for a in arrived if len(a.messages)]
        messages = pl.concat(frames) if frames else self.joiner.no_messages(side)
        parts = messages.partition_by(partition, as_dict=True, maintain_order=True)
        covered: dict[Any, list[Stretch]] = {}
        for part in arrived:
            for stretch in part.offsets:
                covered.setdefault(stretch[0], []).append(stretch)
        found = {}
        for name, stretches in covered.items():
            start = self.starts[side][name]
            place = (pl.col(number).cast(pl.Int64) - start).alias(columns.TIME)
            mine = parts.get((name,), messages.clear()).with_columns(place)
            latest = max(high for _, _, high in stretches) + 1 - start
            nothing = messages.clear()
            found[name] = Arrived(mine, nothing, {}, latest, None, stretches)
        return found

    def _lane(
        self, partition: Any, parts: Mapping[SideName, dict[Any, Arrived]], wall: int, final: bool
    ) -> Told:
        lane = self.lanes.setdefault(partition, Lane(self.blobs, None))
        shard = JoinShard(self.joiner, lane, self.cache)
        # A lane may be new here, or have slept; the clock has gone on.
        shard.state.wall = self.state.wall
        mine = {
            side: [parts[side][partition]] if partition in parts[side] else [] for side in SIDES
        }
        return shard.step(mine, wall, final=final)

    def _summed(self, lanes: Sequence[Mapping[str, int]]) -> dict[str, int]:
        counts = dict(self.state.counts)
        for lane in lanes:
            for name, n in lane.items():
                counts[name] = counts.get(name, 0) + n
        return counts
