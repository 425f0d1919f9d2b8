"""Reads Protobuf messages one by one, for the few that differ from the others.

Reading many messages at once takes a step for each field of the longest message. If few messages
are left, reading them alone costs less: the time is linear in their bytes.
"""

from __future__ import annotations

import struct
from typing import Any

from muntin.model.axis import SECOND
from muntin.sources.payloads import MOST_ITEMS
from muntin.sources.protobuf_schema import ProtoField, ProtoType
from muntin.sources.protobuf_values import EIGHT, FIXED, FOUR, SIZED, VARINT, wire_of
from muntin.sources.varints import MalformedError, read_varint

# Times of more seconds don't fit into microseconds of 64 bits.
MOST_SECONDS = (2**63 - 1) // SECOND - 1
_FORMS = {
    "double": "<d", "fixed64": "<Q", "sfixed64": "<q",
    "float": "<f", "fixed32": "<I", "sfixed32": "<i",
}  # fmt: skip
_BIT32, _BIT64 = 2**32, 2**64


def read_message(data: bytes, kind: ProtoType, skip: int = 0) -> list[Any]:
    """Return a message's values as columns store them, or raise ``MalformedError``."""
    if skip > len(data):
        raise MalformedError
    return list(_read_fields(data, skip, len(data), kind).values())


def _read_fields(data: bytes, at: int, end: int, kind: ProtoType) -> dict[str, Any]:
    """Return the fields of the message between two positions."""
    tags = _tags_of(kind)
    values: dict[str, Any] = {}
    chosen: dict[str, str] = {}
    steps = 0
    while at < end:
        steps += 1
        # A message of more fields is also malformed when many messages are read at once.
        if steps > MOST_ITEMS:
            raise MalformedError
        tag, at = read_varint(data, at, end)
        field = tags.get(tag)
        if field is None:
            at = _skip_unknown(data, at, end, tag)
            continue
        value, at = _read_value(data, at, end, field, tag & 7)
        if field.repeated:
            values.setdefault(field.name, []).extend(value)
            continue
        # The parts of a split message may have different fields. No writer splits messages.
        if field.kind.kind == "message" and field.name in values:
            raise MalformedError
        values[field.name] = value
        if field.choice:
            chosen[field.choice] = field.name
    return {field.name: _resolve_value(data, field, values, chosen) for field in kind.fields}


def _tags_of(kind: ProtoType) -> dict[int, ProtoField]:
    tags = {}
    for field in kind.fields:
        wire = wire_of(field.kind.kind)
        tags[field.number << 3 | wire] = field
        if field.repeated:
            # Numbers may also be packed, one after the other.
            tags[field.number << 3 | SIZED] = field
    return tags


def _resolve_value(
    data: bytes, field: ProtoField, values: dict[str, Any], chosen: dict[str, str]
) -> Any:
    """Return a field's value in the form of its column."""
    if field.repeated:
        items = [_convert(data, raw, field.kind) for raw in values.get(field.name, [])]
        if not field.map:
            return items
        entries: dict[Any, Any] = {}
        for entry in items:
            entries.pop(entry["key"], None)
            entries[entry["key"]] = entry["value"]
        return [{"key": key, "value": value} for key, value in entries.items()]
    if field.name in values and chosen.get(field.choice, field.name) == field.name:
        return _convert(data, values[field.name], field.kind)
    if field.required:
        raise MalformedError
    return None if field.present else field.default


def _read_value(data: bytes, at: int, end: int, field: ProtoField, wire: int) -> tuple[Any, int]:
    """Read the next value of a field, or a list of a repeated field's values, and its end.

    Only the last value of a field counts, so values aren't converted yet: bytes are returned as
    their positions.
    """
    own = wire_of(field.kind.kind)
    if own != SIZED and wire == SIZED:
        first, last = _read_bounds(data, at, end)
        items = []
        while first < last:
            item, first = _read_number(data, first, last, field.kind.kind)
            items.append(item)
        return items, last
    value: Any
    if own == SIZED:
        value = _read_bounds(data, at, end)
        at = value[1]
    else:
        value, at = _read_number(data, at, end, field.kind.kind)
    return ([value] if field.repeated else value), at


def _convert(data: bytes, raw: Any, kind: ProtoType) -> Any:
    """Convert a raw value to the type of its column."""
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
    values = _read_fields(data, first, last, kind)
    if kind.well_known == "value":
        return next(iter(values.values()))
    if not kind.well_known:
        return values
    if not -MOST_SECONDS <= values["seconds"] <= MOST_SECONDS:
        raise MalformedError
    return values["seconds"] * SECOND + values["nanos"] // 1000


def _read_number(data: bytes, at: int, end: int, kind: str) -> tuple[Any, int]:
    """Read the next number of a kind; return it and its end."""
    if kind in _FORMS:
        size = FIXED[wire_of(kind)]
        if end - at < size:
            raise MalformedError
        return struct.unpack_from(_FORMS[kind], data, at)[0], at + size
    word, at = read_varint(data, at, end)
    if kind == "bool":
        return word != 0, at
    # Bits beyond 32 are cut off, as in Protobuf.
    if kind in ("int32", "enum"):
        return _to_signed(word % _BIT32, _BIT32), at
    if kind in ("sint32", "sint64"):
        word = word % _BIT32 if kind == "sint32" else word
        return (word >> 1) ^ -(word & 1), at
    if kind == "uint32":
        return word % _BIT32, at
    return (_to_signed(word, _BIT64) if kind == "int64" else word), at


def _to_signed(word: int, size: int) -> int:
    return word - size if word >= size // 2 else word


def _skip_unknown(data: bytes, at: int, end: int, tag: int) -> int:
    """Return the end of an unknown field."""
    # Fields are numbered from 1 to 2^29, and groups are deprecated.
    if not 8 <= tag < _BIT32:
        raise MalformedError
    wire = tag & 7
    if wire == VARINT:
        return read_varint(data, at, end)[1]
    if wire == SIZED:
        return _read_bounds(data, at, end)[1]
    if wire not in (EIGHT, FOUR) or end - at < FIXED[wire]:
        raise MalformedError
    return at + FIXED[wire]


def _read_bounds(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read the size of the next bytes; return their start and end."""
    size, at = read_varint(data, at, end)
    if size > end - at:
        raise MalformedError
    return at, at + size
