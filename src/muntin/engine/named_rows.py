"""Conversion of frames to Python values, including times that Python can't hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

# Python's times are within the years 1 to 9999; for the greatest times Polars panics.
UNHELD = (OverflowError, ValueError, pl.exceptions.PanicException)
_AT_ONCE = 512


def named_rows(frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows as dictionaries, with text for times that Python can't hold.

    Times some 250 000 years away, which Polars can't format either, are numbers in text.

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
    """Return a column's values, ``None`` for those that Python can't hold, and their errors by row.

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
    """Replace times by another type, at any depth of a nested type."""
    if isinstance(dtype, pl.List):
        return pl.List(_with_times(dtype.inner, time))
    if isinstance(dtype, pl.Struct):
        fields = {field.name: _with_times(field.dtype, time) for field in dtype.fields}
        return pl.Struct(fields)
    return time if isinstance(dtype, pl.Datetime | pl.Date) else dtype
