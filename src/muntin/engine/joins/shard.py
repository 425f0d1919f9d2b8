"""A shard of a join: it emits pairs at once, and unmatched messages when no partner can come.

New messages are joined with the other side's stored ones and with each other, so that every pair is
emitted in exactly one step, the one in which its second message enters the join. A message is
stored as long as the other side's watermark allows a partner. Then it is dropped, and emitted as
unmatched if the join requires that.

Source: the Samza SQL window operator design, join windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from muntin.engine import admission, columns
from muntin.engine.admission import admit, split_rejected
from muntin.engine.arrival import select_new
from muntin.engine.firing import MAX_WINDOW
from muntin.engine.joins.as_of import AsOfJoin
from muntin.engine.joins.by_arrival import ArrivalJoin
from muntin.engine.joins.joiner import ID, LATE, Joiner, SideArrival
from muntin.engine.joins.newest import NewestJoin
from muntin.engine.joins.positions import PositionJoin
from muntin.engine.joins.sessions import SessionJoin
from muntin.engine.joins.strategy import JoinClock, JoinStrategy, SidePositions
from muntin.engine.output import EnteringMessages, ShardOutput
from muntin.engine.state import State
from muntin.model.bounds import AsOf, ByArrival, Newest, SessionBound, SideName
from muntin.model.joins import SIDES
from muntin.state.blobs import Blobs
from muntin.state.frames import FrameCache
from muntin.state.rows import add_constants, stack_rows

_STRATEGIES: dict[type, Callable[..., JoinStrategy]] = {
    AsOf: AsOfJoin,
    ByArrival: ArrivalJoin,
    SessionBound: SessionJoin,
    Newest: NewestJoin,
}
SideArrivals = Mapping[SideName, Sequence[SideArrival]]


class JoinShard:
    """The messages of a shard's keys on both sides.

    The output of a step depends only on the state and the input: a batch that is repeated from the
    same state emits the same rows, in any order. ``open_join_shard`` opens a shard.
    """

    def __init__(self, joiner: Joiner, blobs: Blobs, cache: FrameCache) -> None:
        self.joiner = joiner
        self.spec = joiner.spec
        self.state = State(blobs, cache, self.spec, "join", SIDES)
        extra = self.state.extra
        self.watermarks: dict[SideName, int | None] = extra.get("marks", dict.fromkeys(SIDES))
        self.next_numbers: dict[SideName, int] = extra.get("next", dict.fromkeys(SIDES, 0))
        create = _STRATEGIES.get(type(self.spec.bound), PositionJoin)
        self.strategy: JoinStrategy = create(joiner, self.state)
        self.strategy.drop_before(self.strategy.find_first_stored(self.watermarks))

    def step(self, arrived: SideArrivals, wall: int, *, final: bool = False) -> ShardOutput:
        """Process a batch of both sides, and emit what is due."""
        new = {
            side: combine_arrivals(self.joiner, side, arrived[side], self.state) for side in SIDES
        }
        wall = self.state.clock(new.values(), wall)
        accepted, rejected = self._admit(new)
        before = self.strategy.find_first_stored(self.watermarks)
        self._advance_watermarks(new, wall, final)
        after: SidePositions = dict.fromkeys(SIDES, MAX_WINDOW)
        if not final:
            after = self.strategy.find_first_stored(self.watermarks)
        clock = JoinClock(
            watermarks=self.watermarks,
            before=before,
            after=after,
            wall=wall,
            last_wall=self.state.wall,
            final=final,
            ends_run=self.state.ends_run,
            caught_up=frozenset(side for side in SIDES if self.state.is_caught_up(side)),
        )
        entering = self.strategy.select_entering(accepted, clock)
        emitted = self.strategy.join_messages(entering, clock)
        self.strategy.drop_before(after)
        self.state.wall = wall
        self.state.watermark = self.watermark
        self.state.extra |= {"marks": self.watermarks, "next": self.next_numbers}
        # Readers of the state leave out the messages before these positions, which have expired.
        self.state.extra["from"] = dict(self.strategy.find_first_stored(self.watermarks))
        self.state.extra["kept"] = self.strategy.row_counts
        self.state.save()
        return ShardOutput(
            stack_rows([self.joiner.no_results, *emitted]),
            pl.concat([self.joiner.no_rejected, *rejected], how="diagonal"),
            None,
            self.watermark,
            dict(self.state.counts),
            self.strategy.pending,
            self.strategy.rows,
            {
                side: [EnteringMessages(entering[side], self.watermarks[side], final)]
                for side in SIDES
            },
            self._describe_clocks(wall),
        )

    @property
    def counts(self) -> dict[str, int]:
        """Counts of messages so far, with rejected ones by reason."""
        return dict(self.state.counts)

    @property
    def watermark(self) -> int | None:
        """The watermark of the join; ``None`` before the first message of either side."""
        return self.strategy.compute_watermark(self.watermarks)

    def iterate_partitions(self, side: SideName) -> Iterator[tuple[Any, int, JoinShard]]:
        """Yield the shard as its only partition, which starts at 0."""
        yield None, 0, self

    def _admit(
        self, new: Mapping[SideName, SideArrival]
    ) -> tuple[dict[SideName, pl.DataFrame], list[pl.DataFrame]]:
        """Return accepted messages with their numbers, and the rejected ones."""
        admitted = {
            side: admit(new[side].messages, self.spec.list_required_keys(side), None)
            for side in SIDES
        }
        late = self.strategy.find_late({side: admitted[side][0] for side in SIDES}, self.watermarks)
        accepted: dict[SideName, pl.DataFrame] = {}
        rejected: list[pl.DataFrame] = []
        for side in SIDES:
            messages, rejected_frames = admitted[side]
            messages, late_frames = split_rejected(messages, late[side], "late")
            rejected_frames += late_frames
            counts = admission.count_messages(new[side].messages, messages, rejected_frames)
            if self.spec.side(side).offset is None:
                del counts["seen"]  # the tasks have counted them
            self.state.count(counts)
            rejected_frames += [new[side].rejected] if len(new[side].rejected) else []
            watermark = self.watermarks[side] if self.spec.axis == "time" else None
            align = partial(self.joiner.align_rejected, side, watermark=watermark)
            rejected += map(align, rejected_frames)
            accepted[side] = self._number_messages(side, messages)
        return accepted, rejected

    def _number_messages(self, side: SideName, accepted: pl.DataFrame) -> pl.DataFrame:
        """Add each message's number, and whether it is behind the watermark."""
        if not len(accepted):
            return self.joiner.no_numbered[side]
        watermark = self.watermarks[side]
        first = self.next_numbers[side]
        self.next_numbers[side] += len(accepted)
        numbers = pl.Series(ID, np.arange(first, first + len(accepted)))
        own = accepted[[*self.joiner.inputs[side], columns.TIME]].hstack([numbers])
        if watermark is None:
            return add_constants(own, {LATE: False})
        return own.hstack([(accepted[columns.TIME] < watermark).alias(LATE)])

    def _advance_watermarks(
        self, new: Mapping[SideName, SideArrival], wall: int, final: bool
    ) -> None:
        for side in SIDES:
            watermark, side_spec = self.watermarks[side], self.spec.side(side)
            self.watermarks[side] = self.state.follow(
                watermark, [new[side]], side_spec, wall, side, final=final
            )
        self._advance_idle_sides(new, wall)
        if self.spec.shared_time:
            present = [time for time in self.watermarks.values() if time is not None]
            self.watermarks = dict.fromkeys(SIDES, max(present, default=None))

    def _describe_clocks(self, wall: int) -> dict[str, Any]:
        """Describe the clocks of both sides, each prefixed by its side."""
        description: dict[str, Any] = {}
        for side in SIDES:
            mine = self.state.describe_clocks(self.spec.side(side).idle, wall, side)
            if mine:
                clocks = {f"{side} {name}": time for name, time in mine["clocks"].items()}
                held = mine["held_by"] and f"{side} {mine['held_by']}"
                description["clocks"] = {**description.get("clocks", {}), **clocks}
                description["held_by"] = description.get("held_by") or held
        return description

    def _advance_idle_sides(self, new: Mapping[SideName, SideArrival], wall: int) -> None:
        """Advance the watermark of a side that is idle or has ended to the later one of both."""
        present = [time for time in self.watermarks.values() if time is not None]
        for side in SIDES if present else ():
            idle = self.state.is_idle(self.spec.side(side).idle, wall, side)
            if idle or new[side].finished:
                self.watermarks[side] = max(present)


def combine_arrivals(
    joiner: Joiner, side: SideName, arrived: Sequence[SideArrival], state: State
) -> SideArrival:
    """Combine a side's new messages, count repeated ones, and mark the offsets as taken."""
    messages, offset = [part.messages for part in arrived], joiner.spec.side(side).offset
    new, summary = select_new(arrived, messages, offset, state.taken[side], state.count)
    return SideArrival(
        stack_rows(new) if new else joiner.no_messages[side],
        rejected=stack_rows([joiner.no_side_rejected[side], *(part.rejected for part in arrived)]),
        **summary,
    )
