"""Composition of windows from panes: the partials of all non-empty windows in a range."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.order import find_group_starts, sort_rows
from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.compose import Flat
from muntin.engine.windows.panes import in_columns
from muntin.model.kinds import Paned
from muntin.state.lookup import join_null_safe
from muntin.state.rows import add_constants, drop_columns, rename_column
from muntin.state.runs import find_extent, select_between

# Fewer windows than this are merged from copies of their cells, which may come in several rows.
FEW_WINDOWS = 3


def compose(cells: pl.DataFrame, low: int, high: int, combiner: Combiner) -> pl.DataFrame:
    """Compose windows ``low`` to ``high`` (both included) from cells.

    The result has a row for each key and window with at least one message, in any order.
    """
    if not combiner.slides_by_rows:
        return _compose_part(cells, low, high, combiner)
    (span, _), whole = next(iter(combiner.by_part.items()))
    composed = _compose_part(cells[whole.no_cells.columns], low, high, whole)
    # A window ends with a message; without a message there, it doesn't exist.
    ends = cells.select(*combiner.keys, (pl.col(columns.PANE) - span).alias(columns.WINDOW))
    identity = [*combiner.keys, columns.WINDOW]
    composed = join_null_safe(composed, ends, identity, "semi")
    for (first, _), part in combiner.by_part.items():
        if part is not whole:
            shift = span - first
            part_cells = cells[part.no_cells.columns]
            part_windows = _compose_part(part_cells, low + shift, high + shift, part).drop(
                columns.MESSAGES
            )
            part_windows = part_windows.with_columns(pl.col(columns.WINDOW) - shift)
            composed = join_null_safe(composed, part_windows, identity, "left")
    return composed


def _compose_part(cells: pl.DataFrame, low: int, high: int, combiner: Combiner) -> pl.DataFrame:
    windows = combiner.paned_windows
    cells = select_between(cells, columns.PANE, windows.first_pane(low), windows.last_pane(high))
    if not len(cells):
        return combiner.no_windows
    if windows.panes_per_window == 1:
        return rename_column(cells, columns.PANE, columns.WINDOW)
    first, last = find_extent(cells[columns.PANE])
    low, high = max(low, windows.first_window(first)), min(high, windows.last_window(last))
    if high - low < FEW_WINDOWS:
        return _merge_copies(cells, low, high, combiner)
    cells = sort_rows(cells, [*combiner.keys, columns.PANE])
    sliding = [a for a in combiner.algebras if a.slides]
    composed = _slide(cells, low, high, combiner)
    if len(sliding) == len(combiner.algebras):
        return composed
    identity = [*combiner.keys, columns.WINDOW]
    rest = sort_rows(_merge_copies(cells, low, high, combiner), identity)
    missing = [c for c in rest.columns if c not in composed.columns]
    return composed.with_columns(rest.select(missing))


def _slide(cells: pl.DataFrame, low: int, high: int, combiner: Combiner) -> pl.DataFrame:
    """Compute every window by sliding over the flat layout; sorted by keys, then window."""
    new_key, pane = find_group_starts(cells, combiner.keys), cells[columns.PANE].to_numpy()
    flat, window, is_wanted = _lay_out(pane, new_key, combiner.paned_windows, low, high)
    series = [pl.Series(columns.MESSAGES, flat.add_integers(cells[columns.MESSAGES].to_numpy()))]
    for algebra in combiner.algebras:
        if algebra.slides:
            series += algebra.slide(cells, flat)
    is_wanted &= (window >= low) & (window <= high) & (series[0].to_numpy() > 0)
    places = np.flatnonzero(is_wanted)
    keys = cells[combiner.keys][flat.owner[places]]
    partials = pl.DataFrame(series)[places]
    return pl.concat(
        [pl.DataFrame({columns.WINDOW: window[places]}), keys, partials], how="horizontal"
    )


def _lay_out(
    pane: NDArray[np.int64], new_key: NDArray[np.bool_], windows: Paned, low: int, high: int
) -> tuple[Flat, NDArray[np.int64], NDArray[np.bool_]]:
    """Lay out panes on a line.

    Returns:
        The layout; for each place, the number of a window; and whether that window ends there.
    """
    n = windows.panes_per_window
    if windows.block:
        # Each block is laid out as a separate key.
        block = pane // windows.block
        flat = Flat(pane, new_key | (block != np.roll(block, 1)), n)
    else:
        flat = Flat(pane, new_key, n, (windows.first_pane(low), windows.last_pane(high)))
    last = pane[flat.owner] + flat.ahead
    window = in_columns(windows.first_window)(last)
    is_end = in_columns(windows.last_pane)(window) == last
    if windows.block:
        is_end &= last // windows.block == block[flat.owner]
    return flat, window, is_end


def _merge_copies(cells: pl.DataFrame, low: int, high: int, combiner: Combiner) -> pl.DataFrame:
    """Compute every window by copying each cell to all windows that contain it, and merging."""
    if low == high:
        # Grouping by one column is twice as fast as by two.
        merged = combiner.merge([drop_columns(cells, columns.PANE)], by=combiner.keys)
        return add_constants(merged, {columns.WINDOW: low})
    copied = copy_to_windows(cells, low, high, combiner.paned_windows)
    return combiner.merge([copied], by=[columns.WINDOW, *combiner.keys])


def copy_to_windows(
    cells: pl.DataFrame, low: int | None, high: int | None, windows: Paned
) -> pl.DataFrame:
    """Return each cell for all windows that contain it, with their number in place of the pane.

    The windows are between bounds (both included).
    """
    panes, rest = cells[columns.PANE].to_numpy(), drop_columns(cells, columns.PANE)
    first, last = (in_columns(f)(panes) for f in (windows.first_window, windows.last_window))
    if low is not None:
        first = np.maximum(first, low)
    if high is not None:
        last = np.minimum(last, high)
    counts = np.maximum(last - first + 1, 0)
    if (counts == 1).all():
        return rest.hstack([pl.Series(columns.WINDOW, first)])
    rows = np.repeat(np.arange(len(panes)), counts)
    ahead = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rest.rechunk()[rows].hstack([pl.Series(columns.WINDOW, first[rows] + ahead)])
