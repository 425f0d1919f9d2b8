"""Reads Avro records one by one, for the few messages that differ from the others.

Reading many messages at once takes a step for each item of the longest list. If few messages are
left in such a list, reading them alone costs less: the time is linear in their bytes.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl

from muntin.sources.avro_schema import AvroType
from muntin.sources.byte_cursor import ByteCursor
from muntin.sources.payloads import MOST_ITEMS
from muntin.sources.varints import MalformedError, read_varint, read_varints, unzigzag

_FLOATS = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
# More milliseconds don't fit into microseconds of 64 bits.
MOST_MILLIS = (2**63 - 1) // 1000
TEXT = AvroType("string", pl.String())
_LONG, _INT = (-(2**63), 2**63), (-(2**31), 2**31)


class AvroReader:
    """One message, and the position of its next value."""

    def __init__(self, data: bytes, skip: int) -> None:
        self.data = data
        self.at = skip
        self.end = len(data)

    def record(self, kind: AvroType) -> list[Any]:
        """Return a record's values as columns store them, or raise ``MalformedError``."""
        values = [self._read_value(field.kind) for field in kind.fields]
        if self.at != self.end:
            raise MalformedError
        return values

    def _read_value(self, kind: AvroType) -> Any:
        if kind.null is not None:
            branch = self._read_zigzag()
            if branch not in (0, 1):
                raise MalformedError
            if branch == kind.null:
                return None
        if kind.kind == "record":
            return {field.name: self._read_value(field.kind) for field in kind.fields}
        if kind.items is not None:
            return self._read_list(kind)
        if kind.kind in ("int", "long"):
            return _check_number(self._read_zigzag(), kind)
        if kind.kind == "enum":
            number = self._read_zigzag()
            if not 0 <= number < len(kind.symbols):
                raise MalformedError
            return kind.symbols[number]
        if kind.kind == "boolean":
            (byte,) = self._take(1)
            if byte > 1:
                raise MalformedError
            return byte == 1
        if kind.kind in _FLOATS:
            form = _FLOATS[kind.kind]
            return form.unpack(self._take(form.size))[0]
        return self._read_bytes(kind)

    def _read_zigzag(self) -> int:
        word, self.at = read_varint(self.data, self.at, self.end)
        return (word >> 1) ^ -(word & 1)

    def _take(self, size: int) -> bytes:
        at = self.at
        if not 0 <= size <= self.end - at:
            raise MalformedError
        self.at = at + size
        return self.data[at : self.at]

    def _read_bytes(self, kind: AvroType) -> Any:
        value = self._take(kind.size if kind.kind == "fixed" else self._read_zigzag())
        if isinstance(kind.column, pl.Decimal):
            if not 1 <= len(value) <= 16:
                raise MalformedError
            number = int.from_bytes(value, "big", signed=True)
            if abs(number) >= 10**kind.column.precision:
                raise MalformedError
            digits = tuple(map(int, str(abs(number))))
            return Decimal((number < 0, digits, -kind.column.scale))
        if kind.kind != "string":
            return value
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise MalformedError from None

    def _read_list(self, kind: AvroType) -> list[Any]:
        """Read an array, or a map as its entries with the last value of each key."""
        assert kind.items is not None
        items: list[Any] = []
        entries: dict[str, Any] = {}
        item_count = 0
        while count := self._read_block_count(item_count):
            item_count += count
            if kind.kind == "map":
                for _ in range(count):
                    key = self._read_bytes(TEXT)
                    entries.pop(key, None)
                    entries[key] = self._read_value(kind.items)
            elif kind.items.kind in ("int", "long") and kind.items.null is None and count > 20:
                items += self._read_numbers(kind.items, count)
            else:
                items += [self._read_value(kind.items) for _ in range(count)]
        if kind.kind == "map":
            return [{"key": key, "value": value} for key, value in entries.items()]
        return items

    def _read_block_count(self, item_count: int) -> int:
        """Return the count of the next block, after ``item_count`` items."""
        count = self._read_zigzag()
        if count < 0:
            # The count is followed by the size of the block in bytes.
            self._read_zigzag()
            count = -count
        if count > min(self.end - self.at, MOST_ITEMS - item_count):
            raise MalformedError
        return count

    def _read_numbers(self, kind: AvroType, count: int) -> list[int]:
        part = np.frombuffer(self.data, np.uint8)[self.at :][: 10 * count]
        last = np.flatnonzero(part < 128)[:count]
        if len(last) < count:
            raise MalformedError
        first = np.concatenate([[0], last[:-1] + 1])
        size = int(last[-1]) + 1
        cursor = ByteCursor.over([part[:size].tobytes()], np.array([size]))
        word, width, beyond = read_varints(cursor.bytes, cursor.at[0] + first)
        if beyond.any() or (width != last - first + 1).any():
            raise MalformedError
        self.at += size
        numbers = unzigzag(word)
        low, high = _INT if kind.kind == "int" else _LONG
        if kind.logical.endswith("millis"):
            low, high = -MOST_MILLIS, MOST_MILLIS + 1
        if (numbers < low).any() or (numbers > high - 1).any():
            raise MalformedError
        scale = 1000 if kind.logical.endswith("millis") else 1
        return [number * scale for number in numbers.tolist()]


def _check_number(number: int, kind: AvroType) -> int:
    """Return a number if it is valid for its type; times are converted to microseconds."""
    low, high = _INT if kind.kind == "int" else _LONG
    if kind.logical.endswith("millis"):
        if not -MOST_MILLIS <= number <= MOST_MILLIS:
            raise MalformedError
        return number * 1000
    if not low <= number < high:
        raise MalformedError
    return number
