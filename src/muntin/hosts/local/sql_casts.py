"""Casts of values between the types of SQL, where both hosts cast alike."""

from __future__ import annotations

import polars as pl

from muntin.hosts.local.sql_values import (
    Unportable,
    Value,
    format_local_time,
    make_column_value,
    make_text_value,
)

_TYPES = {
    "tinyint": pl.Int8(), "smallint": pl.Int16(), "int": pl.Int32(), "integer": pl.Int32(),
    "bigint": pl.Int64(), "long": pl.Int64(), "float": pl.Float32(), "double": pl.Float64(),
    "string": pl.String(), "boolean": pl.Boolean(), "timestamp": pl.Datetime("us", "UTC"),
    "timestamp_ntz": pl.Datetime("us"), "date": pl.Date(),
}  # fmt: skip
_INTEGERS = (pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64())
# Java removes these around the text of a number.
_BLANKS = "".join(map(chr, range(33)))
_INTEGER = r"^[+-]?[0-9]+$"
_DOUBLE = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def cast(value: Value, name: str) -> Value:
    """Cast a value. A text that isn't a number ends the query, as on Spark.

    Raises:
        Unportable: When the hosts differ, or there is no such type.
    """
    wanted = _TYPES.get(name)
    if wanted is not None and value.dtype == wanted:
        return value
    if wanted is not None and value.family == "null":
        return make_column_value(value.cast(wanted), wanted)
    if wanted is not None and value.family == "integer":
        narrow = make_column_value(value.expression, value.dtype)
        wider = make_column_value(value.finish().cast(wanted), wanted)
        if wider.bits >= narrow.bits or wanted in (pl.Float64(), pl.String()):
            return wider
    if value.family == "boolean" and wanted in _INTEGERS:
        return make_column_value(value.cast(wanted), wanted)
    if value.family == "float" and wanted in (pl.Int32(), pl.Int64()):
        # The fraction is cut off; NaN and what doesn't fit end the query, as on Spark.
        return make_column_value(value.expression.cast(wanted), wanted)
    if value.family in ("timestamp", "timestamp_ntz") and wanted == pl.Date():
        # A moment with a zone is a day of UTC here, as the parts of moments are.
        day = value.cast(pl.Datetime("us")).dt.date()
        return make_column_value(day, pl.Date())
    if value.dtype == pl.Binary() and wanted == pl.String():
        return make_text_value(value.expression.cast(pl.String(), strict=False))
    if value.family == "timestamp_ntz" and wanted == pl.String():
        return format_local_time(value)
    if value.family == "string" and wanted in (*_INTEGERS, pl.Float64()):
        return _read_number(value, wanted, strict=True)
    raise Unportable(f"CAST({value.family} AS {name.upper()})")


def try_cast(value: Value, name: str) -> Value:
    """Cast a value; a text that isn't a number is NULL.

    Raises:
        Unportable: When the hosts differ, or there is no such type.
    """
    wanted = _TYPES.get(name)
    if value.family == "string" and wanted in (*_INTEGERS, pl.Float64()):
        return _read_number(value, wanted, strict=False)
    if value.family == "float":
        raise Unportable(f"TRY_CAST({value.family} AS {name.upper()})")
    return cast(value, name)


def _read_number(value: Value, wanted: pl.DataType, *, strict: bool) -> Value:
    """Return the number that a text has, between blanks."""
    text = value.expression.str.strip_chars(_BLANKS)
    pattern = _DOUBLE if wanted == pl.Float64() else _INTEGER
    number = pl.when(text.str.contains(pattern)).then(text.str.strip_prefix("+"))
    # The cast names a text that isn't a number.
    read = number.otherwise(text if strict else None).cast(wanted, strict=strict)
    return make_column_value(read, wanted)
