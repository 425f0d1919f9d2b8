"""Filling: windows without messages that emit.

A key is filled from its first window with a message until ``up_to`` after the end of its last one.
So the state has one row for each key that is filled, with the last window to fill, and the values
that are repeated in it. A late message also fills the ended windows after it that haven't emitted
before. Where values are repeated, a window that emits late corrects the filled windows after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.fills import interpolate, list_followed, value_column
from muntin.engine.firing import MAX_WINDOW, BatchClock
from muntin.engine.order import sort_rows
from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.paned import FIRED, LATE, PanedShard
from muntin.engine.windows.panes import last_ended_window, window_end, window_start
from muntin.engine.windows.shard import StepContext
from muntin.model.fill import LINEAR, Fill
from muntin.state.blobs import Blobs
from muntin.state.frames import FrameCache
from muntin.state.lookup import join_null_safe
from muntin.state.rows import stack_rows
from muntin.state.runs import RangedFrame, find_extent

# The last window with messages before filled ones, the last one to fill after it, and the last one
# of a gap.
SOURCE, UNTIL, STOP = "source", "until", "__muntin_stop"
# The next window with messages, and its values.
_NEXT, _RIGHT = "__muntin_next", "__muntin_right_"


class FillingShard(PanedShard):
    """The windows of a shard's keys, including empty ones."""

    def __init__(self, combiner: Combiner, blobs: Blobs, cache: FrameCache) -> None:
        super().__init__(combiner, blobs, cache)
        fill = self.spec.firing.fill
        assert isinstance(fill, Fill)
        self._fill = fill
        self._followed = list_followed(combiner)
        self._corrects = fill.follows and not fill.waits
        self._value_columns = [value_column(index) for index in self._followed]
        merge = partial(merge_latest, by=self._identity)
        self.filled = self.state.table("filled", columns.WINDOW, None, merge)

    def _empty(self, context: StepContext, *changed: Any) -> list[pl.DataFrame]:
        """Return the empty windows after late messages, and those that have just ended."""
        new_cells, late_windows, full_windows, silent_windows, marks = changed
        before = context.clock.before
        after = self._limit(before, context.clock.after)
        sources, behind_late = self._list_gaps_behind(late_windows, new_cells, before)
        if len(behind_late):
            behind_late = join_null_safe(
                behind_late, self._find_marked(behind_late), self._identity, "anti"
            )
        last_filled = self._read_last_filled(sources, before)
        just_ended = behind_late.clear()
        if after > before:
            ended = [self._make_sources(windows) for windows in (full_windows, silent_windows)]
            starting_points = stack_rows([last_filled, *ended])
            just_ended = self._list_gaps(starting_points, after)
            # After a reset of the watermark, some are filled further than windows have ended.
            further = pl.col(columns.WINDOW) > after
            reached = merge_latest([starting_points.filter(~further)], self.keys)
            reached = _set_window(after, reached).select(last_filled.columns)
            last_filled = stack_rows([reached, last_filled.filter(further)])
        self.filled.drop_before(None)
        if not context.final:
            self.filled.append(last_filled.filter(pl.col(UNTIL) > after))
        if self.spec.firing.grace:
            firing = [columns.number(FIRED, 1), columns.number(LATE)]
            marks += [
                windows[self._identity].with_columns(firing)
                for windows in (behind_late, just_ended)
            ]
        return [self._empty_rows(behind_late, "late"), self._empty_rows(just_ended, "full")]

    def _emit_changed(
        self,
        emission: str,
        changes: pl.DataFrame,
        new_cells: list[RangedFrame],
        clock: BatchClock,
        marks: list[pl.DataFrame],
    ) -> pl.DataFrame:
        """Return the changed windows that are due, and the filled ones that repeat their values."""
        emitted = super()._emit_changed(emission, changes, new_cells, clock, marks)
        if emission != "late" or not self._corrects or not len(emitted):
            return emitted
        _, gaps = self._list_gaps_behind(emitted, new_cells, clock.before)
        if not len(gaps):
            return emitted
        extent = find_extent(gaps[columns.WINDOW])
        # Those that this step fills for the first time have no stored firing.
        repeated = self._with_marks(gaps, *extent, only=self._list_keys(gaps)).filter(
            pl.col(FIRED) > 0
        )
        firing = [columns.number(FIRED, 1), columns.number(LATE)]
        marks.append(repeated[self._identity].with_columns(firing))
        corrected = self._empty_rows(repeated, "late", pl.col(FIRED))
        return pl.concat([emitted, corrected], how="diagonal")

    def _limit(self, before: int, after: int) -> int:
        """Return a window that a clock has reached, which at the end holds the greatest time."""
        watermark = self.state.watermark
        if after != MAX_WINDOW or watermark is None:
            return after
        latest = self.windows.pane_of(watermark + self.spec.lateness)
        return max(before, self.windows.last_window(latest))

    def _read_last_filled(self, late: pl.DataFrame, before: int) -> pl.DataFrame:
        """Return the last window to fill of each key, as of the last window that had ended."""
        stored = self._read_filled(late.clear()).filter(pl.col(columns.WINDOW) >= before)
        return merge_latest([stored, _set_window(before, late)], self._identity)

    def _read_filled(self, nothing: pl.DataFrame) -> pl.DataFrame:
        """Return the stored rows; values that another query didn't store are null."""
        frames = [nothing, *self.filled.read(None, None)]
        return pl.concat(frames, how="diagonal").select(nothing.columns)

    def _make_sources(self, windows: pl.DataFrame) -> pl.DataFrame:
        """Return windows with messages, the last window to fill after each, and its values."""
        end = window_end(windows[columns.WINDOW], self.windows) + self._fill.up_to
        algebras = self.combiner.algebras
        return windows[self._identity].with_columns(
            pl.col(columns.WINDOW).alias(SOURCE),
            last_ended_window(end, self.windows).alias(UNTIL),
            *(algebras[i].lower(windows).alias(value_column(i)) for i in self._followed),
        )

    def _list_gaps_behind(
        self, changed: pl.DataFrame, new_cells: list[RangedFrame], before: int
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return ended windows as sources, and the empty windows behind them up to ``before``."""
        if not len(changed):
            nothing = self._make_sources(self._no_windows())
            return nothing, self._list_gaps(nothing, before)
        low, _ = find_extent(changed[columns.WINDOW])
        keys = changed[self.keys].unique()
        sources = self._make_sources(self._compose(new_cells, low, before, keys))
        gaps = self._list_gaps(sources, before)
        changed_sources = join_null_safe(sources, changed, self._identity, "semi")
        is_source = changed_sources.select(*self.keys, SOURCE)
        return changed_sources, join_null_safe(gaps, is_source, [*self.keys, SOURCE], "semi")

    def _find_marked(self, windows: pl.DataFrame) -> pl.DataFrame:
        """Return the windows that have emitted before."""
        low, high = find_extent(windows[columns.WINDOW])
        stored = self.marks.read(low, high, windows[self.keys].unique())
        return stack_rows(f[self._identity] for f in [windows.clear(), *stored]).unique()

    def _list_gaps(self, sources: pl.DataFrame, last: int) -> pl.DataFrame:
        """Return the empty windows that follow some windows, up to ``last``."""
        ordered = sort_rows(sources, [*self.keys, columns.WINDOW])
        before_next = pl.col(columns.WINDOW).shift(-1).over(self.keys) - 1
        stop = pl.min_horizontal(UNTIL, before_next, pl.lit(last, dtype=pl.Int64)).alias(STOP)
        return self._number_gaps(ordered.with_columns(stop))

    def _number_gaps(self, sources: pl.DataFrame) -> pl.DataFrame:
        """Return the windows after each source, up to ``STOP``."""
        first = pl.col(columns.WINDOW) + 1
        gaps = (
            sources.filter(pl.col(STOP) >= first)
            .with_columns(pl.int_ranges(first, pl.col(STOP) + 1).alias(columns.WINDOW))
            .explode(columns.WINDOW)
            .drop(STOP, UNTIL)
        )
        if self.windows.even:
            return gaps
        # A day that the zone skipped has no window.
        numbers = gaps[columns.WINDOW]
        exists = window_start(numbers, self.windows) < window_end(numbers, self.windows)
        return gaps.filter(exists)

    def _empty_rows(
        self, windows: pl.DataFrame, emission: str, revision: pl.Expr | None = None
    ) -> pl.DataFrame:
        revision = columns.number(columns.REVISION) if revision is None else revision
        empty = windows.select(
            *self._identity,
            *self._value_columns,
            columns.number(columns.MESSAGES),
            revision.alias(columns.REVISION),
        )
        rows = pl.concat([self._no_windows(), empty], how="diagonal")
        return rows.with_columns(pl.lit(emission).alias(columns.EMISSION))


def merge_latest(frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
    """Return the row of the latest source, of which the last one counts."""
    rows = pl.concat(frames, how="diagonal")
    names = [name for name in (UNTIL, SOURCE) if name in rows.columns]
    ordered = rows.sort(names, maintain_order=True)
    return ordered.group_by(by, maintain_order=True).last().select(rows.columns)


def _set_window(window: int, keys: pl.DataFrame) -> pl.DataFrame:
    return keys.with_columns(columns.number(columns.WINDOW, window))


class InterpolatingShard(FillingShard):
    """The windows of a shard's keys, including empty ones, filled on the line between two windows.

    Both must have closed, so that nothing is corrected later. If no window with messages follows
    until ``up_to`` has passed, the value is null. The state has one row for each key that is
    filled, with its last closed window with messages.
    """

    def __init__(self, combiner: Combiner, blobs: Blobs, cache: FrameCache) -> None:
        super().__init__(combiner, blobs, cache)
        self._lines = [
            value_column(index)
            for index, name in enumerate(self.spec.aggregates)
            if self._fill.way_of(name) == LINEAR
        ]

    def _empty(self, context: StepContext, *changed: Any) -> list[pl.DataFrame]:
        """Return the empty windows that are decided, since their neighbours have closed."""
        new_cells, clock = changed[0], context.clock
        if clock.closed_after == clock.closed_before:
            return []
        closed = self._compose(new_cells, clock.closed_before + 1, clock.closed_after)
        new_sources = self._make_sources(closed)
        sources = stack_rows([self._read_filled(new_sources.clear()), new_sources])
        decided = self._list_decided(sources, clock)
        latest = merge_latest([sources], self.keys)
        self.filled.drop_before(None)
        if not context.final:
            self.filled.append(latest.filter(pl.col(UNTIL) + 1 > clock.closed_after))
        return [self._empty_rows(decided, "full")]

    def _list_decided(self, sources: pl.DataFrame, clock: BatchClock) -> pl.DataFrame:
        """Return the empty windows before a closed one, or that waited for one in vain."""
        last = self._limit(clock.closed_before, clock.closed_after)
        following = pl.col(columns.WINDOW, *self._lines).shift(-1).over(self.keys)
        ordered = sort_rows(sources, [*self.keys, columns.WINDOW])
        ordered = ordered.with_columns(
            following.name.prefix(_RIGHT),
        ).rename({_RIGHT + columns.WINDOW: _NEXT})
        stop = pl.min_horizontal(UNTIL, pl.col(_NEXT) - 1, pl.lit(last, dtype=pl.Int64))
        is_decided = pl.col(_NEXT).is_not_null() | (pl.col(UNTIL) + 1 <= clock.closed_after)
        gaps = self._number_gaps(
            ordered.with_columns(
                pl.when(is_decided).then(stop).alias(STOP),
                # Without another window soon enough there is no line.
                pl.when(pl.col(_NEXT) <= pl.col(UNTIL) + 1).then(_NEXT).alias(_NEXT),
            )
        )
        has_next = gaps[_NEXT].is_not_null()
        left, middle, right = (
            window_end(numbers, self.windows)
            for numbers in (
                gaps[SOURCE],
                gaps[columns.WINDOW],
                gaps[_NEXT].zip_with(has_next, gaps[columns.WINDOW]),
            )
        )
        return gaps.with_columns(
            interpolate(
                gaps[name],
                gaps[_RIGHT + name].zip_with(has_next, gaps[name].clear(len(gaps))),
                middle - left,
                right - left,
            ).alias(name)
            for name in self._lines
        )
