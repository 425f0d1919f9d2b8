"""Running aggregates of groups of rows: what a window holds after each of its messages.

Rows of one group lie one behind the other. Floats are added in their order, as single steps would.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from muntin.engine.windows.compose import Combine, Line, Parts


class Prefixes(Line):
    """The rows of each group from its first one up to each.

    Groups begin where ``first`` says so; the very first row does.
    """

    def __init__(self, first: NDArray[np.bool_]) -> None:
        self.starts = np.flatnonzero(first)
        self.lengths = np.diff(self.starts, append=len(first))
        # For each row the first of its group, and how many stand between.
        self.start = np.repeat(self.starts, self.lengths)
        self.ordinal = np.arange(len(first)) - self.start

    def add_integers(self, values: np.ndarray) -> np.ndarray:
        total = np.cumsum(values.astype(np.int64))
        found: np.ndarray = total - total[self.start] + values[self.start]
        return found

    def combine(self, parts: Sequence[np.ndarray], join: Combine) -> Parts:
        """See ``Line``; as many joins as the longest group has rows."""
        found = [np.array(part) for part in parts]
        by_ordinal = np.argsort(self.ordinal, kind="stable")
        ends = np.cumsum(np.bincount(self.ordinal))
        for begin, end in pairwise(ends):
            rows = by_ordinal[begin:end]
            joined = join([part[rows - 1] for part in found], [part[rows] for part in found])
            for target, values in zip(found, joined, strict=True):
                target[rows] = values
        return found

    def _reduce(self, values: np.ndarray, join: np.ufunc, neutral: float) -> np.ndarray:
        if len(self.starts) > int(self.lengths.max(initial=0)):
            return super()._reduce(values, join, neutral)
        found = np.array(values)
        for start, length in zip(self.starts, self.lengths, strict=True):
            join.accumulate(values[start : start + length], out=found[start : start + length])
        return found
