"""Protobuf payloads as columns: each step reads one field of many messages.

The next field of all messages is read at once, whichever it is in each message. Writers send fields
in one order, so there are about as many steps as fields. Unknown fields are skipped, as in any
reader of Protobuf.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import polars as pl

from muntin.engine.utf8 import decode_text
from muntin.model.axis import SECOND
from muntin.sources.byte_cursor import ByteCursor, decode_in_batches, replace_nulls
from muntin.sources.byte_values import ByteValues, binary_column
from muntin.sources.lists import drop_repeated_keys, list_of
from muntin.sources.payloads import HEAD, MOST_ITEMS, Decoded
from muntin.sources.protobuf_scalar import MOST_SECONDS, read_message
from muntin.sources.protobuf_schema import ProtoField, ProtoMessage, ProtoType
from muntin.sources.protobuf_values import (
    FIXED,
    SIZED,
    VARINT,
    convert_numbers,
    read_bytes,
    read_numbers,
    read_packed,
    wire_of,
)
from muntin.sources.text_values import spread_rows
from muntin.sources.varints import NumberArray


@dataclass(frozen=True)
class ProtobufPayloads:
    """Decodes messages of one type.

    Attributes:
        registered: Whether each message has the prefix of a registry's serializers.
    """

    message: ProtoMessage
    columns: dict[str, pl.DataType]
    registered: bool = False

    may_have_header: ClassVar[bool] = False

    @property
    def shape(self) -> str:
        """The format of a payload, for messages."""
        return "a Protobuf message of its type"

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode payloads; the prefix of a registry, if expected, has to name their type."""
        messages, bad = replace_nulls(values)
        skip = 0
        if self.registered:
            indexes = _encode_indexes(self.message.indexes)
            bad, skip = bad | ~_find_prefixed(messages, indexes), HEAD + len(indexes)
        kind = self.message.kind
        read_one = partial(read_message, kind=kind, skip=skip)
        return decode_in_batches(
            messages, bad, self.columns, partial(_read, kind=kind), read_one, skip
        )


def _read(cursor: ByteCursor, kind: ProtoType) -> pl.DataFrame:
    fields = [
        (_RepeatedField if field.repeated else _SingleField)(cursor, field) for field in kind.fields
    ]
    fields_by_tag = {tag: (n, one) for n, one in enumerate(fields) for tag in one.tags}
    known_tags = np.array(sorted(fields_by_tag), np.uint64)
    active = np.flatnonzero(cursor.at < cursor.end)
    steps = 0
    while len(active := cursor.take_step(active)):
        tags = cursor.varint(active)
        for tag in np.intersect1d(tags, known_tags):
            cursor.field, field = fields_by_tag[int(tag)]
            field.take(active[tags == tag], int(tag) & 7)
        cursor.field = -1
        _skip_unknown(cursor, active, tags, ~np.isin(tags, known_tags))
        steps += 1
        if steps == MOST_ITEMS:
            cursor.mark(active, cursor.at[active] < cursor.end[active])
        active = active[cursor.at[active] < cursor.end[active]]
    _resolve_choices([one for one in fields if isinstance(one, _SingleField) and one.field.choice])
    columns = {}
    for cursor.field, one in enumerate(fields):
        columns[one.field.name] = one.column()
    return pl.DataFrame(columns)


def _skip_unknown(
    cursor: ByteCursor, active: NumberArray, tags: NumberArray, unknown: NumberArray
) -> None:
    if not unknown.any():
        return
    rows, tags = active[unknown], tags[unknown]
    wires = tags & np.uint64(7)
    # Fields are numbered from 1 to 2^29, and groups are deprecated.
    is_valid = (tags >= 8) & (tags < 2**32)
    cursor.mark(rows, ~is_valid | ~np.isin(wires, [VARINT, SIZED, *FIXED]))
    cursor.varint(rows[wires == VARINT])
    read_bytes(cursor, rows[wires == SIZED])
    for wire, width in FIXED.items():
        cursor.move(rows[wires == wire], width)


class _SingleField:
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

    def take(self, rows: NumberArray, wire: int) -> None:
        """Read the next value of some messages; the last one counts."""
        if self.field.kind.kind == "message":
            # The parts of a split message may have different fields. No writer splits messages.
            self._cursor.mark(rows, self.last[rows] > 0)
        cursor, kind = self._cursor, self.field.kind.kind
        values = read_bytes(cursor, rows) if self._sized else (read_numbers(cursor, rows, kind),)
        self._raw[:, rows] = np.stack(values)
        # The position in the message tells which value was the last.
        self.last[rows] = cursor.at[rows]

    def column(self) -> pl.Series:
        """Return the values of all messages."""
        has_value = self.last > 0
        if self.field.required:
            self._cursor.mark(slice(None), ~has_value)
        rows_with_value = np.flatnonzero(has_value)
        values, wrong, late = _convert_values(
            self._cursor, self.field.kind, self._raw[:, rows_with_value]
        )
        self._cursor.mark(rows_with_value, wrong)
        self._cursor.defer(rows_with_value, late)
        if len(rows_with_value) < len(has_value):
            values = spread_rows(values.to_frame(), rows_with_value, len(has_value)).to_series()
        if self.field.present or self.field.default is None:
            return values
        return values.fill_null(pl.lit(self.field.default, values.dtype))


