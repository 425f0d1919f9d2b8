"""Reads messages that are written alike: with the same values in the same order.

The messages of one producer mostly differ in their values alone. The bytes between the values come
from one of the messages, and are compared for all messages at once; the values are read in the same
way. A value of another form, as bad messages have it, is read up to its end and judged by its text.
Messages that are written in another way are tried with a pattern of their own, and what a few
patterns don't cover is left to another reader.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from muntin.engine.session_zone import SessionZone
from muntin.engine.utf8 import Mask
from muntin.sources.byte_values import Bytes, ByteValues, Integers
from muntin.sources.payloads import Decoded, Faults, no_faults
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

ValueKind = Literal["text", "field", "time", "whole", "real", "decimal", "boolean", "any"]


class Member(NamedTuple):
    """A value of a message.

    Attributes:
        before: Bytes between the value before and this one.
        name: The value's column, or another name.
        kind: How the value is written; a ``whole`` number has no fraction, a ``real`` one may have
            one. A ``text`` ends at a quote, and a ``field`` at a comma; an empty field is null. An
            ``any`` value is judged by its text.
        quote: The quote around the value, if it has one.
        form: A time with zeros for its digits, without its zone.
        zone: The zone of a time.
    """

    before: bytes
    name: str
    kind: ValueKind
    quote: bytes = b""
    form: bytes = b""
    zone: bytes = b""


class Pattern(NamedTuple):
    """Values in the order in which they are written, and the bytes after the last one."""

    members: tuple[Member, ...]
    close: bytes


class Judged(NamedTuple):
    """Values of another form than their pattern's, by their texts.

    Attributes:
        broken: Which values make their message none of its format.
        wrong: Which values aren't of the type in which their column is read.
        unsure: Which values only another reader can read.
        texts: The values to convert to their column's type; null for others.
    """

    broken: Mask
    wrong: Mask
    unsure: Mask
    texts: pl.Series


class Format(NamedTuple):
    """The form in which the messages of a format are written.

    Attributes:
        find_pattern: Returns the pattern of a message of some columns; ``None`` if it has none.
        judge: Judges values of another form by the numbers of their members and the types of the
            members' columns; ``None`` for a member of no column.
        ends: Two bytes before which a value without quotes ends.
        leaves: The first bytes of values of a kind that only another reader can read.
        most: A message with more values of another form is left to another reader.
        nests: Whether a value may be in brackets.
    """

    find_pattern: Callable[[bytes, Mapping[str, pl.DataType]], Pattern | None]
    judge: Callable[[ByteValues, Integers, Sequence[pl.DataType | None]], Judged]
    ends: bytes
    leaves: Mapping[ValueKind, bytes]
    most: int
    nests: bool = False


_KINDS: tuple[tuple[ValueKind, tuple[type[pl.DataType], ...]], ...] = (
    ("whole", WHOLE), ("real", REAL), ("decimal", (pl.Decimal,)), ("boolean", (pl.Boolean,)),
)  # fmt: skip
# The types whose values are written without quotes in every format.
BARE = tuple(one for _, types in _KINDS for one in types)


class Others(NamedTuple):
    """Values that have another form than their pattern's.

    Attributes:
        members: The number of each value's member.
        rows: The positions of their messages.
        values: How they are judged.
    """

    members: Integers
    rows: Integers
    values: Judged


class Alike(NamedTuple):
    """Messages that were read by one pattern.

    Attributes:
        positions: Their positions among all messages, in order.
        rows: Numbers of 64 bits, times, booleans and texts; columns without a value are null.
        names: The names of the pattern's members.
        others: Values of another form, which are arbitrary in the rows.
    """

    positions: Integers
    rows: pl.DataFrame
    names: Sequence[str] = ()
    others: Others | None = None


class _Part(NamedTuple):
    """Messages that were tried with a pattern.

    Attributes:
        agrees: Which of them have it.
        read: The values of the members in the columns; texts are positions and sizes.
        others: The messages, positions and sizes of each member's values of another form, where
            there are any.
    """

    agrees: Mask
    read: dict[str, Any]
    others: dict[int, tuple[Integers, Integers, Integers]]


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


def find_kind(dtype: pl.DataType) -> ValueKind | None:
    """Return the kind of the numbers or booleans of a type; ``None`` for other types.

    Example:
        >>> find_kind(pl.Float64()), find_kind(pl.String())
        ('real', None)
    """
    return next((kind for kind, types in _KINDS if isinstance(dtype, types)), None)


def decode_alike(
    values: Sequence[bytes | None],
    columns: Mapping[str, pl.DataType],
    zone: SessionZone,
    form: Format,
    decode_others: Callable[[Sequence[bytes | None]], Decoded],
    recent: list[Pattern],
) -> Decoded:
    """Decode messages by their patterns, and those without one by another reader.

    ``recent`` has the pattern of the messages before, if they had one, and gets that of these.
    """
    if not isinstance(values, ByteValues) or len(values) < FEWEST:
        return decode_others(values)
    groups = [*read_alike(values, columns, form, recent)]
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
    rows, bad, faults = convert_texts(alike.rows, columns, zone)
    if alike.others is None:
        return Decoded(rows, bad, faults)
    numbers = {name: number for number, name in enumerate(columns)}
    members, at, values = alike.others
    wrong = no_faults(len(rows))
    for member in np.flatnonzero(np.bincount(members)).tolist():
        name, is_own = alike.names[member], members == member
        if name not in columns:
            continue
        _note_faults(wrong, at[is_own & values.wrong], numbers[name])
        is_own &= ~(values.wrong | values.broken)
        if is_own.any():
            texts = values.texts.filter(is_own).to_frame(name)
            converted, unlike, _ = convert_texts(texts, {name: columns[name]}, zone)
            _note_faults(faults, at[is_own][unlike.to_numpy()], numbers[name])
            rows = rows.with_columns(rows[name].scatter(at[is_own], converted[name]))
    faults = np.where(wrong >= 0, wrong, faults)
    broken = at[values.broken]
    faults[broken] = -1
    is_bad = faults >= 0
    is_bad[broken] = True
    return Decoded(rows, pl.Series(is_bad), faults)


def _note_faults(faults: Faults, rows: Integers, number: int) -> None:
    """Note that a column makes some messages malformed, unless an earlier column does."""
    before = faults[rows]
    faults[rows] = np.where(before < 0, number, np.minimum(before, number))


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
    form: Format,
    recent: list[Pattern],
) -> Iterator[Alike]:
    """Read messages by the patterns of some of them, as long as a pattern fits many.

    Args:
        values: The messages.
        columns: Names and types of the columns to return; times have microseconds.
        form: How the messages are written.
        recent: The first pattern of the messages before, which is tried first, if there is one.
    """
    left = np.arange(len(values))
    for number in range(_MOST_PATTERNS):
        if len(left) < FEWEST:
            return
        rest = values.select(left) if number else values
        read = None if number else _read_by_recent(values, recent, columns, form)
        if read is None:
            pattern = _find_common(rest, columns, form)
            if pattern is None:
                return
            read = pattern, _read_parts(rest, pattern, columns, form)
        pattern, parts = read
        if not number:
            recent[:] = [pattern]
        agrees = np.concatenate([part.agrees for part in parts])
        others = _judge_others(rest, pattern, columns, form, agrees, parts)
        rows = _make_rows(rest, pattern, columns, agrees, parts)
        names = [member.name for member in pattern.members]
        yield Alike(left[agrees], rows, names, others)
        left = left[~agrees]


def _read_by_recent(
    values: ByteValues,
    recent: list[Pattern],
    columns: Mapping[str, pl.DataType],
    form: Format,
) -> tuple[Pattern, list[_Part]] | None:
    """Read messages by a pattern, if there is one and it fits many of the first ones."""
    for pattern in recent[:1]:
        if _fits_many(values, pattern, columns, form):
            return pattern, _read_parts(values, pattern, columns, form)
        recent.clear()
    return None


def _find_common(
    values: ByteValues, columns: Mapping[str, pl.DataType], form: Format
) -> Pattern | None:
    """Return a pattern that fits many messages: the one that most of some have."""
    rows = np.linspace(0, len(values) - 1, _CANDIDATES).astype(np.int64).tolist()
    patterns = Counter(form.find_pattern(values[row] or b"", columns) for row in rows)
    del patterns[None]
    for pattern, _ in patterns.most_common(_MOST_COMMON):
        if pattern is not None and _fits_many(values, pattern, columns, form):
            return pattern
    return None


def _fits_many(
    values: ByteValues, pattern: Pattern, columns: Mapping[str, pl.DataType], form: Format
) -> bool:
    """Return whether a pattern fits many of the first messages."""
    agrees = _read_part(values[:_TRIED], pattern, columns, form).agrees
    return bool(np.count_nonzero(agrees) >= _SHARE * len(agrees))


def _judge_others(
    values: ByteValues,
    pattern: Pattern,
    columns: Mapping[str, pl.DataType],
    form: Format,
    agrees: Mask,
    parts: Sequence[_Part],
) -> Others | None:
    """Judge the values of other forms; messages with an unsure one don't agree any more."""
    others = [
        (np.full(len(rows), member), rows + number * _AT_ONCE, starts, sizes)
        for number, part in enumerate(parts)
        for member, (rows, starts, sizes) in part.others.items()
    ]
    if not others:
        return None
    members, rows, starts, sizes = (np.concatenate(some) for some in zip(*others, strict=True))
    fits = agrees[rows]
    members, rows, starts, sizes = (some[fits] for some in (members, rows, starts, sizes))
    types = [columns.get(member.name) for member in pattern.members]
    judged = form.judge(ByteValues(values.data, starts, sizes), members, types)
    agrees[rows[judged.unsure]] = False
    fits = agrees[rows]
    if not fits.all():
        members, rows = members[fits], rows[fits]
        broken, wrong, unsure, texts = judged
        judged = Judged(broken[fits], wrong[fits], unsure[fits], texts.filter(fits))
    return Others(members, (np.cumsum(agrees) - 1)[rows], judged)


