"""Reads messages that are written alike: with the same values in the same order.

The messages of one producer mostly differ in their values alone. The bytes between the values come
from one of the messages, and are compared for all messages at once; the values are read in the same
way. Messages that are written in another way are tried with a pattern of their own, and what a few
patterns don't cover is left to another reader.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from muntin.engine.session_zone import SessionZone
from muntin.engine.utf8 import Mask
from muntin.sources.byte_values import ByteValues, Integers
from muntin.sources.payloads import Decoded
from muntin.sources.text_cursor import TextCursor
from muntin.sources.text_values import REAL, WHOLE, convert_texts, find_order, null_malformed

# The arrays of more messages don't fit into a core's cache.
_AT_ONCE = 20_000
# The steps for fewer messages cost more than they save.
FEWEST = 1_000
# A pattern has to read two in five of the messages that are left, which the first ones show.
_TRIED, _SHARE = 500, 0.4
_MOST_PATTERNS = 4
# The patterns of so many messages are compared, and the most common ones of them are tried.
_CANDIDATES, _MOST_COMMON = 16, 2
_TIME = re.compile(
    rb"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{3}|\.[0-9]{6})?(Z?)"
)

ValueKind = Literal[
    "text", "field", "time", "whole", "long", "real", "fraction", "decimal", "boolean",
    "object",
]  # fmt: skip


class Member(NamedTuple):
    """A value of a message.

    Attributes:
        before: Bytes between the value before and this one.
        name: The value's column, or another name.
        kind: How the value is written; a ``whole`` number has no fraction, a ``long`` one exceeds
            64 bits, a ``real`` one may have a fraction, and a ``fraction`` has one. A ``text`` ends
            at a quote, and a ``field`` at a comma; an empty field is null. The members of an
            ``object`` follow it.
        form: A time with zeros for its digits, without its zone.
        after: Bytes that end the value: a zone, a quote.
        is_wrong: Whether such a value isn't one of its column's type.
    """

    before: bytes
    name: str
    kind: ValueKind
    form: bytes = b""
    after: bytes = b""
    is_wrong: bool = False


class Pattern(NamedTuple):
    """Values in the order in which they are written, and the bytes after the last one.

    Attributes:
        is_broken: Whether such a message isn't of its format.
    """

    members: tuple[Member, ...]
    close: bytes
    is_broken: bool = False

    def find_fault(self, columns: Iterable[str]) -> int | None:
        """Return the fault of all such messages; ``None`` if they may be good."""
        if self.is_broken:
            return -1
        wrong = {member.name for member in self.members if member.is_wrong}
        return next((number for number, name in enumerate(columns) if name in wrong), None)


_KINDS: tuple[tuple[ValueKind, tuple[type[pl.DataType], ...], re.Pattern[bytes]], ...] = (
    ("whole", WHOLE, re.compile(rb"-?[0-9]+")),
    ("real", REAL, re.compile(rb"-?[0-9]+(\.[0-9]+)?")),
    ("decimal", (pl.Decimal,), re.compile(rb"-?[0-9]+(\.[0-9]+)?")),
    ("boolean", (pl.Boolean,), re.compile(rb"true|false")),
)
# A whole number of fewer digits may fit into 64 bits, and one of more may not fit into 128.
LONG = 20, 38
# The types whose values are written without quotes in every format.
BARE = tuple(one for _, types, _ in _KINDS for one in types)


class Alike(NamedTuple):
    """Messages that were read by one pattern.

    Attributes:
        positions: Their positions among all messages, in order.
        rows: Numbers of 64 bits, times, booleans and texts; columns without a value are null.
        fault: The fault of all of them; ``None`` if they may be good.
    """

    positions: Integers
    rows: pl.DataFrame
    fault: int | None = None


FindPattern = Callable[[bytes, Mapping[str, pl.DataType]], Pattern | None]


def find_time_form(text: bytes, dtype: pl.DataType | None) -> tuple[bytes, bytes] | None:
    """Return the form and the zone of a time that a cursor can read; ``None`` for other texts.

    Example:
        >>> find_time_form(b"2026-01-31 10:00:00Z", pl.Datetime("us", "UTC"))
        (b'0000-00-00 00:00:00', b'Z')
    """
    time = _TIME.fullmatch(text)
    if time is None or not isinstance(dtype, pl.Datetime):
        return None
    if bool(time[1]) != bool(dtype.time_zone):
        return None
    return re.sub(rb"[0-9]", b"0", text[: time.start(1)]), time[1]


def find_kind(text: bytes, dtype: pl.DataType) -> ValueKind | None:
    """Return the kind of a number or a boolean; ``None`` if it isn't one of its column's type.

    Example:
        >>> find_kind(b"1", pl.Float64()), find_kind(b"1.5", pl.Int64())
        ('real', None)
    """
    for kind, types, values in _KINDS:
        if isinstance(dtype, types):
            return kind if values.fullmatch(text) else None
    return None


def decode_alike(
    values: Sequence[bytes | None],
    columns: Mapping[str, pl.DataType],
    zone: SessionZone,
    find_pattern: FindPattern,
    decode_others: Callable[[Sequence[bytes | None]], Decoded],
    recent: list[Pattern],
) -> Decoded:
    """Decode messages by their patterns, and those without one by another reader.

    ``recent`` has the pattern of the messages before, if they had one, and gets that of these.
    """
    if not isinstance(values, ByteValues) or len(values) < FEWEST:
        return decode_others(values)
    groups = [*read_alike(values, columns, find_pattern, recent)]
    if not groups:
        return decode_others(values)
    parts = [_convert(group, columns, zone) for group in groups]
    positions = [group.positions for group in groups]
    others = _find_others(positions, len(values))
    if len(others):
        parts.append(decode_others(values.select(others)))
        positions.append(others)
    return _unite(parts, positions)


def _convert(alike: Alike, columns: Mapping[str, pl.DataType], zone: SessionZone) -> Decoded:
    """Convert messages of a pattern to the columns' types."""
    if alike.fault is None:
        return convert_texts(alike.rows, columns, zone)
    count = len(alike.rows)
    bad = pl.repeat(True, count, dtype=pl.Boolean, eager=True)
    return Decoded(alike.rows, bad, np.full(count, alike.fault, np.int16))


