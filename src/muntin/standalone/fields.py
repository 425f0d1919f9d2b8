"""Python values to typed columns; what doesn't fit is set aside as text, never guessed at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from numbers import Integral
from typing import Any

import polars as pl

from muntin.model.axis import instant
from muntin.model.errors import OptionError

# The first and the last microsecond of the years 1 to 9999, which is what a datetime can hold.
LEAST, GREATEST = -62_135_596_800_000_000, 253_402_300_799_999_999

# What Polars raises at a value that isn't of the type: nearly anything.
_UNFIT = (Exception, pl.exceptions.PanicException)

_NESTED = (list, tuple, dict, set, frozenset)
# How deep the first value of a field may be nested, which its type is taken from.
_DEEPEST = 64

Unread = dict[int, list[str]]
"""The cells of a row that couldn't be read, as text."""


def micros_of(time: Any) -> int | str | None:
    """A time in microseconds since the epoch; as text where it can't be read, ``None`` is none.

    Args:
        time: Microseconds, a datetime (a naive one is UTC), or ISO 8601 text.

    Example:
        >>> micros_of("1970-01-01T00:00:01"), micros_of(5), micros_of("soon"), micros_of(None)
        (1000000, 5, 'soon', None)
    """
    if time is None:
        return None
    found: int | None = None
    if isinstance(time, datetime | str):
        try:
            found = instant("time", time)
        except OptionError:
            return str(time)
    elif isinstance(time, Integral) and not isinstance(time, bool):
        found = int(time)
    return text_of(time) if found is None or not LEAST <= found <= GREATEST else found


def type_of_time(time: Any) -> pl.DataType:
    """The type of a column of such times: whole microseconds, or timestamps."""
    if isinstance(time, Integral):
        return pl.Int64()
    naive = isinstance(time, datetime) and time.tzinfo is None
    return pl.Datetime("us") if naive else pl.Datetime("us", "UTC")


def type_of(name: str, values: Sequence[Any]) -> pl.DataType:
    """The type of a field, out of its first values.

    Example:
        >>> type_of("price", [None, 5, 2.5])
        Float64
    """
    kinds = {type(value) for value in values if value is not None}
    first = next((value for value in values if value is not None), None)
    if type(first) in (int, float) and {int, float} <= kinds:
        return pl.Float64()
    if _deeper(first, _DEEPEST):
        hint = f"give schema={{{name!r}: …}}"
        raise OptionError("schema", name, f"is nested over {_DEEPEST} levels deep", hint)
    dtype = pl.Null() if first is None else pl.Series([first], strict=False).dtype
    if dtype in (pl.Null, pl.Object):
        problem = "has no value yet that shows its type" if first is None else "has no known type"
        raise OptionError(
            "schema", name, problem, f"give schema={{{name!r}: float}}, or str, int …"
        )
    return dtype


def fits(value: Any, dtype: pl.DataType) -> bool:
    """Whether a value is one of a type.

    Example:
        >>> fits(5, pl.Int64()), fits("five", pl.Int64())
        (True, False)
    """
    kind = value.__class__
    if kind is float and dtype == pl.Float64:
        return True
    if kind is int and dtype == pl.Int64:
        return bool(-(2**63) <= value < 2**63)
    if kind is str and dtype == pl.String and value.isascii():
        return True
    if isinstance(value, _NESTED) and _deeper(value, _levels(dtype)):
        return False
    try:
        pl.Series([value], dtype=dtype, strict=True)
    except _UNFIT:
        return False
    return True


def text_of(value: Any) -> str:
    """A value as text, also one that is nested deeper than Python can show.

    Example:
        >>> text_of(["a", 1])
        "['a', 1]"
    """
    try:
        return repr(value)
    except Exception as error:  # whatever a value's own repr raises
        return f"<{type(value).__name__} that has no text: {type(error).__name__}>"


def _levels(dtype: pl.DataType) -> int:
    """How deep the values of a type are nested."""
    if isinstance(dtype, pl.List | pl.Array):
        return 1 + _levels(pl.Series(dtype=dtype.inner).dtype)
    if isinstance(dtype, pl.Struct):
        return 1 + max((_levels(pl.Series(dtype=f.dtype).dtype) for f in dtype.fields), default=0)
    if isinstance(dtype, pl.Map):
        # A dictionary, or a list of pairs.
        return 2 + _levels(pl.Series(dtype=dtype.value).dtype)
    return 0


def _deeper(value: Any, levels: int) -> bool:
    """Whether a value is nested deeper than so many levels."""
    if not isinstance(value, _NESTED):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper(part, levels - 1) for part in parts)


def column(name: str, values: Sequence[Any], dtype: pl.DataType, unread: Unread) -> pl.Series:
    """A typed column; what doesn't fit is null, and noted."""
    # What is nested deeper than the type would take Polars' stack, and with it the process.
    if not any(issubclass(kind, _NESTED) for kind in set(map(type, values))):
        with suppress(*_UNFIT):
            return pl.Series(name, values, dtype=dtype, strict=True)
    kept = list(values)
    for row, value in enumerate(values):
        if not fits(value, dtype):
            kept[row] = None
            unread.setdefault(row, []).append(f"{name}={text_of(value)}")
    return pl.Series(name, kept, dtype=dtype, strict=True)


def times(name: str, values: Sequence[int | str | None], unread: Unread) -> pl.Series:
    """Times in microseconds; text is what couldn't be read, and is noted."""
    kept = list(values)
    for row, value in enumerate(values):
        if isinstance(value, str):
            kept[row] = None
            unread.setdefault(row, []).append(f"{name}={text_of(value)}")
    return pl.Series(name, kept, dtype=pl.Int64)


def schema_of(given: Mapping[str, Any]) -> pl.Schema:
    """A schema out of Python or Polars types by name.

    Example:
        >>> dict(schema_of({"price": float}))
        {'price': Float64}
    """
    try:
        return pl.DataFrame(schema=dict(given)).schema
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        hint = "give a type for each name: str, int, float, bool, datetime, or a Polars type"
        raise OptionError("schema", given, "isn't a schema", hint) from error
