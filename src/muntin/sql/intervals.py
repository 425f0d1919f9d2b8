"""Parses intervals: ``INTERVAL '10' MINUTE``, ``10 MINUTES``, ``'10 minutes'``, ``3 ROWS``."""

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
# Units of one or two letters, such as 10 m, could be names of columns.
_UNITS = {unit.upper(): size for unit, size in axis.UNITS.items() if len(unit) > 2}
_NUMBER_OR_STRING = (TokenType.NUMBER, TokenType.STRING)
_ROWS = ("ROW", "ROWS")
_CALENDAR = ("MONTH", "QUARTER", "YEAR")
# The fields from the first to the last one in INTERVAL '1 02:30:00' DAY TO SECOND.
_FIELDS = ("DAY", "HOUR", "MINUTE", "SECOND")
_MAX_MICROSECONDS = 2**62


@dataclass(frozen=True, slots=True)
class Interval:
    """A length of time, or a number of rows or months.

    Attributes:
        value: Microseconds, or a number of rows or of calendar months.
        axis: Axis that it is measured on; ``number`` if it has no unit.
    """

    value: int
    axis: Literal["time", "rows", "months", "number"]
    span: Span


def starts_interval(cursor: Cursor) -> bool:
    """Return whether an interval comes next."""
    if cursor.next_word in ("INTERVAL", "ROWS") or cursor.peek_kind(TokenType.STRING):
        return True
    unit = cursor.second_word
    measured = _find_unit(unit) is not None or unit in _ROWS or unit.removesuffix("S") in _CALENDAR
    return cursor.peek_kind(TokenType.NUMBER) and measured


def parse_interval(cursor: Cursor, *, months: bool = False, signed: bool = False) -> Interval:
    """Parse an interval, also of calendar ``months``, or ``signed``: ``INTERVAL '-8' HOUR``."""
    start = cursor.position
    if cursor.next_word in _ROWS:
        cursor.accept(cursor.next_word)
        return Interval(_parse_row_count(cursor), "rows", cursor.span_from(start))
    has_interval_word = cursor.accept("INTERVAL")
    sign = -1 if signed and cursor.accept_kind(TokenType.DASH) else 1
    if not (cursor.peek_kind(*_NUMBER_OR_STRING)):
        cursor.fail(None, f"{cursor.next_text} isn't a length", INTERVAL_HINT)
    if cursor.peek_kind(TokenType.NUMBER) and cursor.second_word in _ROWS and not has_interval_word:
        count = _parse_row_count(cursor)
        cursor.accept(cursor.next_word)
        return Interval(count, "rows", cursor.span_from(start))
    month_count = _parse_calendar_interval(cursor) if months else None
    if month_count is not None:
        return Interval(month_count, "months", cursor.span_from(start))
    total, has_no_unit = 0, False
    while cursor.peek_kind(*_NUMBER_OR_STRING):
        value, has_no_unit = _parse_part(cursor, start, signed=signed)
        total += sign * value
        if has_no_unit:
            break
        if has_interval_word:
            cursor.accept("INTERVAL")
    if abs(total) > _MAX_MICROSECONDS:
        cursor.fail(
            cursor.span_from(start), "this is longer than 100 000 years", "write a shorter one"
        )
    return Interval(total, "number" if has_no_unit else "time", cursor.span_from(start))


def parse_time_interval(cursor: Cursor, hint: str, subject: str = "this") -> Interval:
    """Parse an interval of time; refuse any other."""
    interval = parse_interval(cursor)
    if interval.axis != "time":
        cursor.fail(interval.span, f"{subject} isn't a duration", hint)
    return interval


def _parse_calendar_interval(cursor: Cursor) -> int | None:
    """Parse ``'1' MONTH`` or ``'1 month'``, if it comes next; return the number of months."""
    token = cursor.token_at(0)
    assert token is not None
    text = cursor.fill_placeholders(token.text, cursor.next_span).strip()
    if cursor.peek_kind(TokenType.STRING) and count_months(text):
        cursor.accept_kind(TokenType.STRING)
        return count_months(text)
    unit = cursor.second_word
    if not text.isdigit() or unit.removesuffix("S") not in _CALENDAR:
        return None
    cursor.skip(2)
    return count_months(f"{text} {unit}")


