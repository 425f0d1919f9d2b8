"""SQL functions of times that have the same meaning in Polars and in Spark.

Parts and days of a moment with a zone are those of UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from muntin.hosts.local.sql_text_functions import read_literal, read_text
from muntin.hosts.local.sql_values import WIDE, Arity, Unportable, Value, make_text_value
from muntin.hosts.local.time_patterns import format_by_pattern, parse_formatted_times
from muntin.model.axis import SECOND
from muntin.sources.text_values import parse_times

_TIMES = ("timestamp", "timestamp_ntz", "date")
_MOMENT = pl.Datetime("us", "UTC")
# Units of date_trunc, as Polars names them.
_TRUNCATED = {
    "microsecond": "1us", "millisecond": "1ms", "second": "1s", "minute": "1m", "hour": "1h",
    "day": "1d", "dd": "1d", "week": "1w", "month": "1mo", "mon": "1mo", "mm": "1mo",
    "quarter": "1q", "year": "1y", "yyyy": "1y", "yy": "1y",
}  # fmt: skip


def _read_time(value: Value, name: str, families: Sequence[str]) -> pl.Expr:
    """Return a moment in UTC, or a date."""
    if value.family == "string":
        raise Unportable(f"{name}() of a text (here {name}() of to_timestamp(x) is taken)")
    if value.family not in families:
        raise Unportable(f"{name}() of {value.family}")
    moment = value.expression
    return moment.dt.convert_time_zone("UTC") if value.family == "timestamp" else moment


def _read_day(value: Value, name: str) -> pl.Expr:
    moment = _read_time(value, name, _TIMES)
    return moment if value.family == "date" else moment.cast(pl.Datetime("us")).dt.date()


def _count_to_moment(value: Value, name: str, per_second: int) -> pl.Expr:
    """Return the moment of a number of units since 1970; out of range it is NULL."""
    if value.family != "integer":
        raise Unportable(f"{name}() of {value.family}")
    micros = value.cast(WIDE) * (SECOND // per_second)
    return micros.cast(pl.Int64(), strict=False).cast(_MOMENT)


def _timestamp(name: str, per_second: int) -> Arity:
    """Return a function from integers to moments; a message whose moment is NULL is rejected."""

    def function(values: Sequence[Value]) -> Value:
        return Value(_count_to_moment(values[0], name, per_second), _MOMENT, "timestamp")

    return 1, 1, function


def _unix(name: str, per_second: int, *, floors: bool = True) -> Arity:
    def function(values: Sequence[Value]) -> Value:
        (value,) = values
        if value.family != "timestamp":
            raise Unportable(f"{name}() of {value.family}")
        divisor = SECOND // per_second
        micros = value.cast(_MOMENT).to_physical()
        if not floors:
            # Spark rounds the fractions of a second before 1970 up in this function alone.
            micros = pl.when(micros < 0).then(micros + divisor - 1).otherwise(micros)
        return Value(micros.floordiv(divisor), pl.Int64(), "integer", 63)

    return 1, 1, function


def extract_part(field: str, value: Value) -> Value:
    """Return a part of a moment in UTC, or of a date, as in ``EXTRACT(field FROM value)``.

    Raises:
        Unportable: When the part isn't computed here, or the value isn't a moment.
    """
    name = _FIELDS.get(field.lower(), field.lower())
    if name not in PARTS or name == "second":
        raise Unportable(f"EXTRACT({field})")
    return TIME_FUNCTIONS[name][2]([value])


def _part(name: str, compute: Callable[[pl.Expr], pl.Expr], of_dates: bool) -> Arity:
    def function(values: Sequence[Value]) -> Value:
        (value,) = values
        moment = _read_time(value, name, _TIMES if of_dates else _TIMES[:2])
        return Value(compute(moment).cast(pl.Int32()), pl.Int32(), "integer", 31)

    return 1, 1, function


def _date_part(values: Sequence[Value]) -> Value:
    return extract_part(read_literal(values[0], "date_part", "part"), values[1])


def _to_timestamp(values: Sequence[Value]) -> Value:
    """Return the moment of a text; NULL where it isn't one, so that its message is rejected."""
    text, *patterns = values
    plain = read_text(text, "to_timestamp")
    if patterns:
        pattern = read_literal(patterns[0], "to_timestamp", "pattern")
        return Value(parse_formatted_times(plain, pattern).cast(_MOMENT), _MOMENT, "timestamp")
    return Value(parse_times(plain).cast(_MOMENT), _MOMENT, "timestamp")


