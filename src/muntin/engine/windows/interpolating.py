"""Filling on the line between two windows with messages.

Both must have closed, so that nothing is corrected later. If no window with messages follows until
``up_to`` has passed, the value is null. The state has one row for each key that is filled, with its
last closed window with messages.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.fills import interpolate, value_column
from muntin.engine.firing import BatchClock
from muntin.engine.order import sort_rows
from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.filling import SOURCE, STOP, UNTIL, FillingShard, merge_latest
from muntin.engine.windows.panes import window_end
from muntin.engine.windows.shard import StepContext
from muntin.model.fill import LINEAR
from muntin.state.blobs import Blobs
from muntin.state.runs import FrameCache

# The next window with messages, and its values.
_NEXT, _RIGHT = "__muntin_next", "__muntin_right_"


class InterpolatingShard(FillingShard):
    """The windows of a shard's keys, including empty ones between closed windows."""

    def __init__(self, combiner: Combiner, blobs: Blobs, cache: FrameCache) -> None:
        super().__init__(combiner, blobs, cache)
        self._lines = [
            value_column(index)
            for index, name in enumerate(self.spec.aggregates)
            if self._fill.way_of(name) == LINEAR
        ]

    def _empty(self, context: StepContext, *changed: Any) -> list[pl.DataFrame]:
        """Return the empty windows that are decided, since their neighbours have closed."""
        new_cells, clock = changed[0], context.clock
        if clock.closed_after == clock.closed_before:
            return []
        closed = self._compose(new_cells, clock.closed_before + 1, clock.closed_after)
        new_sources = self._make_sources(closed)
        sources = pl.concat([self._read_filled(new_sources.clear()), new_sources])
        decided = self._list_decided(sources, clock)
        latest = merge_latest([sources], self.keys)
        self.filled.drop_before(None)
        if not context.final:
            self.filled.append(latest.filter(pl.col(UNTIL) + 1 > clock.closed_after))
        return [self._empty_rows(decided, "full")]

    def _list_decided(self, sources: pl.DataFrame, clock: BatchClock) -> pl.DataFrame:
        """Return the empty windows before a closed one, or that waited for one in vain."""
        last = self._limit(clock.closed_before, clock.closed_after)
        following = pl.col(columns.WINDOW, *self._lines).shift(-1).over(self.keys)
        ordered = sort_rows(sources, [*self.keys, columns.WINDOW])
        ordered = ordered.with_columns(
            following.name.prefix(_RIGHT),
        ).rename({_RIGHT + columns.WINDOW: _NEXT})
        stop = pl.min_horizontal(UNTIL, pl.col(_NEXT) - 1, pl.lit(last, dtype=pl.Int64))
        is_decided = pl.col(_NEXT).is_not_null() | (pl.col(UNTIL) + 1 <= clock.closed_after)
        gaps = self._number_gaps(
            ordered.with_columns(
                pl.when(is_decided).then(stop).alias(STOP),
                # Without another window soon enough there is no line.
                pl.when(pl.col(_NEXT) <= pl.col(UNTIL) + 1).then(_NEXT).alias(_NEXT),
            )
        )
        has_next = gaps[_NEXT].is_not_null()
        left, middle, right = (
            window_end(numbers, self.windows)
            for numbers in (
                gaps[SOURCE],
                gaps[columns.WINDOW],
                gaps[_NEXT].zip_with(has_next, gaps[columns.WINDOW]),
            )
        )
        return gaps.with_columns(
            interpolate(
                gaps[name],
                gaps[_RIGHT + name].zip_with(has_next, gaps[name].clear(len(gaps))),
                middle - left,
                right - left,
            ).alias(name)
            for name in self._lines
        )
