"""Sliding windows over times or offsets: their spans, their partials and their shard.

Every position ``t`` of a key has the window ``[t - span, t]``. On the time axis it also has the
window ``[t + 1, t + 1 + span]``, if that has messages. A window is numbered by its first position.
No two windows hold the same messages, so there are at most two windows per position.

Source: the sliding windows of Kafka Streams.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.order import find_group_starts, sort_rows
from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.paned import FIRED, LATE, PanedShard
from muntin.engine.windows.ranges import Positions, Ranges, search_positions
from muntin.model.kinds import Numbered
from muntin.model.policies import FirstThen
from muntin.state.lookup import join_null_safe
from muntin.state.runs import RangedFrame, join_runs


class SlidingShard(PanedShard):
    """The sliding windows of a shard's keys; each position is its own pane.

    The windows depend on the messages, so a late message may create a window that has never emitted
    in full. Therefore marks also count full firings during the grace. Late messages are counted
    only if the late policy needs to know whether some were emitted.
    """

    def _collect_marks(
        self, late: pl.DataFrame, full: pl.DataFrame, silent: pl.DataFrame
    ) -> pl.DataFrame:
        if not self.spec.firing.grace:
            return self._no_marks
        firings = full.select(*self._identity, columns.number(FIRED, 1), columns.number(LATE))
        if not isinstance(self.spec.firing.late, FirstThen):
            return firings
        return self._add_marks(
            [super()._collect_marks(late, full.clear(), silent.clear()), firings]
        )

    def _count_full(self, composed: pl.DataFrame, whole: pl.DataFrame) -> pl.DataFrame:
        return composed

    def _compose_cells(self, frames: list[RangedFrame], low: int, high: int) -> pl.DataFrame:
        cells = join_runs(frames, columns.PANE, self.combiner.merge)
        return compose_sliding(cells, low, high, self.combiner)

    def _list_changed(
        self, new_cells: list[RangedFrame], low: int, high: int | None
    ) -> pl.DataFrame:
        top = self.windows.last_window(max((b for _, _, b in new_cells), default=0)) + 1
        high = top if high is None else min(high, top)
        low = max(low, self.windows.first_window(min((a for _, a, _ in new_cells), default=0)))
        if not new_cells or low > high:
            return self._no_changes
        new = join_runs(new_cells, columns.PANE, self.combiner.merge)
        only = new[self.keys].unique()
        panes = self.windows.first_pane(low), self.windows.last_pane(high)
        frames, merge = self.cells.read_with_ranges(*panes, only), self.combiner.merge
        stored = join_runs(frames, columns.PANE, merge) if frames else self.combiner.no_cells
        touched = compose_changed(new, stored, low, high, self.combiner)
        return self._merge_changes([touched])


@dataclass
class SortedCells:
    """Cells sorted by key, then position."""

    cells: pl.DataFrame
    key: NDArray[np.int64]
    position: Positions

    @classmethod
    def of(cls, cells: pl.DataFrame, keys: list[str]) -> SortedCells:
        """Sort cells and number their keys."""
        cells = sort_rows(cells, [*keys, columns.PANE])
        return cls(
            cells, np.cumsum(find_group_starts(cells, keys)) - 1, cells[columns.PANE].to_numpy()
        )

    def select_from(self, position: int) -> SortedCells:
        """Return the cells at or after a position."""
        selected = self.position >= position
        if selected.all():
            return self
        cells = self.cells.filter(pl.Series(selected))
        return SortedCells(cells, self.key[selected], self.position[selected])


@dataclass
class WindowSpans:
    """Distinct windows over sorted cells.

    Attributes:
        window: The first position of each window.
        maker: A row that creates the window, and has its key.
        ranges: The rows of each window.
    """

    window: Positions
    creator: NDArray[np.int64]
    ranges: Ranges


def find_spans(cells: SortedCells, sliding: Numbered, low: int, high: int) -> WindowSpans:
    """Return all windows that cells create, from ``low`` to ``high`` (both included)."""
    key, position, span = cells.key, cells.position, sliding.panes_per_window - 1
    row = np.arange(len(position))
    begin = search_positions(key, position, position - span, "left")
    ends_here = (position - span >= low) & (position - span <= high)
    ending = WindowSpans(
        (position - span)[ends_here], row[ends_here], Ranges(begin[ends_here], (row + 1)[ends_here])
    )
    if sliding.axis == "rows" or sliding.rolls:
        return ending
    stop = search_positions(key, position, position + 1 + span, "right")
    # A window that two positions create is only taken from the one that ends it.
    is_twin = np.zeros(len(row), dtype=np.bool_)
    has_later = stop > row + 1
    is_twin[has_later] = position[stop[has_later] - 1] == position[has_later] + 1 + span
    starts_after = has_later & ~is_twin & (position + 1 >= low) & (position + 1 <= high)
    return WindowSpans(
        np.concatenate([ending.window, (position + 1)[starts_after]]),
        np.concatenate([ending.creator, row[starts_after]]),
        Ranges(
            np.concatenate([ending.ranges.start, (row + 1)[starts_after]]),
            np.concatenate([ending.ranges.stop, stop[starts_after]]),
        ),
    )


def compose_sliding(cells: pl.DataFrame, low: int, high: int, combiner: Combiner) -> pl.DataFrame:
    """Compose windows ``low`` to ``high`` (both included) from cells with distinct positions.

    The cells must include the positions just before windows, which create them. The result has a
    row for each key and window.
    """
    sorted_cells = SortedCells.of(cells, combiner.keys)
    return compute_partials(
        sorted_cells, find_spans(sorted_cells, combiner.numbered_windows, low, high), combiner
    )


def compose_changed(
    fresh: pl.DataFrame, stored: pl.DataFrame, low: int, high: int, combiner: Combiner
) -> pl.DataFrame:
    """Return the windows that new messages change or create, with the new partials of each.

    A window that didn't exist before has all of its messages as new. The stored cells must be those
    of the same keys, from one span and one position before the first fresh cell to one span after
    the last.
    """
    sliding = combiner.numbered_windows
    both = combiner.merge([stored, fresh])
    sorted_cells = SortedCells.of(both, combiner.keys)
    spans = find_spans(sorted_cells, sliding, low, high)
    stored_cells = SortedCells.of(stored, combiner.keys)
    stored_spans = find_spans(stored_cells, sliding, low, high)
    identity = [columns.WINDOW, *combiner.keys]
    stored_windows = compute_partials(stored_cells, stored_spans, combiner)[identity]
    whole = compute_partials(sorted_cells, spans, combiner)
    created = join_null_safe(whole, stored_windows, identity, "anti")
    fresh_cells = SortedCells.of(fresh, combiner.keys)
    changed = join_null_safe(whole, stored_windows, identity, "semi")[identity]
    span = sliding.panes_per_window - 1
    changed_spans = find_spans_of(changed, fresh_cells, span, combiner.keys)
    changed = compute_partials(fresh_cells, changed_spans, combiner)
    return pl.concat([created, changed], how="diagonal")


def find_spans_of(
    windows: pl.DataFrame, cells: SortedCells, span: int, keys: list[str]
) -> WindowSpans:
    """Return the spans of windows by their first positions, without windows that have no cells."""
    starts = np.flatnonzero(np.diff(cells.key, prepend=-1))
    numbered_keys = cells.cells.select(keys)[starts].with_columns(
        pl.Series("__key", cells.key[starts])
    )
    windows = join_null_safe(windows, numbered_keys, keys, "inner")
    window, key = windows[columns.WINDOW].to_numpy(), windows["__key"].to_numpy()
    start = search_positions(cells.key, cells.position, window, "left", key)
    stop = search_positions(cells.key, cells.position, window + span, "right", key)
    has_cells = stop > start
    return WindowSpans(
        window[has_cells], start[has_cells], Ranges(start[has_cells], stop[has_cells])
    )


def compute_partials(cells: SortedCells, spans: WindowSpans, combiner: Combiner) -> pl.DataFrame:
    """Compute the partials of windows; an aggregate over a part of a window reads only that."""
    identity = [columns.WINDOW, *combiner.keys]
    (span, _), whole = next(iter(combiner.by_part.items()))
    composed = compute_part(cells, spans, whole)
    for (first, last), part in combiner.by_part.items():
        if part is not whole:
            inside = _select_part(cells, spans, span - first, span - last)
            own = compute_part(cells, inside, part).drop(columns.MESSAGES)
            composed = join_null_safe(composed, own, identity, "left")
    return composed


def _select_part(cells: SortedCells, spans: WindowSpans, first: int, last: int) -> WindowSpans:
    """Limit windows to a part, by distances from their start; those without cells are dropped."""
    key = cells.key[spans.creator]
    start = search_positions(cells.key, cells.position, spans.window + first, "left", key)
    stop = search_positions(cells.key, cells.position, spans.window + last, "right", key)
    has_cells = stop > start
    return WindowSpans(
        spans.window[has_cells], spans.creator[has_cells], Ranges(start[has_cells], stop[has_cells])
    )


def compute_part(sorted_cells: SortedCells, spans: WindowSpans, combiner: Combiner) -> pl.DataFrame:
    """Compute the partials of windows, of the aggregates of a combiner."""
    cells, ranges = sorted_cells.cells, spans.ranges
    counts = ranges.add_integers(cells[columns.MESSAGES].to_numpy())
    series = [pl.Series(columns.WINDOW, spans.window, dtype=pl.Int64)]
    keys = cells.select(combiner.keys)[spans.creator]
    slid = [pl.Series(columns.MESSAGES, counts, dtype=pl.Int64)]
    for algebra in combiner.algebras:
        if algebra.slides and len(spans.window):
            slid += algebra.slide(cells, ranges)
    frame = pl.concat([pl.DataFrame(series), keys, pl.DataFrame(slid)], how="horizontal")
    if len(frame) and all(algebra.slides for algebra in combiner.algebras):
        return frame
    if not len(frame):
        empty = combiner.no_windows
        return empty.select(columns.WINDOW, pl.exclude(columns.WINDOW))
    copied = ranges.list_rows(cells.drop(columns.PANE), "__range")
    merged = combiner.merge([copied], by=["__range"]).sort("__range")
    missing = [c for c in merged.columns if c not in (*frame.columns, "__range", *combiner.keys)]
    return frame.with_columns(merged.select(missing))
