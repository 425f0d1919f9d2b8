"""Values of any column as plain ones: those that Python can't hold as well.

Python's times end with the year 9999 and begin with the year 1, its text is UTF-8. Spark's times
reach from the year -290308 to 294247, and its text is whatever bytes were cast to it.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pyarrow as pa

from muntin.model.axis import DAY, MICROSECOND, SECOND, moment

_A_UNIT = {"s": SECOND, "ms": SECOND // 1000, "us": MICROSECOND}


def values(column: pa.ChunkedArray, time: Callable[[int], Any] | None = None) -> list[Any]:
    """A column's values as Python's, and as of ``as_json`` where Python can't hold one of them.

    Args:
        column: The column.
        time: What makes something else of a time's microseconds then.
    """
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [_plain(cell, time) for cell in column]


def as_json(table: pa.Table) -> list[str]:
    """Rows as JSON objects, in ASCII; columns of one name stay apart.

    Times are ISO text, bytes base64, numbers that are none (``NaN``, ``Infinity``) text, maps
    lists of pairs; bytes that aren't text are escaped as Python does it (``surrogateescape``).

    Example:
        >>> as_json(pa.table({"at": pa.array([2**62], pa.timestamp("us")), "x": [math.inf]}))
        ['{"at": "148108-07-06T14:00:27.387904", "x": "Infinity"}']
    """
    names = apart(table.column_names)
    rows = ([_plain(cell) for cell in row] for row in zip(*table.columns, strict=True))
    return [json.dumps(dict(zip(names, row, strict=True)), allow_nan=False) for row in rows]


def apart(names: Iterable[str]) -> list[str]:
    """Names of which none is twice.

    Example:
        >>> apart(["a", "b", "a"])
        ['a', 'b', 'a_2']
    """
    found: list[str] = []
    for name in names:
        n, free = 2, name
        while free in found:
            n, free = n + 1, f"{name}_{n}"
        found.append(free)
    return found


def parts(cell: pa.Scalar, leaf: Callable[[pa.Scalar], Any]) -> Any:
    """A value of which everything that has no parts, and isn't null, is what a function makes."""
    kind = cell.type
    if not cell.is_valid:
        return None
    if pa.types.is_struct(kind):
        names = apart(field.name for field in kind)
        return {name: parts(cell[i], leaf) for i, name in enumerate(names)}
    if pa.types.is_map(kind):
        return [[parts(pair[0], leaf), parts(pair[1], leaf)] for pair in cell.values]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [parts(one, leaf) for one in cell.values]
    return leaf(cell)


def _plain(cell: pa.Scalar, time: Callable[[int], Any] | None = None) -> Any:
    return parts(cell, partial(_leaf, time=time))


def _leaf(cell: pa.Scalar, time: Callable[[int], Any] | None) -> Any:
    kind = cell.type
    if pa.types.is_timestamp(kind):
        at = position(cell)
        zone = "" if kind.tz is None else "Z"
        return moment(at, "T") + zone if time is None else time(at)
    if pa.types.is_date(kind):
        return day(cell)
    if pa.types.is_duration(kind):
        return cell.value * _A_UNIT[kind.unit]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return cell.as_buffer().to_pybytes().decode("utf-8", "surrogateescape")
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return base64.b64encode(cell.as_buffer()).decode()
    if pa.types.is_floating(kind):
        return _number(cell.as_py())
    found = cell.as_py()
    return found if isinstance(found, bool | int) else str(found)


def position(cell: pa.TimestampScalar) -> int:
    """A time's microseconds since the epoch."""
    return int(cell.value * _A_UNIT[cell.type.unit])


def day(cell: pa.Scalar) -> str:
    """A date as text, whatever its year.

    Example:
        >>> day(pa.scalar(20_454_000, pa.date32()))
        '57971-02-25'
    """
    days = cell.value if pa.types.is_date32(cell.type) else cell.value // (DAY // 1000)
    return moment(days * DAY).partition(" ")[0]


def _number(value: float) -> Any:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
