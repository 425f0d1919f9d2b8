"""Grouping by array index instead of a hash table, for integer keys in a narrow range.

Most streams number their keys. If a batch has few (key, pane) pairs, an array with an entry for
each of them fits the CPU's cache, and partials are added to it with a few instructions per message;
a hash table costs three times as much.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine.dtypes import fits_in_64_bits

# An entry costs about as much as a message, so that the array pays up to this size.
_ENTRIES_PER_MESSAGE = 2
_FREE_ENTRIES = 4096


class Scatter:
    """Sums and extremes by group, where the group of a message is an index in an array."""

    def __init__(self, code: NDArray[np.int64], size: int) -> None:
        self.code = code
        self.size = size
        self.counts = np.bincount(code, minlength=size)

    @staticmethod
    def worthwhile(size: int, rows: int) -> bool:
        """Return whether an array of this size beats a hash table for this number of messages."""
        return 0 < size <= _ENTRIES_PER_MESSAGE * rows + _FREE_ENTRIES

    @cached_property
    def used_groups(self) -> NDArray[np.int64]:
        """The indices of groups with messages, ascending."""
        return np.flatnonzero(self.counts)

    def count(self) -> NDArray[np.int64]:
        """Return the number of messages of each group."""
        return self.counts[self.used_groups]

    def add(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum of integers of each group, modulo 2**64."""
        sums = np.zeros(self.size, dtype=np.int64)
        np.add.at(sums, self.code, values)
        return sums[self.used_groups]

    def add_floats(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of doubles of each group."""
        return self._weigh(values)[self.used_groups]

    def _weigh(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = np.bincount(self.code, weights=values, minlength=self.size)
        return sums.astype(np.float64, copy=False)

    def extreme(self, values: NDArray[np.generic], greatest: bool) -> NDArray[np.generic]:
        """Return the greatest or least number of each group; there must be no NaN."""
        edge = values.min() if greatest else values.max()
        extremes = np.full(self.size, edge, dtype=values.dtype)
        (np.maximum if greatest else np.minimum).at(extremes, self.code, values)
        return extremes[self.used_groups]

    def moments(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Return mean and sum of squared deviations of each group, in two passes."""
        with np.errstate(invalid="ignore", over="ignore"):
            means = self._weigh(values)
            np.divide(means, self.counts, out=means, where=self.counts > 0)
            gaps = values - means[self.code]
            return means[self.used_groups], self.add_floats(gaps * gaps)


def dense_numbers(column: pl.Series) -> NDArray[np.generic] | None:
    """Return a column's numbers for ``Scatter``; ``None`` for other types, nulls or NaN."""
    plain = fits_in_64_bits(column.dtype) or column.dtype == pl.UInt64 or column.dtype.is_float()
    if not plain or column.null_count() or not len(column):
        return None
    if column.dtype.is_float() and column.is_nan().any():
        return None
    return column.to_numpy()
