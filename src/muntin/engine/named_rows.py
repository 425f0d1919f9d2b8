"""Rows of a frame as Python's values, whatever times they have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

# Python's times begin with the year 1 and end with 9999.
_UNHELD = (OverflowError, ValueError)
_AT_ONCE = 512


def named_rows(frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """The rows as dictionaries; times that Python can't hold are text.

    Example:
        >>> list(named_rows(pl.DataFrame({"at": pl.Series([0, 2**60]).cast(pl.Datetime("us"))})))
        [{'at': datetime.datetime(1970, 1, 1, 0, 0)}, {'at': '+38504-08-17 21:30:06.846976'}]
    """
    for start in range(0, len(frame), _AT_ONCE):
        part = frame.slice(start, _AT_ONCE)
        try:
            rows = part.rows(named=True)
        except _UNHELD:
            columns = [_listed(column) for column in part]
            cells = zip(*columns, strict=True)
            rows = [dict(zip(part.columns, row, strict=True)) for row in cells]
        yield from rows


def _listed(column: pl.Series) -> list[Any]:
    try:
        return column.to_list()
    except _UNHELD:
        found: list[Any] = []
    for row in range(len(column)):
        one = column.slice(row, 1)
        try:
            found += one.to_list()
        except _UNHELD:
            found += one.cast(_as_text(column.dtype)).to_list()
    return found


def _as_text(dtype: Any) -> Any:
    """A type with text in place of times, however deep."""
    if isinstance(dtype, pl.List):
        return pl.List(_as_text(dtype.inner))
    if isinstance(dtype, pl.Struct):
        return pl.Struct({field.name: _as_text(field.dtype) for field in dtype.fields})
    return pl.String() if isinstance(dtype, pl.Datetime | pl.Date) else dtype