def _date_format(values: Sequence[Value]) -> Value:
    time, pattern = values
    moment = _read_time(time, "date_format", _TIMES).cast(pl.Datetime("us"))
    return make_text_value(
        format_by_pattern(moment, read_literal(pattern, "date_format", "pattern"))
    )


def _date_trunc(values: Sequence[Value]) -> Value:
    unit, time = values
    length = _TRUNCATED.get(read_literal(unit, "date_trunc", "unit").lower())
    if length is None or time.family != "timestamp":
        raise Unportable(f"date_trunc() by {unit.literal!r} of {time.family}")
    moment = _read_time(time, "date_trunc", ("timestamp",))
    return Value(moment.dt.truncate(length).cast(_MOMENT), _MOMENT, "timestamp")


def _to_date(name: str) -> Arity:
    return 1, 1, lambda values: Value(_read_day(values[0], name), pl.Date(), "date")


def _last_day(values: Sequence[Value]) -> Value:
    return Value(_read_day(values[0], "last_day").dt.month_end(), pl.Date(), "date")


def _datediff(values: Sequence[Value]) -> Value:
    end, start = (_read_day(value, "datediff") for value in values)
    days = end.to_physical().cast(pl.Int32()) - start.to_physical().cast(pl.Int32())
    return Value(days, pl.Int32(), "integer", 31)


def _date_add(name: str, sign: int) -> Arity:
    """Return a function that moves a date by a number of days."""

    def function(values: Sequence[Value]) -> Value:
        day, days = values
        if not isinstance(days.literal, int) or abs(days.literal) > 3_650_000:
            raise Unportable(f"{name}() of other than a number of days")
        moved = _read_day(day, name) + pl.duration(days=sign * days.literal)
        return Value(moved, pl.Date(), "date")

    return 2, 2, function


def _from_unixtime(values: Sequence[Value]) -> Value:
    seconds, *patterns = values
    moment = _count_to_moment(seconds, "from_unixtime", 1).cast(pl.Datetime("us"))
    pattern = "yyyy-MM-dd HH:mm:ss"
    if patterns:
        pattern = read_literal(patterns[0], "from_unixtime", "pattern")
    return make_text_value(format_by_pattern(moment, pattern))


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

TIME_FUNCTIONS: Mapping[str, Arity] = {
    **{name: _part(name, *entry) for name, entry in PARTS.items()},
    "date": _to_date("date"),
    "date_add": _date_add("date_add", 1),
    "date_format": (2, 2, _date_format),
    "date_part": (2, 2, _date_part),
    "date_sub": _date_add("date_sub", -1),
    "date_trunc": (2, 2, _date_trunc),
    "datediff": (2, 2, _datediff),
    "from_unixtime": (1, 2, _from_unixtime),
    "last_day": (1, 1, _last_day),
    "timestamp_micros": _timestamp("timestamp_micros", SECOND),
    "timestamp_millis": _timestamp("timestamp_millis", 1000),
    "timestamp_seconds": _timestamp("timestamp_seconds", 1),
    "to_date": _to_date("to_date"),
    "to_timestamp": (1, 2, _to_timestamp),
    "try_to_timestamp": (1, 2, _to_timestamp),
    "unix_micros": _unix("unix_micros", SECOND),
    "unix_millis": _unix("unix_millis", 1000),
    "unix_seconds": _unix("unix_seconds", 1),
    "unix_timestamp": _unix("unix_timestamp", 1, floors=False),
}
"""Functions of times by name, with the smallest and the largest number of their arguments."""
