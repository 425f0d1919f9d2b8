"""Composition of the overlapping windows of all keys at once, from panes on flat arrays.

The rows are **cells**: one per key and pane, sorted by key, then pane. They are laid out on one
long line. The distance of two cells of a key is that of their panes, but at most one window. The
first cell of a key is so far after the last cell of the key before that no wanted window of ``n``
consecutive places holds cells of both. Every place is the end of one window, so that the line is
about as long as the number of windows to emit.

Sums of integers slide by prefix differences. All other partials are divided into blocks of ``n``
places with running results from the left and from the right of each block; a window is one
combination of two of these. That is about three combinations per window, whatever the overlap.

Source: van Herk, "A fast algorithm for local minimum and maximum filters", 1992; two-stacks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

Array = NDArray[np.generic]
Parts = list[np.ndarray]
Combine = Callable[[Parts, Parts], Parts]


class Line(ABC):
    """Sorted cells in a layout that lets all windows over them be computed at once."""

    @abstractmethod
    def add_integers(self, values: np.ndarray) -> np.ndarray:
        """Compute each window's sum of integers, exact modulo 2**64."""

    @abstractmethod
    def combine(self, parts: Sequence[np.ndarray], join: Combine) -> Parts:
        """Combine each window's partials of several columns by any associative function.

        Args:
            parts: The columns of the cells; an empty pane is 0 in each.
            join: Combines two lists of columns of equal length, earlier panes first.
        """

    def _reduce(self, values: np.ndarray, join: np.ufunc, neutral: float) -> np.ndarray:
        """Reduce each window's values; an empty pane is ``neutral``."""
        return self.combine([values], lambda a, b: [join(a[0], b[0])])[0]

    def add_floats(self, values: np.ndarray) -> np.ndarray:
        """Compute each window's sum of floats, as exact as adding its values one by one."""
        # Infinities of both signs add up to NaN.
        with np.errstate(invalid="ignore", over="ignore"):
            return self._reduce(values, np.add, 0.0)

    def greatest(self, values: np.ndarray, greatest: bool) -> np.ndarray:
        """Return the greatest (or least) integer of each window."""
        limits = np.iinfo(values.dtype)
        if greatest:
            return self._reduce(values, np.maximum, limits.min)
        return self._reduce(values, np.minimum, limits.max)

    def winner(self, rank: pl.Series, values: pl.Series) -> pl.Series:
        """Return the value with the highest rank in each window; null if no cell has a rank."""
        ranks = rank.fill_null(0).to_numpy().astype(np.int64)
        best = self._reduce(ranks, np.maximum, 0)
        owner = np.zeros(int(ranks.max(initial=0)) + 1, dtype=np.int64)
        owner[ranks] = np.arange(len(ranks))
        winners = values.gather(owner[best])
        if rank.null_count() or len(ranks) == 0:
            winners = pl.select(pl.when(pl.Series(best > 0)).then(winners)).to_series()
        return winners


class Flat(Line):
    """The layout of sorted cells on a line, over which windows of ``n`` places slide.

    Attributes:
        owner: For each place, the last cell at or before it.
        ahead: For each place, its distance from that cell.
    """

    def __init__(
        self,
        pane: NDArray[np.int64],
        new_key: NDArray[np.bool_],
        n: int,
        wanted: tuple[int, int] | None = None,
    ) -> None:
        """Lay out cells.

        Args:
            pane: The pane of each cell.
            new_key: Whether each cell has another key than the one before.
            n: The number of panes in a window.
            wanted: The first and the last pane of the windows to compute, which include all cells.
                Default: all windows.
        """
        self.n = n
        steps = np.minimum(np.diff(pane, prepend=pane[:1]), n)
        self._tail = n
        if wanted is None:
            steps[new_key] = n
        else:
            # Wanted windows extend this far beyond the last cell of a key, and before its first.
            first, last = wanted
            before = np.minimum(pane[new_key] - first, n - 1)
            beyond = np.minimum(last - np.roll(pane, 1)[new_key], n - 1)
            steps[new_key] = np.maximum(before, beyond) + 1
            self._tail = int(min(last - pane[-1], n - 1)) + 1
        steps[:1] = 0
        self.places = np.cumsum(steps)
        self.length = int(self.places[-1]) + self._tail
        runs = np.diff(self.places, append=self.length)
        self.owner = np.repeat(np.arange(len(pane)), runs)
        self.ahead = np.arange(self.length) - self.places[self.owner]

    def add_integers(self, values: np.ndarray) -> np.ndarray:
        """Compute each window's sum by prefix differences, exact modulo 2**64."""
        line = np.zeros(self.length + self.n, dtype=np.int64)
        line[self.places + self.n] = values
        total = np.cumsum(line)
        return total[self.n :] - total[: -self.n]

    def _reduce(self, values: np.ndarray, join: np.ufunc, neutral: float) -> np.ndarray:
        line = self._grid(values, neutral)
        left = join.accumulate(line, axis=1)
        right = np.ascontiguousarray(join.accumulate(line[:, ::-1], axis=1)[:, ::-1])
        return self._join([left], [right], lambda a, b: [join(a[0], b[0])])[0]

    def combine(self, parts: Sequence[np.ndarray], join: Combine) -> Parts:
        grids = [self._grid(part, 0).T for part in parts]
        left = [np.ascontiguousarray(g) for g in grids]
        right = [g.copy() for g in left]
        for i in range(1, self.n):
            j = self.n - 1 - i
            forth = join([g[i - 1] for g in left], [g[i] for g in left])
            back = join([g[j] for g in right], [g[j + 1] for g in right])
            for part, values in enumerate(forth):
                left[part][i] = values
            for part, values in enumerate(back):
                right[part][j] = values
        return self._join([g.T for g in left], [g.T for g in right], join)

    def _grid(self, values: np.ndarray, neutral: float) -> np.ndarray:
        rows = -(-self.length // self.n)
        line = np.full(rows * self.n, neutral, dtype=values.dtype)
        line[self.places] = values
        return line.reshape(rows, self.n)

    def _join(self, left: Parts, right: Parts, join: Combine) -> Parts:
        """Combine, for each place, the right part of a block and the left part of the next one."""
        ends = [np.ascontiguousarray(g).reshape(-1)[: self.length] for g in left]
        begins = [np.ascontiguousarray(g).reshape(-1) for g in right]
        # A window that starts with a block is that block, and the first windows start before the
        # line: for both, `ends` already has the result.
        start = np.arange(self.length) - (self.n - 1)
        crossing = np.flatnonzero((start > 0) & (start % self.n != 0))
        crossed = join([g[start[crossing]] for g in begins], [g[crossing] for g in ends])
        for target, values in zip(ends, crossed, strict=True):
            target[crossing] = values
        return ends
