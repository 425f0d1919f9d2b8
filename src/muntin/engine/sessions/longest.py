"""Sessions with a longest duration, which are cut from the messages of their keys.

A session ends a gap after its last message, or its longest duration after its first one. A late
message at the start of a stretch of activity moves all cuts behind it. So the messages of open
sessions are kept by time, combined into **cells** of one position, and the sessions of a batch's
keys are cut anew from them. Sessions without a longest duration need no cells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.firing import MAX_WINDOW, SINCE, BatchClock
from muntin.engine.order import find_group_starts, sort_rows
from muntin.engine.sessions.combine import SessionCombiner, merged
from muntin.engine.sessions.shard import (
    FIRED,
    FIRED_LATE,
    INTO,
    UNEMITTED,
    SessionShard,
    latest_closed,
)
from muntin.engine.windows.combine import Combined
from muntin.engine.windows.ranges import search_positions
from muntin.model.sessions import Sessions
from muntin.state.blobs import Blobs
from muntin.state.lookup import join_null_safe
from muntin.state.runs import FrameCache, segment_length

_IS_NEW, _OLD, _GROUP = "__muntin_is_new", "__muntin_old", "__muntin_group"
_CLOSED = "__muntin_closed"
_LATEST = np.maximum, -MAX_WINDOW


class LongestSessionShard(SessionShard):
    """The sessions of a shard's keys, each cut at its longest duration."""

    def __init__(self, combiner: SessionCombiner, blobs: Blobs, cache: FrameCache) -> None:
        super().__init__(combiner, blobs, cache)
        assert self.windows.longest is not None
        self.longest = self.windows.longest
        width = segment_length(self.longest + combiner.patience + self.spec.lateness)
        self.cells = self.state.table(
            "cells", columns.PANE, width, combiner.merge, self.keys, combiner.complete
        )
        self._new_cells = combiner.no_cells

    def _take(
        self, combined: Sequence[Combined], moment: BatchClock
    ) -> tuple[pl.DataFrame, pl.DataFrame, list[pl.DataFrame]]:
        self._new_cells = self.combiner.no_cells
        return super()._take(combined, moment)

    def _place(
        self,
        cells: Sequence[pl.DataFrame],
        stored: pl.DataFrame,
        doubtful: pl.DataFrame | None,
        moment: BatchClock,
    ) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """Cut the sessions of the batch's keys anew, and compare them with the stored ones."""
        new = self.combiner.merge(cells, by=[*self.keys, columns.PANE])
        # Late messages have keys, too, whose sessions they don't change.
        stored = join_null_safe(stored, new.select(self.keys).unique(), self.keys, "semi")
        kept = self._open_cells(new, stored, moment)
        both = [kept.with_columns(pl.lit(False).alias(_IS_NEW)), new.with_columns(_is_new())]
        rows = sort_rows(pl.concat(both, how="diagonal"), [*self.keys, columns.PANE])
        rows, group, closed = self._without_closed(rows, moment)
        late = self._split_late(doubtful, closed)
        self._new_cells = rows.filter(_IS_NEW).drop(_IS_NEW)
        if not len(rows):
            nothing = self._no_sessions()
            return nothing, nothing.with_columns(columns.number(INTO)), late
        whole = merged(rows.drop(_IS_NEW, columns.PANE), group, self.combiner)
        whole = whole.with_columns(self._last())
        old = stored.filter(pl.col(columns.LAST) > moment.closed_before)
        old = sort_rows(old, self._identity)
        changed, absorbed = self._compare(whole, old, rows, group, moment)
        self.retained.add(changed)
        self.retained.add(absorbed, -1)
        return changed, absorbed, late

    def _open_cells(
        self, new: pl.DataFrame, stored: pl.DataFrame, moment: BatchClock
    ) -> pl.DataFrame:
        """Return the stored cells of the batch's keys that are in open sessions."""
        low = self._first_open(moment.closed_before)
        frames = self.cells.read(low, None, new.select(self.keys).unique())
        cells = pl.concat([self.combiner.no_cells, *frames], how="diagonal")
        closed = latest_closed(stored, self.keys, moment).rename({columns.LAST: _CLOSED})
        cells = join_null_safe(cells, closed, self.keys, "left")
        after = (pl.col(columns.PANE) - pl.col(_CLOSED) >= self.windows.reach).fill_null(True)
        return cells.filter(after & (pl.col(columns.PANE) >= low)).drop(_CLOSED)

    def _first_open(self, closed: int) -> int:
        """Return the least position of an open session's first message.

        Args:
            closed: The greatest last position of a session that has closed.
        """
        return closed - self.longest + self.windows.gap + 1

    def _without_closed(
        self, rows: pl.DataFrame, moment: BatchClock
    ) -> tuple[pl.DataFrame, NDArray[np.int64], pl.DataFrame]:
        """Take new messages out of sessions that would have closed, until none is in one.

        Returns:
            The other rows, the number of each row's session, and the rows that were taken out.
        """
        taken_out = [rows.clear()]
        while True:
            group = number_sessions(rows, self.keys, self.windows)
            first = np.flatnonzero(np.diff(group, prepend=-1))
            position = rows[columns.PANE].to_numpy()
            last = position[np.append(first[1:], len(rows)) - 1] if len(rows) else position
            ends = np.minimum(last, position[first] + self.longest - self.windows.gap)
            is_late = (ends <= moment.closed_before)[group] if len(rows) else np.zeros(0, bool)
            late = pl.Series(is_late) & rows[_IS_NEW]
            if not late.any():
                return rows, group, pl.concat(taken_out)
            taken_out.append(rows.filter(late))
            rows = rows.filter(~late)

    def _split_late(self, doubtful: pl.DataFrame | None, closed: pl.DataFrame) -> pl.DataFrame:
        """Return the messages of rows that were taken out, and count both kinds."""
        if doubtful is None or not len(doubtful):
            return self.combiner.nothing_rejected
        at = closed.select(
            *(pl.col(key).alias(name) for name, key in self.combiner.key_names.items()),
            pl.col(columns.PANE).alias(columns.TIME),
        ).unique()
        numbered = doubtful.with_row_index("__row")
        by = [*self.combiner.message_keys, columns.TIME]
        late = join_null_safe(numbered, at, by, "semi")["__row"]
        aside = doubtful[late.sort()].with_columns(pl.lit("late").alias(columns.REASON))
        self.state.count({"late": len(aside), "counted": len(doubtful) - len(aside)})
        return self.combiner.set_aside([aside])

    def _last(self) -> pl.Expr:
        """Return the last position of a session, less if its longest duration ends it before."""
        cut = pl.col(columns.FIRST) + (self.longest - self.windows.gap)
        return pl.min_horizontal(pl.col(columns.LAST), cut).alias(columns.LAST)

    def _compare(
        self,
        whole: pl.DataFrame,
        old: pl.DataFrame,
        rows: pl.DataFrame,
        group: NDArray[np.int64],
        moment: BatchClock,
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the sessions that changed, and the old ones that they replace."""
        into, is_whole = self._find_successors(old, rows, group)
        count = len(whole)
        firsts, lasts = (whole[c].to_numpy()[into] for c in (columns.FIRST, columns.LAST))
        same = (old[columns.FIRST].to_numpy() == firsts) & (old[columns.LAST].to_numpy() == lasts)
        same &= np.bincount(into, minlength=count)[into] == 1
        news = np.bincount(group, rows[_IS_NEW].to_numpy(), count)
        is_unchanged = np.zeros(count, dtype=np.bool_)
        is_unchanged[into[same]] = True
        is_unchanged &= news == 0
        emitted = (old[columns.MESSAGES] - old[UNEMITTED]).to_numpy()
        counts = {
            FIRED: _add(into, np.where(same, old[FIRED].to_numpy(), 0), count),
            UNEMITTED: whole[columns.MESSAGES].to_numpy()
            - _add(into, np.where(is_whole, emitted, 0), count),
        }
        if FIRED_LATE in self._counts:
            counts[FIRED_LATE] = _add(into, old[FIRED_LATE].to_numpy(), count)
        counts |= self._times_of(old, into, is_whole, counts[UNEMITTED], moment.wall)
        whole = whole.with_columns(pl.Series(c, numbers) for c, numbers in counts.items())
        whole = self._with_retracts(whole, old, into, ~same)
        absorbed = old.with_columns(pl.Series(INTO, firsts))
        return whole.filter(pl.Series(~is_unchanged)), absorbed.filter(
            pl.Series(~is_unchanged[into])
        )

    def _find_successors(
        self, old: pl.DataFrame, rows: pl.DataFrame, group: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the session that has each old one's first message, and whether it has all."""
        starts = old.select(*self.keys, pl.col(columns.FIRST).alias(columns.PANE)).with_row_index(
            _OLD
        )
        numbered = rows.select(*self.keys, columns.PANE, _IS_NEW).with_columns(
            pl.Series(_GROUP, group)
        )
        kept = numbered.filter(~pl.col(_IS_NEW))
        found = kept.join(
            starts,
            on=[*self.keys, columns.PANE],
            how="left",
            maintain_order="left",
            nulls_equal=True,
        )
        span = (
            found.with_columns(pl.col(_OLD).forward_fill())
            .group_by(_OLD)
            .agg(pl.col(_GROUP).min().alias("first"), pl.col(_GROUP).max().alias("last"))
            .sort(_OLD)
        )
        first, last = span["first"].to_numpy(), span["last"].to_numpy()
        return first, first == last

    def _times_of(
        self,
        old: pl.DataFrame,
        into: NDArray[np.int64],
        is_whole: NDArray[np.bool_],
        unemitted: NDArray[np.int64],
        wall: int,
    ) -> dict[str, NDArray[np.int64]]:
        """Return when the first, or the last, unemitted message of each session came.

        The messages that a cut has moved into another session count as coming now.
        """
        if not self._times:
            return {}
        waited = np.where(is_whole, old[UNEMITTED].to_numpy(), 0)
        has_moved = unemitted > _add(into, waited, len(unemitted))
        times = {}
        for name in self._times:
            merge, beyond = (np.minimum, MAX_WINDOW) if name == SINCE["first"] else _LATEST
            times[name] = np.where(has_moved, wall, beyond)
            merge.at(times[name], into, np.where(waited > 0, old[name].to_numpy(), beyond))
        return times

    def _keep(
        self, rows: pl.DataFrame, still: pl.DataFrame, absorbed: pl.DataFrame, moment: BatchClock
    ) -> None:
        self.cells.append(self._new_cells)
        self.cells.drop_before(self._first_open(moment.closed_after))
        super()._keep(rows, still, absorbed, moment)


def number_sessions(
    rows: pl.DataFrame, keys: Sequence[str], windows: Sessions
) -> NDArray[np.int64]:
    """Number the sessions of cells, which are sorted by key and position."""
    position = rows[columns.PANE].to_numpy()
    begun = find_group_starts(rows, keys)
    if not len(rows):
        return np.zeros(0, dtype=np.int64)
    begun[1:] |= np.diff(position) >= windows.reach
    stretch: NDArray[np.int64] = np.cumsum(begun, dtype=np.int64)
    assert windows.longest is not None
    # The first row of each row's stretch that isn't in a session that the row begins.
    beyond = windows.longest - windows.gap + windows.reach
    follower = search_positions(stretch, position, position + beyond, "left")
    start = np.flatnonzero(begun)
    while len(start):
        begun[start] = True
        after = follower[start]
        inside = after < len(rows)
        start, after = start[inside], after[inside]
        start = after[stretch[after] == stretch[start]]
    return np.cumsum(begun) - 1


def _is_new() -> pl.Expr:
    return pl.lit(True).alias(_IS_NEW)


def _add(into: NDArray[np.int64], numbers: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Add numbers of old sessions by the session that follows each."""
    total = np.zeros(count, dtype=np.int64)
    np.add.at(total, into, numbers)
    return total