def _read_parts(
    values: ByteValues, pattern: Pattern, columns: Mapping[str, pl.DataType], form: Format
) -> list[_Part]:
    """Read messages by a pattern, part by part."""
    firsts = range(0, len(values), _AT_ONCE)
    return [_read_part(values[one : one + _AT_ONCE], pattern, columns, form) for one in firsts]


def _make_rows(
    values: ByteValues,
    pattern: Pattern,
    columns: Mapping[str, pl.DataType],
    agrees: Mask,
    parts: Sequence[_Part],
) -> pl.DataFrame:
    """Return a row of each message that has a pattern."""
    kinds = {member.name: member.kind for member in pattern.members}
    rows = pl.DataFrame({
        name: _make_column(values, agrees, [part.read[name] for part in parts], kinds[name], dtype)
        if name in parts[0].read
        else pl.Series([None], dtype=dtype).new_from_index(0, len(values))
        for name, dtype in columns.items()
    })  # fmt: skip
    return rows if agrees.all() else rows.filter(pl.Series(agrees))


def _read_part(
    values: ByteValues, pattern: Pattern, columns: Mapping[str, pl.DataType], form: Format
) -> _Part:
    """Read messages by a pattern."""
    cursor, read, others = TextCursor(values.data, values.starts), {}, {}
    ends, counts = values.starts + values.sizes, np.zeros(len(values), np.int8)
    cursor.skip(pattern.members[0].before)
    behind = [*(member.before for member in pattern.members[1:]), pattern.close]
    for number, (member, after) in enumerate(zip(pattern.members, behind, strict=True)):
        begins, agreed = cursor.at, cursor.agrees.copy()
        cursor.skip(member.quote)
        value = _read_value(cursor, member)
        stops, reads = cursor.at, cursor.agrees.copy()
        cursor.skip(member.zone + member.quote + after)
        if number == len(behind) - 1:
            cursor.agrees &= cursor.at == ends
        agreed &= ~cursor.agrees
        if agreed.any():
            agreed &= (begins <= ends) & (counts < form.most)
            rows = np.flatnonzero(agreed & ~(reads & _find_ends(values.data, stops, form.ends)))
            others[number] = _read_others(cursor, rows, begins[rows], member, after, form)
            counts[others[number][0]] += 1
        if value is not None and member.name in columns:
            read[member.name] = _blank(value, others[number][0]) if number in others else value
    return _Part(cursor.agrees & (cursor.at == ends) & (values.sizes > 0), read, others)


