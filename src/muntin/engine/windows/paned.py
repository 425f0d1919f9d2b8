"""A shard whose windows are unions of panes on the time axis: tumbling, hopping, cumulating, days.

Four tables are kept: **cells** (a row per key and pane), **marks** (the number of a window's
firings and late messages), and **early** and **late** (the changes that wait for their policy).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.firing import (
    MAX_WINDOW,
    SINCE,
    BatchClock,
    add_condition_columns,
    list_condition_columns,
)
from muntin.engine.output import ShardOutput
from muntin.engine.results import build_values, share_empty
from muntin.engine.windows.combine import Combined, Combiner
from muntin.engine.windows.overlap import FEW_WINDOWS, compose, copy_to_windows
from muntin.engine.windows.panes import first_retained_pane
from muntin.engine.windows.shard import StepContext, WindowShard
from muntin.engine.windows.waiting import IS_FIRST, Waiting
from muntin.model.kinds import Numbered
from muntin.model.policies import FirstThen, Policy, by_change
from muntin.state.blobs import Blobs
from muntin.state.frames import FrameCache
from muntin.state.lookup import add_hashes, join_null_safe
from muntin.state.rows import add_constants, drop_columns, filter_rows, stack_rows
from muntin.state.runs import (
    RangedFrame,
    add_range,
    find_extent,
    join_runs,
    segment_length,
    select_between,
)

_WAITS = "waits"
FIRED, LATE = "fired", "late"


class PanedShard(WindowShard):
    """The windows of a shard's keys, composed from panes."""

    windows: Numbered

    def __init__(self, combiner: Combiner, blobs: Blobs, cache: FrameCache) -> None:
        super().__init__(combiner, combiner.numbered_windows, blobs, cache)
        windows, firing, table = self.windows, self.spec.firing, self.state.table
        horizon = self.spec.lateness + firing.retention
        panes = windows.panes_per_window + windows.pane_of(horizon) - windows.pane_of(0)
        span = segment_length(panes)
        wide = max(1, windows.last_window(span) - windows.last_window(0))
        self._identity = [columns.WINDOW, *self.keys]
        # Only windows with early or late firings are searched by key.
        self._by_key = firing.early is not None or firing.grace > 0
        keys = self.keys if self._by_key else ()
        self.cells = table(
            "cells",
            columns.PANE,
            span,
            combiner.merge,
            keys,
            combiner.complete,
            divided_by=self.keys,
        )
        self.marks = table(
            "marks", columns.WINDOW, wide, self._add_marks, keys, divided_by=self.keys
        )
        self.early = self._waiting("early", firing.early, wide)
        self.late = self._waiting("late", firing.late, wide)
        self._retain(columns.PANE, span)

    def _waiting(self, name: str, policy: Policy | None, span: int) -> Waiting:
        """Open the table of the windows that wait for a policy."""
        limit = self.spec.firing.over if name == "early" else None
        state, keys = self.state, self.keys if by_change(policy) or limit is not None else ()
        table = state.table(
            name, columns.WINDOW, span, self._merge_changes, keys, divided_by=self.keys
        )
        # The stored number of waiting windows is only valid for the same policies.
        same_policies = state.written_by == self.spec.to_dict()
        counted = state.extra.get(_WAITS, {}).get(name) if same_policies else None
        additive = self.spec.firing.accumulate
        return Waiting(
            table,
            policy,
            name == "late",
            self._identity,
            additive,
            counted,
            limit,
            self.spec.shards,
        )

    def step(self, combined: Sequence[Combined], wall: int, *, final: bool = False) -> ShardOutput:
        context = self._begin(combined, wall, final)
        clock = context.clock
        new_cells = [add_range(c.cells, columns.PANE) for c in combined if len(c.cells)]
        changes = self._changes(new_cells, clock)
        full, silent = self._compose_ended(new_cells, changes["early"], clock)
        marks = [self._collect_marks(changes["late"], full, silent)]
        frames = [full, *self._empty(context, new_cells, changes["late"], full, silent, marks)]
        frames += [
            self._emit_changed(emission, changes[emission], new_cells, clock, marks)
            for emission in ("late", "early")
        ]
        emitted = pl.concat([t for t in frames if len(t)] or frames[:1], how="diagonal")
        return self._end(context, combined, new_cells, emitted, marks)

    def _end(
        self,
        context: StepContext,
        combined: Sequence[Combined],
        new_cells: list[RangedFrame],
        emitted: pl.DataFrame,
        marks: list[pl.DataFrame],
        order: Sequence[str] = (),
    ) -> ShardOutput:
        """Store the new state, and return the output of the step."""
        if not self._clear_at_end(context.final):
            self._store(new_cells, marks, context.clock)
        counted = {"early": self.early.counted, "late": self.late.counted}
        self.state.extra[_WAITS] = {name: n for name, n in counted.items() if n is not None}
        pending, rows = self.early.pending + self.late.pending, self.cells.rows + self.marks.rows
        return self._output(context, combined, emitted, pending=pending, rows=rows, order=order)

    def snapshot(
        self, start: int | None, end: int | None, only: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        windows, earliest, latest = self.windows, self.cells.low, self.cells.high
        if earliest is None or latest is None:
            return build_values(self._no_windows(), self.combiner)
        if start is not None:
            earliest = max(earliest, windows.pane_of(start))
        if end is not None:
            latest = min(latest, windows.pane_of(end))
        low, high = windows.first_window(earliest), windows.last_window(latest)
        first_whole = self._first_whole
        low = low if first_whole is None else max(low, first_whole)
        windows_held = self._compose([], low, high, only if self._by_key else None)
        if only is not None and not self._by_key:
            windows_held = join_null_safe(windows_held, only, self.keys, "semi")
        return build_values(windows_held, self.combiner)

    def _compose_ended(
        self, new_cells: list[RangedFrame], changes: pl.DataFrame, clock: BatchClock
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the windows that have just ended and emit, and those that don't emit again."""
        composed = self._compose(new_cells, clock.before + 1, clock.after)
        silent = composed.clear()
        if not len(composed):
            return silent, silent
        if self.spec.firing.early is not None:
            low, high = find_extent(composed[columns.WINDOW])
            if self._fulls_count_changes:
                stored = self.early.read(low, high, changes.clear())
                waiting = self._merge_changes([stored, changes])
                if not self.spec.firing.accumulate:
                    composed = self._only_new(composed, waiting)
            composed = self._with_marks(composed, low, high)
            if not self.spec.firing.repeat:
                unchanged = join_null_safe(composed, waiting, self._identity, "anti")
                silent = unchanged.filter(pl.col(FIRED) > 0)
                composed = join_null_safe(composed, silent, self._identity, "anti")
        else:
            composed = add_constants(composed, {FIRED: 0})
        return _label_emission(composed, "full"), silent

    def _empty(self, context: StepContext, *changed: Any) -> list[pl.DataFrame]:
        return []  # see ``FillingShard``

    def _collect_marks(
        self, late: pl.DataFrame, full: pl.DataFrame, silent: pl.DataFrame
    ) -> pl.DataFrame:
        """Return the marks of late changes, and of ended windows without a full firing."""
        if not len(late) and not len(silent):
            return self._no_marks
        marks = late.select(*self._identity, columns.number(FIRED), late=columns.MESSAGES)
        if not len(silent) or not self.spec.firing.grace:
            return marks
        # ``_count_full`` adds a full firing for all windows; these had none.
        without_full = add_constants(silent[self._identity], {FIRED: -1, LATE: 0})
        return stack_rows([marks, without_full])

    @property
    def _fulls_count_changes(self) -> bool:
        """True if full firings depend on the changes since a window's last early firing."""
        return not (self.spec.firing.accumulate and self.spec.firing.repeat)

    def _changes(self, new_cells: list[RangedFrame], clock: BatchClock) -> dict[str, pl.DataFrame]:
        """Return the windows that this batch changed, early and late, with their new messages."""
        firing = self.spec.firing
        late = self._list_changed(new_cells, clock.closed_before + 1, clock.before)
        if firing.early is None:
            early = late.clear()
        else:
            since = clock.before if self._fulls_count_changes else clock.after
            early = self._list_changed(new_cells, since + 1, None)
        return {"late": late, "early": early}

    def _list_changed(
        self, new_cells: list[RangedFrame], low: int, high: int | None
    ) -> pl.DataFrame:
        if not new_cells or (high is not None and low > high):
            return self._no_changes
        return self._merge_touched([frame for frame, _, _ in new_cells], low, high)

    @cached_property
    def _no_changes(self) -> pl.DataFrame:
        nothing = [self._no_windows()]
        return share_empty(self.combiner, "changes", lambda: self._merge_changes(nothing))

    def _merge_touched(
        self, cells: Sequence[pl.DataFrame], low: int | None, high: int | None
    ) -> pl.DataFrame:
        """Return the windows of a range that cells are in, with their new messages."""
        if self.spec.firing.accumulate:
            cells = [f[[*self.keys, columns.PANE, columns.MESSAGES]] for f in cells]
        touched = [copy_to_windows(f, low, high, self.combiner.paned_windows) for f in cells]
        if len(touched) == 1 and self.windows.panes_per_window == 1 and self.spec.firing.accumulate:
            # Each key and pane is in one row, and a pane is a window.
            return touched[0][[*self._identity, columns.MESSAGES]]
        return self._merge_changes(touched)

    def _emit_changed(
        self,
        emission: str,
        changes: pl.DataFrame,
        new_cells: list[RangedFrame],
        clock: BatchClock,
        marks: list[pl.DataFrame],
    ) -> pl.DataFrame:
        """Return the changed windows that are due, early or late; the others wait."""
        add_columns = partial(self._add_policy_columns, emission, new_cells, marks[0])
        emitting = self._waiting_for(emission).take(changes, clock, add_columns)
        if not len(emitting):
            return self._no_windows()
        return self._emit(emission, emitting, new_cells, marks)

    def _waiting_for(self, emission: str) -> Waiting:
        return self.late if emission == "late" else self.early

    def _add_policy_columns(
        self, emission: str, new_cells: list[RangedFrame], late: pl.DataFrame, windows: pl.DataFrame
    ) -> pl.DataFrame:
        """Add the columns that the windows' policy needs, for ``Waiting.take``."""
        policy = self._waiting_for(emission).policy
        if isinstance(policy, FirstThen):
            windows = self._with_first(emission, late, windows)
        condition_names = list_condition_columns(policy)
        if not condition_names:
            return windows
        composed = self._no_windows()
        if len(windows):
            low, high = find_extent(windows[columns.WINDOW])
            composed = self._compose(new_cells, low, high, windows[self.keys].unique())
            composed = join_null_safe(composed, windows, self._identity, "semi")
        conditions_met = add_condition_columns(composed, [policy], self.combiner).select(
            *self._identity, *condition_names
        )
        return join_null_safe(windows, conditions_met, self._identity, "left").with_columns(
            pl.col(condition_names).fill_null(False)
        )

    def _with_first(self, emission: str, late: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
        """Add whether windows haven't emitted yet, early or late."""
        if not len(windows):
            return windows.with_columns(pl.lit(True).alias(IS_FIRST))
        extra, first = [late], pl.col(LATE) <= pl.col(columns.MESSAGES)  # none has emitted
        if emission == "early":
            extra, first = [], pl.col(FIRED) == 0
        only, bounds = self._list_keys(windows), find_extent(windows[columns.WINDOW])
        return self._with_marks(windows, *bounds, extra, only).with_columns(first.alias(IS_FIRST))

    def _emit(
        self,
        emission: str,
        emitting: pl.DataFrame,
        new_cells: list[RangedFrame],
        marks: list[pl.DataFrame],
    ) -> pl.DataFrame:
        low, high = find_extent(emitting[columns.WINDOW])
        identities = emitting[self._identity]
        keys = self._list_keys(identities)
        composed = self._compose(new_cells, low, high, keys)
        composed = join_null_safe(composed, identities, self._identity, "semi")
        whole = composed[[*self._identity, columns.MESSAGES]]
        if not self.spec.firing.accumulate:
            composed = self._only_new(composed, emitting)
        extra = [marks[0]] if emission == "late" else []
        composed = self._with_marks(composed, low, high, extra, keys)
        if emission == "late":
            composed = self._count_full(composed, whole)
        marks.append(add_constants(identities, {FIRED: 1, LATE: 0}))
        return _label_emission(composed, emission)

    def _list_keys(self, windows: pl.DataFrame) -> pl.DataFrame:
        """Return the keys of windows, each once, to look them up in tables."""
        low, high = find_extent(windows[columns.WINDOW])
        keys = windows[self.keys]
        # Windows are unique, so that those with one number have different keys.
        return add_hashes(keys if low == high else keys.unique(), self.keys)

    def _count_full(self, composed: pl.DataFrame, whole: pl.DataFrame) -> pl.DataFrame:
        """Count the full firing of late windows, which marks don't include.

        A window emitted in full if it had messages that weren't late when it ended.
        """
        total = whole.rename({columns.MESSAGES: "total"})
        composed = join_null_safe(composed, total, self._identity, "left")
        in_full = (pl.col("total") > pl.col(LATE)).cast(pl.Int64)
        return composed.with_columns(pl.col(FIRED) + in_full)

    def _compose(
        self, new_cells: list[RangedFrame], low: int, high: int, keys: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        """Compose windows ``low`` to ``high`` from state and batch, for some keys or all."""
        if low > high:
            return self._no_windows()
        first, last = self.windows.first_pane(low), self.windows.last_pane(high)
        new = [r for r in new_cells if r[2] >= first and r[1] <= last]
        if keys is not None:
            new = [(join_null_safe(f, keys, self.keys, "semi"), a, b) for f, a, b in new]
        frames = self.cells.read_with_ranges(first, last, keys) + new
        if not frames:
            return self._no_windows()
        return self._compose_cells(frames, low, high)

    def _compose_cells(self, frames: list[RangedFrame], low: int, high: int) -> pl.DataFrame:
        if self.windows.panes_per_window > 1 and high - low < FEW_WINDOWS:
            # Windows are merged from all of their rows at once, so panes need no merge before.
            cells = pl.concat([frame for frame, _, _ in frames], how="diagonal")
        else:
            cells = join_runs(frames, columns.PANE, self.combiner.merge)
        return compose(cells, low, high, self.combiner)

    def _only_new(self, composed: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
        """Replace the partials of windows by the changes since they last emitted."""
        changes = drop_columns(new, *SINCE.values())
        return join_null_safe(composed[self._identity], changes, self._identity, "left")

    def _with_marks(
        self,
        composed: pl.DataFrame,
        low: int,
        high: int,
        extra: Sequence[pl.DataFrame] = (),
        only: pl.DataFrame | None = None,
    ) -> pl.DataFrame:
        """Add the numbers of firings and late messages; ``only`` limits the search to some keys."""
        marks = [frame for frame in (*self.marks.read(low, high, only), *extra) if len(frame)]
        if not marks:
            return add_constants(composed, {FIRED: 0, LATE: 0})
        joined = join_null_safe(composed, self._add_marks(marks), self._identity, "left")
        if not joined[FIRED].null_count():
            return joined
        return joined.with_columns(pl.col(FIRED, LATE).fill_null(0))

    def _store(
        self, new_cells: list[RangedFrame], marks: list[pl.DataFrame], clock: BatchClock
    ) -> None:
        """Store the rows that later steps may need, and drop the others."""
        expired = first_retained_pane(
            self.windows, self.state.watermark, self.spec.firing.retention
        )
        self.retained.count_stored(self.cells.read, self.retained.floor)
        if new_cells:
            live = [
                (f.filter(pl.col(columns.PANE) >= expired), max(a, expired), b)
                if expired is not None and a < expired
                else (f, a, b)
                for f, a, b in new_cells
                if expired is None or b >= expired
            ]
            if live:
                cells = join_runs(live, columns.PANE, self.combiner.merge)
                self.cells.append(cells)
                self.retained.add(cells)
        if any(map(len, marks)):
            added = self._add_marks(marks)
            first_open = clock.closed_after + 1
            self.marks.append(select_between(added, columns.WINDOW, first_open, MAX_WINDOW))
        first = self.retained.apply_limit(self.windows.first_pane(clock.closed_after + 1), expired)
        if first is not None:
            self.cells.drop_before(first)
        self._save_retained()
        self.marks.drop_before(clock.closed_after + 1)
        self.late.drop_before(clock.closed_after + 1)
        self.early.drop_before(clock.after + 1)

    def _merge_changes(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        times = [name for name in SINCE.values() if any(name in f.columns for f in frames)]
        if self.spec.firing.accumulate:
            frame = pl.concat(frames, how="diagonal")
            whole = frame.group_by(self._identity).agg(pl.col(columns.MESSAGES, *times).sum())
            return filter_rows(whole, whole[columns.MESSAGES] != 0)
        merged = self.combiner.merge(frames, by=self._identity)
        if not times:
            return merged
        sums = pl.concat(frames, how="diagonal").group_by(self._identity).agg(pl.col(times).sum())
        return join_null_safe(merged, sums, self._identity, "inner")

    def _add_marks(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Add the marks of frames that have each window once."""
        non_empty = [frame for frame in frames if len(frame)]
        return non_empty[0] if len(non_empty) == 1 else self._sum_marks(frames)

    def _sum_marks(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return (
            pl.concat(frames, how="diagonal_relaxed")
            .group_by(self._identity)
            .agg(pl.col(FIRED, LATE).cast(pl.Int64).sum())
        )

    @cached_property
    def _no_marks(self) -> pl.DataFrame:
        zeros = columns.number(FIRED), columns.number(LATE)
        return share_empty(
            self.combiner, "marks", lambda: self._no_windows().select(*self._identity, *zeros)
        )

    def _no_windows(self) -> pl.DataFrame:
        return self.combiner.no_windows


def _label_emission(windows: pl.DataFrame, emission: str) -> pl.DataFrame:
    """Add to windows their emission, and the number of their firings as revision."""
    revision = windows[FIRED].alias(columns.REVISION)
    return add_constants(windows, {columns.EMISSION: emission}).hstack([revision])
