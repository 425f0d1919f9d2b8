"""Converts values of any column to plain ones, including those that Python can't hold.

Python's times are in the years 1 to 9999, and its text is UTF-8. Spark's times are in the years
-290308 to 294247, and its text may be any bytes that were cast to it.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pyarrow as pa

from muntin.model.axis import DAY, MICROSECOND, SECOND, format_time

_UNIT_MICROS = {"s": SECOND, "ms": SECOND // 1000, "us": MICROSECOND}
_SECOND_NANOS = 10**9


def to_plain_values(column: pa.ChunkedArray, time: Callable[[int], Any] | None = None) -> list[Any]:
    """Convert a column to Python values; those that Python can't hold are as in ``as_json``.

    Args:
        column: The column.
        time: Converts the microseconds of a time that Python can't hold; by default to ISO text.
    """
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [_to_plain(cell, time) for cell in column]


def list_plain_rows(
    table: pa.Table,
    time: Callable[[int], Any] = format_time,
    convert: Callable[[Any], Any] = lambda value: value,
) -> list[dict[str, Any]]:
    """Return the rows of a table as values by column, each converted after `to_plain_values`."""
    columns = [map(convert, to_plain_values(column, time)) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def format_json_rows(table: pa.Table) -> list[str]:
    """Format rows as JSON objects, in ASCII; columns with the same name get different ones.

    Times are ISO text, bytes base64, ``NaN`` and infinities text, maps
    lists of pairs; bytes that aren't UTF-8 are escaped as in Python (``surrogateescape``).

    Example:
        >>> times = pa.array([2**62], pa.timestamp("us"))
        >>> format_json_rows(pa.table({"at": times, "x": [math.inf]}))
        ['{"at": "148108-07-06T14:00:27.387904", "x": "Infinity"}']
    """
    names = make_unique(table.column_names)
    rows = ([_to_plain(cell) for cell in row] for row in zip(*table.columns, strict=True))
    return [json.dumps(dict(zip(names, row, strict=True)), allow_nan=False) for row in rows]


def make_unique(names: Iterable[str]) -> list[str]:
    """Return the names, with numbers appended to repeated ones.

    Example:
        >>> make_unique(["a", "b", "a"])
        ['a', 'b', 'a_2']
    """
    unique: list[str] = []
    for name in names:
        n, free = 2, name
        while free in unique:
            n, free = n + 1, f"{name}_{n}"
        unique.append(free)
    return unique


def convert_leaves(cell: pa.Scalar, leaf: Callable[[pa.Scalar], Any]) -> Any:
    """Convert a value with a function for its leaves: values without parts that aren't null."""
    kind = cell.type
    if not cell.is_valid:
        return None
    if pa.types.is_struct(kind):
        names = make_unique(field.name for field in kind)
        return {name: convert_leaves(cell[i], leaf) for i, name in enumerate(names)}
    if pa.types.is_map(kind):
        return [
            [convert_leaves(pair[0], leaf), convert_leaves(pair[1], leaf)] for pair in cell.values
        ]
    if is_list(kind):
        return [convert_leaves(one, leaf) for one in cell.values]
    return leaf(cell)


def _to_plain(cell: pa.Scalar, time: Callable[[int], Any] | None = None) -> Any:
    return convert_leaves(cell, partial(_convert_leaf, time=time))


def _convert_leaf(cell: pa.Scalar, time: Callable[[int], Any] | None) -> Any:
    kind = cell.type
    if pa.types.is_timestamp(kind):
        if time is not None:
            return time(to_epoch_micros(cell))
        return _format_instant(cell) + ("" if kind.tz is None else "Z")
    if pa.types.is_date(kind):
        return format_date(cell)
    if pa.types.is_duration(kind):
        return _count_micros(cell)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return cell.as_buffer().to_pybytes().decode("utf-8", "surrogateescape")
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return base64.b64encode(cell.as_buffer()).decode()
    if pa.types.is_floating(kind):
        return _convert_float(cell.as_py())
    value = cell.as_py()
    return value if isinstance(value, bool | int) else str(value)


def to_epoch_micros(cell: pa.TimestampScalar) -> int:
    """Return a time in whole microseconds since the epoch."""
    if cell.type.unit == "ns":
        return int(cell.value // 1000)
    return int(cell.value * _UNIT_MICROS[cell.type.unit])


def _count_micros(cell: pa.DurationScalar) -> float:
    """Return a length in microseconds, which has a fraction only if the length has nanoseconds."""
    if cell.type.unit != "ns":
        return int(cell.value * _UNIT_MICROS[cell.type.unit])
    return cell.value / 1000 if cell.value % 1000 else int(cell.value // 1000)


def _format_instant(cell: pa.TimestampScalar) -> str:
    """Format a time as ISO text, with all of its digits."""
    micros = to_epoch_micros(cell)
    if cell.type.unit != "ns" or not cell.value % 1000:
        return format_time(micros, "T")
    fraction = f"{cell.value % _SECOND_NANOS:09d}"
    return f"{format_time(micros // SECOND * SECOND, 'T')}.{fraction}"


def is_list(kind: pa.DataType) -> bool:
    """Return whether a type is one of lists, of any length or of one.

    Example:
        >>> is_list(pa.list_(pa.int8())), is_list(pa.list_(pa.int8(), 2)), is_list(pa.int8())
        (True, True, False)
    """
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(fits(kind) for fits in tests)


def format_date(cell: pa.Scalar) -> str:
    """Format a date of any year as text.

    Example:
        >>> format_date(pa.scalar(20_454_000, pa.date32()))
        '57971-02-25'
    """
    days = cell.value if pa.types.is_date32(cell.type) else cell.value // (DAY // 1000)
    return format_time(days * DAY).partition(" ")[0]


def _convert_float(value: float) -> Any:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