def _find_others(positions: Sequence[Integers], count: int) -> Integers:
    is_other = np.ones(count, bool)
    for some in positions:
        is_other[some] = False
    return np.flatnonzero(is_other)


def _unite(parts: Sequence[Decoded], positions: Sequence[Integers]) -> Decoded:
    """Return the messages of several parts in the order of their positions."""
    if len(parts) == 1:
        rows, bad, faults = parts[0]
        return Decoded(null_malformed(rows, bad), bad, faults)
    order = find_order(positions, sum(map(len, positions)))
    bad = pl.concat([part.bad for part in parts]).gather(order)
    # The row at no position is null, as those of malformed messages have to be.
    rows = pl.concat([part.rows for part in parts], rechunk=True)
    rows = rows.select(pl.all().gather(order.set(bad, None)))
    return Decoded(rows, bad, np.concatenate([part.faults for part in parts])[order.to_numpy()])


def read_alike(
    values: ByteValues,
    columns: Mapping[str, pl.DataType],
    find_pattern: FindPattern,
    recent: list[Pattern],
) -> Iterator[Alike]:
    """Read messages by the patterns of some of them, as long as a pattern fits many.

    Args:
        values: The messages.
        columns: Names and types of the columns to return; times have microseconds.
        find_pattern: Returns how a message of the columns is written.
        recent: The first pattern of the messages before, which is tried first, if there is one.
    """
    left = np.arange(len(values))
    for number in range(_MOST_PATTERNS):
        if len(left) < FEWEST:
            return
        rest = values.select(left) if number else values
        read = None if number else _read_by_recent(values, recent, columns)
        if read is None:
            pattern = _find_common(rest, columns, find_pattern)
            if pattern is None:
                return
            read = (pattern, *_read_rows(rest, pattern, columns))
        pattern, agrees, rows = read
        if not number:
            recent[:] = [pattern]
        some = rows if agrees.all() else rows.filter(pl.Series(agrees))
        yield Alike(left[agrees], some, pattern.find_fault(columns))
        left = left[~agrees]


