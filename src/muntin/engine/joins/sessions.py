"""A shard of a session join: sessions consist of messages of both sides, and partners share one.

A session grows with messages of either side, and two sessions may merge. The pairs of a new
message, and those between sessions that have just merged, are emitted in that step. Every message
is stored with the last position of its session, so that whole runs of ended sessions are dropped.
All messages of a changed session are written again, which costs no more than emitting its pairs.

Source: the Samza SQL window operator design (session join windows); sessions as in KIP-94.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from muntin.engine import columns
from muntin.engine.firing import MAX_WINDOW
from muntin.engine.joins.joiner import ID, LATE, Joiner, select_distinct_left
from muntin.engine.joins.pairs import select_comparable_keys, stack_sides
from muntin.engine.joins.strategy import (
    JoinClock,
    JoinStrategy,
    SideFrames,
    SidePositions,
    SideWatermarks,
)
from muntin.engine.order import sort_rows
from muntin.engine.sessions.combine import number_sessions
from muntin.engine.state import State
from muntin.model.bounds import SideName
from muntin.model.joins import OTHER, SIDES
from muntin.state.rows import stack_rows
from muntin.state.runs import deduplicate, segment_length

# Internal columns of messages: whether one has a partner, the last position of its session, and
# whether it arrived in this step.
HAS_PARTNER, LAST, _NEW = "__muntin_met", "__muntin_last", "__muntin_new"
_AT, _ROW, _GROUP, _PART = "at", "row", "group", "part"


class SessionBuffer:
    """The messages of one side with the last position of their session."""

    def __init__(self, joiner: Joiner, side: SideName, state: State, span: int) -> None:
        self.keys = list(joiner.spec.side(side).keys)
        self.first_open: int | None = None
        numbers = columns.number(ID), columns.number(LAST)
        flags = (pl.lit(False).alias(name) for name in (LATE, HAS_PARTNER))
        self.empty = joiner.no_messages[side].with_columns(*numbers, *flags)
        present = partial(rename_last_position, own=joiner.inputs[side])
        self.messages = state.table(
            f"{side} messages", LAST, None, self._drop_ended, self.keys, present
        )
        self.ends = state.table(
            f"{side} ends", LAST, span, deduplicate, complete=rename_last_position
        )

    @property
    def rows(self) -> int:
        """Number of stored messages; one counts again each time that its session grows."""
        return self.messages.rows

    def read_keys(self, only: pl.DataFrame | None) -> pl.DataFrame:
        """Return the messages of some keys, or of all, whose sessions may still grow."""
        return self._drop_ended(self.messages.read(only=only))

    def read_messages(self, low: int, high: int, only: pl.DataFrame | None = None) -> pl.DataFrame:
        """Return the messages between two positions, both included."""
        return self.read_keys(only).filter(pl.col(columns.TIME).is_between(low, high))

    def read_ended(self, low: int | None, high: int) -> pl.DataFrame:
        """Return the messages of sessions whose last position is in a range."""
        if high == MAX_WINDOW - 1:
            return self.read_keys(None)
        ended_keys = self.ends.read(low, high)
        if not ended_keys:
            return self.empty
        messages = self.read_keys(stack_rows(ended_keys).select(self.keys).unique())
        return messages.filter(pl.col(LAST) <= high)

    def append(self, messages: pl.DataFrame) -> None:
        """Store messages or new versions of stored ones."""
        self.messages.append(messages)
        self.ends.append(messages.select(*self.keys, LAST).unique())

    def drop_before(self, position: int | None) -> None:
        """Drop the sessions whose last position is before a position."""
        if position is None:
            return
        self.first_open = position
        self.messages.drop_before(position)
        self.ends.drop_before(position)

    def _drop_ended(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Return the last version of each message whose session may still grow."""
        if not frames:
            return self.empty
        rows = stack_rows(frames).unique(ID, keep="last", maintain_order=True)
        first = self.first_open
        return rows if first is None else rows.filter(pl.col(LAST) >= first)


