"""Windows that are any ranges of rows, of all keys at once: what sliding windows are made of.

The rows are **cells** sorted by key, then position; a window is the rows from ``start`` up to, not
including, ``stop``. Integers that add are taken by prefix differences. Everything else is built of
rows combined in pairs, fours, eights and so on: a window of any length is at most one of each, so
that ``m`` windows over ``n`` rows cost about ``(n + m) log length`` combinations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine.windows.compose import Combine, Line, Parts

Positions = NDArray[np.int64]


class Ranges(Line):
    """Ranges of rows, none empty, from ``start`` to below ``stop``."""

    def __init__(self, start: Positions, stop: Positions) -> None:
        self.start = start
        self.stop = stop

    def add_integers(self, values: np.ndarray) -> np.ndarray:
        """Sums by prefix differences; see ``Line``."""
        total = np.zeros(len(values) + 1, dtype=np.int64)
        np.cumsum(values, out=total[1:])
        return total[self.stop] - total[self.start]

    def combine(self, parts: Sequence[np.ndarray], join: Combine) -> Parts:
        level = [np.asarray(part) for part in parts]
        place = self.start.copy()
        rest = self.stop - self.start
        found: Parts = [np.zeros(len(place), dtype=part.dtype) for part in level]
        begun = np.zeros(len(place), dtype=np.bool_)
        width = 1
        while True:
            taken = (rest & width) > 0
            for where, fresh in ((taken & ~begun, True), (taken & begun, False)):
                rows = np.flatnonzero(where)
                more = [part[place[rows]] for part in level]
                if not fresh:
                    more = join([part[rows] for part in found], more)
                for target, values in zip(found, more, strict=True):
                    target[rows] = values
            begun |= taken
            place[taken] += width
            if 2 * width > int(rest.max(initial=0)):
                return found
            length = len(level[0]) - width
            level = join([part[:length] for part in level], [part[width:] for part in level])
            width *= 2

    def repeated(self, cells: pl.DataFrame, name: str) -> pl.DataFrame:
        """Each range's rows, one after the other, with the number of the range."""
        lengths = self.stop - self.start
        number = np.repeat(np.arange(len(lengths)), lengths)
        ahead = np.arange(len(number)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        rows: pl.DataFrame = cells[self.start[number] + ahead]
        return rows.with_columns(pl.Series(name, number))


def reach(
    key: NDArray[np.int64],
    place: Positions,
    wanted: Positions,
    side: str,
    of: Positions | None = None,
) -> Positions:
    """Where, in rows sorted by key and place, each wanted place of a key would stand.

    That is before equal places (``left``) or behind them (``right``), within the rows of the key or
    just behind them. The keys of the wanted places are ``of``, or those of the rows in their order.
    """
    there = np.unique(place)
    span = np.int64(len(there) + 1)
    rank = np.searchsorted(there, place)
    limit = np.searchsorted(there, wanted, side=side)  # type: ignore[call-overload]
    codes = (key if of is None else of) * span + limit
    found: Positions = np.searchsorted(key * span + rank, codes, side="left")
    return found
