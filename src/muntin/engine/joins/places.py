"""Joins by position: partners lie within a distance, or in one window.

Whether a message may still have partners follows from its position alone, so that expired messages
are found and dropped by ranges of the axis. While a message waits for its policy, its partners are
held even if they have expired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.joiner import ID, LATE, Joiner, once
from muntin.engine.joins.pairs import pairs
from muntin.engine.joins.side_buffer import SideBuffer
from muntin.engine.joins.strategy import (
    JoinClock,
    JoinStrategy,
    SideFrames,
    SidePlaces,
    SideWatermarks,
)
from muntin.engine.state import State
from muntin.model.joins import OTHER, SIDES, SideName, Together, Within
from muntin.model.policies import Every


class PlaceJoin(JoinStrategy):
    """The strategy of joins by distance or by window."""

    def __init__(self, joiner: Joiner, state: State) -> None:
        super().__init__(joiner)
        assert isinstance(self.spec.bound, Within | Together)
        self.bound = self.spec.bound
        self.buffers: dict[SideName, SideBuffer] = {
            side: SideBuffer(joiner, side, state) for side in SIDES
        }

    @property
    def kept(self) -> dict[str, Any]:
        counters = {side: self.buffers[side].kept for side in SIDES}
        return {side: one.entries() for side, one in counters.items() if one.most is not None}

    @property
    def pending(self) -> int:
        return sum(buffer.waiting.rows for buffer in self.buffers.values())

    def kept_from(self, marks: SideWatermarks) -> SidePlaces:
        return {side: self._kept_from(side, marks) for side in SIDES}

    def _kept_from(self, side: SideName, marks: SideWatermarks) -> int | None:
        edge, places = self.edge(OTHER[side], marks), []
        if edge is not None:
            places.append(self.bound.first_kept(side, edge))
        limit = self.buffers[side].from_place
        if limit is not None:
            places.append(limit)
        mark, kept = marks[side], self.spec.side(side).kept
        if mark is not None and kept is not None:
            places.append(mark - kept)
        return max(places, default=None)

    def drop_before(self, places: SidePlaces) -> None:
        for side in SIDES:
            place, limit = places[side], self.buffers[side].from_place
            self.buffers[side].drop_before(place if limit is None else max(limit, place or limit))

    def let_in(self, taken: SideFrames, moment: JoinClock) -> SideFrames:
        return {side: self._let_in(side, taken[side], moment) for side in SIDES}

    def meet(self, new: SideFrames, moment: JoinClock) -> list[pl.DataFrame]:
        emitted, met = self._meet(new, moment.final)
        alone = [self._close(side, new[side], met.get(side), moment) for side in SIDES]
        return [emitted, *alone, *(self._limit(side, moment) for side in SIDES)]

    def _limit(self, side: SideName, moment: JoinClock) -> pl.DataFrame:
        """Drop the oldest messages beyond the limit of rows, and emit the unmatched ones."""
        buffer = self.buffers[side]
        buffer.drop_before(moment.after[side])
        place = buffer.limited()
        if place is None:
            return self.joiner.nothing_emitted()
        nothing = buffer.empty
        cut = replace(moment, before=moment.after, after={**moment.after, side: place})
        emitted = self._close(side, nothing, nothing, cut)
        buffer.drop_before(place)
        return emitted

    def _let_in(self, side: SideName, taken: pl.DataFrame, moment: JoinClock) -> pl.DataFrame:
        firing, buffer = self.spec.side(side).firing, self.buffers[side]
        policies = {False: firing.early, True: firing.late}
        slow = {late: p.period for late, p in policies.items() if isinstance(p, Every)}
        if not slow:
            return taken
        past, place = pl.col(LATE), pl.col(columns.TIME)
        waits = past.is_in(list(slow))
        buffer.waiting.append(taken.filter(waits))
        due = [late for late, period in slow.items() if moment.passed(period)]
        ready = past.is_in(due)
        full, closing = self._full_before(side, moment), moment.after[side]
        if full is not None:
            ready = ready | (~past & (place < full))
        if closing is not None:
            ready = ready | (place < closing)
        return pl.concat([taken.filter(~waits), buffer.take_waiting(ready)])

    def _full_before(self, side: SideName, moment: JoinClock) -> int | None:
        """Return the position before which all of a side's own windows have ended."""
        windows, mark = self.spec.side(side).windows, moment.marks[side]
        if windows is None or mark is None:
            return None
        return windows.opens(mark)

    def _meet(
        self, new: Mapping[SideName, pl.DataFrame], final: bool
    ) -> tuple[pl.DataFrame, dict[SideName, pl.DataFrame]]:
        """Join new messages with stored ones and with each other.

        Returns:
            The results, and the messages with a partner on each side that is marked.
        """
        stored = {side: self._asked(side, new[OTHER[side]]) for side in SIDES}
        there = pl.concat([stored["right"], new["right"]])
        found = [self._partners(new["left"], there), self._partners(stored["left"], new["right"])]
        left, right = (pl.concat(parts) for parts in zip(*found, strict=True))
        met: dict[SideName, pl.DataFrame] = {"left": left, "right": right}
        marked = {side: met[side].unique(ID) for side in self.spec.marked}
        if self.spec.how == "anti":
            return self.joiner.nothing_emitted(), marked
        if self.spec.how == "semi":
            first = self.buffers["left"].unmatched(once(left, right), None)
            return self.joiner.first(first, final), {"left": first}
        return self.joiner.paired(left, right, final), marked

    def _asked(self, side: SideName, asking: pl.DataFrame) -> pl.DataFrame:
        """Return the stored messages of a side that may be partners of messages of the other."""
        buffer, there = self.buffers[side], OTHER[side]
        if not len(asking) or not buffer.messages.rows + buffer.held.rows:
            return buffer.empty
        places = asking[columns.TIME]
        low, high = self.bound.partners(there, int(places.min()), int(places.max()))  # type: ignore[arg-type]
        return buffer.near(self.joiner.wanted(there, asking), len(asking), low, high)

    def _partners(
        self, left: pl.DataFrame, right: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        rows = pairs(left, right, self.spec)
        return left[rows[0]], right[rows[1]]

    def _close(
        self, side: SideName, new: pl.DataFrame, met: pl.DataFrame | None, moment: JoinClock
    ) -> pl.DataFrame:
        """Store new messages, and emit unmatched ones that can't have a partner any more.

        ``met`` are the messages that have a partner since this step, if the side is marked.
        """
        buffer, place = self.buffers[side], pl.col(columns.TIME)
        # A message counts as late only in the step in which it arrives.
        new = new.with_columns(pl.lit(False).alias(LATE))
        before, after = moment.before[side], moment.after[side]
        emitted = self.joiner.nothing_emitted()
        stays = new
        if after is not None:
            stays, goes = new.filter(place >= after), new.filter(place < after)
            holds = self._still_asked(side, goes, after)
            held = buffer.hold(holds)
            if side in self.spec.unmatched and met is not None:
                due = pl.concat([goes, held, buffer.between(before, after - 1)])
                due = buffer.unmatched(due, after - 1).join(
                    pl.concat([met, holds]), on=ID, how="anti"
                )
                emitted = self.joiner.unmatched(side, due.sort(columns.TIME, ID))
        if met is not None:
            if self.spec.how == "semi":
                stays = stays.join(met, on=ID, how="anti")
            buffer.mark(met if after is None else met.filter(place >= buffer.first_of(after)))
        buffer.append(stays)
        return emitted

    def _still_asked(self, side: SideName, goes: pl.DataFrame, after: int) -> pl.DataFrame:
        """Return the messages before a position whose partner waits for its policy."""
        waiting = self.buffers[OTHER[side]].not_let_in()
        if not len(waiting):
            return goes.clear()
        over = pl.concat([goes, self._asked(side, waiting)])
        over = over.filter(pl.col(columns.TIME) < after)
        both = (over, waiting) if side == "left" else (waiting, over)
        return self._partners(*both)[SIDES.index(side)].unique(ID)