class SessionJoin(JoinStrategy):
    """The strategy of joins by session."""

    def __init__(self, joiner: Joiner, state: State) -> None:
        super().__init__(joiner)
        self.reach = self.spec.bound.reach
        graces = [self.spec.side(side).firing.grace for side in SIDES]
        span = segment_length(self.reach + max(graces))
        self.buffers: dict[SideName, SessionBuffer] = {
            side: SessionBuffer(joiner, side, state, span) for side in SIDES
        }

    def find_late(
        self, messages: SideFrames, watermarks: SideWatermarks
    ) -> dict[SideName, pl.Series]:
        """Return, for each message, whether the session that it would join has ended."""
        first_open = self._find_first_open(watermarks)
        first_open = -MAX_WINDOW if first_open is None else first_open
        is_late = {side: messages[side][columns.TIME] < first_open for side in SIDES}
        if not any(late.any() for late in is_late.values()):
            return is_late
        stored = columns.number(ID), pl.lit(False).alias(LATE)
        new = {side: messages[side].with_columns(*stored) for side in SIDES}
        rows = self._assign_sessions({side: self._gather_messages(side, new) for side in SIDES})
        return {side: rows[side].filter(_NEW)[LAST] < first_open for side in SIDES}

    def find_first_stored(self, watermarks: SideWatermarks) -> SidePositions:
        """Return the least last position of open sessions, which is the same on both sides."""
        return dict.fromkeys(SIDES, self._find_first_open(watermarks))

    def _find_first_open(self, watermarks: SideWatermarks) -> int | None:
        positions = [
            watermark - self.spec.side(side).firing.grace
            for side in SIDES
            if (watermark := watermarks[side]) is not None
        ]
        return min(positions) - self.reach + 1 if len(positions) == len(SIDES) else None

    def join_messages(self, new: SideFrames, clock: JoinClock) -> list[pl.DataFrame]:
        messages = {side: self._gather_messages(side, new) for side in SIDES}
        rows = self._assign_sessions(messages)
        pairs = _find_pairs(rows["left"], rows["right"])
        emitted = self._build_results(messages, pairs, clock.final)
        unmatched = []
        for side, matched in zip(SIDES, pairs, strict=True):
            changed = self._select_changed(messages[side], rows[side], matched)
            unmatched.append(self._store_sessions(side, changed, clock))
        return [emitted, *unmatched]

    def _gather_messages(
        self, side: SideName, accepted: Mapping[SideName, pl.DataFrame]
    ) -> pl.DataFrame:
        """Return a side's stored messages of keys with new messages, followed by the new ones."""
        buffer, new = self.buffers[side], accepted[side]
        keys = self.spec.side(side).keys
        other_keys = self.joiner.convert_keys(OTHER[side], accepted[OTHER[side]])
        only = stack_rows([new.select(keys), other_keys])
        stored = buffer.read_keys(only.unique()) if len(only) and buffer.rows else buffer.empty
        stored = stored.with_columns(pl.lit(False).alias(_NEW))
        last, has_partner = pl.col(columns.TIME).alias(LAST), pl.lit(False).alias(HAS_PARTNER)
        new = new.with_columns(last, has_partner, pl.lit(True).alias(_NEW))
        return stack_rows([stored, new.select(stored.columns)])

    def _assign_sessions(
        self, messages: Mapping[SideName, pl.DataFrame]
    ) -> dict[SideName, pl.DataFrame]:
        """Return the messages of each side with their session and their part of it.

        A part is a session as it was before this step, or a new message. ``LAST`` is the session's
        last position, and ``grows`` is true if the session has new messages.
        """
        sides = []
        for side in SIDES:
            keys_of_side = select_comparable_keys(messages[side], self.spec.side(side).keys)
            row = pl.int_range(pl.len(), dtype=pl.Int64).alias(_ROW)
            position = pl.col(columns.TIME).alias(_AT)
            part = pl.when(_NEW).then(None).otherwise(pl.col(LAST)).alias(_PART)
            sides.append(
                messages[side].select(
                    *keys_of_side, position, row, _NEW, part, pl.lit(side).alias("side")
                )
            )
        rows = stack_sides(sides)
        keys = [name for name in rows.columns if name.startswith("k")]
        rows = sort_rows(rows, [*keys, _AT])
        group = number_sessions(rows, keys, _AT, _AT, self.reach)
        rows = rows.with_columns(pl.Series(_GROUP, group, dtype=pl.Int64))
        rows = rows.with_columns(
            pl.col(_AT).max().over(_GROUP).alias(LAST),
            pl.col(_NEW).any().over(_GROUP).alias("grows"),
        )
        return {side: rows.filter(pl.col("side") == side).sort(_ROW) for side in SIDES}

    def _build_results(
        self, messages: Mapping[SideName, pl.DataFrame], pairs: tuple[Any, Any], final: bool
    ) -> pl.DataFrame:
        if self.spec.how == "anti":
            return self.joiner.no_results
        left, right = messages["left"][pairs[0]], messages["right"][pairs[1]]
        if self.spec.how == "semi":
            first = select_distinct_left(left, right).filter(~pl.col(HAS_PARTNER))
            return self.joiner.build_semi_results(first, final)
        return self.joiner.build_pairs(left, right, final)

    def _select_changed(
        self, messages: pl.DataFrame, rows: pl.DataFrame, matched: Any
    ) -> pl.DataFrame:
        """Return the messages of changed sessions with the columns of stored ones."""
        is_matched = np.zeros(len(messages), dtype=bool)
        is_matched[matched] = True
        messages = messages.with_columns(
            rows[LAST], pl.col(HAS_PARTNER) | pl.Series(is_matched), pl.lit(False).alias(LATE)
        )
        return messages.filter(rows["grows"]).drop(_NEW)

    def _store_sessions(
        self, side: SideName, changed: pl.DataFrame, clock: JoinClock
    ) -> pl.DataFrame:
        """Store sessions that may grow, and emit the unmatched messages of those that can't."""
        buffer, last = self.buffers[side], pl.col(LAST)
        before, after = clock.before[side], clock.after[side]
        emitted = self.joiner.no_results
        open_messages = changed
        if after is not None:
            open_messages = changed.filter(last >= after)
            if side in self.spec.outer_sides:
                ended = buffer.read_ended(before, after - 1).join(changed, on=ID, how="anti")
                ended = stack_rows([ended.filter(last < after), changed.filter(last < after)])
                due = ended.filter(~pl.col(HAS_PARTNER)).sort(columns.TIME, ID)
                emitted = self.joiner.build_unmatched(side, due)
        buffer.append(open_messages)
        return emitted


