"""Running aggregates of groups of rows: the content of a window after each of its messages.

The rows of a group are adjacent. Floats are added in their order, as in single steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from muntin.engine.windows.compose import Combine, Line, Parts


class Prefixes(Line):
    """The prefixes of groups of rows, one for each row.

    ``first`` marks the first row of each group, including the very first row.
    """

    def __init__(self, first: NDArray[np.bool_]) -> None:
        self.starts = np.flatnonzero(first)
        self.lengths = np.diff(self.starts, append=len(first))
        # For each row, the first row of its group, and the distance from it.
        self.start = np.repeat(self.starts, self.lengths)
        self.ordinal = np.arange(len(first)) - self.start

    def add_integers(self, values: np.ndarray) -> np.ndarray:
        total = np.cumsum(values.astype(np.int64))
        sums: np.ndarray = total - total[self.start] + values[self.start]
        return sums

    def combine(self, parts: Sequence[np.ndarray], join: Combine) -> Parts:
        """Combine the rows of each prefix, with one join for each row of the longest group."""
        running = [np.array(part) for part in parts]
        by_ordinal = np.argsort(self.ordinal, kind="stable")
        ends = np.cumsum(np.bincount(self.ordinal))
        for begin, end in pairwise(ends):
            rows = by_ordinal[begin:end]
            joined = join([part[rows - 1] for part in running], [part[rows] for part in running])
            for target, values in zip(running, joined, strict=True):
                target[rows] = values
        return running

    def _reduce(self, values: np.ndarray, join: np.ufunc, neutral: float) -> np.ndarray:
        if len(self.starts) > int(self.lengths.max(initial=0)):
            return super()._reduce(values, join, neutral)
        reduced = np.array(values)
        for start, length in zip(self.starts, self.lengths, strict=True):
            join.accumulate(values[start : start + length], out=reduced[start : start + length])
        return reduced