def _find_ends(data: Bytes, at: Integers, ends: bytes) -> Mask:
    """Return at which positions a value ends as it should, so that what follows is another."""
    following = data[np.minimum(at, len(data) - 1)]
    return (following == ord('"')) | (following == ends[0]) | (following == ends[1])


def _read_others(
    cursor: TextCursor,
    rows: Integers,
    begins: Integers,
    member: Member,
    after: bytes,
    form: Format,
) -> tuple[Integers, Integers, Integers]:
    """Read values that aren't of their member's kind, and the bytes after them.

    Returns the messages that have such a value, its position and its size.
    """
    leaves = form.leaves.get(member.kind)
    if leaves:
        is_tried = ~np.isin(cursor.data[begins], np.frombuffer(leaves, np.uint8))
        rows, begins = rows[is_tried], begins[is_tried]
    if not len(rows):
        return rows, rows, rows
    part = TextCursor(cursor.data, begins)
    sizes = part.read_any(form.ends, nests=form.nests)
    part.skip(after)
    rows, begins, sizes, ends = (one[part.agrees] for one in (rows, begins, sizes, part.at))
    cursor.resume(rows, ends)
    return rows, begins, sizes


def _blank(value: Any, rows: Integers) -> Any:
    """Return a member's values with zeros, or nulls for texts, in place of some."""
    if isinstance(value, tuple):
        value[1][rows] = -1
    else:
        value[rows] = 0
    return value


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
        case "real":
            return cursor.read_real()
        case "decimal":
            starts = cursor.at
            cursor.read_real()
            return starts, cursor.at - starts
        case "boolean":
            return cursor.read_boolean()
        case "any":
            cursor.agrees[:] = False
            return None


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
