"""Reads JSON objects that are written alike: with the same members in the same order.

The messages of one producer mostly differ in their values alone. The bytes between the values come
from one of the messages, and are compared for all messages at once; the values are read in the same
way. A message that is written in another way, or has an escape, a null, a nested value or a text
beyond ASCII, is left to another reader.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from muntin.engine.utf8 import Mask
from muntin.sources.byte_values import ByteValues
from muntin.sources.text_cursor import TextCursor
from muntin.sources.text_values import REAL, WHOLE

# The arrays of more messages don't fit into a core's cache.
_AT_ONCE = 20_000
# The steps for fewer messages cost more than they save.
FEWEST = 1_000
# Up to one in eight messages may be written in another way, which the first ones show.
_TRIED, _PART = 500, 8
# A member whose name and value have no escapes and nothing beyond ASCII.
_MEMBER = re.compile(
    rb'(?P<before>[ \t\r]*(?P<mark>[{,])[ \t\r]*"(?P<name>[^"\\\x00-\x1f\x7f-\xff]*)"'
    rb"[ \t\r]*:[ \t\r]*)"
    rb'(?:"(?P<text>[^"\\\x00-\x1f\x7f-\xff]*)"|-?[0-9]+(?P<fraction>\.[0-9]+)?'
    rb"|(?P<boolean>true|false))(?=[ \t\r,}])"
)
_CLOSE = re.compile(rb"[ \t\r]*\}[ \t\r]*")
_TIME = re.compile(
    rb"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{3}|\.[0-9]{6})?(Z?)"
)
ValueKind = Literal["text", "time", "whole", "real", "boolean"]


class Member(NamedTuple):
    """A member of an object.

    Attributes:
        before: Bytes between the value before and this member's value.
        kind: How its value is written; a ``whole`` number has no fraction.
        form: A time with zeros for its digits, without its zone.
        after: Bytes that end the value: a zone, a quote.
    """

    before: bytes
    name: str
    kind: ValueKind
    form: bytes = b""
    after: bytes = b""


class Pattern(NamedTuple):
    """Members in the order in which they are written, and the bytes after the last value."""

    members: tuple[Member, ...]
    close: bytes


class Alike(NamedTuple):
    """Messages that were read by their pattern.

    Attributes:
        rows: Numbers of 64 bits, times, booleans and texts; columns that no member has are null.
        agrees: Which messages have the pattern; the rows of others are arbitrary.
    """

    rows: pl.DataFrame
    agrees: Mask


def find_pattern(message: bytes, columns: Mapping[str, pl.DataType]) -> Pattern | None:
    """Return how an object is written; ``None`` if it can't be read by a pattern.

    Example:
        >>> pattern = find_pattern(b'{"id":1,"x":"a"}', {"x": pl.String()})
        >>> [(member.before, member.kind) for member in pattern.members], pattern.close
        ([(b'{"id":', 'real'), (b',"x":"', 'text')], b'}')
    """
    members: list[Member] = []
    at = 0
    while match := _MEMBER.match(message, at):
        name = match["name"].decode()
        member = _make_member(match, name, columns.get(name))
        is_first = match["mark"] == b"{"
        if member is None or is_first == bool(members) or name in {one.name for one in members}:
            return None
        members.append(member)
        at = match.end()
    close = _CLOSE.fullmatch(message, at)
    return Pattern(tuple(members), close.group()) if members and close else None


def _make_member(match: re.Match[bytes], name: str, dtype: pl.DataType | None) -> Member | None:
    """Return a member; ``None`` if its value isn't one of its column's type."""
    before, text = match["before"], match["text"]
    if text is not None:
        time = _TIME.fullmatch(text)
        if time and isinstance(dtype, pl.Datetime) and bool(time[1]) == bool(dtype.time_zone):
            form = re.sub(rb"[0-9]", b"0", text[: time.start(1)])
            return Member(before + b'"', name, "time", form, time[1] + b'"')
        is_number = isinstance(dtype, (*WHOLE, *REAL, pl.Boolean))
        return None if is_number else Member(before + b'"', name, "text", after=b'"')
    if match["boolean"] is not None:
        is_boolean = dtype is None or isinstance(dtype, pl.Boolean)
        return Member(before, name, "boolean") if is_boolean else None
    if isinstance(dtype, WHOLE):
        return Member(before, name, "whole") if match["fraction"] is None else None
    is_real = dtype is None or isinstance(dtype, REAL)
    return Member(before, name, "real") if is_real else None


def read_alike(values: ByteValues, columns: Mapping[str, pl.DataType]) -> Alike | None:
    """Read objects by the pattern of the first one; ``None`` if there are few, or many differ.

    Args:
        values: The messages.
        columns: Names and types of the columns to return; times have microseconds.
    """
    pattern = find_pattern(values[0] or b"", columns) if len(values) >= FEWEST else None
    if pattern is None or not _is_common(_read_part(values[:_TRIED], pattern, columns)[0]):
        return None
    parts = [
        _read_part(values[first : first + _AT_ONCE], pattern, columns)
        for first in range(0, len(values), _AT_ONCE)
    ]
    agrees = np.concatenate([agrees for agrees, _ in parts])
    if not _is_common(agrees):
        return None
    read = {
        name: _make_column(values, agrees, [part[name] for _, part in parts])
        for name in parts[0][1]
    }
    rows = [
        _cast_time(read[name], dtype).alias(name)
        if name in read
        else pl.Series(name, [None], dtype).new_from_index(0, len(values))
        for name, dtype in columns.items()
    ]
    return Alike(pl.DataFrame(rows), agrees)


def _is_common(agrees: Mask) -> bool:
    return bool(np.count_nonzero(agrees) * _PART >= len(agrees) * (_PART - 1))


def _read_part(
    values: ByteValues, pattern: Pattern, columns: Mapping[str, pl.DataType]
) -> tuple[Mask, dict[str, Any]]:
    """Return which messages have a pattern, and the values of its members in the columns."""
    cursor, read = TextCursor(values.data, values.starts), {}
    for member in pattern.members:
        cursor.skip(member.before)
        value = _read_value(cursor, member)
        cursor.skip(member.after)
        if member.name in columns:
            read[member.name] = value
    cursor.skip(pattern.close)
    return cursor.agrees & (cursor.at == values.starts + values.sizes), read


def _read_value(cursor: TextCursor, member: Member) -> Any:
    """Read the value of a member of all messages; texts are positions and sizes."""
    match member.kind:
        case "text":
            return cursor.read_text()
        case "time":
            return cursor.read_time(member.form)
        case "whole":
            return cursor.read_whole()
        case "real":
            return cursor.read_real()
        case "boolean":
            return cursor.read_boolean()


def _make_column(values: ByteValues, agrees: Mask, parts: list[Any]) -> pl.Series:
    """Join the values of a member into a column."""
    if not isinstance(parts[0], tuple):
        return pl.Series(np.concatenate(parts))
    # A message of another pattern may have been read beyond the buffer's end.
    starts, sizes = (
        np.where(agrees, np.concatenate([part[i] for part in parts]), 0) for i in range(2)
    )
    return ByteValues(values.data, starts, sizes).to_series(text=True)


def _cast_time(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Return a column of microseconds as times; texts stay texts."""
    is_time = isinstance(dtype, pl.Datetime) and column.dtype == pl.Int64
    return column.cast(dtype) if is_time else column
