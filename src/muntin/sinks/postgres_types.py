"""Converts column types and values for PostgreSQL."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from muntin.model.axis import format_time
from muntin.sinks import plain

# PostgreSQL's text can't hold NUL, which is written as its picture. The picture itself, and that of
# ESC, are escaped by the picture of ESC, so that different texts stay different.
_ESCAPED_CHARACTERS = str.maketrans({"\x00": "␀", "␀": "␛␀", "␛": "␛␛"})

_TYPES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "smallint"),
    (pa.types.is_int16, "smallint"),
    (pa.types.is_int32, "integer"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_uint8, "smallint"),
    (pa.types.is_uint16, "integer"),
    (pa.types.is_uint32, "bigint"),
    (pa.types.is_uint64, "numeric(20, 0)"),
    (pa.types.is_float32, "real"),
    (pa.types.is_float64, "double precision"),
    (pa.types.is_null, "text"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (pa.types.is_binary, "bytea"),
    (pa.types.is_large_binary, "bytea"),
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time"),
    (pa.types.is_duration, "interval"),
)


def column_type(kind: pa.DataType) -> str:
    """Return the column type for values of an Arrow type.

    Lists of plain values are arrays; structs, maps and lists of those are ``jsonb``.

    Example:
        >>> column_type(pa.list_(pa.int64())), column_type(pa.timestamp("us", tz="UTC"))
        ('bigint[]', 'timestamp with time zone')
    """
    for fits, name in _TYPES:
        if fits(kind):
            return name
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamp with time zone"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if plain.is_list(kind) and not pa.types.is_nested(kind.value_type):
        return f"{column_type(kind.value_type)}[]"
    return "jsonb"


def to_psycopg_values(column: pa.ChunkedArray) -> list[Any]:
    """Convert a column to values for psycopg.

    The character NUL, which PostgreSQL's text can't hold, becomes ``␀``, and an existing ``␀`` or
    ``␛`` becomes ``␛␀`` or ``␛␛``. In ``jsonb``, numbers that aren't finite become
    text. Times that Python can't hold become text that PostgreSQL can read.

    Raises:
        UnicodeDecodeError: When a text isn't UTF-8.
    """
    kind = column.type
    if column_type(kind) == "jsonb":
        return [None if v is None else _to_json(v) for v in _to_python(column)]
    python_values = _to_python(column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return [v if v is None else _escape(v) for v in python_values]
    if plain.is_list(kind) and column_type(kind) == "text[]":
        return [
            v if v is None else [x if x is None else _escape(x) for x in v] for v in python_values
        ]
    return python_values


def _to_python(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError) as error:
        if isinstance(error, UnicodeError):
            raise
        return [plain.convert_leaves(cell, _convert_far_time) for cell in column]


def _convert_far_time(cell: pa.Scalar) -> Any:
    """Convert a value, times to text."""
    kind = cell.type
    if pa.types.is_timestamp(kind):
        micros, zone = plain.to_epoch_micros(cell), "" if kind.tz is None else "+00"
        return _format_era(format_time(micros), zone)
    if pa.types.is_date(kind):
        return _format_era(plain.format_date(cell))
    return cell.as_py()


def _format_era(text: str, zone: str = "") -> str:
    """Format a time for PostgreSQL, which has no year 0 and no negative years."""
    year = int(text[: text.index("-", 1)])
    rest = text[text.index("-", 1) :]
    return f"{text}{zone}" if year > 0 else f"{1 - year:04d}{rest}{zone} BC"


def _escape(text: str) -> str:
    return text if text.isascii() and "\x00" not in text else text.translate(_ESCAPED_CHARACTERS)


def _to_json(value: Any) -> str:
    return json.dumps(_to_json_value(value), ensure_ascii=False, allow_nan=False)


def _to_json_value(value: Any) -> Any:
    """Convert a value to what jsonb can hold."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {_escape(name): _to_json_value(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json_value(one) for one in value]
    return value.hex() if isinstance(value, bytes) else _escape(str(value))
