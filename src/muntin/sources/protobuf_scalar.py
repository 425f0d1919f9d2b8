"""Protobuf messages one by one, for those that are unlike the others.

Reading many messages at once takes a step for each field of the longest among them. Where few are
left, reading them alone costs less: time is linear in their bytes.
"""

from __future__ import annotations

import struct
from typing import Any

from muntin.sources.byte_cursor import MalformedError
from muntin.sources.payloads import MOST_ITEMS
from muntin.sources.protobuf_schema import ProtoField, ProtoType
from muntin.sources.protobuf_values import EIGHT, FIXED, FOUR, SIZED, VARINT, wire_of

_MICROS = 1_000_000
_SECONDS = (2**63 - 1) // _MICROS - 1
_FORMS = {
    "double": "<d", "fixed64": "<Q", "sfixed64": "<q",
    "float": "<f", "fixed32": "<I", "sfixed32": "<i",
}  # fmt: skip
_BIT32, _BIT64 = 2**32, 2**64


def read_message(data: bytes, kind: ProtoType, skip: int = 0) -> list[Any]:
    """The values of a message's fields, as its columns are stored.

    Raises:
        MalformedError: When the bytes aren't such a message.
    """
    if skip > len(data):
        raise MalformedError
    return list(_fields(data, skip, len(data), kind).values())


def _fields(data: bytes, at: int, end: int, kind: ProtoType) -> dict[str, Any]:
    """The fields of the message between two places."""
    tags = _tags(kind)
    values: dict[str, Any] = {}
    chosen: dict[str, str] = {}
    steps = 0
    while at < end:
        steps += 1
        # Those of more fields are malformed where many are read at once, too.
        if steps > MOST_ITEMS:
            raise MalformedError
        tag, at = _varint(data, at, end)
        field = tags.get(tag)
        if field is None:
            at = _pass_over(data, at, end, tag)
            continue
        value, at = _value(data, at, end, field, tag & 7)
        if field.repeated:
            values.setdefault(field.name, []).extend(value)
            continue
        # Of a message in parts, which no writer writes, each may have fields of its own.
        if field.kind.kind == "message" and field.name in values:
            raise MalformedError
        values[field.name] = value
        if field.choice:
            chosen[field.choice] = field.name
    return {field.name: _result(data, field, values, chosen) for field in kind.fields}


def _tags(kind: ProtoType) -> dict[int, ProtoField]:
    tags = {}
    for field in kind.fields:
        wire = wire_of(field.kind.kind)
        tags[field.number << 3 | wire] = field
        if field.repeated:
            # Numbers may also stand packed, one behind the other.
            tags[field.number << 3 | SIZED] = field
    return tags


def _result(data: bytes, field: ProtoField, values: dict[str, Any], chosen: dict[str, str]) -> Any:
    """A field's value in its column."""
    if field.repeated:
        items = [_converted(data, raw, field.kind) for raw in values.get(field.name, [])]
        if not field.map:
            return items
        entries: dict[Any, Any] = {}
        for entry in items:
            entries.pop(entry["key"], None)
            entries[entry["key"]] = entry["value"]
        return [{"key": key, "value": value} for key, value in entries.items()]
    if field.name in values and chosen.get(field.choice, field.name) == field.name:
        return _converted(data, values[field.name], field.kind)
    if field.required:
        raise MalformedError
    return None if field.present else field.default


def _value(data: bytes, at: int, end: int, field: ProtoField, wire: int) -> tuple[Any, int]:
    """The next value of a field, of a repeated one as a list, and where it ends.

    Only the last value of a field counts, so that none is looked into here: of bytes it is where
    they lie.
    """
    own = wire_of(field.kind.kind)
    if own != SIZED and wire == SIZED:
        first, last = _sized(data, at, end)
        items = []
        while first < last:
            item, first = _number(data, first, last, field.kind.kind)
            items.append(item)
        return items, last
    value: Any
    if own == SIZED:
        value = _sized(data, at, end)
        at = value[1]
    else:
        value, at = _number(data, at, end, field.kind.kind)
    return ([value] if field.repeated else value), at


def _converted(data: bytes, raw: Any, kind: ProtoType) -> Any:
    """A value out of what was read of it."""
    if kind.kind == "enum":
        return dict(kind.symbols).get(raw, str(raw))
    if kind.kind in ("uint64", "fixed64") and raw >= 2**63:
        raise MalformedError
    if wire_of(kind.kind) != SIZED:
        return raw
    first, last = raw
    if kind.kind == "bytes":
        return data[first:last]
    if kind.kind == "string":
        try:
            return data[first:last].decode()
        except UnicodeDecodeError:
            raise MalformedError from None
    values = _fields(data, first, last, kind)
    if kind.made == "value":
        return next(iter(values.values()))
    if not kind.made:
        return values
    if not -_SECONDS <= values["seconds"] <= _SECONDS:
        raise MalformedError
    return values["seconds"] * _MICROS + values["nanos"] // 1000


def _number(data: bytes, at: int, end: int, kind: str) -> tuple[Any, int]:
    """The next number of a kind, and where it ends."""
    if kind in _FORMS:
        size = FIXED[wire_of(kind)]
        if end - at < size:
            raise MalformedError
        return struct.unpack_from(_FORMS[kind], data, at)[0], at + size
    word, at = _varint(data, at, end)
    if kind == "bool":
        return word != 0, at
    # What is beyond 32 bits is cut off, as Protobuf has it.
    if kind in ("int32", "enum"):
        return _signed(word % _BIT32, _BIT32), at
    if kind in ("sint32", "sint64"):
        word = word % _BIT32 if kind == "sint32" else word
        return (word >> 1) ^ -(word & 1), at
    if kind == "uint32":
        return word % _BIT32, at
    return (_signed(word, _BIT64) if kind == "int64" else word), at


def _signed(word: int, size: int) -> int:
    return word - size if word >= size // 2 else word


def _pass_over(data: bytes, at: int, end: int, tag: int) -> int:
    """Where a field ends that isn't known."""
    # Fields are numbered from 1 to 2^29, and groups are of another age.
    if not 8 <= tag < _BIT32:
        raise MalformedError
    wire = tag & 7
    if wire == VARINT:
        return _varint(data, at, end)[1]
    if wire == SIZED:
        return _sized(data, at, end)[1]
    if wire not in (EIGHT, FOUR) or end - at < FIXED[wire]:
        raise MalformedError
    return at + FIXED[wire]


def _sized(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where the next bytes lie, behind their number."""
    size, at = _varint(data, at, end)
    if size > end - at:
        raise MalformedError
    return at, at + size


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The next number, without a sign, and where it ends."""
    if at < end and data[at] < 128:
        return data[at], at + 1
    word = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        # Of the tenth byte one bit is left.
        if shift == 63 and byte > 1:
            break
        word |= (byte & 127) << shift
        if byte < 128:
            return word, at
        shift += 7
    raise MalformedError
