"""Conversion of frames to Python values, including times that Python can't hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

# Python's times are within the years 1 to 9999; for the greatest times Polars panics.
CONVERSION_ERRORS = (OverflowError, ValueError, pl.exceptions.PanicException)
_AT_ONCE = 512


def iter_named_rows(frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows as dictionaries, with text for times that Python can't hold.

    Times some 250 000 years away, which Polars can't format either, are numbers in text.

    Example:
        >>> list(
        ...     iter_named_rows(pl.DataFrame({"at": pl.Series([0, 2**60]).cast(pl.Datetime("us"))}))
        ... )
        [{'at': datetime.datetime(1970, 1, 1, 0, 0)}, {'at': '+38504-08-17 21:30:06.846976'}]
    """
    for start in range(0, len(frame), _AT_ONCE):
        rows_at_once = frame.slice(start, _AT_ONCE)
        try:
            rows = rows_at_once.rows(named=True)
        except CONVERSION_ERRORS:
            columns = [_list_with_text(column) for column in rows_at_once]
            cells = zip(*columns, strict=True)
            rows = [dict(zip(rows_at_once.columns, row, strict=True)) for row in cells]
        yield from rows


def list_values(column: pl.Series) -> tuple[list[Any], dict[int, str]]:
    """Return a column's values, ``None`` for those that Python can't hold, and their errors by row.

    Example:
        >>> list_values(pl.Series([0, 2**62]).cast(pl.Datetime))
        ([datetime.datetime(1970, 1, 1, 0, 0), None], {1: 'year 148108 is out of range'})
    """
    try:
        return column.to_list(), {}
    except CONVERSION_ERRORS:
        pass
    values: list[Any] = []
    errors: dict[int, str] = {}
    for row in range(len(column)):
        try:
            values += column.slice(row, 1).to_list()
        except CONVERSION_ERRORS as error:
            values.append(None)
            errors[row] = str(error)
    return values, errors


def _list_with_text(column: pl.Series) -> list[Any]:
    values, errors = list_values(column)
    for row in errors:
        (values[row],) = _format_times(column.slice(row, 1))
    return values


def _format_times(column: pl.Series) -> list[Any]:
    text = _replace_times(column.dtype, pl.String())
    try:
        return column.cast(text).to_list()
    except pl.exceptions.PanicException:
        return column.cast(_replace_times(column.dtype, pl.Int64())).cast(text).to_list()


def _replace_times(dtype: Any, time: Any) -> Any:
    """Replace times by another type, at any depth of a nested type."""
    if isinstance(dtype, pl.List):
        return pl.List(_replace_times(dtype.inner, time))
    if isinstance(dtype, pl.Struct):
        fields = {field.name: _replace_times(field.dtype, time) for field in dtype.fields}
        return pl.Struct(fields)
    return time if isinstance(dtype, pl.Datetime | pl.Date) else dtype