def _read_by_recent(
    values: ByteValues, recent: list[Pattern], columns: Mapping[str, pl.DataType]
) -> tuple[Pattern, Mask, pl.DataFrame] | None:
    """Read messages by a pattern, if there is one and most of them have it."""
    for pattern in recent[:1]:
        agrees, rows = _read_rows(values, pattern, columns)
        if np.count_nonzero(agrees) > len(agrees) // 2:
            return pattern, agrees, rows
        recent.clear()
    return None


def _find_common(
    values: ByteValues, columns: Mapping[str, pl.DataType], find_pattern: FindPattern
) -> Pattern | None:
    """Return a pattern that fits many messages: the one that most of some have."""
    rows = np.linspace(0, len(values) - 1, _CANDIDATES).astype(np.int64).tolist()
    patterns = Counter(find_pattern(values[row] or b"", columns) for row in rows)
    del patterns[None]
    for pattern, _ in patterns.most_common(_MOST_COMMON):
        if pattern is not None and _is_common(_read_part(values[:_TRIED], pattern, columns)[0]):
            return pattern
    return None


def _is_common(agrees: Mask) -> bool:
    return bool(np.count_nonzero(agrees) >= _SHARE * len(agrees))


def _read_rows(
    values: ByteValues, pattern: Pattern, columns: Mapping[str, pl.DataType]
) -> tuple[Mask, pl.DataFrame]:
    """Return which messages have a pattern, and a row of each; those of others are arbitrary."""
    read = columns if pattern.find_fault(columns) is None else {}
    parts = [
        _read_part(values[first : first + _AT_ONCE], pattern, read)
        for first in range(0, len(values), _AT_ONCE)
    ]
    agrees = np.concatenate([agrees for agrees, _ in parts])
    kinds = {member.name: member.kind for member in pattern.members}
    rows = [
        _make_column(values, agrees, [part[name] for _, part in parts], kinds[name], dtype)
        if name in parts[0][1]
        else pl.Series([None], dtype=dtype).new_from_index(0, len(values))
        for name, dtype in columns.items()
    ]
    return agrees, pl.DataFrame(dict(zip(columns, rows, strict=True)))


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
    is_whole = (cursor.at == values.starts + values.sizes) & (values.sizes > 0)
    return cursor.agrees & is_whole, read


def _read_value(cursor: TextCursor, member: Member) -> Any:
    """Read the value of a member of all messages; texts are positions and sizes."""
    match member.kind:
        case "text":
            return cursor.read_text(b'"\\')
        case "field":
            return cursor.read_text(b',"')
        case "time":
            return cursor.read_time(member.form)
        case "whole":
            return cursor.read_whole()
        case "long":
            return cursor.skip_digits(*LONG)
        case "real":
            return cursor.read_real()
        case "object":
            return None
        case "fraction":
            return cursor.skip_fraction()
        case "decimal":
            starts = cursor.at
            cursor.read_real()
            return starts, cursor.at - starts
        case "boolean":
            return cursor.read_boolean()


def _make_column(
    values: ByteValues, agrees: Mask, parts: list[Any], kind: ValueKind, dtype: pl.DataType
) -> pl.Series:
    """Join the values of a member into a column; texts and numbers keep a type of their own."""
    if not isinstance(parts[0], tuple):
        column = pl.Series(np.concatenate(parts))
        return column.cast(dtype) if kind == "time" else column
    # A message of another pattern may have been read beyond the buffer's end.
    starts, sizes = (
        np.where(agrees, np.concatenate([part[i] for part in parts]), 0) for i in range(2)
    )
    if kind == "field":
        sizes = np.where(sizes == 0, -1, sizes)
    return ByteValues(values.data, starts, sizes).to_series(text=True)
