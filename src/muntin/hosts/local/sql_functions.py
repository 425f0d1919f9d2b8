"""The SQL functions that have the same meaning in Polars and in Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import polars as pl

from muntin.hosts.local.sql_values import (
    WIDE,
    Unportable,
    Value,
    choose,
    coalesce,
    compare,
    join_texts,
    make_text_value,
    require_condition,
)
from muntin.hosts.local.time_patterns import format_by_pattern, parse_formatted_times
from muntin.sources.text_values import parse_times

Function = Callable[[Sequence[Value]], Value]
_MICROS = 1_000_000
_TIMES = ("timestamp", "timestamp_ntz", "date")
# Regular expressions of dividers that mean the same in Java and Polars: one of some characters or
# a run of them.
_DIVIDERS = re.compile(r"(?:\[[^\]\[\\^&-]+\]|[^\\^$.|?*+()\[\]{}])\+|\[[^\]\[\\^&-]+\]")
_NONCHARACTER = "\uffff"


def call_function(name: str, values: Sequence[Value]) -> Value:
    """Call a function on values.

    Raises:
        Unportable: When the function isn't supported, or not for these values.
    """
    entry = FUNCTIONS.get(name.lower())
    if entry is None:
        raise Unportable(f"{name}()")
    least, most, function = entry
    if not least <= len(values) <= most:
        raise Unportable(f"{name}() of {len(values)} values")
    return function(values)


def _of_text(value: Value, name: str) -> pl.Expr:
    if value.family not in ("string", "null"):
        raise Unportable(f"{name}() of {value.family}")
    return value.cast(pl.String())


def _of_time(value: Value, name: str, families: Sequence[str]) -> pl.Expr:
    """Return a moment in UTC, or a date."""
    if value.family not in families:
        raise Unportable(f"{name}() of {value.family}")
    moment = value.expression
    return moment.dt.convert_time_zone("UTC") if value.family == "timestamp" else moment


def _texts(name: str, compute: Callable[[pl.Expr], pl.Expr]) -> Function:
    return lambda values: make_text_value(compute(_of_text(values[0], name)))


def _abs(values: Sequence[Value]) -> Value:
    (value,) = values
    if value.family == "integer":
        return replace(value, expression=value.cast(WIDE).abs(), literal=None)
    if value.family != "float":
        raise Unportable(f"abs() of {value.family}")
    return replace(value, expression=value.expression.abs())


def _if(values: Sequence[Value]) -> Value:
    holds, then, otherwise = values
    return choose([(require_condition("if", holds), then)], otherwise)


def _nullif(values: Sequence[Value]) -> Value:
    value, other = values
    equal = compare("=", value, other).expression
    chosen = pl.when(equal).then(None).otherwise(value.expression)
    return replace(value, expression=chosen, literal=None, never_zero=other.literal == 0)


def _length(values: Sequence[Value]) -> Value:
    (value,) = values
    count = _of_text(value, "length").str.len_chars()
    return Value(count.cast(pl.Int32()), pl.Int32(), "integer", 31)


def _substring(values: Sequence[Value]) -> Value:
    value, *bounds = values
    numbers = [bound.literal for bound in bounds]
    if not all(isinstance(number, int) and number >= 0 for number in numbers) or numbers[0] == 0:
        raise Unportable("substring() with bounds other than numbers from 1")
    start, length = (*numbers, None)[:2]
    assert isinstance(start, int)
    return make_text_value(_of_text(value, "substring").str.slice(start - 1, length))  # type: ignore[arg-type]


def _starts(name: str, ends: bool) -> Function:
    def function(values: Sequence[Value]) -> Value:
        whole, part = (_of_text(value, name) for value in values)
        holds = whole.str.ends_with(part) if ends else whole.str.starts_with(part)
        return Value(holds, pl.Boolean(), "boolean")

    return function


def _timestamp(name: str, per_second: int) -> Function:
    """Return a function from integers to moments; out of range they are NULL, and so rejected."""

    def function(values: Sequence[Value]) -> Value:
        (value,) = values
        if value.family != "integer":
            raise Unportable(f"{name}() of {value.family}")
        micros = value.cast(WIDE) * (_MICROS // per_second)
        moment = pl.Datetime("us", "UTC")
        return Value(micros.cast(pl.Int64(), strict=False).cast(moment), moment, "timestamp")

    return function


def _unix(name: str, per_second: int, *, floors: bool = True) -> Function:
    def function(values: Sequence[Value]) -> Value:
        (value,) = values
        if value.family != "timestamp":
            raise Unportable(f"{name}() of {value.family}")
        divisor = _MICROS // per_second
        micros = value.cast(pl.Datetime("us", "UTC")).to_physical()
        if not floors:
            # Spark rounds the fractions of a second before 1970 up in this function alone.
            micros = pl.when(micros < 0).then(micros + divisor - 1).otherwise(micros)
        return Value(micros.floordiv(divisor), pl.Int64(), "integer", 63)

    return function


def extract_part(field: str, value: Value) -> Value:
    """Return a part of a moment in UTC, or of a date, as in ``EXTRACT(field FROM value)``.

    Raises:
        Unportable: When the part isn't computed here, or the value isn't a moment.
    """
    name = _FIELDS.get(field.lower(), field.lower())
    if name not in PARTS or name == "second":
        raise Unportable(f"EXTRACT({field})")
    return FUNCTIONS[name][2]([value])


def _part(name: str, compute: Callable[[pl.Expr], pl.Expr], of_dates: bool) -> Function:
    def function(values: Sequence[Value]) -> Value:
        (value,) = values
        moment = _of_time(value, name, _TIMES if of_dates else _TIMES[:2])
        return Value(compute(moment).cast(pl.Int32()), pl.Int32(), "integer", 31)

    return function


def _to_timestamp(values: Sequence[Value]) -> Value:
    """Return the moment of a text; NULL where it isn't one, so that its message is rejected."""
    text, *patterns = values
    moment = pl.Datetime("us", "UTC")
    plain = _of_text(text, "to_timestamp")
    if patterns:
        parsed = parse_formatted_times(plain, _read_pattern("to_timestamp", patterns[0]))
        return Value(parsed.cast(moment), moment, "timestamp")
    return Value(parse_times(plain).cast(moment), moment, "timestamp")


