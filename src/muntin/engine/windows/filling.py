"""Filling: windows without messages that emit.

A key is filled from its first window with a message until a given time after the end of its last
one. So the state needs only one row for each key that is filled, with the last window to fill. A
late message also fills the ended windows after it that haven't emitted before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.firing import FOREVER
from muntin.engine.order import arranged
from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.paned import FIRED, LATE, PanedShard
from muntin.engine.windows.panes import ended, window_end, window_start
from muntin.engine.windows.shard import Begun
from muntin.model.policies import Fill
from muntin.state.blobs import Blobs
from muntin.state.lookup import join_null_safe
from muntin.state.runs import FrameCache, RangedFrame, find_extent

_UNTIL, _STOP = "until", "__muntin_stop"


class FillingShard(PanedShard):
    """The windows of a shard's keys, including empty ones."""

    def __init__(self, combiner: Combiner, blobs: Blobs, cache: FrameCache) -> None:
        super().__init__(combiner, blobs, cache)
        merge = partial(_furthest, by=self._identity)
        self.filled = self.state.table("filled", columns.WINDOW, None, merge)

    def _empty(self, begun: Begun, *changed: Any) -> list[pl.DataFrame]:
        """Return the empty windows after late messages, and those that have just ended."""
        fresh, late, full, silent, marks = changed
        before, after = begun.moment.before, self._last(begun)
        late = self._reaching(late)
        passed = pl.concat([self._reaching(full), self._reaching(silent)])
        behind = self._gaps(late, before)
        if len(behind):
            behind = join_null_safe(behind, self._emitted(behind, fresh), self._identity, "anti")
        known = self._known(late, before)
        due = behind.clear()
        if after > before:
            whole = pl.concat([known, passed])
            due = self._gaps(whole, after)
            known = _at(after, _furthest([whole], self.keys)).select(known.columns)
        self.filled.drop_before(None)
        if not begun.final:
            self.filled.append(known.filter(pl.col(_UNTIL) > after))
        if self.spec.firing.grace:
            once = [columns.number(FIRED, 1), columns.number(LATE)]
            marks += [windows.with_columns(once) for windows in (behind, due)]
        return [self._nothing(behind, "late"), self._nothing(due, "full")]

    def _last(self, begun: Begun) -> int:
        """Return the last ended window; at the end of the input the one of the greatest time."""
        mark, moment = self.state.watermark, begun.moment
        if moment.after != FOREVER or mark is None:
            return moment.after
        latest = self.windows.pane_of(mark + self.spec.lateness)
        return max(moment.before, self.windows.last_window(latest))

    def _known(self, late: pl.DataFrame, before: int) -> pl.DataFrame:
        """Return the last window to fill of each key, as of the last window that had ended."""
        stored = self.filled.read(before, before)
        frames = [_at(before, late), *(f.filter(pl.col(columns.WINDOW) == before) for f in stored)]
        return _furthest([f.select(late.columns) for f in frames], self._identity)

    def _reaching(self, windows: pl.DataFrame) -> pl.DataFrame:
        """Return windows with messages, and the last window to fill after each."""
        fill = self.spec.firing.fill
        assert isinstance(fill, Fill)
        end = window_end(windows[columns.WINDOW], self.windows) + fill.up_to
        until = ended(end, self.windows).alias(_UNTIL)
        return windows.select(self._identity).with_columns(until)

    def _emitted(self, windows: pl.DataFrame, fresh: list[RangedFrame]) -> pl.DataFrame:
        """Return the windows that have emitted, or will emit because they have messages."""
        low, high = find_extent(windows[columns.WINDOW])
        keys = windows.select(self.keys).unique()
        there = [self._compose(fresh, low, high, keys), *self.marks.read(low, high, keys)]
        return pl.concat([frame.select(self._identity) for frame in there]).unique()

    def _gaps(self, windows: pl.DataFrame, last: int) -> pl.DataFrame:
        """Return the empty windows after the given ones, up to a last one."""
        ordered = arranged(windows, [*self.keys, columns.WINDOW])
        following = pl.col(columns.WINDOW).shift(-1).over(self.keys) - 1
        stop = pl.min_horizontal(_UNTIL, following, pl.lit(last, dtype=pl.Int64)).alias(_STOP)
        first = pl.col(columns.WINDOW) + 1
        gaps = (
            ordered.with_columns(stop)
            .filter(pl.col(_STOP) >= first)
            .with_columns(pl.int_ranges(first, pl.col(_STOP) + 1).alias(columns.WINDOW))
            .explode(columns.WINDOW)
            .select(self._identity)
        )
        if self.windows.even:
            return gaps
        # A day that the zone skipped has no window.
        numbers = gaps[columns.WINDOW]
        lasts = window_start(numbers, self.windows) < window_end(numbers, self.windows)
        return gaps.filter(lasts)

    def _nothing(self, windows: pl.DataFrame, emission: str) -> pl.DataFrame:
        none = [columns.number(name) for name in (columns.MESSAGES, columns.REVISION)]
        found = pl.concat([self._no_windows(), windows.with_columns(*none)], how="diagonal")
        return found.with_columns(pl.lit(emission).alias(columns.EMISSION))


def _furthest(frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
    return pl.concat(frames).group_by(by).agg(pl.col(_UNTIL).max())


def _at(window: int, keys: pl.DataFrame) -> pl.DataFrame:
    return keys.with_columns(columns.number(columns.WINDOW, window))
