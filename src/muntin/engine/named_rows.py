"""Rows of a frame as Python's values, whatever times they have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

# Python's times begin with the year 1 and end with 9999; of the very last ones Polars panics.
UNHELD = (OverflowError, ValueError, pl.exceptions.PanicException)
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
        except UNHELD:
            columns = [_shown(column) for column in part]
            cells = zip(*columns, strict=True)
            rows = [dict(zip(part.columns, row, strict=True)) for row in cells]
        yield from rows


def listed(column: pl.Series) -> tuple[list[Any], dict[int, str]]:
    """A column's values, ``None`` in place of those that Python can't hold, and why, by row.

    Example:
        >>> listed(pl.Series([0, 2**62]).cast(pl.Datetime))
        ([datetime.datetime(1970, 1, 1, 0, 0), None], {1: 'year 148108 is out of range'})
    """
    try:
        return column.to_list(), {}
    except UNHELD:
        pass
    values: list[Any] = []
    wrong: dict[int, str] = {}
    for row in range(len(column)):
        try:
            values += column.slice(row, 1).to_list()
        except UNHELD as error:
            values.append(None)
            wrong[row] = str(error)
    return values, wrong


def _shown(column: pl.Series) -> list[Any]:
    values, wrong = listed(column)
    for row in wrong:
        (values[row],) = _texts(column.slice(row, 1))
    return values


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