def _read_pattern(name: str, value: Value) -> str:
    if not isinstance(value.literal, str):
        raise Unportable(f"{name}() with a pattern that isn't a text")
    return value.literal


def _date_format(values: Sequence[Value]) -> Value:
    time, pattern = values
    moment = _of_time(time, "date_format", _TIMES).cast(pl.Datetime("us"))
    return make_text_value(format_by_pattern(moment, _read_pattern("date_format", pattern)))


def _array_join(values: Sequence[Value]) -> Value:
    texts, separator = values
    if texts.dtype != pl.List(pl.String()) or not isinstance(separator.literal, str):
        raise Unportable("array_join() of other than texts and a separator")
    return make_text_value(texts.expression.list.join(separator.literal, ignore_nulls=True))


def _split(values: Sequence[Value]) -> Value:
    text, pattern = values
    dividers = pattern.literal
    if not isinstance(dividers, str) or not dividers:
        raise Unportable("split() by other than a text")
    plain = _of_text(text, "split")
    kind = pl.List(pl.String())
    if _DIVIDERS.fullmatch(dividers):
        # No text has this noncharacter, by which the places of all dividers are marked.
        plain = plain.str.replace_all(dividers, _NONCHARACTER)
        dividers = _NONCHARACTER
    elif set(dividers) & set(r"\^$.|?*+()[]{}"):
        raise Unportable(f"split() by the regular expression {dividers!r}")
    return Value(plain.str.split(dividers), kind, "other")


def _build_struct(values: Sequence[Value]) -> Value:
    names, fields = values[::2], values[1::2]
    texts = [name.literal for name in names]
    if len(names) != len(fields) or not all(isinstance(text, str) for text in texts):
        raise Unportable("named_struct() of other than names and values")
    shown = [field.finish().alias(str(text)) for text, field in zip(texts, fields, strict=True)]
    kinds = {str(text): field.dtype for text, field in zip(texts, fields, strict=True)}
    return Value(pl.struct(shown), pl.Struct(kinds), "other")


PARTS: Mapping[str, tuple[Callable[[pl.Expr], pl.Expr], bool]] = {
    "year": (lambda one: one.dt.year(), True),
    "quarter": (lambda one: one.dt.quarter(), True),
    "month": (lambda one: one.dt.month(), True),
    "weekofyear": (lambda one: one.dt.week(), True),
    "day": (lambda one: one.dt.day(), True),
    "dayofmonth": (lambda one: one.dt.day(), True),
    "dayofyear": (lambda one: one.dt.ordinal_day(), True),
    "dayofweek": (lambda one: one.dt.weekday() % 7 + 1, True),
    "weekday": (lambda one: one.dt.weekday() - 1, True),
    "hour": (lambda one: one.dt.hour(), False),
    "minute": (lambda one: one.dt.minute(), False),
    "second": (lambda one: one.dt.second(), False),
}
"""Parts of moments, and whether dates have them."""
# Names of these parts in EXTRACT.
_FIELDS = {"week": "weekofyear", "doy": "dayofyear", "dow": "dayofweek"}

FUNCTIONS: Mapping[str, tuple[int, int, Function]] = {
    **{name: (1, 1, _part(name, *entry)) for name, entry in PARTS.items()},
    "abs": (1, 1, _abs),
    "array_join": (2, 2, _array_join),
    "coalesce": (1, 99, coalesce),
    "concat": (1, 99, join_texts),
    "date_format": (2, 2, _date_format),
    "endswith": (2, 2, _starts("endswith", ends=True)),
    "if": (3, 3, _if),
    "ifnull": (2, 2, coalesce),
    "length": (1, 1, _length),
    "lower": (1, 1, _texts("lower", lambda one: one.str.to_lowercase())),
    "ltrim": (1, 1, _texts("ltrim", lambda one: one.str.strip_chars_start(" "))),
    "named_struct": (2, 999, _build_struct),
    "nullif": (2, 2, _nullif),
    "nvl": (2, 2, coalesce),
    "rtrim": (1, 1, _texts("rtrim", lambda one: one.str.strip_chars_end(" "))),
    "split": (2, 2, _split),
    "startswith": (2, 2, _starts("startswith", ends=False)),
    "substring": (2, 3, _substring),
    "timestamp_micros": (1, 1, _timestamp("timestamp_micros", _MICROS)),
    "timestamp_millis": (1, 1, _timestamp("timestamp_millis", 1000)),
    "timestamp_seconds": (1, 1, _timestamp("timestamp_seconds", 1)),
    "to_timestamp": (1, 2, _to_timestamp),
    "trim": (1, 1, _texts("trim", lambda one: one.str.strip_chars(" "))),
    "try_to_timestamp": (1, 2, _to_timestamp),
    "unix_micros": (1, 1, _unix("unix_micros", _MICROS)),
    "unix_millis": (1, 1, _unix("unix_millis", 1000)),
    "unix_seconds": (1, 1, _unix("unix_seconds", 1)),
    "unix_timestamp": (1, 1, _unix("unix_timestamp", 1, floors=False)),
    "upper": (1, 1, _texts("upper", lambda one: one.str.to_uppercase())),
}
"""Functions by name, with the smallest and the largest number of their arguments."""
