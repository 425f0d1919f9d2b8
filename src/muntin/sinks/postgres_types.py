"""What columns are in PostgreSQL, and how their values get there."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from muntin.model.axis import moment
from muntin.sinks import plain

# PostgreSQL's text holds every character but NUL; its picture stands for it. Where the picture
# itself was meant, that of ESC is before it, and before itself: two texts never become one.
_SHOWN = str.maketrans({"\x00": "␀", "␀": "␛␀", "␛": "␛␛"})

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
    if _is_list(kind) and not pa.types.is_nested(kind.value_type):
        return f"{column_type(kind.value_type)}[]"
    return "jsonb"


def values(column: pa.ChunkedArray) -> list[Any]:
    """A column's values as psycopg takes them.

    The character NUL, which PostgreSQL's text can't hold, becomes ``␀``, and a ``␀`` or ``␛`` that
    is there becomes ``␛␀`` or ``␛␛``. Within ``jsonb``, which holds finite numbers only, the others
    are text. Times that Python can't hold are text, as PostgreSQL reads it.

    Raises:
        UnicodeDecodeError: When a text isn't UTF-8.
    """
    kind = column.type
    if column_type(kind) == "jsonb":
        return [None if v is None else _json(v) for v in _python(column)]
    found = _python(column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return [v if v is None else _shown(v) for v in found]
    if _is_list(kind) and column_type(kind) == "text[]":
        return [v if v is None else [x if x is None else _shown(x) for x in v] for v in found]
    return found


def _python(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError) as error:
        if isinstance(error, UnicodeError):
            raise
        return [plain.parts(cell, _far) for cell in column]


def _far(cell: pa.Scalar) -> Any:
    """A value that is text where it is a time."""
    kind = cell.type
    if pa.types.is_timestamp(kind):
        at, zone = plain.position(cell), "" if kind.tz is None else "+00"
        return _dated(moment(at), zone)
    if pa.types.is_date(kind):
        return _dated(plain.day(cell))
    return cell.as_py()


def _dated(text: str, zone: str = "") -> str:
    """A time as PostgreSQL reads it, which has no year 0 and no years below."""
    year = int(text[: text.index("-", 1)])
    rest = text[text.index("-", 1) :]
    return f"{text}{zone}" if year > 0 else f"{1 - year:04d}{rest}{zone} BC"


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _shown(text: str) -> str:
    return text if text.isascii() and "\x00" not in text else text.translate(_SHOWN)


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
