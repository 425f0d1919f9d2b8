"""Frames as bytes and back: Arrow IPC in an envelope, without pickle, and a cache of them."""

from __future__ import annotations

import io
import struct
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from muntin.model.errors import StateCorruptedError
from muntin.state.blobs import Blobs, draw_number, list_blobs, seal, unseal
from muntin.state.rows import stack_rows

_MAGIC = b"MNTN"
# The JVM holds a whole blob in memory, perhaps with Spark's default heap.
_BLOB_BYTES = 8 << 20
# Polars raises these for bytes that aren't Arrow's; a panic isn't an `Exception`.
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, OSError)
_SIZE = struct.Struct("<Q")
_CODEC = "lz4"
# A byte of LZ4 yields at most 255 bytes of content.
_GREATEST_RATIO = 255
# Smaller contents aren't compressed, bytes.
_LARGE = 4096
_MARK = 0xFFFFFFFF
_SCHEMA, _DICTIONARY, _RECORDS = 1, 2, 3
# Fields of the tables Message, DictionaryBatch and RecordBatch, by their numbers.
_KIND, _HEADER, _BODY_SIZE = 1, 2, 3
_DICTIONARY_RECORDS = 1
_NODES, _BUFFERS, _COMPRESSION, _VARIADIC = 1, 2, 3, 4
_MOST_ROWS = 1 << 32
Complete = Callable[[pl.DataFrame], pl.DataFrame]


def encode_frame(frame: pl.DataFrame) -> bytes:
    """Write a frame as one blob."""
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer)
    # A JVM takes far longer to pass a blob on than it takes to compress it here.
    return seal(_MAGIC, buffer.getvalue(), compress)


def encode_blobs(frame: pl.DataFrame) -> list[bytes]:
    """Write a frame as blobs of bounded size, each with consecutive rows."""
    count = max(1, -(-int(frame.estimated_size()) // _BLOB_BYTES))
    rows = -(-len(frame) // count)
    return [encode_frame(frame.slice(index * rows, rows)) for index in range(count)]


def decode_blobs(blobs: Iterable[bytes]) -> pl.DataFrame:
    """Read all blobs that ``encode_blobs`` wrote, as one frame."""
    parts = [*map(decode_frame, blobs)]
    return parts[0] if len(parts) == 1 else stack_rows(parts)


def decode_frame(blob: bytes) -> pl.DataFrame:
    """Read a blob of ``encode_frame``, or raise ``StateCorruptedError`` for anything else."""
    body = unseal(_MAGIC, blob, "a stored blob", "one of muntin's", decompress)
    try:
        check_messages(body)
        return pl.read_ipc_stream(io.BytesIO(body))
    except _UNREADABLE as error:
        # Whoever writes a checkpoint can compute a checksum, too.
        raise StateCorruptedError(f"a stored blob holds no table: {error}") from error


def compress(content: bytes) -> bytes | None:
    """Return the size of a content and its LZ4 frame; ``None`` unless that is smaller.

    Example:
        >>> decompress(memoryview(compress(b"spam" * 2000))) == b"spam" * 2000
        True
    """
    if len(content) < _LARGE:
        return None
    compressed: bytes = _SIZE.pack(len(content)) + pa.compress(content, _CODEC, asbytes=True)
    return compressed if len(compressed) < len(content) else None


def decompress(compressed: memoryview) -> memoryview:
    """Return the content that ``compress`` compressed.

    Raises:
        ValueError: When it says a size that it can't have, or isn't an LZ4 frame.
    """
    if len(compressed) < _SIZE.size:
        raise ValueError("it has no size")
    (size,) = _SIZE.unpack_from(compressed)
    if size > _GREATEST_RATIO * len(compressed):
        raise ValueError(f"{len(compressed)} bytes can't hold {size}")
    try:
        return memoryview(pa.decompress(compressed[_SIZE.size :], size, _CODEC))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(str(error)) from error


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


class FrameCache:
    """Decoded frames of this process; the least recently used is dropped first.

    A frame's number is random and written once. So a cached frame is either the stored content,
    or belongs to a batch that was never committed and whose number isn't read again: a
    retried batch can't read a wrong one.
    """

    def __init__(self, most_bytes: int = 512 << 20) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._frames: OrderedDict[int, tuple[pl.DataFrame, int]] = OrderedDict()
        self._owner: Hashable = None
        self._owned: dict[Hashable, set[int]] = {}

    def set_owner(self, owner: Hashable) -> None:
        """Set the owner of the following frames, as several shards share this cache."""
        self._owner = owner

    def retain(self, numbers: Collection[int]) -> None:
        """Forget the frames of this owner that its store no longer has.

        Another process may have continued the shard meanwhile, and have removed blobs.
        """
        owned = self._owned.setdefault(self._owner, set())
        for number in owned.difference(numbers):
            self.drop(number)

    def get(self, number: int) -> pl.DataFrame | None:
        """Return a cached frame, or ``None``."""
        entry = self._frames.get(number)
        if entry is None:
            return None
        self._frames.move_to_end(number)
        return entry[0]

    def put(self, number: int, frame: pl.DataFrame) -> None:
        """Cache a frame, and drop others if the cache gets too large."""
        size = int(frame.estimated_size())
        if size > self.most_bytes:
            return
        self._frames[number] = (frame, size)
        self._owned.setdefault(self._owner, set()).add(number)
        self.bytes += size
        while self.bytes > self.most_bytes:
            _, (_, freed) = self._frames.popitem(last=False)
            self.bytes -= freed

    def drop(self, number: int) -> None:
        """Forget a frame."""
        self._owned.get(self._owner, set()).discard(number)
        entry = self._frames.pop(number, None)
        if entry is not None:
            self.bytes -= entry[1]


class Frames:
    """Frames stored as blobs, and cached when decoded."""

    def __init__(self, blobs: Blobs, cache: FrameCache, complete: Complete | None = None) -> None:
        self.blobs = blobs
        self.cache = cache
        self.complete = complete

    def write(self, frame: pl.DataFrame) -> tuple[int, int]:
        """Write a frame under a new number; return the number and the bytes of its blobs."""
        blobs = encode_blobs(frame)
        number = draw_number(len(blobs))
        for one, blob in zip(list_blobs(number), blobs, strict=True):
            self.blobs.put(one, blob)
        self.cache.put(number, frame)
        return number, sum(map(len, blobs))

    def read(self, number: int) -> pl.DataFrame:
        """Read a stored frame."""
        frame = self.cache.get(number)
        if frame is None:
            frame = decode_blobs(map(self.blobs.get, list_blobs(number)))
            self.cache.put(number, frame)
        return frame if self.complete is None else self.complete(frame)

    def remove(self, number: int) -> None:
        """Remove a frame."""
        for one in list_blobs(number):
            self.blobs.remove(one)
        self.cache.drop(number)
