"""A shard whose windows slide with the messages, by their times or their offsets."""

from __future__ import annotations

import polars as pl

from muntin.engine import columns
from muntin.engine.windows.cells import changed_sliding, compose_sliding
from muntin.engine.windows.paned import FIRED, LATE, PanedShard
from muntin.model.policies import FirstThen
from muntin.state.runs import Ranged, join_runs


class SlidingShard(PanedShard):
    """Sliding windows of some keys; each place is a pane of its own. See ``Shard``.

    Which windows there are depends on the messages. So a late message may make a window that never
    had a chance to emit in full, and marks count full firings too, for as long as the grace. How
    many messages came late is counted only where the late policy asks whether some were emitted.
    """

    def _marks(self, late: pl.DataFrame, full: pl.DataFrame, silent: pl.DataFrame) -> pl.DataFrame:
        if not self.spec.firing.grace:
            return self._no_marks()
        nothing = [pl.lit(0, dtype=pl.Int64).alias(c) for c in (FIRED, LATE)]
        once = full.select(*self._identity, nothing[0] + 1, nothing[1])
        if not isinstance(self.spec.firing.late, FirstThen):
            return once
        return self._add_marks([super()._marks(late, full.clear(), silent.clear()), once])

    def _count_full(self, composed: pl.DataFrame, whole: pl.DataFrame) -> pl.DataFrame:
        return composed

    def _composed(self, cells: pl.DataFrame, low: int, high: int) -> pl.DataFrame:
        return compose_sliding(cells, low, high, self.combiner)

    def _touched(self, fresh: list[Ranged], low: int, high: int | None) -> pl.DataFrame:
        top = self.windows.last_window(max((b for _, _, b in fresh), default=0)) + 1
        high = top if high is None else min(high, top)
        low = max(low, self.windows.first_window(min((a for _, a, _ in fresh), default=0)))
        if not fresh or low > high:
            return self._merge_changes([self._no_windows()])
        new = join_runs(fresh, columns.PANE, self.combiner.merge)
        only = new.select(self.keys).unique()
        reach = self.windows.first_pane(low), self.windows.last_pane(high)
        frames = self.cells.of(only, *reach)
        stored = self._no_cells()
        if frames:
            stored = join_runs(frames, columns.PANE, self.combiner.merge)
        touched = changed_sliding(new, stored, low, high, self.combiner)
        return self._merge_changes([touched])
