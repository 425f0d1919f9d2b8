"""Filling: windows without messages that emit.

A key is filled from its first window with a message until ``up_to`` after the end of its last one.
So the state has one row for each key that is filled, with the last window to fill. A late message
also fills the ended windows after it that haven't emitted before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.firing import MAX_WINDOW
from muntin.engine.order import sort_rows
from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.paned import FIRED, LATE, PanedShard
from muntin.engine.windows.panes import last_ended_window, window_end, window_start
from muntin.engine.windows.shard import StepContext
from muntin.model.policies import Fill
from muntin.state.blobs import Blobs
from muntin.state.lookup import join_null_safe
from muntin.state.runs import FrameCache, RangedFrame, find_extent

_UNTIL, _STOP = "until", "__muntin_stop"


class FillingShard(PanedShard):
    """The windows of a shard's keys, including empty ones."""

    def __init__(self, combiner: Combiner, blobs: Blobs, cache: FrameCache) -> None:
        super().__init__(combiner, blobs, cache)
        merge = partial(_merge_furthest, by=self._identity)
        self.filled = self.state.table("filled", columns.WINDOW, None, merge)

    def _empty(self, context: StepContext, *changed: Any) -> list[pl.DataFrame]:
        """Return the empty windows after late messages, and those that have just ended."""
        new_cells, late_windows, full_windows, silent_windows, marks = changed
        before, after = context.clock.before, self._last_ended(context)
        late_windows = self._find_last_to_fill(late_windows)
        ended = pl.concat(
            [self._find_last_to_fill(full_windows), self._find_last_to_fill(silent_windows)]
        )
        behind_late = self._list_gaps(late_windows, before)
        if len(behind_late):
            behind_late = join_null_safe(
                behind_late, self._find_emitted(behind_late, new_cells), self._identity, "anti"
            )
        last_filled = self._read_last_filled(late_windows, before)
        just_ended = behind_late.clear()
        if after > before:
            starting_points = pl.concat([last_filled, ended])
            just_ended = self._list_gaps(starting_points, after)
            # After a reset of the watermark, some are filled further than windows have ended.
            further = pl.col(columns.WINDOW) > after
            reached = _merge_furthest([starting_points.filter(~further)], self.keys)
            reached = _set_window(after, reached).select(last_filled.columns)
            last_filled = pl.concat([reached, last_filled.filter(further)])
        self.filled.drop_before(None)
        if not context.final:
            self.filled.append(last_filled.filter(pl.col(_UNTIL) > after))
        if self.spec.firing.grace:
            firing = [columns.number(FIRED, 1), columns.number(LATE)]
            marks += [windows.with_columns(firing) for windows in (behind_late, just_ended)]
        return [self._empty_rows(behind_late, "late"), self._empty_rows(just_ended, "full")]

    def _last_ended(self, context: StepContext) -> int:
        """Return the last ended window; at the end of the input the one of the greatest time."""
        watermark, clock = self.state.watermark, context.clock
        if clock.after != MAX_WINDOW or watermark is None:
            return clock.after
        latest = self.windows.pane_of(watermark + self.spec.lateness)
        return max(clock.before, self.windows.last_window(latest))

    def _read_last_filled(self, late: pl.DataFrame, before: int) -> pl.DataFrame:
        """Return the last window to fill of each key, as of the last window that had ended."""
        stored = self.filled.read(before, None)
        frames = [
            _set_window(before, late),
            *(f.filter(pl.col(columns.WINDOW) >= before) for f in stored),
        ]
        return _merge_furthest([f.select(late.columns) for f in frames], self._identity)

    def _find_last_to_fill(self, windows: pl.DataFrame) -> pl.DataFrame:
        """Return windows with messages, and the last window to fill after each."""
        fill = self.spec.firing.fill
        assert isinstance(fill, Fill)
        end = window_end(windows[columns.WINDOW], self.windows) + fill.up_to
        until = last_ended_window(end, self.windows).alias(_UNTIL)
        return windows.select(self._identity).with_columns(until)

    def _find_emitted(self, windows: pl.DataFrame, new_cells: list[RangedFrame]) -> pl.DataFrame:
        """Return the windows that have emitted, or that emit now because they have messages."""
        low, high = find_extent(windows[columns.WINDOW])
        keys = windows.select(self.keys).unique()
        frames = [self._compose(new_cells, low, high, keys), *self.marks.read(low, high, keys)]
        return pl.concat([frame.select(self._identity) for frame in frames]).unique()

    def _list_gaps(self, windows: pl.DataFrame, last: int) -> pl.DataFrame:
        """Return the empty windows that follow some windows, up to ``last``."""
        ordered = sort_rows(windows, [*self.keys, columns.WINDOW])
        before_next = pl.col(columns.WINDOW).shift(-1).over(self.keys) - 1
        stop = pl.min_horizontal(_UNTIL, before_next, pl.lit(last, dtype=pl.Int64)).alias(_STOP)
        first = pl.col(columns.WINDOW) + 1
        gaps = (
            ordered.with_columns(stop)
            .filter(pl.col(_STOP) >= first)
            .with_columns(pl.int_ranges(first, pl.col(_STOP) + 1).alias(columns.WINDOW))
            .explode(columns.WINDOW)
            .select(self._identity)
        )
        if self.windows.even:
            return gaps
        # A day that the zone skipped has no window.
        numbers = gaps[columns.WINDOW]
        exists = window_start(numbers, self.windows) < window_end(numbers, self.windows)
        return gaps.filter(exists)

    def _empty_rows(self, windows: pl.DataFrame, emission: str) -> pl.DataFrame:
        zeros = [columns.number(name) for name in (columns.MESSAGES, columns.REVISION)]
        rows = pl.concat([self._no_windows(), windows.with_columns(*zeros)], how="diagonal")
        return rows.with_columns(pl.lit(emission).alias(columns.EMISSION))


def _merge_furthest(frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
    return pl.concat(frames).group_by(by).agg(pl.col(_UNTIL).max())


def _set_window(window: int, keys: pl.DataFrame) -> pl.DataFrame:
    return keys.with_columns(columns.number(columns.WINDOW, window))
