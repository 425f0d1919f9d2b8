"""A shard whose windows are measured in messages of a key, in the order of their arrival.

The state has the panes of each key's open windows, and the number of its messages so far. All rows
of a key are rewritten when it gets messages: only the newest version counts, so that closed windows
need no deletion.

Source: the Samza SQL window operator design (tuple-based windows).
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from muntin.engine import admission, columns
from muntin.engine.firing import (
    SINCE,
    BatchClock,
    add_condition_columns,
    drop_condition_columns,
    is_due,
    is_due_by_clock,
    since_columns,
)
from muntin.engine.output import ShardOutput
from muntin.engine.results import build_values
from muntin.engine.windows.combine import Combined, Combiner
from muntin.engine.windows.overlap import compose, copy_to_windows
from muntin.engine.windows.panes import in_columns, window_end, window_start
from muntin.engine.windows.shard import WindowShard
from muntin.model.kinds import Paned
from muntin.model.policies import by_clock
from muntin.state.blobs import Blobs
from muntin.state.frames import FrameCache
from muntin.state.lookup import join_null_safe
from muntin.state.rows import drop_columns, stack_rows
from muntin.state.runs import deduplicate

FIRED = "fired"
# The numbers of a key's messages: so far, before the batch, and new. The last two must not clash
# with the user's columns in the same frame.
HEAD, BEFORE, NEW = "head", "__muntin_before", "__muntin_new"
_POSITION, _ZERO = "place", pl.lit(0, dtype=pl.Int64)


class ArrivalShard(WindowShard):
    """The windows of a shard's keys by number of arrival, without a watermark."""

    windows: Paned

    def __init__(self, combiner: Combiner, blobs: Blobs, cache: FrameCache) -> None:
        super().__init__(combiner, combiner.paned_windows, blobs, cache)
        table = self.state.table
        self._identity = [columns.WINDOW, *self.keys]
        # A window that ends with its message has ended at once.
        self._early = None if combiner.slides_by_rows else self.spec.firing.early
        self._times = since_columns(self._early)
        self.cells = table("cells", _POSITION, None, self._select_newest, self.keys)
        self.changes = table("changes", _POSITION, None, self._select_newest, self.keys)
        # The keys with something to emit when the wall clock passes a period.
        self.waiting = table("waiting", _POSITION, 1, deduplicate)

    def step(self, combined: Sequence[Combined], wall: int, *, final: bool = False) -> ShardOutput:
        context = self._begin(combined, wall, final)
        clock = context.clock
        new_cells, heads, rejected = self._number_messages(combined)
        cells, heads = self._add_stored(new_cells, heads, clock, final)
        emitted = self.combiner.no_windows
        if len(heads):
            windows = join_null_safe(self._compose(cells), heads, self.keys, "inner")
            windows = self._mark_full(windows, final)
            changes = self._collect_changes(new_cells, heads, clock)
            emitted = self._select_emitting(windows, changes, clock)
            if not final:
                self._store_cells(cells, heads)
                self._store_changes(changes, emitted, heads, clock)
        if final:
            self.state.clear()
        pending, rows = self.changes.rows, self.cells.rows
        return self._output(context, combined, emitted, [rejected], pending=pending, rows=rows)

    def snapshot(
        self, start: int | None, end: int | None, only: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        """Return the values of the open windows that overlap a range; closed ones aren't kept."""
        stored = self._select_newest(self.cells.read(only=only)).drop(_POSITION)
        heads = stored[[*self.keys, HEAD]].unique()
        panes = stored.filter(pl.col(columns.MESSAGES) > 0).drop(HEAD)
        windows = join_null_safe(self._compose(panes), heads, self.keys, "inner")
        starts = window_start(windows[columns.WINDOW], self.windows)
        ends = window_end(windows[columns.WINDOW], self.windows)
        selected = ends > windows[HEAD]
        if start is not None:
            selected &= ends > start
        if end is not None:
            selected &= starts <= end
        return build_values(windows.drop(HEAD).filter(selected), self.combiner)

    def _number_messages(
        self, combined: Sequence[Combined]
    ) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """Return the batch's cells, its keys' numbers of messages, and the rejected messages."""
        raw = [c.raw for c in combined if c.raw is not None]
        no_counts = {HEAD: _ZERO, BEFORE: _ZERO}
        if not raw:
            no_cells = self.combiner.no_cells
            heads = no_cells[self.keys].with_columns(**no_counts)
            return no_cells, heads, self.combiner.nothing_rejected
        messages = stack_rows(raw)
        accepted, rejected = self.combiner.part(messages, None)
        self.state.count(admission.count_messages(messages, accepted, rejected))
        key_names, named = self.combiner.message_keys, self.combiner.key_names
        new = accepted.group_by(key_names).agg(pl.len().cast(pl.Int64).alias(NEW)).rename(named)
        stored = self._select_newest(self.cells.read(only=new)).group_by(self.keys)
        before = stored.agg(pl.col(HEAD).max().alias(BEFORE))
        heads = join_null_safe(new, before, self.keys, "left").with_columns(
            pl.col(BEFORE).fill_null(0)
        )
        heads = heads.select(*self.keys, (pl.col(BEFORE) + pl.col(NEW)).alias(HEAD), BEFORE)
        message_keys = {key: name for name, key in named.items()}
        numbered = accepted.join(
            heads.drop(HEAD).rename(message_keys),
            on=key_names,
            how="left",
            maintain_order="left",
            nulls_equal=True,
        )
        number = pl.col(BEFORE) + pl.int_range(pl.len()).over(key_names)
        cells = self.combiner.lift(numbered.with_columns(number.alias(columns.TIME)).drop(BEFORE))
        return cells, heads, self.combiner.set_aside(rejected)

    def _add_stored(
        self, new_cells: pl.DataFrame, heads: pl.DataFrame, clock: BatchClock, final: bool
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the open panes of all keys that may emit, with the batch, and their heads."""
        keys = heads[self.keys]
        if is_due_by_clock(self._early, clock):
            waiting_keys = [frame[self.keys] for frame in self.waiting.read()]
            keys = stack_rows([keys, *waiting_keys]).unique()
        frames = self.cells.read(only=None if final else keys) if final or len(keys) else []
        if not frames:
            return new_cells, heads
        stored = drop_columns(self._select_newest(frames), _POSITION)
        silent = join_null_safe(stored, heads, self.keys, "anti")
        silent = silent[[*self.keys, HEAD]].unique()
        heads = stack_rows([heads, silent.with_columns(pl.col(HEAD).alias(BEFORE))])
        panes = drop_columns(stored.filter(pl.col(columns.MESSAGES) > 0), HEAD)
        return self.combiner.merge([panes, new_cells]), heads

    def _compose(self, cells: pl.DataFrame) -> pl.DataFrame:
        """Compose all windows of some keys, with each key shifted to start at its first pane."""
        if not len(cells):
            return self.combiner.no_windows
        first = in_columns(self.windows.first_window)(pl.col(columns.PANE)).min().over(self.keys)
        first = in_columns(self.windows.pattern)(first)
        pane_shift = in_columns(self.windows.first_pane)(pl.col("__first"))
        cells = cells.with_columns(first.alias("__first"))
        bases = cells.select(*self.keys, "__first").unique()
        shifted = cells.with_columns(pl.col(columns.PANE) - pane_shift).drop("__first")
        top = int(shifted[columns.PANE].max())  # type: ignore[arg-type]
        composed = compose(shifted, 0, self.windows.last_window(top), self.combiner)
        windows = join_null_safe(composed, bases, self.keys, "inner")
        return windows.with_columns(pl.col(columns.WINDOW) + pl.col("__first")).drop("__first")

    def _mark_full(self, windows: pl.DataFrame, final: bool) -> pl.DataFrame:
        """Mark the windows that end in this batch, and drop those that ended before."""
        end = window_end(windows[columns.WINDOW], self.windows)
        is_full = end <= windows[HEAD]
        if final and not self.combiner.slides_by_rows:
            is_full |= True
        windows = windows.hstack([is_full.alias("__full")]).filter(end > windows[BEFORE])
        return drop_columns(windows, HEAD, BEFORE)

    def _collect_changes(
        self, new_cells: pl.DataFrame, heads: pl.DataFrame, moment: BatchClock
    ) -> pl.DataFrame:
        """Return the changes that aren't emitted yet by window, with the number of its firings."""
        if self._early is None:
            return self._no_changes()
        stored = self.changes.read(only=heads[self.keys]) if len(heads) else []
        waiting = self._select_newest(stored, self._no_changes())
        waiting = waiting.filter(pl.col(columns.WINDOW).is_not_null())
        new = copy_to_windows(new_cells, None, None, self.combiner.paned_windows)
        now = [columns.number(name, moment.wall) for name in self._times]
        frames = [waiting, new.with_columns(_ZERO.alias(FIRED), *now)]
        rows = pl.concat([f for f in frames if len(f)] or frames[:1], how="diagonal")
        times = [
            pl.col(name).min() if name == SINCE["first"] else pl.col(name).max()
            for name in self._times
            if name in rows.columns
        ]
        fired = rows.group_by(self._identity).agg(pl.col(FIRED).sum(), *times)
        counted = drop_columns(rows, FIRED, _POSITION, *SINCE.values())
        merged = self.combiner.merge([counted], by=self._identity)
        return join_null_safe(merged, fired, self._identity, "inner")

    def _select_emitting(
        self, windows: pl.DataFrame, changes: pl.DataFrame, clock: BatchClock
    ) -> pl.DataFrame:
        absent = [columns.number(name) for name in self._times if name not in changes.columns]
        changes = changes.with_columns(absent)
        counts = changes.select(*self._identity, FIRED, *self._times, unemitted=columns.MESSAGES)
        windows = join_null_safe(windows, counts, self._identity, "left")
        early = pl.lit(False)
        windows = add_condition_columns(windows, [self._early], self.combiner)
        if self._early is not None:
            early = (pl.col("unemitted") > 0) & is_due(
                self._early, clock, "unemitted", pl.col(FIRED) == 0
            )
        full = pl.lit("full")
        if not self.spec.firing.repeat:
            # A window that ends has new messages, unless the input ends.
            silent = (pl.col("unemitted") == 0) & (pl.col(FIRED) > 0)
            full = pl.when(silent).then(None).otherwise(full)
        emission = pl.when("__full").then(full).when(early).then(pl.lit("early"))
        windows = windows.with_columns(
            emission.alias(columns.EMISSION), pl.col(FIRED).fill_null(0).alias(columns.REVISION)
        ).filter(pl.col(columns.EMISSION).is_not_null())
        windows = drop_condition_columns(windows, [self._early])
        emitted = drop_columns(windows, "__full", "unemitted", FIRED, *self._times)
        if self.spec.firing.accumulate or self._early is None:
            return emitted
        emitted = emitted[[*self._identity, columns.EMISSION, columns.REVISION]]
        new = drop_columns(changes, FIRED, *self._times)
        return join_null_safe(emitted, new, self._identity, "left")

    def _store_cells(self, cells: pl.DataFrame, heads: pl.DataFrame) -> None:
        """Store the open panes of the keys that got messages."""
        updated = drop_columns(heads.filter(pl.col(HEAD) > pl.col(BEFORE)), BEFORE)
        counts = updated[HEAD].unique()
        first_panes = [self.windows.first_pane(self.windows.last_ended(int(n)) + 1) for n in counts]
        first_open = pl.DataFrame({HEAD: counts, "__open": pl.Series(first_panes, dtype=pl.Int64)})
        open_panes = join_null_safe(cells, updated.join(first_open, on=HEAD), self.keys, "inner")
        is_open = open_panes[columns.PANE] >= open_panes["__open"]
        open_panes = drop_columns(open_panes.filter(is_open), "__open")
        # A key whose windows are all closed still needs its number of messages.
        without_panes = join_null_safe(updated, open_panes, self.keys, "anti")
        without_panes = without_panes.with_columns(
            _ZERO.alias(columns.MESSAGES), _ZERO.alias(columns.PANE)
        )
        rows = pl.concat([open_panes, without_panes], how="diagonal").with_columns(
            _ZERO.alias(_POSITION)
        )
        self.cells.append(rows)

    def _store_changes(
        self, changes: pl.DataFrame, emitted: pl.DataFrame, heads: pl.DataFrame, clock: BatchClock
    ) -> None:
        """Store the changes of open windows that aren't emitted yet."""
        if self._early is None:
            return
        emissions = emitted[[*self._identity, columns.EMISSION]]
        remaining = join_null_safe(changes, emissions, self._identity, "left")
        remaining = remaining.filter(pl.col(columns.EMISSION).ne_missing(pl.lit("full")))
        emits = pl.col(columns.EMISSION) == "early"
        emitted_early = remaining.filter(emits).select(*self._identity, pl.col(FIRED) + 1)
        emitted_early = emitted_early.with_columns(_ZERO.alias(columns.MESSAGES))
        unemitted = remaining.filter(emits.fill_null(False).not_()).drop(columns.EMISSION)
        rows = pl.concat([unemitted, emitted_early], how="diagonal")
        without = join_null_safe(heads[self.keys], rows, self.keys, "anti")
        without = without.with_columns(pl.lit(None, dtype=pl.Int64).alias(columns.WINDOW))
        rows = pl.concat([rows, without], how="diagonal").with_columns(_ZERO.alias(_POSITION))
        self.changes.append(rows)
        if by_clock(self._early):
            if is_due_by_clock(self._early, clock):
                self.waiting.drop_before(None)
            waiting_keys = unemitted.filter(pl.col(columns.MESSAGES) > 0)[self.keys].unique()
            self.waiting.append(waiting_keys.with_columns(_ZERO.alias(_POSITION)))

    def _select_newest(
        self, frames: Sequence[pl.DataFrame], nothing: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        """Return the last version of each key's rows."""
        newest: list[pl.DataFrame] = []
        newer_keys: pl.DataFrame | None = None
        for frame in reversed(frames):
            rows = (
                frame
                if newer_keys is None
                else join_null_safe(frame, newer_keys, self.keys, "anti")
            )
            newest.append(rows)
            row_keys = rows[self.keys].unique()
            newer_keys = row_keys if newer_keys is None else stack_rows([newer_keys, row_keys])
        if not newest:
            if nothing is not None:
                return nothing
            return self.combiner.no_cells.with_columns(_ZERO.alias(HEAD), _ZERO.alias(_POSITION))
        return pl.concat(newest[::-1], how="diagonal")

    def _no_changes(self) -> pl.DataFrame:
        return self.combiner.no_windows.with_columns(_ZERO.alias(FIRED))
