"""The two axes that windows are measured on: event time, and rows.

A duration is written ``"10 minutes"``, ``"1 hour 30 minutes"``, ISO 8601 ``"PT10M"``, or a
``timedelta``; inside it is an ``int`` of microseconds. A position on the time axis is microseconds
since 1970-01-01T00:00:00 UTC and may be negative.

A number of rows is written ``rows(3)``. A position on the rows axis is a source offset, or the
number of messages of its key that arrived before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, SupportsIndex

from muntin.model.errors import OptionError


@dataclass(frozen=True, slots=True)
class Rows:
    """A length on the rows axis, as ``rows`` returns it."""

    count: int

    def __str__(self) -> str:
        return f"{self.count} row{'s' if self.count != 1 else ''}"


Duration = str | timedelta
Length = Duration | Rows
Axis = Literal["time", "rows"]
Origin = str | date | int | None
"""The start of some window: a point in time, a day, or a row."""

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

# Before and after every position on an axis.
MIN_POSITION, MAX_POSITION = -(1 << 62), 1 << 62
# Greatest distance of a time from the epoch, some 73 000 years: a quarter of the range of 64 bits,
# so that the bounds of windows around it fit, too.
MAX_TIME_DISTANCE = 1 << 61
# The longest duration, microseconds.
MAX_DURATION = 1000 * 366 * DAY
# The longest length in rows; the sum of a position and some of them fits in 64 bits.
MAX_ROWS = 1 << 60
# After 400 years the calendar repeats itself.
_CYCLE = 146_097 * DAY
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = (
    (end.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
    for end in (datetime.min, datetime.max)
)

UNITS = {
    "us": MICROSECOND,
    "microsecond": MICROSECOND,
    "ms": MILLISECOND,
    "millisecond": MILLISECOND,
    "s": SECOND,
    "sec": SECOND,
    "second": SECOND,
    "m": MINUTE,
    "min": MINUTE,
    "minute": MINUTE,
    "h": HOUR,
    "hr": HOUR,
    "hour": HOUR,
    "d": DAY,
    "day": DAY,
    "w": WEEK,
    "week": WEEK,
}
_PHRASE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")
_ISO = re.compile(
    r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
# Intervals of SQL: INTERVAL '10' MINUTE, INTERVAL 10 MINUTES.
_INTERVAL = re.compile(r"\s*interval\s+'?(\d+(?:\.\d+)?)'?\s+([a-z]+)\s*")
_CALENDAR = re.compile(r"month|quarter|year")
# Polars' units of the calendar, by their sizes here.
_POLARS_CALENDAR = re.compile(r"(\d+)(mo|q|y)")
_CALENDAR_UNITS = {"mo": "month", "q": "quarter", "y": "year"}
_HINT = 'write for example "10 minutes", "1 hour 30 minutes", "PT10M", or a timedelta'
_WHOLE = "give whole microseconds"


def parse_duration(option: str, value: Duration, *, zero: bool = True) -> int:
    """Turn a duration (``"10 minutes"``, ISO 8601, or a ``timedelta``) into microseconds.

    Raises:
        OptionError: When the value is no duration, is negative, or is zero without ``zero``.

    Example:
        >>> parse_duration("size", "PT1H30M")
        5400000000
    """
    if isinstance(value, timedelta):
        result, finer = divmod(value, timedelta(microseconds=1))
        if finer:  # A length of pandas has nanoseconds as well.
            raise OptionError(option, value, "has nanoseconds", _WHOLE)
    elif isinstance(value, str):
        result = _parse_text(option, value)
    else:
        # Numbers of NumPy are numbers, too.
        is_length = isinstance(value, SupportsIndex | float) and not isinstance(value, bool)
        hint = f'write "{value} seconds"' if is_length and 0 < value < MAX_DURATION else _HINT
        raise OptionError(option, value, "isn't a duration", hint)
    if result < 0:
        raise OptionError(option, value, "is negative", "durations start at zero")
    if result == 0 and not zero:
        raise OptionError(option, value, "is zero", "give a duration greater than zero")
    check_length(option, value, result)
    return result


def _parse_text(option: str, value: str) -> int:
    """Return the microseconds of a duration in words, which are below zero if it is negative."""
    text = value.strip()
    length = _parse(value)
    if length is None:
        if _CALENDAR.search(text.lower()):
            hint = "give days or less; months and years are sizes of tumbling and hopping windows"
            raise OptionError(option, value, "has no fixed length", hint)
        if text.startswith("-") and _parse(text[1:]) is not None:
            return -1
        raise OptionError(option, value, "isn't a duration", _suggest_duration(text))
    if length == 0 and re.search("[1-9]", text):
        raise OptionError(option, value, "is less than a microsecond", _WHOLE)
    return length


def _suggest_duration(text: str) -> str:
    """Return what to write in place of a text, which may be a duration of Polars."""
    of_polars = _POLARS_CALENDAR.fullmatch(text)
    if of_polars is None:
        return _HINT
    number, unit = of_polars[1], _CALENDAR_UNITS[of_polars[2]]
    return f'write "{number} {unit}{"" if number == "1" else "s"}"'


def check_length(option: str, value: object, length: int) -> None:
    """Refuse a duration over 1000 years, with which positions would overflow."""
    if length > MAX_DURATION:
        hint = "give 1000 years or less, and check the unit"
        raise OptionError(option, str(value), "is longer than calendars are", hint)


def _parse(text: str) -> int | None:
    iso = _ISO.fullmatch(text.strip())
    if iso and any(iso.groups()):
        factors = (WEEK, DAY, HOUR, MINUTE, SECOND)
        return sum(map(_multiply, (part or "0" for part in iso.groups()), factors))
    total, position = 0, 0
    lowered = _INTERVAL.sub(r"\1 \2", text.lower())
    while position < len(lowered):
        match = _PHRASE.match(lowered, position)
        if match is None:
            return None
        unit = match.group(2)
        factor = UNITS.get(unit) or UNITS.get(unit.removesuffix("s"))
        if factor is None:
            return None
        total += _multiply(match.group(1), factor)
        position = match.end()
    return total if lowered.strip() else None


def _multiply(number: str, factor: int) -> int:
    # A number of any length, which neither int() nor float() takes.
    return round(Decimal(number) * factor)


def format_duration(duration: int) -> str:
    """Format a duration in words, for errors and ``explain``.

    Example:
        >>> format_duration(5_400_000_000)
        '1 hour 30 minutes'
    """
    parts = []
    for unit, factor in (
        ("day", DAY),
        ("hour", HOUR),
        ("minute", MINUTE),
        ("second", SECOND),
        ("millisecond", MILLISECOND),
        ("microsecond", MICROSECOND),
    ):
        count, duration = divmod(duration, factor)
        if count:
            parts.append(f"{count} {unit}{'s' if count > 1 else ''}")
    return " ".join(parts) or "0 seconds"


def rows(count: int) -> Rows:
    """Measure a length in rows, in place of a duration.

    Args:
        count: Number of rows, at least 1.

    Returns:
        The length, for windows, gaps, grace and retention that are measured in rows.

    Raises:
        OptionError: When it isn't a whole number above 0.

    Example:
        >>> str(rows(3))
        '3 rows'
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise OptionError("rows", count, "isn't a number of rows", "give rows(1) or more")
    if count > MAX_ROWS:
        raise OptionError("rows", count, "is more than a source counts", "give less")
    return Rows(count)


