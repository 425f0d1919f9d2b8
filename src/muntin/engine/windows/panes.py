"""Formulas of windows in columns: panes of positions, and bounds of windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.model.axis import DAY
from muntin.model.days import Days
from muntin.model.kinds import Numbered

Numbers = TypeVar("Numbers", pl.Expr, pl.Series, NDArray[np.int64])


def pane_of(position: pl.Expr, windows: Numbered) -> pl.Expr:
    """Return the pane of each position; with sliding windows, every position is its own pane."""
    if isinstance(windows, Days):
        return pane_of(_day_of(position, windows), windows.grid)
    return in_columns(windows.pane_of)(position)


def in_columns(formula: Callable[[int], int]) -> Callable[[Numbers], Numbers]:
    """Return a formula of windows, typed for columns of integers."""
    return cast("Callable[[Numbers], Numbers]", formula)


def _day_of(time: pl.Expr, windows: Days) -> pl.Expr:
    """Return the local day (or other unit) of each time, by search in the starts around it."""

    def find_days(times: pl.Series) -> pl.Series:
        if not len(times):
            return times
        # Times may be thousands of years apart, so only the days around those that occur are
        # computed.
        numbers = (windows.numbers_around(day) for day in (times // DAY).unique().to_list())
        days = np.unique(np.concatenate([*numbers]))
        midnights = [windows.midnight(day) for day in days.tolist()]
        before = np.searchsorted(midnights, times.to_numpy(), side="right") - 1
        return pl.Series(days[before], dtype=pl.Int64)

    return time.map_batches(find_days, return_dtype=pl.Int64, is_elementwise=True)


def window_start(window: pl.Series, windows: Numbered) -> pl.Series:
    """Return the start of each window."""
    return (
        in_columns(windows.start)(window) if windows.even else _map_distinct(window, windows.start)
    )


def window_end(window: pl.Series, windows: Numbered) -> pl.Series:
    """Return the end of each window."""
    return in_columns(windows.end)(window) if windows.even else _map_distinct(window, windows.end)


def last_ended_window(position: pl.Series, windows: Numbered) -> pl.Series:
    """Return the latest window that has ended at each position."""
    return (
        in_columns(windows.ended)(position)
        if windows.even
        else _map_distinct(position, windows.ended)
    )


def _map_distinct(values: pl.Series, formula: Callable[[int], int]) -> pl.Series:
    """Apply a formula to each distinct value, since there are few different days."""
    distinct = values.unique()
    mapped = pl.Series([formula(w) for w in distinct], dtype=pl.Int64)
    return values.replace_strict(distinct, mapped, return_dtype=pl.Int64)


def first_open_pane(windows: Numbered, watermark: int | None, grace: int) -> int | None:
    """Return the first pane of an open window; all windows of earlier panes are closed."""
    if watermark is None:
        return None
    return windows.first_inside(windows.ended(watermark - grace) + 1)


def first_retained_pane(windows: Numbered, watermark: int | None, retention: int) -> int | None:
    """Return the first pane that a window within the retention depends on."""
    if watermark is None:
        return None
    return windows.first_pane(windows.ended(watermark - retention) + 1)
