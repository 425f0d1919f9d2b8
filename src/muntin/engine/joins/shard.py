"""A shard of a join: it emits pairs at once, and unmatched messages when no partner can come.

New messages are joined with the other side's stored ones and with each other, so that every pair is
emitted in exactly one step, the one in which its second message enters the join. A message is
stored as long as the other side's watermark allows a partner. Then it is dropped, and emitted as
unmatched if the join requires that.

Source: the Samza SQL window operator design, join windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from muntin.engine import admission, columns
from muntin.engine.admission import admit, split_rejected
from muntin.engine.arrival import select_new
from muntin.engine.firing import MAX_WINDOW
from muntin.engine.joins.as_of import AsOfJoin
from muntin.engine.joins.by_arrival import ArrivalJoin
from muntin.engine.joins.joiner import ID, LATE, Arrived, Joiner
from muntin.engine.joins.newest import NewestJoin
from muntin.engine.joins.places import PlaceJoin
from muntin.engine.joins.sessions import SessionJoin
from muntin.engine.joins.strategy import JoinClock, JoinStrategy
from muntin.engine.output import LetIn, Output
from muntin.engine.state import State
from muntin.model.joins import SIDES, AsOf, ByArrival, Joint, Newest, SideName
from muntin.state.blobs import Blobs
from muntin.state.runs import FrameCache

_STRATEGIES: dict[type, Callable[..., JoinStrategy]] = {
    AsOf: AsOfJoin,
    ByArrival: ArrivalJoin,
    Joint: SessionJoin,
    Newest: NewestJoin,
}
SideArrivals = Mapping[SideName, Sequence[Arrived]]


class JoinShard:
    """The messages of a shard's keys on both sides.

    The output of a step depends only on the state and the input: a batch that is repeated from the
    same state emits the same rows, in any order. ``join_shard`` opens a shard.
    """

    def __init__(self, joiner: Joiner, blobs: Blobs, cache: FrameCache) -> None:
        self.joiner = joiner
        self.spec = joiner.spec
        self.state = State(blobs, cache, self.spec, "join", SIDES)
        extra = self.state.extra
        self.marks: dict[SideName, int | None] = extra.get("marks", dict.fromkeys(SIDES))
        self.next: dict[SideName, int] = extra.get("next", dict.fromkeys(SIDES, 0))
        create = _STRATEGIES.get(type(self.spec.bound), PlaceJoin)
        self.strategy: JoinStrategy = create(joiner, self.state)
        self.strategy.drop_before(self.strategy.kept_from(self.marks))

    def step(self, arrived: SideArrivals, wall: int, *, final: bool = False) -> Output:
        """Process a batch of both sides, and emit what is due."""
        new = {side: fresh_side(self.joiner, side, arrived[side], self.state) for side in SIDES}
        wall = self.state.clock(new.values(), wall)
        taken, rejected = self._admit(new)
        before = self.strategy.kept_from(self.marks)
        self._advance(new, wall, final)
        after = dict.fromkeys(SIDES, MAX_WINDOW) if final else self.strategy.kept_from(self.marks)
        caught_up = frozenset(side for side in SIDES if self.state.is_caught_up(side))
        clock = (wall, self.state.wall, final, self.state.ends_run, caught_up)
        moment = JoinClock(self.marks, before, after, *clock)
        let_in = self.strategy.let_in(taken, moment)
        emitted = self.strategy.meet(let_in, moment)
        self.strategy.drop_before(after)
        self.state.wall = wall
        self.state.watermark = self.watermark
        self.state.extra |= {"marks": self.marks, "next": self.next}
        # Readers of the state need this: messages before these positions have expired.
        self.state.extra["from"] = dict(self.strategy.kept_from(self.marks))
        self.state.extra["kept"] = self.strategy.kept
        self.state.save()
        return Output(
            pl.concat([self.joiner.nothing_emitted(), *emitted]),
            pl.concat([self.joiner.nothing_rejected, *rejected], how="diagonal"),
            None,
            self.watermark,
            dict(self.state.counts),
            self.strategy.pending,
            self.strategy.rows,
            {side: [LetIn(let_in[side], self.marks[side], final)] for side in SIDES},
            self._describe_clocks(wall),
        )

    @property
    def counts(self) -> dict[str, int]:
        """Counts of messages so far, with rejected ones by reason."""
        return dict(self.state.counts)

    @property
    def watermark(self) -> int | None:
        """The watermark of the join; ``None`` before the first message of either side."""
        return self.strategy.watermark(self.marks)

    def opened(self, side: SideName) -> Iterator[tuple[Any, int, JoinShard]]:
        """Yield the shard as its only partition, which starts at 0."""
        yield None, 0, self

    def _admit(
        self, new: Mapping[SideName, Arrived]
    ) -> tuple[dict[SideName, pl.DataFrame], list[pl.DataFrame]]:
        """Return accepted messages with their numbers, and the rejected ones."""
        admitted = {
            side: admit(new[side].messages, self.spec.required(side), None) for side in SIDES
        }
        late = self.strategy.late({side: admitted[side][0] for side in SIDES}, self.marks)
        taken, rejected = {}, []
        for side in SIDES:
            messages, aside = admitted[side]
            messages, after = split_rejected(messages, late[side], "late")
            aside += after
            counts = admission.count_messages(new[side].messages, messages, aside)
            if self.spec.side(side).offset is None:
                del counts["seen"]  # the tasks have counted them
            self.state.count(counts)
            aside += [new[side].rejected] if len(new[side].rejected) else []
            mark = self.marks[side] if self.spec.axis == "time" else None
            rejected += [self.joiner.set_aside(side, frame, mark) for frame in aside]
            taken[side] = self._numbered(side, messages)
        return taken, rejected

    def _numbered(self, side: SideName, taken: pl.DataFrame) -> pl.DataFrame:
        """Add each message's number, and whether it is behind the watermark."""
        mark = self.marks[side]
        messages = taken.select(*self.joiner.inputs[side], columns.TIME)
        numbers = pl.int_range(pl.len(), dtype=pl.Int64) + self.next[side]
        self.next[side] += len(messages)
        past = pl.lit(False) if mark is None else pl.col(columns.TIME) < mark
        return messages.with_columns(numbers.alias(ID), past.alias(LATE))

    def _advance(self, new: Mapping[SideName, Arrived], wall: int, final: bool) -> None:
        for side in SIDES:
            mark, given = self.marks[side], self.spec.side(side)
            self.marks[side] = self.state.follow(mark, [new[side]], given, wall, side, final=final)
        self._pass_resting_sides(new, wall)
        if self.spec.shared_time:
            known = [mark for mark in self.marks.values() if mark is not None]
            self.marks = dict.fromkeys(SIDES, max(known, default=None))

    def _describe_clocks(self, wall: int) -> dict[str, Any]:
        """Describe the clocks of both sides, each prefixed by its side."""
        shown: dict[str, Any] = {}
        for side in SIDES:
            mine = self.state.describe_clocks(self.spec.side(side).idle, wall, side)
            if mine:
                clocks = {f"{side} {name}": time for name, time in mine["clocks"].items()}
                held = mine["held_by"] and f"{side} {mine['held_by']}"
                shown["clocks"] = {**shown.get("clocks", {}), **clocks}
                shown["held_by"] = shown.get("held_by") or held
        return shown

    def _pass_resting_sides(self, new: Mapping[SideName, Arrived], wall: int) -> None:
        """Advance the watermark of a side that is idle or has ended to the later one of both."""
        marks = [mark for mark in self.marks.values() if mark is not None]
        for side in SIDES if marks else ():
            idle = self.state.is_idle(self.spec.side(side).idle, wall, side)
            if idle or new[side].finished:
                self.marks[side] = max(marks)


def fresh_side(joiner: Joiner, side: SideName, arrived: Sequence[Arrived], state: State) -> Arrived:
    """Combine a side's new messages; repeated ones are counted, and offsets marked as taken."""
    sent, offset = [part.messages for part in arrived], joiner.spec.side(side).offset
    new, known = select_new(arrived, sent, offset, state.taken[side], state.count)
    return Arrived(
        pl.concat(new) if new else joiner.no_messages(side),
        rejected=pl.concat([joiner.nothing_aside(side), *(part.rejected for part in arrived)]),
        **known,
    )
