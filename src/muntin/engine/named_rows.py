"""Rows of a frame as Python's values, whatever times they have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

# Python's times begin with the year 1 and end with 9999; of the very last ones Polars panics.
_UNHELD = (OverflowError, ValueError, pl.exceptions.PanicException)
_AT_ONCE = 512


def named_rows(frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """The rows as dictionaries; times that Python can't hold are text.

    Times some 250 000 years away, which Polars can't write either, are their number in text.

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
            found += _texts(one)
    return found


def _texts(column: pl.Series) -> list[Any]:
    text = _with_times(column.dtype, pl.String())
    try:
        return column.cast(text).to_list()
    except pl.exceptions.PanicException:
        return column.cast(_with_times(column.dtype, pl.Int64())).cast(text).to_list()


def _with_times(dtype: Any, time: Any) -> Any:
    """A type with another in place of times, however deep."""
    if isinstance(dtype, pl.List):
        return pl.List(_with_times(dtype.inner, time))
    if isinstance(dtype, pl.Struct):
        fields = {field.name: _with_times(field.dtype, time) for field in dtype.fields}
        return pl.Struct(fields)
    return time if isinstance(dtype, pl.Datetime | pl.Date) else dtype
