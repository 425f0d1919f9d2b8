"""Grouping without a hash table: where keys are numbers in a narrow range, a group is a place.

Most streams number their keys. A batch then has few enough (key, pane) pairs that an array with a
place for each of them fits the cache, and a partial is scattered into it with a handful of
instructions a message; a hash table costs three times as much.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

# A place costs about as much as a message, so that up to here the scatter is well worth it.
_PLACES_A_ROW = 2
_FEW_PLACES = 4096


class Scatter:
    """The group of each message as a place in an array."""

    def __init__(self, code: NDArray[np.int64], size: int) -> None:
        self.code = code
        self.size = size
        self.counts = np.bincount(code, minlength=size)

    @staticmethod
    def worthwhile(size: int, rows: int) -> bool:
        """Whether so many places for so many messages beat a hash table."""
        return 0 < size <= _PLACES_A_ROW * rows + _FEW_PLACES

    @cached_property
    def taken(self) -> NDArray[np.int64]:
        """The places that some message lies at, ascending."""
        return np.flatnonzero(self.counts)

    def count(self) -> NDArray[np.int64]:
        """How many messages lie at each taken place."""
        return self.counts[self.taken]

    def add(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sum of integers at each taken place, modulo 2**64."""
        sums = np.zeros(self.size, dtype=np.int64)
        np.add.at(sums, self.code, values)
        return sums[self.taken]

    def add_floats(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum of doubles at each taken place."""
        return self._weigh(values)[self.taken]

    def _weigh(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = np.bincount(self.code, weights=values, minlength=self.size)
        return sums.astype(np.float64, copy=False)

    def extreme(self, values: NDArray[np.generic], greatest: bool) -> NDArray[np.generic]:
        """The greatest or least of numbers, none of them NaN, at each taken place."""
        edge = values.min() if greatest else values.max()
        found = np.full(self.size, edge, dtype=values.dtype)
        (np.maximum if greatest else np.minimum).at(found, self.code, values)
        return found[self.taken]

    def moments(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Mean and sum of squared deviations at each taken place, in two passes."""
        with np.errstate(invalid="ignore", over="ignore"):
            means = self._weigh(values)
            np.divide(means, self.counts, out=means, where=self.counts > 0)
            gaps = values - means[self.code]
            return means[self.taken], self.add_floats(gaps * gaps)


def numbers(column: pl.Series) -> NDArray[np.generic] | None:
    """A column's values as NumPy numbers that can be scattered; ``None`` where they can't."""
    plain = column.dtype.is_integer() or column.dtype.is_float()
    if not plain or column.null_count() or not len(column):
        return None
    if column.dtype.is_float() and column.is_nan().any():
        return None
    return column.to_numpy()
