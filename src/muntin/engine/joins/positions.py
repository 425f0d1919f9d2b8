"""Joins by position: partners lie within a distance, or in one window.

Whether a message may still have partners follows from its position alone, so that expired messages
can be read and dropped by ranges of the axis. While a message waits for its policy, its partners
are held even if they have expired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.joiner import ID, LATE, Joiner, select_distinct_left
from muntin.engine.joins.pairs import find_pairs
from muntin.engine.joins.side_buffer import SideBuffer
from muntin.engine.joins.strategy import (
    JoinClock,
    JoinStrategy,
    SideFrames,
    SidePositions,
    SideWatermarks,
)
from muntin.engine.order import sort_rows
from muntin.engine.state import State
from muntin.model.bounds import SideName, Together, Within
from muntin.model.joins import OTHER, SIDES
from muntin.model.policies import Every
from muntin.state.lookup import join_null_safe
from muntin.state.rows import split_rows, stack_rows


class PositionJoin(JoinStrategy):
    """The strategy of joins by distance or by window."""

    def __init__(self, joiner: Joiner, state: State) -> None:
        super().__init__(joiner)
        assert isinstance(self.spec.bound, Within | Together)
        self.bound = self.spec.bound
        self.buffers: dict[SideName, SideBuffer] = {
            side: SideBuffer(joiner, side, state) for side in SIDES
        }

    @property
    def row_counts(self) -> dict[str, Any]:
        counters = {side: self.buffers[side].row_counter for side in SIDES}
        return {side: one.entries() for side, one in counters.items() if one.most is not None}

    @property
    def pending(self) -> int:
        return sum(buffer.waiting.rows for buffer in self.buffers.values())

    def find_first_stored(self, watermarks: SideWatermarks) -> SidePositions:
        return {side: self._find_first_stored(side, watermarks) for side in SIDES}

    def _find_first_stored(self, side: SideName, watermarks: SideWatermarks) -> int | None:
        accepted, positions = self.find_first_accepted(OTHER[side], watermarks), []
        if accepted is not None:
            positions.append(self.bound.first_kept(side, accepted))
        limit = self.buffers[side].first_position
        if limit is not None:
            positions.append(limit)
        watermark, retention = watermarks[side], self.spec.side(side).own_retention
        if watermark is not None and retention is not None:
            positions.append(watermark - retention)
        return max(positions, default=None)

    def drop_before(self, positions: SidePositions) -> None:
        for side in SIDES:
            bounds = (positions[side], self.buffers[side].first_position)
            present = [position for position in bounds if position is not None]
            self.buffers[side].drop_before(max(present, default=None))

    def select_entering(self, accepted: SideFrames, clock: JoinClock) -> SideFrames:
        return {side: self._select_entering(side, accepted[side], clock) for side in SIDES}

    def join_messages(self, new: SideFrames, clock: JoinClock) -> list[pl.DataFrame]:
        emitted, matched = self._join_messages(new, clock.final)
        unmatched = [
            self._store_messages(side, new[side], matched.get(side), clock) for side in SIDES
        ]
        return [emitted, *unmatched, *(self._apply_row_limit(side, clock) for side in SIDES)]

    def _apply_row_limit(self, side: SideName, clock: JoinClock) -> pl.DataFrame:
        """Drop the oldest messages beyond the limit of rows, and emit the unmatched ones."""
        buffer = self.buffers[side]
        buffer.drop_before(clock.after[side])
        position = buffer.apply_row_limit()
        if position is None:
            return self.joiner.no_results
        limit_clock = replace(clock, before=clock.after, after={**clock.after, side: position})
        emitted = self._store_messages(side, buffer.empty, buffer.empty, limit_clock)
        buffer.drop_before(position)
        return emitted

    def _select_entering(
        self, side: SideName, accepted: pl.DataFrame, clock: JoinClock
    ) -> pl.DataFrame:
        firing, buffer = self.spec.side(side).firing, self.buffers[side]
        policies = {False: firing.early, True: firing.late}
        periods = {late: p.period for late, p in policies.items() if isinstance(p, Every)}
        if not periods:
            return accepted
        is_late, position = pl.col(LATE), pl.col(columns.TIME)
        rest = accepted
        if len(accepted):
            waits = accepted[LATE].is_in(list(periods))
            waiting, rest = split_rows(accepted, waits)
            buffer.waiting.append(waiting)
        due = [late for late, period in periods.items() if clock.has_passed(period)]
        ready = is_late.is_in(due)
        ended, expired = self._find_ended_before(side, clock), clock.after[side]
        if ended is not None:
            ready = ready | (~is_late & (position < ended))
        if expired is not None:
            ready = ready | (position < expired)
        return stack_rows([rest, buffer.take_waiting(ready)])

    def _find_ended_before(self, side: SideName, clock: JoinClock) -> int | None:
        """Return the position before which all of a side's own windows have ended."""
        windows, watermark = self.spec.side(side).windows, clock.watermarks[side]
        if windows is None or watermark is None:
            return None
        return windows.opens(watermark)

    def _join_messages(
        self, new: Mapping[SideName, pl.DataFrame], final: bool
    ) -> tuple[pl.DataFrame, dict[SideName, pl.DataFrame]]:
        """Return the results of new messages, and those with a partner by marked side."""
        stored = {side: self._read_candidates(side, new[OTHER[side]]) for side in SIDES}
        right_messages = stack_rows([stored["right"], new["right"]])
        pairs = [
            self._select_partners(new["left"], right_messages),
            self._select_partners(stored["left"], new["right"]),
        ]
        left, right = (stack_rows(parts) for parts in zip(*pairs, strict=True))
        partners: dict[SideName, pl.DataFrame] = {"left": left, "right": right}
        matched = {side: _select_distinct(partners[side]) for side in self.spec.sides_to_mark}
        if self.spec.how == "anti":
            return self.joiner.no_results, matched
        if self.spec.how == "semi":
            first = self.buffers["left"].select_unmatched(select_distinct_left(left, right), None)
            return self.joiner.build_semi_results(first, final), {"left": first}
        return self.joiner.build_pairs(left, right, final), matched

    def _read_candidates(self, side: SideName, messages: pl.DataFrame) -> pl.DataFrame:
        """Return a side's stored messages that may be partners of messages of the other side."""
        buffer, other = self.buffers[side], OTHER[side]
        if not len(messages) or not buffer.messages.rows + buffer.held.rows:
            return buffer.empty
        positions = messages[columns.TIME]
        low, high = self.bound.partners(other, int(positions.min()), int(positions.max()))  # type: ignore[arg-type]
        keys = self.joiner.convert_keys(other, messages)
        return buffer.read_candidates(keys, len(messages), low, high)

    def _select_partners(
        self, left: pl.DataFrame, right: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        rows = find_pairs(left, right, self.spec)
        return (left[rows[0]], right[rows[1]]) if len(rows[0]) else (left.clear(), right.clear())

    def _store_messages(
        self, side: SideName, new: pl.DataFrame, matched: pl.DataFrame | None, clock: JoinClock
    ) -> pl.DataFrame:
        """Store new messages, and return unmatched ones that can't have a partner any more.

        ``matched`` are the messages that have a partner since this step, if the side is marked.
        """
        buffer = self.buffers[side]
        if new[LATE].any():
            # A message counts as late only in the step in which it arrives.
            new = new.with_columns(pl.lit(False).alias(LATE))
        before, after = clock.before[side], clock.after[side]
        emitted = self.joiner.no_results
        stored = new
        if after is not None:
            stored, expired = _split_at(after, new)
            newly_held = self._select_held(side, expired, after)
            held = buffer.replace_held(newly_held)
            if side in self.spec.outer_sides and matched is not None:
                due = stack_rows([expired, held, buffer.read_range(before, after - 1)])
                partners = stack_rows([matched, newly_held])
                due = join_null_safe(
                    buffer.select_unmatched(due, after - 1), partners, [ID], "anti"
                )
                due = sort_rows(due, [columns.TIME, ID])
                emitted = self.joiner.build_unmatched(side, due)
        if matched is not None:
            if self.spec.how == "semi":
                stored = join_null_safe(stored, matched, [ID], "anti")
            if after is not None:
                matched, _ = _split_at(buffer.find_first_stored(after), matched)
            buffer.mark_matched(matched)
        buffer.append(stored)
        return emitted

    def _select_held(self, side: SideName, expired: pl.DataFrame, after: int) -> pl.DataFrame:
        """Return the messages before a position whose partner waits for its policy."""
        waiting = self.buffers[OTHER[side]].read_waiting()
        if not len(waiting):
            return expired.clear()
        candidates = stack_rows([expired, self._read_candidates(side, waiting)])
        _, candidates = _split_at(after, candidates)
        both = (candidates, waiting) if side == "left" else (waiting, candidates)
        return _select_distinct(self._select_partners(*both)[SIDES.index(side)])


def _select_distinct(messages: pl.DataFrame) -> pl.DataFrame:
    return messages.unique(ID) if len(messages) else messages


def _split_at(position: int, messages: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the messages from a position on, and those before it."""
    return split_rows(messages, messages[columns.TIME] >= position)