def _find_pairs(left: pl.DataFrame, right: pl.DataFrame) -> tuple[Any, Any]:
    """Return the row numbers of pairs that share a session now, and didn't before this step."""
    old = [frame.filter(~pl.col(_NEW)) for frame in (left, right)]
    new = [frame.filter(_NEW) for frame in (left, right)]
    parts = stack_rows(frame.select(_GROUP, _PART) for frame in old).unique()
    several = parts.group_by(_GROUP).len().filter(pl.col("len") > 1)
    # Merged sessions: pairs between the stored messages of one and those of another.
    across = [frame.join(several, on=_GROUP, how="semi") for frame in old]
    joined = across[0].join(across[1], on=_GROUP)
    pairs = [
        new[0].join(right, on=_GROUP),
        old[0].join(new[1], on=_GROUP),
        joined.filter(pl.col(_PART) != pl.col(f"{_PART}_right")),
    ]
    rows = stack_rows(frame.select(_ROW, f"{_ROW}_right") for frame in pairs)
    return rows[_ROW].to_numpy(), rows[f"{_ROW}_right"].to_numpy()


def rename_last_position(frame: pl.DataFrame, own: Sequence[str] = ()) -> pl.DataFrame:
    """Rename the last position of sessions in a stored frame to its current name.

    Earlier versions named it ``last``. If the user had a column of that name (one of ``own``), the
    position has overwritten its values, and the column becomes null.
    """
    if LAST in frame.columns:
        return frame
    if columns.LAST not in own:
        return frame.rename({columns.LAST: LAST})
    position = pl.col(columns.LAST)
    null = pl.when(False).then(position).alias(columns.LAST)
    names = frame.columns
    names.insert(names.index(ID) + 1, LAST)
    return frame.with_columns(position.alias(LAST), null).select(names)
