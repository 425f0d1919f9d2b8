"""Trailing windows: the newest result of each key and look-back, emitted when it changes.

Messages are stored once, by key and pane. At an instant, a window differs from the one an instant
earlier if its last pane has messages, or if the pane just before its first one has. So the panes at
both ends of the look-backs determine the keys that emit, and only their panes are read. A late
message changes windows at the next instant; until then the state has a row for it.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from muntin.engine import columns
from muntin.engine.firing import MAX_WINDOW
from muntin.engine.output import ShardOutput
from muntin.engine.results import build_values
from muntin.engine.windows.combine import Combined, Combiner
from muntin.engine.windows.panes import first_retained_pane
from muntin.engine.windows.shard import StepContext, WindowShard
from muntin.engine.windows.sliding import SortedCells, compute_part, find_spans_of
from muntin.model.trailing import Trailing
from muntin.state.blobs import Blobs
from muntin.state.frames import FrameCache
from muntin.state.lookup import join_null_safe
from muntin.state.rows import stack_rows
from muntin.state.runs import RangedFrame, add_range, find_extent, join_runs, segment_length

# The number of the instant at which a window changes.
_INSTANT = "instant"


class TrailingShard(WindowShard):
    """The newest windows of a shard's keys, for each look-back."""

    windows: Trailing

    def __init__(self, combiner: Combiner, blobs: Blobs, cache: FrameCache) -> None:
        super().__init__(combiner, combiner.numbered_windows, blobs, cache)
        windows = self.windows
        behind = windows.pane_of(self.spec.lateness) - windows.pane_of(0)
        span = segment_length(windows.panes_per_window + behind + 1)
        self._cell = [*self.keys, columns.PANE]
        self._sizes = [windows.count_panes(index) for index in range(len(windows.sizes))]
        self.cells = self.state.table(
            "cells", columns.PANE, span, combiner.merge, self.keys, combiner.complete
        )
        self.late = self.state.table("late cells", columns.PANE, None, self._sum_messages)

    def step(self, combined: Sequence[Combined], wall: int, *, final: bool = False) -> ShardOutput:
        context = self._begin(combined, wall, final)
        before, after = self._find_instants(context)
        new_cells = [add_range(c.cells, columns.PANE) for c in combined if len(c.cells)]
        new_late = self._select_late(new_cells, before)
        late = self._sum_messages([new_late, *self.late.read()])
        emitted = self._no_emissions()
        if after > before:
            changes = self._find_changes(new_cells, late, before, after)
            emitted = self._emit(changes, new_cells)
        if not self._clear_at_end(final):
            self._store(new_cells)
            if after > before:
                self.late.drop_before(None)
            else:
                self.late.append(new_late)
        pending, rows = self.late.rows, self.cells.rows
        return self._output(context, combined, emitted, pending=pending, rows=rows)

    def snapshot(
        self, start: int | None, end: int | None, only: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        windows, watermark = self.windows, self.state.watermark
        nothing = self._no_emissions().drop(columns.EMISSION, columns.REVISION)
        if watermark is None:
            return build_values(nothing, self.combiner)
        newest = windows.last_ended(watermark) - len(self._sizes) + 1
        cells = self._read([], windows.first_inside(newest), windows.last_pane(newest), only)
        keys = cells[self.keys].unique()
        instant = columns.number(_INSTANT, windows.instant_of(newest))
        changes = [
            keys.with_columns(instant) if _overlaps(windows, newest + index, start, end) else None
            for index in range(len(self._sizes))
        ]
        held = self._compose(cells, changes) if len(cells) else []
        return build_values(pl.concat([nothing, *held], how="diagonal"), self.combiner)

    def _find_instants(self, context: StepContext) -> tuple[int, int]:
        """Return the newest instants before and after the step.

        At the end of the input, it is the first one after the greatest time.
        """
        windows, clock, watermark = self.windows, context.clock, self.state.watermark
        before = windows.instant_of(clock.before)
        if watermark is None or clock.after != MAX_WINDOW:
            return before, windows.instant_of(clock.after)
        return before, max(before, windows.pane_of(watermark + self.spec.lateness) + 1)

    def _select_late(self, new_cells: Sequence[RangedFrame], before: int) -> pl.DataFrame:
        """Return the numbers of new messages that the newest instant should have included."""
        rows = [frame[[*self._cell, columns.MESSAGES]] for frame, _, _ in new_cells]
        nothing = self.combiner.no_cells[[*self._cell, columns.MESSAGES]]
        return stack_rows([nothing, *rows]).filter(pl.col(columns.PANE) < before)

    def _find_changes(
        self, new_cells: Sequence[RangedFrame], late: pl.DataFrame, before: int, after: int
    ) -> list[pl.DataFrame | None]:
        """Return, for each look-back, the keys that change and the instants at which they do."""
        pane = pl.col(columns.PANE)
        came = self._list_on_time(new_cells, late, before, after - 1)
        came = came.select(*self.keys, (pane + 1).alias(_INSTANT))
        changes: list[pl.DataFrame | None] = []
        for size in self._sizes:
            leaves = (pane + (size + 1)).alias(_INSTANT)
            fell_out = self._list_on_time(new_cells, late, before - size, after - size - 1)
            # A late message is in the look-back from the next instant on, or never.
            inside = late.filter(pane > before - size)
            changed = [
                came,
                fell_out.select(*self.keys, leaves),
                inside.select(*self.keys, columns.number(_INSTANT, before + 1)),
                inside.select(*self.keys, leaves).filter(pl.col(_INSTANT) <= after),
            ]
            changes.append(stack_rows(changed).unique())
        return changes

    def _list_on_time(
        self, new_cells: Sequence[RangedFrame], late: pl.DataFrame, low: int, high: int
    ) -> pl.DataFrame:
        """Return the cells of some panes that have messages besides the late ones."""
        new = [frame for frame, first, last in new_cells if last >= low and first <= high]
        frames = [frame.select(late.columns) for frame in (*self.cells.read(low, high), *new)]
        frames.append(late.with_columns(-pl.col(columns.MESSAGES)))
        inside = pl.col(columns.PANE).is_between(low, high)
        counted = self._sum_messages([frame.filter(inside) for frame in frames])
        return counted.filter(pl.col(columns.MESSAGES) > 0)

    def _emit(
        self, changes: Sequence[pl.DataFrame | None], new_cells: Sequence[RangedFrame]
    ) -> pl.DataFrame:
        """Compose the windows that change; those without messages are retracted."""
        changed = stack_rows([frame for frame in changes if frame is not None])
        if not len(changed):
            return self._no_emissions()
        first, last = find_extent(changed[_INSTANT])
        only = changed[self.keys].unique()
        cells = self._read(new_cells, first - self._sizes[0], last - 1, only)
        composed = self._compose(cells, changes) if len(cells) else []
        windows = pl.concat([self.combiner.no_windows, *composed], how="diagonal")
        numbered = stack_rows(
            [self._number(frame, index) for index, frame in enumerate(changes) if frame is not None]
        )
        identity = [columns.WINDOW, *self.keys]
        gone = join_null_safe(numbered, windows, identity, "anti")
        emitted = pl.concat(
            [
                windows.with_columns(pl.lit("full").alias(columns.EMISSION)),
                gone.with_columns(pl.lit("retract").alias(columns.EMISSION)),
            ],
            how="diagonal",
        )
        # Instants only grow, so that the greater revision of a key is the newer one.
        revision = pl.col(columns.WINDOW).floordiv(len(self._sizes)).alias(columns.REVISION)
        return emitted.with_columns(revision)

    def _read(
        self, new_cells: Sequence[RangedFrame], low: int, high: int, only: pl.DataFrame | None
    ) -> pl.DataFrame:
        """Return the cells of some panes, from state and batch, for some keys or all."""
        new = [(f, a, b) for f, a, b in new_cells if b >= low and a <= high]
        if only is not None:
            new = [(join_null_safe(f, only, self.keys, "semi"), a, b) for f, a, b in new]
        frames = self.cells.read_with_ranges(low, high, only) + new
        if not frames:
            return self.combiner.no_cells
        cells = join_runs(frames, columns.PANE, self.combiner.merge)
        return cells.filter(pl.col(columns.PANE).is_between(low, high))

    def _compose(
        self, cells: pl.DataFrame, changes: Sequence[pl.DataFrame | None]
    ) -> list[pl.DataFrame]:
        """Compose the windows of each look-back that have messages, from cells of their keys."""
        sorted_cells = SortedCells.of(cells, self.keys)
        composed = []
        for index, changed in enumerate(changes):
            if changed is None or not len(changed):
                continue
            size = self._sizes[index]
            first = (pl.col(_INSTANT) - size).alias(columns.WINDOW)
            wanted = changed.select(*self.keys, first)
            earliest, _ = find_extent(wanted[columns.WINDOW])
            inside = sorted_cells.select_from(earliest)
            spans = find_spans_of(wanted, inside, size - 1, self.keys)
            part = compute_part(inside, spans, self.combiner)
            instant = (pl.col(columns.WINDOW) + size).alias(_INSTANT)
            composed.append(self._number(part.with_columns(instant), index))
        return composed

    def _number(self, rows: pl.DataFrame, index: int) -> pl.DataFrame:
        """Replace the instants of rows by the numbers of their windows of one size."""
        window = pl.col(_INSTANT) * len(self._sizes) + index
        return rows.with_columns(window.alias(columns.WINDOW)).drop(_INSTANT)

    def _store(self, new_cells: Sequence[RangedFrame]) -> None:
        """Store the new cells, and drop those that have left all look-backs."""
        expired = first_retained_pane(self.windows, self.state.watermark, 0)
        if expired is not None:
            is_live = pl.col(columns.PANE) >= expired
            live = [frame.filter(is_live) for frame, _, last in new_cells if last >= expired]
            new_cells = [add_range(frame, columns.PANE) for frame in live if len(frame)]
        if new_cells:
            self.cells.append(join_runs(new_cells, columns.PANE, self.combiner.merge))
        if expired is not None:
            self.cells.drop_before(expired)

    def _sum_messages(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return stack_rows(frames).group_by(self._cell).agg(pl.col(columns.MESSAGES).sum())

    def _no_emissions(self) -> pl.DataFrame:
        return self.combiner.no_windows.with_columns(
            pl.lit("").alias(columns.EMISSION), columns.number(columns.REVISION)
        )


def _overlaps(windows: Trailing, window: int, start: int | None, end: int | None) -> bool:
    begins_in_time = end is None or windows.start(window) <= end
    return begins_in_time and (start is None or windows.end(window) > start)
