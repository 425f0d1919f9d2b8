"""A shard of a session join: sessions consist of messages of both sides, and partners share one.

A session grows with messages of either side, and two sessions may merge. The pairs of a new
message, and those between sessions that have just merged, are emitted in that step. Every message
is stored with the last position of its session, so that sessions that have ended are dropped by
whole runs. The messages of a session that changes are written again; this costs as much as the
session holds, as emitting its pairs does.

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
from muntin.engine.joins.joiner import ID, LATE, Joiner, once
from muntin.engine.joins.pairs import compared
from muntin.engine.joins.strategy import (
    JoinClock,
    JoinStrategy,
    SideFrames,
    SidePlaces,
    SideWatermarks,
)
from muntin.engine.order import sort_rows
from muntin.engine.sessions.combine import session_numbers
from muntin.engine.state import State
from muntin.model.joins import OTHER, SIDES, Joint, SideName
from muntin.state.runs import deduplicate, segment_length

# Internal columns of messages: whether one has a partner, the last position of its session, and
# whether it came in this step.
MET, LAST, _NEW = "__muntin_met", "__muntin_last", "__muntin_new"
_AT, _ROW, _GROUP, _PART = "at", "row", "group", "part"


class SessionBuffer:
    """The messages of one side with the last position of their session."""

    def __init__(self, joiner: Joiner, side: SideName, state: State, span: int) -> None:
        self.keys = list(joiner.spec.side(side).keys)
        self.open_from: int | None = None
        numbers = columns.number(ID), columns.number(LAST)
        flags = (pl.lit(False).alias(name) for name in (LATE, MET))
        self.empty = joiner.no_messages(side).with_columns(*numbers, *flags)
        present = partial(renamed, own=joiner.inputs[side])
        self.messages = state.table(
            f"{side} messages", LAST, None, self._living, self.keys, present
        )
        self.ends = state.table(f"{side} ends", LAST, span, deduplicate, complete=renamed)

    @property
    def rows(self) -> int:
        """Number of stored messages; one counts again each time that its session grows."""
        return self.messages.rows

    def of(self, only: pl.DataFrame | None) -> pl.DataFrame:
        """Return the messages of some keys, or of all, whose sessions may still grow."""
        return self._living(self.messages.read(only=only))

    def all_near(self, low: int, high: int, only: pl.DataFrame | None = None) -> pl.DataFrame:
        """Return the messages between two positions, both included."""
        return self.of(only).filter(pl.col(columns.TIME).is_between(low, high))

    def ended(self, low: int | None, high: int) -> pl.DataFrame:
        """Return the messages of sessions whose last position is in a range."""
        if high == MAX_WINDOW - 1:
            return self.of(None)
        named = self.ends.read(low, high)
        if not named:
            return self.empty
        there = self.of(pl.concat(named).select(self.keys).unique())
        return there.filter(pl.col(LAST) <= high)

    def append(self, messages: pl.DataFrame) -> None:
        """Store messages or new versions of stored ones."""
        self.messages.append(messages)
        self.ends.append(messages.select(*self.keys, LAST).unique())

    def drop_before(self, place: int | None) -> None:
        """Drop the sessions whose last position is before a position."""
        if place is None:
            return
        self.open_from = place
        self.messages.drop_before(place)
        self.ends.drop_before(place)

    def _living(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Return the last version of each message whose session may still grow."""
        if not frames:
            return self.empty
        rows = pl.concat(frames).unique(ID, keep="last", maintain_order=True)
        opened = self.open_from
        return rows if opened is None else rows.filter(pl.col(LAST) >= opened)


