"""What columns are in PostgreSQL, and how their values get there."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa

_NUL = "\x00"
# PostgreSQL's text holds every character but this one; its picture stands for it.
_NUL_SHOWN = "␀"

_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "smallint"),
    (pa.types.is_int16, "smallint"),
    (pa.types.is_int32, "integer"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_float32, "real"),
    (pa.types.is_float64, "double precision"),
    (pa.types.is_null, "text"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (pa.types.is_binary, "bytea"),
    (pa.types.is_large_binary, "bytea"),
    (pa.types.is_date, "date"),
    (pa.types.is_duration, "interval"),
)


def column_type(kind: pa.DataType) -> str:
    """The type of a column that holds values of an Arrow type.

    Lists of plain values are arrays; structs, maps and lists of those are ``jsonb``.

    Example:
        >>> column_type(pa.list_(pa.int64())), column_type(pa.timestamp("us", tz="UTC"))
        ('bigint[]', 'timestamp with time zone')
    """
    for fits, name in _PLAIN:
        if fits(kind):
            return name
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamp with time zone"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if _is_list(kind) and not _is_nested(kind.value_type):
        return f"{column_type(kind.value_type)}[]"
    return "jsonb"


def values(column: pa.ChunkedArray) -> list[Any]:
    """A column's values as psycopg takes them.

    The character NUL, which PostgreSQL's text can't hold, becomes ``␀``. Within ``jsonb``, which
    holds finite numbers only, the others are text.
    """
    kind = column.type
    if column_type(kind) == "jsonb":
        return [None if v is None else _json(v) for v in column.to_pylist()]
    found = column.to_pylist()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return [v if v is None else _shown(v) for v in found]
    if _is_list(kind) and column_type(kind) == "text[]":
        return [v if v is None else [x if x is None else _shown(x) for x in v] for v in found]
    return found


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def _is_nested(kind: pa.DataType) -> bool:
    return pa.types.is_nested(kind)


def _shown(text: str) -> str:
    return text.replace(_NUL, _NUL_SHOWN) if _NUL in text else text


def _json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """A value as jsonb can hold it."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {_shown(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value.hex() if isinstance(value, bytes) else _shown(str(value))