class _RepeatedField:
    """A field of which a message has any number of values."""

    def __init__(self, cursor: ByteCursor, field: ProtoField) -> None:
        self.field = field
        self._cursor = cursor
        self._wire = wire_of(field.kind.kind)
        # Numbers may also be packed, one after the other.
        self.tags = {field.number << 3 | wire for wire in (self._wire, SIZED)}
        self._owners = [np.zeros(0, np.int64)]
        self._parts = [np.zeros((2 if self._wire == SIZED else 1, 0), np.int64)]

    def take(self, rows: NumberArray, wire: int) -> None:
        """Read the next value of some messages, or all values if they are packed."""
        cursor, kind = self._cursor, self.field.kind.kind
        if self._wire == SIZED:
            values = np.stack(read_bytes(cursor, rows))
        elif wire == self._wire:
            values = np.stack([read_numbers(cursor, rows, kind)])
        else:
            rows, numbers_of_rows = read_packed(cursor, rows, kind)
            values = np.stack([numbers_of_rows])
        self._owners.append(rows)
        self._parts.append(values)

    def column(self) -> pl.Series:
        """Return the lists of all messages."""
        owners = np.concatenate(self._owners)
        order = np.argsort(owners, kind="stable")
        values, wrong, late = _convert_values(
            self._cursor, self.field.kind, np.concatenate(self._parts, axis=1)[:, order]
        )
        self._cursor.mark(owners[order], wrong)
        self._cursor.defer(owners[order], late)
        lists = list_of(values, np.bincount(owners, minlength=len(self._cursor.at)))
        return drop_repeated_keys(lists) if self.field.map else lists


def _resolve_choices(fields: Sequence[_SingleField]) -> None:
    """Keep only the last value among fields of a ``oneof``, which exclude each other."""
    for field in fields:
        for other in fields:
            if other.field.choice == field.field.choice:
                other.last[other.last < field.last] = 0


def _convert_values(
    cursor: ByteCursor, kind: ProtoType, raw: NumberArray
) -> tuple[pl.Series, NumberArray, NumberArray]:
    """Return raw values as their type's, which are invalid, and which are of deferred messages."""
    none = np.zeros(raw.shape[1], bool)
    if kind.kind == "enum":
        names = dict(kind.symbols)
        values = pl.Series(raw[0]).replace_strict(
            list(names), list(names.values()), default=pl.Series(raw[0]).cast(pl.String),
            return_dtype=pl.String,
        )  # fmt: skip
        return values, none, none
    if len(raw) == 1:
        return *convert_numbers(raw[0], kind.kind), none
    if kind.kind == "message":
        part = cursor.narrow(*raw)
        structs, wrong = _read_nested(part, kind)
        cursor.steps = part.steps
        return structs, wrong, part.deferred
    values = ByteValues(cursor.data, *raw).to_series()
    if kind.kind == "bytes":
        return values, none, none
    texts = decode_text(values)
    return texts.fill_null(""), texts.is_null().to_numpy(), none


def _read_nested(cursor: ByteCursor, kind: ProtoType) -> tuple[pl.Series, NumberArray]:
    """Read nested messages, and convert those of Google's well-known types."""
    frame = _read(cursor, kind)
    wrong = cursor.wrong()
    if kind.well_known == "value":
        return frame.to_series(), wrong
    if not kind.well_known:
        return frame.to_struct(), wrong
    seconds, nanos = (frame[name].to_numpy() for name in ("seconds", "nanos"))
    beyond = (seconds < -MOST_SECONDS) | (seconds > MOST_SECONDS)
    return pl.Series(np.where(beyond, 0, seconds) * SECOND + nanos // 1000), wrong | beyond


def _encode_indexes(indexes: Sequence[int]) -> bytes:
    """Encode the position of a message in its file, as a registry's serializers write it.

    Example:
        >>> _encode_indexes([0]).hex(), _encode_indexes([2, 1]).hex()
        ('00', '040402')
    """
    if list(indexes) == [0]:
        return b"\0"
    encoded = bytearray()
    for number in (len(indexes), *indexes):
        rest = number << 1
        while rest > 127:
            encoded.append(rest & 127 | 128)
            rest >>= 7
        encoded.append(rest)
    return bytes(encoded)


def _find_prefixed(messages: Sequence[bytes] | ByteValues, indexes: bytes) -> NumberArray:
    """Return which messages begin with the prefix of a registry's serializers."""
    payloads = binary_column(messages)
    begins = payloads.bin.head(1).eq_missing(pl.Series([b"\0"]))
    return (
        begins & payloads.bin.slice(HEAD, len(indexes)).eq_missing(pl.Series([indexes]))
    ).to_numpy()