class SessionJoin(JoinStrategy):
    """The strategy of joins by session."""

    def __init__(self, joiner: Joiner, state: State) -> None:
        super().__init__(joiner)
        assert isinstance(self.spec.bound, Joint)
        self.reach = self.spec.bound.sessions.reach
        graces = [self.spec.side(side).firing.grace for side in SIDES]
        span = segment_length(self.reach + max(graces))
        self.buffers: dict[SideName, SessionBuffer] = {
            side: SessionBuffer(joiner, side, state, span) for side in SIDES
        }

    def late(self, messages: SideFrames, marks: SideWatermarks) -> dict[SideName, pl.Series]:
        """Return which messages are late, by the end of the session that each would join."""
        opened = self._opened(marks)
        opened = -MAX_WINDOW if opened is None else opened
        alone = {side: messages[side][columns.TIME] < opened for side in SIDES}
        if not any(past.any() for past in alone.values()):
            return alone
        stored = columns.number(ID), pl.lit(False).alias(LATE)
        new = {side: messages[side].with_columns(*stored) for side in SIDES}
        rows = self._grouped({side: self._gathered(side, new) for side in SIDES})
        return {side: rows[side].filter(_NEW)[LAST] < opened for side in SIDES}

    def kept_from(self, marks: SideWatermarks) -> SidePlaces:
        """Return the least last position of open sessions, which is the same on both sides."""
        return dict.fromkeys(SIDES, self._opened(marks))

    def _opened(self, marks: SideWatermarks) -> int | None:
        edges = [
            mark - self.spec.side(side).firing.grace
            for side in SIDES
            if (mark := marks[side]) is not None
        ]
        return min(edges) - self.reach + 1 if len(edges) == len(SIDES) else None

    def meet(self, new: SideFrames, moment: JoinClock) -> list[pl.DataFrame]:
        there = {side: self._gathered(side, new) for side in SIDES}
        rows = self._grouped(there)
        found = _pairs(rows["left"], rows["right"])
        emitted = self._emitted(there, found, moment.final)
        alone = []
        for side, met in zip(SIDES, found, strict=True):
            grown = self._grown(there[side], rows[side], met)
            alone.append(self._close(side, grown, moment))
        return [emitted, *alone]

    def _gathered(self, side: SideName, taken: Mapping[SideName, pl.DataFrame]) -> pl.DataFrame:
        """Return a side's stored messages of keys with new messages, followed by the new ones."""
        buffer, new = self.buffers[side], taken[side]
        keys = self.spec.side(side).keys
        only = pl.concat([new.select(keys), self.joiner.wanted(OTHER[side], taken[OTHER[side]])])
        stored = buffer.of(only.unique()) if len(only) and buffer.rows else buffer.empty
        stored = stored.with_columns(pl.lit(False).alias(_NEW))
        last, met = pl.col(columns.TIME).alias(LAST), pl.lit(False).alias(MET)
        new = new.with_columns(last, met, pl.lit(True).alias(_NEW))
        return pl.concat([stored, new.select(stored.columns)])

    def _grouped(self, there: Mapping[SideName, pl.DataFrame]) -> dict[SideName, pl.DataFrame]:
        """Return the messages of each side with their session and their part of it.

        A part is a session as it was before this step, or a new message. ``LAST`` is the session's
        last position, and ``grows`` is true if the session has new messages.
        """
        slim = []
        for side in SIDES:
            named = compared(there[side], self.spec.side(side).keys)
            row = pl.int_range(pl.len(), dtype=pl.Int64).alias(_ROW)
            place = pl.col(columns.TIME).alias(_AT)
            part = pl.when(_NEW).then(None).otherwise(pl.col(LAST)).alias(_PART)
            slim.append(
                there[side].select(*named, place, row, _NEW, part, pl.lit(side).alias("side"))
            )
        rows = pl.concat(slim)
        keys = [name for name in rows.columns if name.startswith("k")]
        rows = sort_rows(rows, [*keys, _AT])
        group = session_numbers(rows, keys, _AT, _AT, self.reach)
        rows = rows.with_columns(pl.Series(_GROUP, group, dtype=pl.Int64))
        rows = rows.with_columns(
            pl.col(_AT).max().over(_GROUP).alias(LAST),
            pl.col(_NEW).any().over(_GROUP).alias("grows"),
        )
        return {side: rows.filter(pl.col("side") == side).sort(_ROW) for side in SIDES}

    def _emitted(
        self, there: Mapping[SideName, pl.DataFrame], found: tuple[Any, Any], final: bool
    ) -> pl.DataFrame:
        """Return results for pairs."""
        if self.spec.how == "anti":
            return self.joiner.nothing_emitted()
        left, right = there["left"][found[0]], there["right"][found[1]]
        if self.spec.how == "semi":
            return self.joiner.first(once(left, right).filter(~pl.col(MET)), final)
        return self.joiner.paired(left, right, final)

    def _grown(self, messages: pl.DataFrame, rows: pl.DataFrame, met: Any) -> pl.DataFrame:
        """Return the messages of changed sessions, as they are stored."""
        found = np.zeros(len(messages), dtype=bool)
        found[met] = True
        messages = messages.with_columns(
            rows[LAST], pl.col(MET) | pl.Series(found), pl.lit(False).alias(LATE)
        )
        return messages.filter(rows["grows"]).drop(_NEW)

    def _close(self, side: SideName, grown: pl.DataFrame, moment: JoinClock) -> pl.DataFrame:
        """Store sessions that may grow, and emit the unmatched messages of those that can't."""
        buffer, last = self.buffers[side], pl.col(LAST)
        before, after = moment.before[side], moment.after[side]
        emitted = self.joiner.nothing_emitted()
        stays = grown
        if after is not None:
            stays = grown.filter(last >= after)
            if side in self.spec.unmatched:
                over = buffer.ended(before, after - 1).join(grown, on=ID, how="anti")
                over = pl.concat([over.filter(last < after), grown.filter(last < after)])
                due = over.filter(~pl.col(MET)).sort(columns.TIME, ID)
                emitted = self.joiner.unmatched(side, due)
        buffer.append(stays)
        return emitted


def _pairs(left: pl.DataFrame, right: pl.DataFrame) -> tuple[Any, Any]:
    """Return the rows of new pairs: in one session now, and not before this step."""
    old = [frame.filter(~pl.col(_NEW)) for frame in (left, right)]
    new = [frame.filter(_NEW) for frame in (left, right)]
    parts = pl.concat(frame.select(_GROUP, _PART) for frame in old).unique()
    several = parts.group_by(_GROUP).len().filter(pl.col("len") > 1)
    # Merged sessions: pairs between the stored messages of one and those of another.
    across = [frame.join(several, on=_GROUP, how="semi") for frame in old]
    joined = across[0].join(across[1], on=_GROUP)
    found = [
        new[0].join(right, on=_GROUP),
        old[0].join(new[1], on=_GROUP),
        joined.filter(pl.col(_PART) != pl.col(f"{_PART}_right")),
    ]
    rows = pl.concat(frame.select(_ROW, f"{_ROW}_right") for frame in found)
    return rows[_ROW].to_numpy(), rows[f"{_ROW}_right"].to_numpy()


def renamed(frame: pl.DataFrame, own: Sequence[str] = ()) -> pl.DataFrame:
    """Rename the last position of sessions in a stored frame to its current name.

    Earlier versions named it ``last``. If the user had a column of that name (one of ``own``), the
    position has overwritten its values, and the column becomes null.
    """
    if LAST in frame.columns:
        return frame
    if columns.LAST not in own:
        return frame.rename({columns.LAST: LAST})
    place = pl.col(columns.LAST)
    lost = pl.when(False).then(place).alias(columns.LAST)
    names = frame.columns
    names.insert(names.index(ID) + 1, LAST)
    return frame.with_columns(place.alias(LAST), lost).select(names)