def parse_time_of_day(cursor: Cursor) -> Interval:
    """Parse ``TIME '0:12:30'``, Calcite's offset of windows."""
    start = cursor.position
    cursor.accept("TIME")
    text, span = cursor.parse_string("a time")
    parts = text.split(":")
    if not 2 <= len(parts) <= 3 or not all(part.isdigit() and len(part) < 3 for part in parts):
        cursor.fail(span, f"{text!r} isn't a time of a day", "write TIME '0:12'")
    units = (axis.HOUR, axis.MINUTE, axis.SECOND)
    value = sum(int(part) * unit for part, unit in zip(parts, units, strict=False))
    return Interval(value, "time", cursor.span_from(start))


def _parse_row_count(cursor: Cursor) -> int:
    token = cursor.accept_kind(TokenType.NUMBER)
    if token is None or not token.text.isdigit() or not int(token.text):
        cursor.fail(token, "a number of rows is 1 or more", "write for example 3 ROWS")
    try:
        return axis.rows(int(token.text)).count
    except OptionError as error:
        cursor.fail(token, f"a number of rows {error.problem}", error.hint)


def _parse_part(cursor: Cursor, start: int, *, signed: bool) -> tuple[int, bool]:
    """Parse a number with its unit; return microseconds, and whether the unit is missing."""
    is_quoted = cursor.peek_kind(TokenType.STRING)
    token = cursor.accept_kind(*_NUMBER_OR_STRING)
    assert token is not None
    text = cursor.fill_placeholders(token.text, (token.start, token.end + 1)).strip()
    sign = -1 if signed and is_quoted and text.startswith("-") else 1
    text = text[1:].lstrip() if sign < 0 else text
    unit = cursor.next_word
    if _find_unit(unit) or unit.removesuffix("S") in _CALENDAR:
        cursor.accept(unit)
        if cursor.accept("TO"):
            return sign * _parse_day_to_second(cursor, text, unit, start), False
        if unit.removesuffix("S") in _CALENDAR:
            hint = "give days or less; whole local days take a time zone"
            cursor.fail(cursor.span_from(start), f"{unit.lower()} has no fixed length", hint)
        return sign * _to_microseconds(cursor, text, unit, cursor.span_from(start)), False
    if is_quoted:
        try:
            return sign * axis.parse_duration("length", text), False
        except (OptionError, OverflowError, ValueError):
            cursor.fail(cursor.span_from(start), f"{text!r} isn't a length", INTERVAL_HINT)
    if not text.isdigit() or int(text) > _MAX_MICROSECONDS:
        cursor.fail(cursor.span_from(start), f"{text} isn't a length", INTERVAL_HINT)
    return int(text), True


def _to_microseconds(cursor: Cursor, text: str, unit: str, span: Span) -> int:
    factor = _find_unit(unit)
    if not re.fullmatch(r"\d{1,18}(\.\d{1,9})?", text):
        cursor.fail(span, f"{text!r} is no number of {unit.lower()}", INTERVAL_HINT)
    microseconds = Decimal(text) * (factor or 1)
    if microseconds != int(microseconds):
        cursor.fail(
            span, f"{text} {unit.lower()} isn't a whole number of microseconds", INTERVAL_HINT
        )
    return int(microseconds)


def _parse_day_to_second(cursor: Cursor, text: str, unit: str, start: int) -> int:
    """Parse the last unit of ``'1 02:30:00' DAY TO SECOND``; return microseconds."""
    last, first = cursor.next_word.removesuffix("S"), unit.removesuffix("S")
    hint = "write for example INTERVAL '1:30' HOUR TO MINUTE"
    if first not in _FIELDS or last not in _FIELDS or _FIELDS.index(first) >= _FIELDS.index(last):
        cursor.fail(None, f"{first.lower()} to {last.lower() or 'nothing'} isn't a length", hint)
    cursor.accept(cursor.next_word)
    names = _FIELDS[_FIELDS.index(first) : _FIELDS.index(last) + 1]
    parts = re.split(r"[ :]", text)
    span = cursor.span_from(start)
    if len(parts) != len(names):
        cursor.fail(span, f"{text!r} doesn't have {len(names)} parts", hint)
    return sum(
        _to_microseconds(cursor, p, name, span) for p, name in zip(parts, names, strict=True)
    )


def _find_unit(word: str) -> int | None:
    return _UNITS.get(word) or _UNITS.get(word.removesuffix("S"))
