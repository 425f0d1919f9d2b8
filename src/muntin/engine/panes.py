"""Messages to panes: the pane of every position, and the panes of every window, in columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from muntin.model.axis import DAY
from muntin.model.cumulating import Cumulating
from muntin.model.days import Days
from muntin.model.kinds import Numbered, Paned
from muntin.model.sliding import Sliding
from muntin.model.windows import Windows


def pane_of(position: pl.Expr, windows: Numbered) -> pl.Expr:
    """The pane of each position; every position is its own pane where windows slide."""
    if isinstance(windows, Sliding):
        return position
    if isinstance(windows, Days):
        return _slot_pane(_day_of(position, windows), windows.grid)
    if isinstance(windows, Cumulating):
        shifted = position - windows.origin if windows.origin else position
        return shifted.floordiv(windows.step)
    return _slot_pane(position, windows)


def _slot_pane(position: pl.Expr, windows: Windows) -> pl.Expr:
    shifted = position - windows.origin if windows.origin else position
    slot = shifted.floordiv(windows.slide)
    if not windows.remainder:
        return slot
    within = shifted - slot * windows.slide
    return 2 * slot + (within >= windows.remainder).cast(pl.Int64)


def _day_of(time: pl.Expr, windows: Days) -> pl.Expr:
    """The local day of each time, out of the midnights around the times that there are."""

    def found(times: pl.Series) -> pl.Series:
        if not len(times):
            return times
        # Clocks are less than a day away from UTC. Times may lie thousands of years apart, so
        # only the days beside those that occur are looked at.
        there = (times // DAY).unique().to_numpy()
        days = np.unique(np.concatenate([there - 1, there, there + 1]))
        midnights = [windows.midnight(day) for day in days.tolist()]
        before = np.searchsorted(midnights, times.to_numpy(), side="right") - 1
        return pl.Series(days[before], dtype=pl.Int64)

    return time.map_batches(found, return_dtype=pl.Int64, is_elementwise=True)


def first_window(pane: pl.Expr, windows: Paned) -> pl.Expr:
    """The earliest window that contains each pane."""
    if isinstance(windows, Cumulating):
        return pane
    grid = grid_of(windows)
    return (pane - grid.panes_per_window + grid.panes_per_slide).floordiv(grid.panes_per_slide)


def last_window(pane: pl.Expr, windows: Paned) -> pl.Expr:
    """The latest window that contains each pane."""
    if isinstance(windows, Cumulating):
        return pane.floordiv(windows.steps) * windows.steps + (windows.steps - 1)
    return pane.floordiv(grid_of(windows).panes_per_slide)


def window_start(window: pl.Series, windows: Numbered) -> pl.Series:
    """Where each window starts."""
    if isinstance(windows, Sliding):
        return window
    if isinstance(windows, Windows):
        return window * windows.slide + windows.origin
    if isinstance(windows, Cumulating):
        return window // windows.steps * windows.size + windows.origin
    return _each(window, windows.start)


def window_end(window: pl.Series, windows: Numbered) -> pl.Series:
    """Where each window ends."""
    if isinstance(windows, Sliding):
        return window + windows.size
    if isinstance(windows, Windows):
        return window * windows.slide + (windows.origin + windows.size)
    if isinstance(windows, Cumulating):
        return (window + 1) * windows.step + windows.origin
    return _each(window, windows.end)


def _each(window: pl.Series, place: Callable[[int], int]) -> pl.Series:
    """A place for each window, asked for once for each that there is: days are few."""
    there = window.unique()
    places = pl.Series([place(w) for w in there], dtype=pl.Int64)
    return window.replace_strict(there, places, return_dtype=pl.Int64)


def grid_of(windows: Paned) -> Windows:
    """The grid that windows of equal distances are counted on."""
    if isinstance(windows, Days):
        return windows.grid
    assert isinstance(windows, Windows)
    return windows


def closed_before(windows: Numbered, watermark: int | None, grace: int) -> int | None:
    """The first pane that still belongs to some open window; earlier panes take nothing more."""
    if watermark is None:
        return None
    open_window = windows.ended(watermark - grace) + 1
    if isinstance(windows, Sliding):
        return windows.start(open_window)
    return windows.first_pane(open_window)


def kept_from(windows: Numbered, watermark: int | None, retention: int) -> int | None:
    """The first pane that some window within the retention depends on."""
    if watermark is None:
        return None
    return windows.first_pane(windows.ended(watermark - retention) + 1)
