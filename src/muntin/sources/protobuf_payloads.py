"""Protobuf payloads as columns: each step reads one field of many messages.

The next field of all messages is read at once, whichever it is in each message. Writers send fields
in one order, so there are about as many steps as fields. Unknown fields are skipped, as in any
reader of Protobuf.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from muntin.engine.utf8 import decode_with_escapes
from muntin.sources.byte_cursor import ByteCursor, Numbers, decoded, given
from muntin.sources.byte_values import ByteValues, binary_column
from muntin.sources.lists import list_of, without_repeats
from muntin.sources.payloads import HEAD, MOST_ITEMS
from muntin.sources.protobuf_scalar import read_message
from muntin.sources.protobuf_schema import ProtoField, ProtoMessage, ProtoType
from muntin.sources.protobuf_values import (
    FIXED,
    SIZED,
    VARINT,
    bytes_of,
    narrowed,
    numbers,
    packed,
    wire_of,
)
from muntin.sources.text_values import spread

_MICROS = 1_000_000
# Times of more seconds don't fit into microseconds of 64 bits.
_SECONDS = (2**63 - 1) // _MICROS - 1


@dataclass(frozen=True)
class ProtobufPayloads:
    """Decodes messages of one type.

    Attributes:
        message: Type of the messages.
        columns: Names and types of the columns to return.
        registered: Whether each message has the prefix of a registry's serializers.
    """

    message: ProtoMessage
    columns: dict[str, pl.DataType]
    registered: bool = False

    def decode(self, values: Sequence[bytes | None]) -> tuple[pl.DataFrame, pl.Series]:
        """Decode payloads; the prefix of a registry, if expected, has to name their type."""
        messages, bad = given(values)
        skip = 0
        if self.registered:
            head = _place(self.message.place)
            bad, skip = bad | ~_headed(messages, head), HEAD + len(head)
        kind = self.message.kind
        read_one = partial(read_message, kind=kind, skip=skip)
        return decoded(messages, bad, self.columns, partial(_read, kind=kind), read_one, skip)


def _read(cursor: ByteCursor, kind: ProtoType) -> pl.DataFrame:
    """Read the messages of a cursor as columns."""
    slots = [(_Many if field.repeated else _One)(cursor, field) for field in kind.fields]
    takers = {number: slot for slot in slots for number in slot.tags}
    known = np.array(sorted(takers), np.uint64)
    going = np.flatnonzero(cursor.at < cursor.end)
    steps = 0
    while len(going := cursor.take_step(going)):
        tags = cursor.varint(going)
        for tag in np.intersect1d(tags, known):
            takers[int(tag)].take(going[tags == tag], int(tag) & 7)
        _pass_over(cursor, going, tags, ~np.isin(tags, known))
        steps += 1
        if steps == MOST_ITEMS:
            cursor.mark(going, cursor.at[going] < cursor.end[going])
        going = going[cursor.at[going] < cursor.end[going]]
    _choose([slot for slot in slots if isinstance(slot, _One) and slot.field.choice])
    return pl.DataFrame({slot.field.name: slot.column() for slot in slots})


def _pass_over(cursor: ByteCursor, going: Numbers, tags: Numbers, unknown: Numbers) -> None:
    """Skip unknown fields."""
    if not unknown.any():
        return
    rows, tags = going[unknown], tags[unknown]
    wires = tags & np.uint64(7)
    # Fields are numbered from 1 to 2^29, and groups are deprecated.
    named = (tags >= 8) & (tags < 2**32)
    cursor.mark(rows, ~named | ~np.isin(wires, [VARINT, SIZED, *FIXED]))
    cursor.varint(rows[wires == VARINT])
    bytes_of(cursor, rows[wires == SIZED])
    for wire, width in FIXED.items():
        cursor.move(rows[wires == wire], width)


class _One:
    """A field of which a message has at most one value.

    Attributes:
        last: Position after each message's value; 0 if it has none.
    """

    def __init__(self, cursor: ByteCursor, field: ProtoField) -> None:
        self.field = field
        self.last = np.zeros(len(cursor.at), np.int64)
        self.tags = {field.number << 3 | wire_of(field.kind.kind)}
        self._cursor = cursor
        self._sized = wire_of(field.kind.kind) == SIZED
        self._raw = np.zeros((2 if self._sized else 1, len(cursor.at)), np.int64)

    def take(self, rows: Numbers, wire: int) -> None:
        """Read the next value of some messages; the last one counts."""
        if self.field.kind.kind == "message":
            # The parts of a split message may have different fields. No writer splits messages.
            self._cursor.mark(rows, self.last[rows] > 0)
        cursor, kind = self._cursor, self.field.kind.kind
        found = bytes_of(cursor, rows) if self._sized else (numbers(cursor, rows, kind),)
        self._raw[:, rows] = np.stack(found)
        # The position in the message tells which value was the last.
        self.last[rows] = cursor.at[rows]

    def column(self) -> pl.Series:
        """Return the values of all messages."""
        there = self.last > 0
        if self.field.required:
            self._cursor.mark(slice(None), ~there)
        among = np.flatnonzero(there)
        found, wrong, late = _values(self._cursor, self.field.kind, self._raw[:, among])
        self._cursor.mark(among, wrong)
        self._cursor.defer(among, late)
        if len(among) < len(there):
            found = spread(found.to_frame(), among, len(there)).to_series()
        if self.field.present or self.field.default is None:
            return found
        return found.fill_null(pl.lit(self.field.default, found.dtype))


class _Many:
    """A field of which a message has any number of values."""

    def __init__(self, cursor: ByteCursor, field: ProtoField) -> None:
        self.field = field
        self._cursor = cursor
        self._wire = wire_of(field.kind.kind)
        # Numbers may also be packed, one after the other.
        self.tags = {field.number << 3 | wire for wire in (self._wire, SIZED)}
        self._owners = [np.zeros(0, np.int64)]
        self._parts = [np.zeros((2 if self._wire == SIZED else 1, 0), np.int64)]

    def take(self, rows: Numbers, wire: int) -> None:
        """Read the next value of some messages, or all values if they are packed."""
        cursor, kind = self._cursor, self.field.kind.kind
        if self._wire == SIZED:
            found = np.stack(bytes_of(cursor, rows))
        elif wire == self._wire:
            found = np.stack([numbers(cursor, rows, kind)])
        else:
            rows, values = packed(cursor, rows, kind)
            found = np.stack([values])
        self._owners.append(rows)
        self._parts.append(found)

    def column(self) -> pl.Series:
        """Return the lists of all messages."""
        owners = np.concatenate(self._owners)
        order = np.argsort(owners, kind="stable")
        found, wrong, late = _values(
            self._cursor, self.field.kind, np.concatenate(self._parts, axis=1)[:, order]
        )
        self._cursor.mark(owners[order], wrong)
        self._cursor.defer(owners[order], late)
        listed = list_of(found, np.bincount(owners, minlength=len(self._cursor.at)))
        return without_repeats(listed) if self.field.map else listed


def _choose(slots: Sequence[_One]) -> None:
    """Keep only the last value among fields of a ``oneof``, which exclude each other."""
    for slot in slots:
        for other in slots:
            if other.field.choice == slot.field.choice:
                other.last[other.last < slot.last] = 0


def _values(
    cursor: ByteCursor, kind: ProtoType, raw: Numbers
) -> tuple[pl.Series, Numbers, Numbers]:
    """Convert raw values to the type of their column.

    Returns:
        The values, which of them are invalid, and which belong to deferred messages.
    """
    none = np.zeros(raw.shape[1], bool)
    if kind.kind == "enum":
        names = dict(kind.symbols)
        found = pl.Series(raw[0]).replace_strict(
            list(names), list(names.values()), default=pl.Series(raw[0]).cast(pl.String),
            return_dtype=pl.String,
        )  # fmt: skip
        return found, none, none
    if len(raw) == 1:
        return *narrowed(raw[0], kind.kind), none
    if kind.kind == "message":
        part = cursor.within(*raw)
        values, wrong = _messages(part, kind)
        cursor.steps = part.steps
        return values, wrong, part.deferred
    found = cursor.views(*raw)
    if kind.kind == "bytes":
        return found, none, none
    texts, garbled = decode_with_escapes(found)
    return texts, garbled.to_numpy(), none


def _messages(cursor: ByteCursor, kind: ProtoType) -> tuple[pl.Series, Numbers]:
    """Read nested messages, and convert those of Google's well-known types."""
    frame = _read(cursor, kind)
    wrong = cursor.wrong()
    if kind.made == "value":
        return frame.to_series(), wrong
    if not kind.made:
        return frame.to_struct(), wrong
    seconds, nanos = (frame[name].to_numpy() for name in ("seconds", "nanos"))
    beyond = (seconds < -_SECONDS) | (seconds > _SECONDS)
    return pl.Series(np.where(beyond, 0, seconds) * _MICROS + nanos // 1000), wrong | beyond


def _place(place: Sequence[int]) -> bytes:
    """Encode the position of a message in its file, as a registry's serializers write it.

    Example:
        >>> _place([0]).hex(), _place([2, 1]).hex()
        ('00', '040402')
    """
    if list(place) == [0]:
        return b"\0"
    found = bytearray()
    for number in (len(place), *place):
        rest = number << 1
        while rest > 127:
            found.append(rest & 127 | 128)
            rest >>= 7
        found.append(rest)
    return bytes(found)


def _headed(messages: Sequence[bytes] | ByteValues, head: bytes) -> Numbers:
    """Return which messages begin with the prefix of a registry's serializers."""
    held = binary_column(messages)
    begins = held.bin.head(1).eq_missing(pl.Series([b"\0"]))
    return (begins & held.bin.slice(HEAD, len(head)).eq_missing(pl.Series([head]))).to_numpy()
