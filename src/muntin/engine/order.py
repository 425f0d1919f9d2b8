"""Packing of several integer columns into one, to sort and group several times faster."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine.dtypes import fits_in_64_bits

_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Code:
    """An encoding of several integer columns within bounds as one integer, in their order.

    ``names`` lists the most significant column first, ``spans`` the number of values in each bound.
    """

    names: tuple[str, ...]
    least: tuple[int, ...]
    spans: tuple[int, ...]

    @classmethod
    def over(cls, bounds: Mapping[str, tuple[int, int]]) -> Code | None:
        """Return the encoding of columns within bounds; ``None`` if it exceeds 63 bits."""
        least = tuple(low for low, _ in bounds.values())
        spans = tuple(high - low + 1 for low, high in bounds.values())
        fits = math.prod(spans) <= _INT64_MAX
        return cls(tuple(bounds), least, spans) if fits else None

    @property
    def size(self) -> int:
        """Number of possible codes."""
        return math.prod(self.spans)

    def expression(self, columns: Mapping[str, pl.Expr] | None = None) -> pl.Expr:
        """Return the code of each row; ``columns`` replaces columns by expressions."""
        code: pl.Expr | None = None
        for name, least, span in zip(self.names, self.least, self.spans, strict=True):
            column = (columns or {}).get(name, pl.col(name)).cast(pl.Int64)
            digit = column - least if least else column
            code = digit if code is None else code * span + digit
        assert code is not None
        return code

    def columns(self, code: str) -> list[pl.Expr]:
        """Return the columns, decoded from their code."""
        rest, decoded = pl.col(code), []
        for name, least, span in reversed(
            list(zip(self.names, self.least, self.spans, strict=True))
        ):
            decoded.append((rest % span + least).alias(name))
            rest = rest.floordiv(span)
        return decoded[::-1]


def find_code(frame: pl.DataFrame, names: Sequence[str]) -> Code | None:
    """Return the encoding of integer columns; ``None`` if some aren't, or are too wide."""
    bounds = find_bounds(frame, names)
    return None if bounds is None else Code.over(bounds)


def find_bounds(frame: pl.DataFrame, names: Sequence[str]) -> dict[str, tuple[int, int]] | None:
    """Return the bounds of integer columns; ``None`` if some aren't integers, or have nulls."""
    bounds = {}
    for name in names:
        column = frame[name]
        if not fits_in_64_bits(column.dtype) or column.null_count() or not len(column):
            return None
        bounds[name] = (int(column.min()), int(column.max()))  # type: ignore[arg-type]
    return bounds


def sort_rows(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Sort rows by some columns.

    Example:
        >>> sort_rows(pl.DataFrame({"a": [2, 1, 1], "b": [0, 5, 3]}), ["a", "b"]).rows()
        [(1, 3), (1, 5), (2, 0)]
    """
    code = find_code(frame, names)
    if code is None:
        return frame.sort(*names)
    # Frames that come from sorted ones often are sorted, and the check costs next to nothing.
    numbers = frame.select(code.expression()).to_series()
    # Gathering from one chunk is four times as fast as from many.
    return frame if numbers.is_sorted() else frame.rechunk()[numbers.arg_sort()]


def find_group_starts(frame: pl.DataFrame, names: Sequence[str]) -> NDArray[np.bool_]:
    """Return the mask of rows that differ in some columns from the row before, or are the first.

    Example:
        >>> find_group_starts(pl.DataFrame({"a": [1, 1, 2], "b": [0, 0, 0]}), ["a", "b"]).tolist()
        [True, False, True]
    """
    starts = np.zeros(len(frame), dtype=np.bool_)
    for name in names if len(frame) else ():
        column = frame[name]
        before, rest = column.head(len(column) - 1), column.tail(len(column) - 1)
        # Most columns have no nulls, and comparing them takes no plan.
        is_changed = rest.ne_missing(before) if column.null_count() else rest != before
        starts[1:] |= is_changed.to_numpy()
    starts[:1] = True
    return starts
