"""Converts Python values to typed columns; values of other types are reported as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from numbers import Integral
from typing import Any

import polars as pl

from muntin.model.axis import parse_time
from muntin.model.errors import OptionError

# The first and the last microsecond of the years 1 to 9999, the range of a datetime.
MIN_TIME, MAX_TIME = -62_135_596_800_000_000, 253_402_300_799_999_999

# Polars raises almost any exception for a value of another type.
_CONVERSION_ERRORS = (Exception, pl.exceptions.PanicException)

_NESTED = (list, tuple, dict, set, frozenset)
# The type of decimals whose number of digits isn't known, as in Spark.
_DECIMALS = pl.Decimal(38, 18)
# How deep the first value of a field, which determines its type, may be nested.
_MAX_DEPTH = 64

UnreadableCells = dict[int, list[str]]
"""The unreadable cells, as text, by row number."""


def parse_micros(time: Any) -> int | str | None:
    """Convert a time to microseconds since the epoch, or to text if it can't be read.

    Args:
        time: Microseconds, a datetime (a naive one is UTC), or ISO 8601 text.

    Returns:
        ``None`` for ``None``.

    Example:
        >>> parse_micros("1970-01-01T00:00:01"), parse_micros(5), parse_micros("soon")
        (1000000, 5, 'soon')
    """
    if time is None:
        return None
    micros: int | None = None
    if isinstance(time, datetime | str):
        try:
            micros = parse_time("time", time)
        except OptionError:
            return str(time)
    elif isinstance(time, Integral) and not isinstance(time, bool):
        micros = int(time)
    return to_text(time) if micros is None or not MIN_TIME <= micros <= MAX_TIME else micros


def parse_time_option(option: str, time: Any) -> int | None:
    """Convert a time to microseconds, as ``parse_micros``; refuse one that can't be read."""
    position = parse_micros(time)
    if isinstance(position, str):
        hint = "give microseconds since the epoch, a datetime or ISO 8601 text"
        raise OptionError(option, time, "isn't a time", hint)
    return position


def infer_time_type(time: Any) -> pl.DataType:
    """Return the column type of such times: integers, or timestamps."""
    if isinstance(time, Integral):
        return pl.Int64()
    naive = isinstance(time, datetime) and time.tzinfo is None
    return pl.Datetime("us") if naive else pl.Datetime("us", "UTC")


def infer_type(name: str, values: Sequence[Any]) -> pl.DataType:
    """Infer the type of a field from its first values.

    Raises:
        OptionError: When the values don't determine a type.

    Example:
        >>> infer_type("price", [None, 5, 2.5])
        Float64
    """
    kinds = {type(value) for value in values if value is not None}
    first = next((value for value in values if value is not None), None)
    if type(first) in (int, float) and {int, float} <= kinds:
        return pl.Float64()
    if _is_nested_deeper(first, _MAX_DEPTH):
        hint = f"give schema={{{name!r}: …}}"
        raise OptionError("schema", name, f"is nested over {_MAX_DEPTH} levels deep", hint)
    dtype = pl.Null() if first is None else _find_type(first)
    if dtype in (pl.Null, pl.Object):
        problem = "has no value yet that shows its type" if first is None else "has no known type"
        raise OptionError(
            "schema", name, problem, f"give schema={{{name!r}: float}}, or str, int …"
        )
    return dtype


def _find_type(value: Any) -> pl.DataType:
    """Return the type of a value; text that isn't UTF-8 is text, and rejected later."""
    if isinstance(value, Decimal) and fits_type(value, _DECIMALS):
        return _DECIMALS
    try:
        return pl.Series([value], strict=False).dtype
    except UnicodeEncodeError:
        return pl.String() if isinstance(value, str) else pl.Object()


def fits_type(value: Any, dtype: pl.DataType) -> bool:
    """Return whether a value has a type.

    Example:
        >>> fits_type(5, pl.Int64()), fits_type("five", pl.Int64())
        (True, False)
    """
    kind = value.__class__
    if kind is float and dtype == pl.Float64:
        return True
    if kind is int and dtype == pl.Int64:
        return bool(-(2**63) <= value < 2**63)
    if kind is str and dtype == pl.String and value.isascii():
        return True
    if isinstance(value, _NESTED) and _is_nested_deeper(value, _nesting_depth(dtype)):
        return False
    try:
        pl.Series([value], dtype=dtype, strict=True)
    except _CONVERSION_ERRORS:
        return False
    return _is_kept_whole(value, dtype)


