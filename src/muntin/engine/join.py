"""A shard of a join: partners are told as they meet, the lonely when nobody can come any more.

New messages meet the other side's stored ones and each other, so that every pair is found in the
one step in which its second message is let in. A message is stored as long as the other side's
watermark leaves room for a partner; then it goes, and is told alone where the join asks for that.

Source: the Samza SQL window operator design, join windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from muntin.engine import admission, columns
from muntin.engine.admission import admit
from muntin.engine.buffer import ID, LATE, Buffer
from muntin.engine.joiner import Arrived, Joiner
from muntin.engine.offsets import Offsets
from muntin.engine.pairs import pairs
from muntin.engine.runs import Blobs, FrameCache
from muntin.engine.state import State
from muntin.engine.told import Told
from muntin.model.joins import OTHER, SIDES, Joint, SideName, Together, Within
from muntin.model.policies import Every
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.spec import DUPLICATES

FOREVER = 2**62
Batch = Mapping[SideName, Sequence[Arrived]]


class JoinShard:
    """The messages of some keys on both sides.

    A step is a function of the state and its input alone: a batch that is repeated from the same
    state tells the same rows again, in any order.

    Args:
        joiner: The join.
        blobs: The store, as the last commit left it.
        cache: Decoded blobs of this process.

    Raises:
        SpecChangedError: When the store was written by another spec.
        StateCorruptedError: When the manifest can't be read.
    """

    def __init__(self, joiner: Joiner, blobs: Blobs, cache: FrameCache) -> None:
        self.joiner = joiner
        self.spec = joiner.spec
        self.state = State(blobs, self.spec)
        extra = self.state.extra
        self.marks: dict[SideName, int | None] = extra.get("marks", dict.fromkeys(SIDES))
        self.next: dict[SideName, int] = extra.get("next", dict.fromkeys(SIDES, 0))
        self.offsets = {side: Offsets(extra.get("taken", {}).get(side, ())) for side in SIDES}
        self.buffers: dict[SideName, Buffer] = {
            side: Buffer(joiner, side, blobs, cache, self.state.tables.get(side, {}))
            for side in SIDES
        }
        for side in SIDES:
            self.buffers[side].from_place = self._kept_from(side)

    def step(self, arrived: Batch, wall: int, *, final: bool = False) -> Told:
        """Take a batch of both sides in, and tell what is due.

        Args:
            arrived: What came to this shard, by side.
            wall: The wall clock, microseconds; the messages' own clock goes before it.
            final: Whether the input has ended.
        """
        clocks = [a.clock for side in SIDES for a in arrived[side] if a.clock is not None]
        wall = max([*clocks, self.state.wall or 0]) if clocks else wall
        taken, rejected = {}, []
        for side in SIDES:
            taken[side], aside = self._admit(side, arrived[side])
            rejected += aside
        before = {side: self._kept_from(side) for side in SIDES}
        self._advance(arrived)
        after = {side: FOREVER if final else self._kept_from(side) for side in SIDES}
        new = {side: self._let_in(side, taken[side], wall, after[side]) for side in SIDES}
        pairs_told, met = self._meet(new, final)
        told = [pairs_told]
        for side in SIDES:
            told.append(self._close(side, new[side], met.get(side), before[side], after[side]))
            self.buffers[side].drop_before(after[side])
        self.state.wall = wall
        self.state.watermark = self.watermark
        taken_now = {side: offsets.dumps() for side, offsets in self.offsets.items()}
        self.state.extra |= {"marks": self.marks, "next": self.next, "taken": taken_now}
        self.state.save({side: self.buffers[side] for side in SIDES})
        return Told(
            pl.concat([self.joiner.nothing_told(), *told]),
            pl.concat([self.joiner.nothing_rejected, *rejected], how="diagonal"),
            None,
            self.watermark,
            dict(self.state.counts),
            sum(buffer.waiting.rows for buffer in self.buffers.values()),
            sum(buffer.rows for buffer in self.buffers.values()),
        )

    @property
    def bound(self) -> Within | Together:
        """What bounds a pair."""
        assert not isinstance(self.spec.bound, Joint)
        return self.spec.bound

    @property
    def watermark(self) -> int | None:
        """Up to where both sides are believed complete."""
        marks = [mark for mark in self.marks.values() if mark is not None]
        return min(marks) if len(marks) == len(SIDES) else None

    def _admit(
        self, side: SideName, arrived: Sequence[Arrived]
    ) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
        """New messages with their numbers, and rows of rejected ones."""
        mark = self.marks[side]
        messages = self._fresh(side, arrived)
        taken, late = admit(messages, self.spec.side(side).keys, self._edge(side))
        counts = admission.counts(messages, taken, late)
        del counts["seen"]
        for counted in (counts, *(part.counts for part in arrived)):
            self.state.count(counted)
        rejected = [a.rejected for a in arrived if len(a.rejected)] + late
        messages = taken.select(*self.joiner.inputs[side], columns.TIME)
        numbers = pl.int_range(pl.len(), dtype=pl.Int64) + self.next[side]
        self.next[side] += len(messages)
        past = pl.lit(False) if mark is None else pl.col(columns.TIME) < mark
        messages = messages.with_columns(numbers.alias(ID), past.alias(LATE))
        told = mark if self.spec.axis == "time" else None
        return messages, [self.joiner.set_aside(side, frame, told) for frame in rejected]

    def _fresh(self, side: SideName, arrived: Sequence[Arrived]) -> pl.DataFrame:
        """The messages of a side that were not here before, as far as offsets tell."""
        frames = [a.messages for a in arrived if len(a.messages)]
        messages = pl.concat(frames) if frames else self.joiner.no_messages(side)
        offset = self.spec.side(side).offset
        if offset is None:
            return messages
        known = self.offsets[side].known(messages, *offset)
        for part in arrived:
            self.offsets[side].add(part.offsets)
        if known.any():
            self.state.count({DUPLICATES: int(known.sum())})
        return messages.filter(~known)

    def _edge(self, side: SideName) -> int | None:
        """The first place at which a side still takes messages."""
        mark = self.marks[side]
        if mark is None:
            return None
        return self.bound.first_taken(mark, self.spec.side(side).firing.grace)

    def _kept_from(self, side: SideName) -> int | None:
        """The first place at which a side's messages are kept."""
        edge, places = self._edge(OTHER[side]), []
        if edge is not None:
            places.append(self.bound.first_kept(side, edge))
        mark, kept = self.marks[side], self.spec.side(side).kept
        if mark is not None and kept is not None:
            places.append(mark - kept)
        return max(places, default=None)

    def _advance(self, arrived: Batch) -> None:
        for side in SIDES:
            latest = [a.latest for a in arrived[side] if a.latest is not None]
            if latest:
                reached = max(latest) - self.spec.side(side).lateness
                mark = self.marks[side]
                self.marks[side] = reached if mark is None else max(mark, reached)

    def _let_in(
        self, side: SideName, taken: pl.DataFrame, wall: int, closing: int | None
    ) -> pl.DataFrame:
        """The messages that meet the other side in this step; the others wait for their policy."""
        firing, buffer = self.spec.side(side).firing, self.buffers[side]
        policies = {False: firing.early, True: firing.late}
        slow = {late: p.period for late, p in policies.items() if isinstance(p, Every)}
        if not slow:
            return taken
        past, place = pl.col(LATE), pl.col(columns.TIME)
        waits = past.is_in(list(slow))
        buffer.waiting.append(taken.filter(waits))
        due = [late for late, period in slow.items() if self._passed(period, wall)]
        ready = past.is_in(due)
        full = self._full_before(side)
        if full is not None:
            ready = ready | (~past & (place < full))
        if closing is not None:
            ready = ready | (place < closing)
        return pl.concat([taken.filter(~waits), buffer.take_waiting(ready)])

    def _passed(self, period: int, wall: int) -> bool:
        """Whether the clock has passed a multiple of a period since the last step."""
        last = self.state.wall
        return last is not None and wall // period > last // period

    def _full_before(self, side: SideName) -> int | None:
        """The place before which all of a side's own windows have ended."""
        windows, mark = self.spec.side(side).windows, self.marks[side]
        if windows is None or mark is None:
            return None
        if isinstance(windows, Sliding | Sessions):
            return mark
        return Together((windows,)).first_taken(mark, 0)

    def _meet(
        self, new: Mapping[SideName, pl.DataFrame], final: bool
    ) -> tuple[pl.DataFrame, dict[SideName, pl.DataFrame]]:
        """What new messages make with stored ones and with each other.

        Returns:
            Rows of results, and on each side that is marked who has found a partner.
        """
        stored = {side: self._asked(side, new[OTHER[side]]) for side in SIDES}
        there = pl.concat([stored["right"], new["right"]])
        found = [
            self._partners(new["left"], there),
            self._partners(stored["left"], new["right"]),
        ]
        left, right = (pl.concat(parts) for parts in zip(*found, strict=True))
        met: dict[SideName, pl.DataFrame] = {"left": left, "right": right}
        marked = {side: met[side].unique(ID) for side in self.spec.marked}
        if self.spec.how == "anti":
            return self.joiner.nothing_told(), marked
        if self.spec.how == "semi":
            first = self.buffers["left"].unmatched(marked["left"], None)
            return self._told(first, first.clear(), final), {"left": first}
        return self._told(left, right, final), marked

    def _asked(self, side: SideName, asking: pl.DataFrame) -> pl.DataFrame:
        """The stored messages of a side that may be partners of new ones of the other."""
        buffer, there = self.buffers[side], OTHER[side]
        if not len(asking) or not buffer.messages.rows:
            return buffer.empty
        places = asking[columns.TIME]
        low, high = self.bound.partners(there, int(places.min()), int(places.max()))  # type: ignore[arg-type]
        return buffer.near(self.joiner.wanted(there, asking), len(asking), low, high)

    def _partners(
        self, left: pl.DataFrame, right: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        rows = pairs(left, right, self.spec)
        return left[rows[0]], right[rows[1]]

    def _told(self, left: pl.DataFrame, right: pl.DataFrame, final: bool) -> pl.DataFrame:
        """Rows of results out of partners, or out of left messages alone."""
        alone = self.spec.how == "semi"
        past = left[LATE] if alone else left[LATE] | right[LATE]
        emission = pl.Series(["full"]).new_from_index(0, len(left))
        if not final:
            early, late = pl.Series(["early"]), pl.Series(["late"])
            emission = late.new_from_index(0, len(left)).zip_with(
                past, early.new_from_index(0, len(left))
            )
        if alone:
            told = self.joiner.alone("left", left, "full")
            return told.with_columns(emission.alias(columns.EMISSION))
        return self.joiner.paired(left, right, emission)

    def _close(
        self,
        side: SideName,
        new: pl.DataFrame,
        met: pl.DataFrame | None,
        before: int | None,
        after: int | None,
    ) -> pl.DataFrame:
        """Store new messages, and tell those alone that can find no partner any more.

        Args:
            side: Whose messages.
            new: What was let in.
            met: Who has found a partner in this step, where that matters.
            before: The first place that was kept until now.
            after: The first place that is kept from now on.
        """
        buffer, place = self.buffers[side], pl.col(columns.TIME)
        told = self.joiner.nothing_told()
        stays = new
        if after is not None:
            stays, goes = new.filter(place >= after), new.filter(place < after)
            if side in self.spec.lonely and met is not None:
                due = pl.concat([goes, buffer.between(before, after - 1)])
                due = buffer.unmatched(due, after - 1).join(met, on=ID, how="anti")
                told = self.joiner.alone(side, due.sort(columns.TIME, ID), "full")
        if met is not None:
            if self.spec.how == "semi":
                stays = stays.join(met, on=ID, how="anti")
            buffer.mark(met if after is None else met.filter(place >= after))
        # Whether a message came late is told with its own arrival only.
        buffer.messages.append(stays.with_columns(pl.lit(False).alias(LATE)))
        return told
