"""Lengths of windows: ``INTERVAL '10' MINUTE``, ``10 MINUTES``, ``'10 minutes'``, ``3 ROWS``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from sqlglot.tokens import TokenType

from muntin.model import axis
from muntin.model.errors import OptionError
from muntin.model.months import count_months
from muntin.sql.cursor import Cursor, Span

INTERVAL_HINT = "write for example INTERVAL '10' MINUTE, 10 MINUTES or 3 ROWS"
# Units of one or two letters, as in 10 m, might be names of columns.
_UNITS = {unit.upper(): size for unit, size in axis.UNITS.items() if len(unit) > 2}
_ROWS = ("ROW", "ROWS")
_CALENDAR = ("MONTH", "QUARTER", "YEAR")
# The fields of INTERVAL '1 02:30:00' DAY TO SECOND, of which the first and the last are named.
_FIELDS = ("DAY", "HOUR", "MINUTE", "SECOND")
_MAX_MICROSECONDS = 2**62


@dataclass(frozen=True, slots=True)
class Interval:
    """A length and its span in the text.

    Attributes:
        value: Microseconds, or a number of rows or of calendar months.
        axis: Axis of the length; ``number`` if it has no unit.
        span: Span of the length.
    """

    value: int
    axis: Literal["time", "rows", "months", "number"]
    span: Span


def starts_interval(cursor: Cursor) -> bool:
    """Return whether a length comes next."""
    if cursor.word in ("INTERVAL", "ROWS") or cursor.sees_kind(TokenType.STRING):
        return True
    unit = cursor.second
    measured = _find_unit(unit) is not None or unit in _ROWS or unit.removesuffix("S") in _CALENDAR
    return cursor.sees_kind(TokenType.NUMBER) and measured


def parse_interval(cursor: Cursor, *, months: bool = False) -> Interval:
    """Read a length; one in calendar months only if ``months``."""
    start = cursor.here
    if cursor.word in _ROWS:
        cursor.takes(cursor.word)
        return Interval(_parse_row_count(cursor), "rows", cursor.since(start))
    said = cursor.takes("INTERVAL")
    if not (cursor.sees_kind(TokenType.NUMBER) or cursor.sees_kind(TokenType.STRING)):
        cursor.fail(None, f"{cursor.shown} isn't a length", INTERVAL_HINT)
    if cursor.sees_kind(TokenType.NUMBER) and cursor.second in _ROWS and not said:
        count = _parse_row_count(cursor)
        cursor.takes(cursor.word)
        return Interval(count, "rows", cursor.since(start))
    written = _parse_calendar_interval(cursor) if months else None
    if written is not None:
        return Interval(written, "months", cursor.since(start))
    total, bare = 0, False
    while cursor.sees_kind(TokenType.NUMBER) or cursor.sees_kind(TokenType.STRING):
        value, bare = _parse_part(cursor, start)
        total += value
        if bare:
            break
        cursor.takes("INTERVAL") if said else None
    if total > _MAX_MICROSECONDS:
        cursor.fail(cursor.since(start), "this is longer than 100 000 years", "give less")
    return Interval(total, "number" if bare else "time", cursor.since(start))


def parse_duration(cursor: Cursor, hint: str, what: str = "this") -> Interval:
    """Read a length of time; refuse any other."""
    found = parse_interval(cursor)
    if found.axis != "time":
        cursor.fail(found.span, f"{what} isn't a duration", hint)
    return found


def _parse_calendar_interval(cursor: Cursor) -> int | None:
    """Read ``'1' MONTH`` or ``'1 month'``, if that comes next."""
    text = cursor.filled(cursor._curr.text, cursor.next_span).strip()
    if cursor.sees_kind(TokenType.STRING) and count_months(text):
        cursor.takes_kind(TokenType.STRING)
        return count_months(text)
    unit = cursor.second
    if not text.isdigit() or unit.removesuffix("S") not in _CALENDAR:
        return None
    _ = cursor.takes_kind(TokenType.STRING) or cursor.takes_kind(TokenType.NUMBER)
    cursor.takes(unit)
    return count_months(f"{text} {unit}")


def parse_time_of_day(cursor: Cursor) -> Interval:
    """Read ``TIME '0:12:30'``, by which windows are shifted in Calcite."""
    start = cursor.here
    cursor.takes("TIME")
    text, span = cursor.text("a time")
    parts = text.split(":")
    if not 2 <= len(parts) <= 3 or not all(part.isdigit() and len(part) < 3 for part in parts):
        cursor.fail(span, f"{text!r} isn't a time of a day", "write TIME '0:12'")
    units = (axis.HOUR, axis.MINUTE, axis.SECOND)
    value = sum(int(part) * unit for part, unit in zip(parts, units, strict=False))
    return Interval(value, "time", cursor.since(start))


def _parse_row_count(cursor: Cursor) -> int:
    token = cursor.takes_kind(TokenType.NUMBER)
    if token is None or not token.text.isdigit() or not 0 < int(token.text) < _MAX_MICROSECONDS:
        cursor.fail(token, "a number of rows is 1 or more", "write for example 3 ROWS")
    return int(token.text)


def _parse_part(cursor: Cursor, start: int) -> tuple[int, bool]:
    """Read a number with its unit; return the length, and whether the unit is missing."""
    quoted = cursor.sees_kind(TokenType.STRING)
    token = cursor.takes_kind(TokenType.STRING) or cursor.takes_kind(TokenType.NUMBER)
    assert token is not None
    text = cursor.filled(token.text, (token.start, token.end + 1)).strip()
    unit = cursor.word
    if _find_unit(unit) or unit.removesuffix("S") in _CALENDAR:
        cursor.takes(unit)
        if cursor.takes("TO"):
            return _parse_day_to_second(cursor, text, unit, start), False
        if unit.removesuffix("S") in _CALENDAR:
            hint = "give days or less; whole local days take a time zone"
            cursor.fail(cursor.since(start), f"{unit.lower()} has no fixed length", hint)
        return _to_microseconds(cursor, text, unit, cursor.since(start)), False
    if quoted:
        try:
            return axis.micros("length", text), False
        except (OptionError, OverflowError, ValueError):
            cursor.fail(cursor.since(start), f"{text!r} isn't a length", INTERVAL_HINT)
    if not text.isdigit() or int(text) > _MAX_MICROSECONDS:
        cursor.fail(cursor.since(start), f"{text} isn't a length", INTERVAL_HINT)
    return int(text), True


def _to_microseconds(cursor: Cursor, text: str, unit: str, span: Span) -> int:
    factor = _find_unit(unit)
    if not re.fullmatch(r"\d{1,18}(\.\d{1,9})?", text):
        cursor.fail(span, f"{text!r} is no number of {unit.lower()}", INTERVAL_HINT)
    found = Decimal(text) * (factor or 1)
    if found != int(found):
        cursor.fail(
            span, f"{text} {unit.lower()} isn't a whole number of microseconds", INTERVAL_HINT
        )
    return int(found)


def _parse_day_to_second(cursor: Cursor, text: str, unit: str, start: int) -> int:
    """Read the unit of ``'1 02:30:00' DAY TO SECOND``, and return the length in microseconds."""
    last, first = cursor.word.removesuffix("S"), unit.removesuffix("S")
    hint = "write for example INTERVAL '1:30' HOUR TO MINUTE"
    if first not in _FIELDS or last not in _FIELDS or _FIELDS.index(first) >= _FIELDS.index(last):
        cursor.fail(None, f"{first.lower()} to {last.lower() or 'nothing'} isn't a length", hint)
    cursor.takes(cursor.word)
    names = _FIELDS[_FIELDS.index(first) : _FIELDS.index(last) + 1]
    parts = re.split(r"[ :]", text)
    span = cursor.since(start)
    if len(parts) != len(names):
        cursor.fail(span, f"{text!r} doesn't have {len(names)} parts", hint)
    return sum(
        _to_microseconds(cursor, p, name, span) for p, name in zip(parts, names, strict=True)
    )


def _find_unit(word: str) -> int | None:
    return _UNITS.get(word) or _UNITS.get(word.removesuffix("S"))
