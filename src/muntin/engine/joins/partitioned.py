"""A join on the rows axis: every partition has its own axis, counted from its recorded start.

The first offset of a partition on a side is recorded permanently, and positions are counted from
it. So the two sides are aligned even if their offsets differ. Partners are in partitions of the
same name.

Source: the Samza SQL window operator design (the note on aligning starting offsets).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from muntin.engine import admission, columns
from muntin.engine.admission import admit
from muntin.engine.joins.joiner import Joiner, SideArrival
from muntin.engine.joins.shard import JoinShard, SideArrivals, combine_arrivals
from muntin.engine.output import ShardOutput
from muntin.engine.state import State
from muntin.model.bounds import SideName
from muntin.model.counts import add_counts
from muntin.model.joins import SIDES
from muntin.state.blobs import Blobs
from muntin.state.frames import FrameCache
from muntin.state.offsets import OffsetRange

Starts = dict[SideName, dict[Any, int]]


class PartitionedJoinShard:
    """A shard of a join on the rows axis, with a ``JoinShard`` for each partition."""

    def __init__(self, joiner: Joiner, blobs: Blobs, cache: FrameCache) -> None:
        self.joiner = joiner
        self.spec = joiner.spec
        self.state = State(blobs, cache, self.spec, "join", SIDES)
        extra = self.state.extra
        # The watermarks of partitions are independent, so the shard has none.
        self.watermarks: dict[SideName, int | None] = dict.fromkeys(SIDES)
        self.watermark: int | None = None
        self.starts: Starts = {side: dict(extra.get("starts", {}).get(side, ())) for side in SIDES}

    def step(self, arrived: SideArrivals, wall: int, *, final: bool = False) -> ShardOutput:
        parts: dict[SideName, dict[Any, SideArrival]] = {}
        rejected: list[pl.DataFrame] = []
        new = {
            side: combine_arrivals(self.joiner, side, arrived[side], self.state) for side in SIDES
        }
        for side in SIDES:
            covered = [stretch for part in arrived[side] for stretch in part.offsets]
            self._record_starts(side, covered)
            rejected += self._reject_unpositioned(side, new[side].messages)
            parts[side] = self._split_by_partition(side, new[side].messages, covered)
        wall = self.state.clock(new.values(), wall)
        started = [partition for side in SIDES for partition in self.starts[side]]
        names = dict.fromkeys([*self.state.partitions, *started])
        emitted = [self._step_partition(name, parts, wall, final) for name in names]
        self.state.wall = wall
        starts = {side: list(self.starts[side].items()) for side in SIDES}
        self.state.extra["starts"] = starts
        self.state.save()
        counts = add_counts([self.state.counts, *(one.counts for one in emitted)])
        rejected_frames = [self.joiner.no_rejected, *rejected]
        output = ShardOutput.combine(emitted, self.joiner.no_results, rejected_frames, counts)
        for side in SIDES:
            partitions = zip(names, emitted, strict=True)
            output.entering[side] = [
                replace(part, start=self.starts[side].get(name, 0))
                for name, step in partitions
                for part in step.entering[side]
            ]
        return output

    @property
    def counts(self) -> dict[str, int]:
        """Counts of messages so far, with rejected ones by reason."""
        parts = self.state.partitions.values()
        opened = (JoinShard(self.joiner, one, self.state.cache) for one in parts)
        return add_counts([self.state.counts, *(one.counts for one in opened)])

    def iterate_partitions(self, side: SideName) -> Iterator[tuple[Any, int, JoinShard]]:
        """Yield each partition of a side with its start offset and its shard."""
        for partition, start in self.starts[side].items():
            if (blobs := self.state.partitions.get(partition)) is not None:
                yield partition, start, JoinShard(self.joiner, blobs, self.state.cache)

    def _reject_unpositioned(self, side: SideName, messages: pl.DataFrame) -> list[pl.DataFrame]:
        """Reject messages without partition or offset, which have no position."""
        offset = self.spec.side(side).offset or ()
        if not any(messages[name].null_count() for name in offset):
            return []
        messages = messages.filter(pl.any_horizontal(pl.col(*offset).is_null()))
        accepted, rejected = admit(messages, self.spec.list_required_keys(side), None)
        counts = admission.count_messages(messages, accepted, rejected)
        self.state.count({name: n for name, n in counts.items() if n})
        return [self.joiner.align_rejected(side, frame, None) for frame in rejected]

    def _record_starts(self, side: SideName, covered: Sequence[OffsetRange]) -> None:
        first: dict[Any, int] = {}
        for partition, low, _ in covered:
            first[partition] = min(low, first.get(partition, low))
        for partition, low in first.items():
            self.starts[side].setdefault(partition, low)

    def _split_by_partition(
        self, side: SideName, messages: pl.DataFrame, covered: Sequence[OffsetRange]
    ) -> dict[Any, SideArrival]:
        """Return each partition's messages with their positions, and the end of its offsets."""
        offset = self.spec.side(side).offset
        assert offset is not None
        partition, number = offset
        # Messages without partition or offset were rejected.
        if messages[partition].null_count() or messages[number].null_count():
            messages = messages.drop_nulls([partition, number])
        parts = messages.partition_by(partition, as_dict=True, maintain_order=True)
        ends: dict[Any, int] = {}
        for name, _, high in covered:
            ends[name] = max(high + 1, ends.get(name, high + 1))
        arrivals = {}
        for name, end in ends.items():
            start = self.starts[side][name]
            position = (pl.col(number).cast(pl.Int64) - start).alias(columns.TIME)
            positioned = parts.get((name,), messages.clear()).with_columns(position)
            no_rejected = self.joiner.no_side_rejected[side]
            arrivals[name] = SideArrival(positioned, rejected=no_rejected, latest=end - start)
        return arrivals

    def _step_partition(
        self,
        partition: Any,
        parts: Mapping[SideName, dict[Any, SideArrival]],
        wall: int,
        final: bool,
    ) -> ShardOutput:
        blobs = self.state.partition(partition)
        shard = JoinShard(self.joiner, blobs, self.state.cache)
        # The shard may be new, or idle for some batches; the clock has advanced.
        shard.state.wall, shard.state.ends_run = self.state.wall, self.state.ends_run
        arrivals = {
            side: [parts[side][partition]] if partition in parts[side] else [] for side in SIDES
        }
        return shard.step(arrivals, wall, final=final)