def parse_length(option: str, value: Length, *, zero: bool = False) -> tuple[int, Axis]:
    """Return the value of a length, and the axis that it is measured on.

    Raises:
        OptionError: When the value is no length, or is negative, or is zero without ``zero``.

    Example:
        >>> parse_length("size", "1 second"), parse_length("size", rows(3))
        ((1000000, 'time'), (3, 'rows'))
    """
    if isinstance(value, Rows):
        return value.count, "rows"
    if isinstance(value, int):
        hint = f'write "{value} seconds", or muntin.rows({value}) for messages'
        raise OptionError(option, value, "isn't a length", hint)
    return parse_duration(option, value, zero=zero), "time"


def format_length(length: int, axis: Axis) -> str:
    """Format a length in words.

    Example:
        >>> format_length(60_000_000, "time"), format_length(1, "rows")
        ('1 minute', '1 row')
    """
    return format_duration(length) if axis == "time" else str(Rows(length))


def is_representable(time: Any) -> Any:
    """Return whether the bounds of windows around a time fit into 64 bits.

    The time is a number, or a column or an expression, of which each time is judged.
    """
    return (time > -MAX_TIME_DISTANCE) & (time < MAX_TIME_DISTANCE)


def parse_time(option: str, value: str | date) -> int:
    """Turn a point in time into microseconds since the epoch; naive times and days are UTC.

    Example:
        >>> parse_time("origin", "1970-01-01T00:00:01")
        1000000
    """
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else value.isoformat())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(microseconds=1)
    except (AttributeError, TypeError, ValueError) as error:
        hint = 'write for example "2026-01-01T00:00:00" or a datetime'
        raise OptionError(option, value, "isn't a point in time", hint) from error


def read_position(option: str, value: datetime | str | int | None, axis: Axis) -> int | None:
    """Read a position on an axis: a point in time, or a row.

    Example:
        >>> (
        ...     read_position("start", "1970-01-01T00:00:01", "time"),
        ...     read_position("start", "12", "rows"),
        ... )
        (1000000, 12)
    """
    if value is None:
        return None
    if axis == "time":
        return parse_time(option, value)  # type: ignore[arg-type]
    if isinstance(value, int):
        return value
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]+", value):
        return int(value)
    raise OptionError(option, value, "isn't an offset", "give a whole number")


def format_position(position: int, axis: Axis) -> str:
    """Format a position.

    Example:
        >>> format_position(1_500_000, "time"), format_position(12, "rows")
        ('1970-01-01 00:00:01.5', 'row 12')
    """
    return format_time(position) if axis == "time" else f"row {position}"


def format_time(position: int, separator: str = " ") -> str:
    """Format a point in time in UTC, whatever its year; the years include a year 0.

    Example:
        >>> format_time(1_500_000), format_time(1_767_225_600_000_000_000)
        ('1970-01-01 00:00:01.5', '57971-02-25 00:00:00')
        >>> format_time(-63_000_000_000_000_000)
        '-0027-08-11 08:00:00'
    """
    cycles, rest = divmod(position, _CYCLE)
    in_cycle = datetime(1970, 1, 1) + timedelta(microseconds=rest)
    year = in_cycle.year + 400 * cycles
    text = f"{year:05d}" if year < 0 else f"{year:04d}"
    text += f"{in_cycle:-%m-%d}{separator}{in_cycle:%H:%M:%S}"
    return f"{text}.{in_cycle.microsecond:06d}".rstrip("0") if in_cycle.microsecond else text


def to_datetime(position: int) -> datetime:
    """Return a point in time in UTC, limited to the times that Python's ``datetime`` can hold.

    Example:
        >>> to_datetime(2**62).year, to_datetime(-(2**62)).year
        (9999, 1)
    """
    return _EPOCH + timedelta(microseconds=min(max(position, _FIRST), _LAST))