def _is_kept_whole(value: Any, dtype: pl.DataType) -> bool:
    """Return whether nothing of a value is lost in a type that Polars converts it to.

    Polars rounds decimals, and takes a date for a time and a time for a date.
    """
    if isinstance(dtype, pl.Decimal):
        number = Decimal(repr(value)) if isinstance(value, float) else value
        return not isinstance(number, Decimal) or _count_fraction_digits(number) <= dtype.scale
    if dtype == pl.Date:
        return not isinstance(value, datetime)
    if isinstance(dtype, pl.Datetime):
        return not isinstance(value, date) or isinstance(value, datetime)
    if isinstance(dtype, pl.List | pl.Array) and isinstance(value, (list, tuple)):
        inner = pl.Series(dtype=dtype.inner).dtype
        return all(_is_kept_whole(part, inner) for part in value)
    if isinstance(dtype, pl.Struct) and isinstance(value, dict):
        fields = pl.Schema(dtype).items()
        return all(_is_kept_whole(value.get(name), kind) for name, kind in fields)
    return True


def _may_lose(dtype: pl.DataType) -> bool:
    """Return whether a conversion to a type may lose something, and each value is checked."""
    return dtype.is_decimal() or dtype.is_temporal() or dtype.is_nested()


def _count_fraction_digits(value: Decimal) -> int:
    """Return the number of digits after the point, without zeros at the end."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return 0
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    return max(0, -exponent - zeros)


def to_text(value: Any) -> str:
    """Convert a value to text, even if its ``repr`` fails.

    Example:
        >>> to_text(["a", 1])
        "['a', 1]"
    """
    try:
        return repr(value)
    except Exception as error:  # whatever a value's own repr raises
        return f"<{type(value).__name__} that has no text: {type(error).__name__}>"


def _nesting_depth(dtype: pl.DataType) -> int:
    if isinstance(dtype, pl.List | pl.Array):
        return 1 + _nesting_depth(pl.Series(dtype=dtype.inner).dtype)
    if isinstance(dtype, pl.Struct):
        return 1 + max(
            (_nesting_depth(pl.Series(dtype=f.dtype).dtype) for f in dtype.fields), default=0
        )
    if isinstance(dtype, pl.Map):
        # A dictionary, or a list of pairs.
        return 2 + _nesting_depth(pl.Series(dtype=dtype.value).dtype)
    return 0


def _is_nested_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, _NESTED):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_nested_deeper(part, levels - 1) for part in parts)


def build_column(
    name: str, values: Sequence[Any], dtype: pl.DataType, unread: UnreadableCells
) -> pl.Series:
    """Build a typed column; values of other types become null and are reported in ``unread``."""
    # A value nested deeper than the type would overflow the stack in Polars and end the process.
    kinds = set(map(type, values))
    if not any(issubclass(kind, _NESTED) for kind in kinds) and all(
        map(partial(_is_kept_whole, dtype=dtype), values if _may_lose(dtype) else ())
    ):
        with suppress(*_CONVERSION_ERRORS):
            return pl.Series(name, values, dtype=dtype, strict=True)
    readable = list(values)
    for row, value in enumerate(values):
        if not fits_type(value, dtype):
            readable[row] = None
            unread.setdefault(row, []).append(f"{name}={to_text(value)}")
    with suppress(*_CONVERSION_ERRORS):
        return pl.Series(name, readable, dtype=dtype, strict=True)
    # Values of several types, such as decimals and whole numbers, are only converted one by one.
    cells = [pl.Series(name, [value], dtype=dtype, strict=True) for value in readable]
    return pl.concat(cells)


def build_schema(types: Mapping[str, Any]) -> pl.Schema:
    """Build a schema from Python or Polars types by name.

    Raises:
        OptionError: When the types aren't a schema.

    Example:
        >>> dict(build_schema({"price": float}))
        {'price': Float64}
    """
    try:
        return pl.DataFrame(schema=dict(types)).schema
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        hint = "give a type for each name: str, int, float, bool, datetime, or a Polars type"
        raise OptionError("schema", types, "isn't a schema", hint) from error
