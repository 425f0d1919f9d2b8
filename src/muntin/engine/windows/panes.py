"""Formulas of windows in columns: panes of positions, and bounds of windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.model.axis import DAY
from muntin.model.days import Days
from muntin.model.kinds import Numbered
from muntin.model.zones import ZonedWindows

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
    """Return the local day (or other unit) of each time."""

    def find_days(times: pl.Series) -> pl.Series:
        return pl.Series(_find_days(times.to_numpy(), windows), dtype=pl.Int64)

    return time.map_batches(find_days, return_dtype=pl.Int64, is_elementwise=True)


def _find_days(times: NDArray[np.int64], windows: Days) -> NDArray[np.int64]:
    """Return the local day (or other unit) of each time, by search in the starts around it."""
    if not len(times):
        return times
    # Times may be thousands of years apart, so only the days around those that occur are computed.
    numbers = (windows.numbers_around(day) for day in np.unique(times // DAY).tolist())
    days = np.unique(np.concatenate([*numbers]))
    midnights = [windows.midnight(day) for day in days.tolist()]
    return days[np.searchsorted(midnights, times, side="right") - 1]


def find_pane_in_zone(position: pl.Expr, zone: pl.Expr, windows: ZonedWindows) -> pl.Expr:
    """Return the pane of each position in the zone beside it; panes are numbered in each zone."""

    def find_panes(rows: pl.Series) -> pl.Series:
        times, zones = (rows.struct.field(name) for name in rows.struct.fields)
        panes = np.empty(len(times), dtype=np.int64)
        for name, places in group_by_zone(zones):
            own = windows.in_zone(name)
            days = _find_days(times.to_numpy()[places], own)
            panes[places] = in_columns(own.grid.pane_of)(days)
        return pl.Series(panes)

    both = pl.struct(position.alias("time"), zone.alias("zone"))
    return both.map_batches(find_panes, return_dtype=pl.Int64, is_elementwise=True)


def group_by_zone(zones: pl.Series) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Yield each zone with the indices of its rows, by name; there are few, and none is NULL."""
    if not len(zones):
        return
    names = zones.unique().sort()
    codes = zones.replace_strict(names, range(len(names)), return_dtype=pl.UInt16).to_numpy()
    # A stable sort of 16 bits takes one pass over the rows for each byte.
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(names)))
    yield from zip(names, np.split(order, ends[:-1]), strict=True)


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
        in_columns(windows.last_ended)(position)
        if windows.even
        else _map_distinct(position, windows.last_ended)
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
    return windows.first_inside(windows.last_ended(watermark - grace) + 1)


def first_retained_pane(windows: Numbered, watermark: int | None, retention: int) -> int | None:
    """Return the first pane that a window within the retention depends on."""
    if watermark is None:
        return None
    return windows.first_pane(windows.last_ended(watermark - retention) + 1)
