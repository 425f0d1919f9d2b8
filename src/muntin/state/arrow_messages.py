"""Checks the sizes in a stream of Arrow messages before it is read.

Polars allocates what a stream announces, and a process that is refused memory ends at once. So
each size is compared with the bytes that there are.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_MARK = 0xFFFFFFFF
_SCHEMA, _DICTIONARY, _RECORDS = 1, 2, 3
# Fields of the tables Message, DictionaryBatch and RecordBatch, by their numbers.
_KIND, _HEADER, _BODY_SIZE = 1, 2, 3
_DICTIONARY_RECORDS = 1
_NODES, _BUFFERS, _COMPRESSION, _VARIADIC = 1, 2, 3, 4
_MOST_ROWS = 1 << 32


def check_messages(stream: memoryview) -> None:
    """Raise ``ValueError`` for a stream whose messages announce more than they have."""
    at = 0
    try:
        while at < len(stream):
            mark, size = struct.unpack_from("<Ii", stream, at)
            if mark != _MARK or not 0 <= size <= len(stream) - at - 8:
                raise ValueError("a message has no valid size")
            if size == 0:
                return
            at += 8
            at += size + _check_message(
                _Table.root(stream[at : at + size]), len(stream) - at - size
            )
    except (struct.error, IndexError) as error:
        raise ValueError(f"a message isn't whole: {error}") from error


def _check_message(message: _Table, bytes_left: int) -> int:
    """Check one message, and return the size of its body."""
    kind, size = message.number("<B", _KIND), message.number("<q", _BODY_SIZE)
    if not 0 <= size <= bytes_left:
        raise ValueError(f"a body of {size} bytes, and {bytes_left} are left")
    if kind in (_DICTIONARY, _RECORDS):
        header = message.table(_HEADER)
        records = header.table(_DICTIONARY_RECORDS) if kind == _DICTIONARY else header
        _check_records(records, size)
    elif kind != _SCHEMA:
        raise ValueError(f"a message of kind {kind}")
    return size


def _check_records(records: _Table, size: int) -> None:
    rows = records.number("<q", 0)
    nodes, buffers = records.pairs(_NODES), records.pairs(_BUFFERS)
    # A value has a bit at least, except in a column without values.
    if (
        not 0 <= rows <= _MOST_ROWS
        or (nodes[:, 0] > max(rows, 8 * size)).any()
        or (nodes < 0).any()
    ):
        raise ValueError("a column has more values than bytes")
    starts, lengths = buffers[:, 0], buffers[:, 1]
    if (buffers < 0).any() or (starts > size).any() or (lengths > size - starts).any():
        raise ValueError("a buffer is outside of its body")
    counts = records.vector(_VARIADIC, "<i8")
    if ((counts < 0) | (counts > len(buffers))).any() or records.has(_COMPRESSION):
        raise ValueError("a column has another form than what is stored")


class _Table:
    """A table of a flatbuffer."""

    def __init__(self, data: memoryview, start: int) -> None:
        self._data, self._start = data, start
        (back,) = struct.unpack_from("<i", data, start)
        fields = start - back
        if not 0 <= fields < len(data):
            raise ValueError("a table has no fields")
        (size,) = struct.unpack_from("<H", data, fields)
        self._fields = struct.unpack_from(f"<{max(0, size - 4) // 2}H", data, fields + 4)

    @classmethod
    def root(cls, data: memoryview) -> _Table:
        """Return the first table of a flatbuffer."""
        return cls(data, *struct.unpack_from("<I", data))

    def has(self, field: int) -> bool:
        return field < len(self._fields) and self._fields[field] > 0

    def number(self, form: str, field: int) -> int:
        """Return a number; 0 where it is missing."""
        if not self.has(field):
            return 0
        return int(struct.unpack_from(form, self._data, self._start + self._fields[field])[0])

    def table(self, field: int) -> _Table:
        """Return a table within this one."""
        return _Table(self._data, self._follow(field))

    def vector(self, field: int, form: str) -> np.ndarray[Any, Any]:
        """Return the numbers of a vector; empty where it is missing."""
        if not self.has(field):
            return np.empty(0, form)
        start = self._follow(field)
        (count,) = struct.unpack_from("<I", self._data, start)
        width = 16 if form == "<i8,<i8" else 8
        if count * width > len(self._data) - start - 4:
            raise ValueError("a vector is longer than its message")
        return np.frombuffer(self._data, form, count, start + 4)

    def pairs(self, field: int) -> np.ndarray[Any, Any]:
        """Return a vector of pairs of numbers, as rows."""
        return self.vector(field, "<i8,<i8").view("<i8").reshape(-1, 2)

    def _follow(self, field: int) -> int:
        at = self._start + self._fields[field]
        return at + int(struct.unpack_from("<I", self._data, at)[0])
