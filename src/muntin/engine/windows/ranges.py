"""Aggregates over arbitrary ranges of rows, of all keys at once, for sliding windows.

The rows are **cells** sorted by key, then position; a window is the rows from ``start`` up to, not
including, ``stop``. Sums of integers are prefix differences. All other partials are built from rows
combined in pairs, fours, eights and so on. A window of any length consists of at most one of each,
so that ``m`` windows over ``n`` rows cost about ``(n + m) log length`` combinations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine.windows.compose import Combine, Line, Parts

Positions = NDArray[np.int64]


class Ranges(Line):
    """Non-empty ranges of rows, from ``start`` to before ``stop``."""

    def __init__(self, start: Positions, stop: Positions) -> None:
        self.start = start
        self.stop = stop

    def add_integers(self, values: np.ndarray) -> np.ndarray:
        """Compute each range's sum by prefix differences, exact modulo 2**64."""
        total = np.zeros(len(values) + 1, dtype=np.int64)
        np.cumsum(values, out=total[1:])
        return total[self.stop] - total[self.start]

    def combine(self, parts: Sequence[np.ndarray], join: Combine) -> Parts:
        level = [np.asarray(part) for part in parts]
        position = self.start.copy()
        rest = self.stop - self.start
        combined: Parts = [np.zeros(len(position), dtype=part.dtype) for part in level]
        has_rows = np.zeros(len(position), dtype=np.bool_)
        width = 1
        while True:
            takes_block = (rest & width) > 0
            for selected, is_first in (
                (takes_block & ~has_rows, True),
                (takes_block & has_rows, False),
            ):
                rows = np.flatnonzero(selected)
                more = [part[position[rows]] for part in level]
                if not is_first:
                    more = join([part[rows] for part in combined], more)
                for target, values in zip(combined, more, strict=True):
                    target[rows] = values
            has_rows |= takes_block
            position[takes_block] += width
            if 2 * width > int(rest.max(initial=0)):
                return combined
            length = len(level[0]) - width
            level = join([part[:length] for part in level], [part[width:] for part in level])
            width *= 2

    def list_rows(self, cells: pl.DataFrame, name: str) -> pl.DataFrame:
        """Return the rows of all ranges, one range after the other, with the range's number."""
        lengths = self.stop - self.start
        number = np.repeat(np.arange(len(lengths)), lengths)
        distance = np.arange(len(number)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        rows: pl.DataFrame = cells[self.start[number] + distance]
        return rows.with_columns(pl.Series(name, number))


def search_positions(
    key: NDArray[np.int64],
    position: Positions,
    wanted: Positions,
    side: str,
    wanted_key: Positions | None = None,
) -> Positions:
    """Search positions in rows that are sorted by key and position, within the rows of a key.

    Args:
        key: The number of each row's key.
        position: The position of each row.
        wanted: The positions to search.
        side: ``left`` for the index before equal positions, ``right`` for the one after them.
        wanted_key: The keys of the wanted positions. Default: those of the rows.

    Returns:
        The index at which each wanted position would be inserted.
    """
    distinct = np.unique(position)
    ranks = np.int64(len(distinct) + 1)
    rank = np.searchsorted(distinct, position)
    limit = np.searchsorted(distinct, wanted, side=side)  # type: ignore[call-overload]
    codes = (key if wanted_key is None else wanted_key) * ranks + limit
    indices: Positions = np.searchsorted(key * ranks + rank, codes, side="left")
    return indices
