"""Decodes record batches of Kafka (magic 2) into columns, without an object per message.

A batch is a header of 61 bytes and records, each framed by its length and by variable-length
numbers. `record_chain` finds where records begin; all other fields are read for all records at
once.
"""

from __future__ import annotations

import logging
import struct
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from muntin.sources.byte_cursor import ByteCursor
from muntin.sources.byte_values import ROOM, Bytes, ByteValues, Integers
from muntin.sources.plain_records import RecordFields, read_plain
from muntin.sources.record_chain import BrokenChainError, find_records, read_zigzag

# The header: base offset, length, leader epoch, magic, checksum, attributes, last offset delta,
# base timestamp, greatest timestamp, producer, producer epoch, base sequence, number of records.
_HEADER = struct.Struct(">qiibIhiqqqhii")
# The length counts the bytes after it, and the checksum covers the bytes after the checksum.
_BEFORE_LENGTH, _BEFORE_CHECKED, _MAGIC = 12, 21, 2
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_ABORT = struct.Struct(">hh")
# The arrays of more records don't fit into a core's cache.
_RECORDS_AT_ONCE = 20_000
_FRAMING = "a batch's records aren't framed as they have to be"


class DamagedBatchError(ValueError):
    """A record batch doesn't match its header or its checksum."""


class UnknownFormatError(ValueError):
    """A batch has a format that isn't supported here."""


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """One batch.

    Attributes:
        last: Last offset; records may have been removed.
        time: Timestamp that those of the records are relative to, in milliseconds.
        append_time: Timestamp of the broker for all records, if it sets them.
        producer: Producer of a transaction; otherwise ``None``.
        control: Whether it holds a transaction's marker instead of messages.
    """

    base: int
    last: int
    count: int
    time: int
    append_time: int | None
    producer: int | None
    control: bool
    body: Any

    @property
    def aborts(self) -> bool:
        """True for the marker that ends an aborted transaction."""
        if not self.control or self.count != 1:
            return False
        records = read_records([self])
        key = records.keys[0] or b""
        return len(key) >= _ABORT.size and _ABORT.unpack_from(key)[1] == 0


class Aborted(NamedTuple):
    """A transaction that was aborted: its producer, and its first offset."""

    producer: int
    first: int


@dataclass(frozen=True, eq=False)
class Records:
    """Decoded records as columns.

    Attributes:
        timestamps: Timestamp of each in milliseconds; -1 for none.
        append_time: Whether the timestamp of each is the broker's.
        header_counts: How many headers each has.
        header_starts: Position of each record's headers in the buffer of the values.
    """

    offsets: Integers
    timestamps: Integers
    append_time: Any
    keys: ByteValues
    values: ByteValues
    header_counts: Integers
    header_starts: Integers

    def __len__(self) -> int:
        return len(self.offsets)

    def select(self, rows: Any) -> Records:
        """Select some of the records."""
        return Records(
            self.offsets[rows], self.timestamps[rows], self.append_time[rows],
            self.keys.select(rows), self.values.select(rows),
            self.header_counts[rows], self.header_starts[rows],
        )  # fmt: skip

    def move(self, data: Bytes, distance: int) -> Records:
        """Return the records as those of a larger buffer, in which theirs begins at a distance."""
        keys, values = (
            ByteValues(data, some.starts + distance, some.sizes)
            for some in (self.keys, self.values)
        )
        header_starts = self.header_starts + distance
        return replace(self, keys=keys, values=values, header_starts=header_starts)

    def headers(self) -> list[list[tuple[str, bytes | None]]]:
        """Read the headers of each record, one record after the other."""
        data = self.values.data.data
        positions = zip(self.header_starts.tolist(), self.header_counts.tolist(), strict=True)
        return [_read_headers(data, start, count) for start, count in positions]


def split_batches(data: bytes | memoryview) -> Iterator[RecordBatch]:
    """Split the bytes that a broker sent into batches; an incomplete last one is left out.

    Raises ``DamagedBatchError`` or ``UnknownFormatError`` (an older format, an unknown codec).
    """
    view, at = memoryview(data), 0
    while at + _BEFORE_CHECKED <= len(view):
        length, magic = struct.unpack_from(">i4xb", view, at + 8)
        end = at + _BEFORE_LENGTH + length
        if magic != _MAGIC:
            raise UnknownFormatError(f"a batch of format {magic}")
        if length < _HEADER.size - _BEFORE_LENGTH:
            raise DamagedBatchError(f"a batch of {length} bytes")
        if end > len(view):
            return
        (base, _, _, _, crc, attributes, delta, first_time, greatest_time, producer, _, _,
         count) = _HEADER.unpack_from(view, at)  # fmt: skip
        if _compute_checksum(view[at + _BEFORE_CHECKED : end]) != crc:
            raise DamagedBatchError(f"the batch at offset {base} isn't what its checksum says")
        if count < 0 or delta < 0 or base < 0:
            raise DamagedBatchError(f"the batch at offset {base} has {count} records")
        yield RecordBatch(
            base, base + delta, count, first_time,
            greatest_time if attributes & _APPEND_TIME else None,
            producer if attributes & _TRANSACTIONAL else None,
            bool(attributes & _CONTROL),
            _read_body(attributes & _CODEC, view[at + _HEADER.size : end], base, count),
        )  # fmt: skip
        at = end


def _compute_checksum(data: memoryview) -> int:
    import google_crc32c

    # The library's own code takes the bytes of an array without a copy; its substitute doesn't.
    is_native = google_crc32c.implementation == "c"
    return int(google_crc32c.value(np.frombuffer(data, np.uint8) if is_native else bytes(data)))


def select_messages(
    batches: Sequence[RecordBatch], aborted: Sequence[Aborted] = ()
) -> list[RecordBatch]:
    """Return the batches of a partition with messages, except those of aborted transactions."""
    begins = sorted(aborted, key=lambda one: one.first, reverse=True)
    open_producers: set[int | None] = set()
    messages = []
    for batch in batches:
        while begins and begins[-1].first <= batch.last:
            open_producers.add(begins.pop().producer)
        if batch.control:
            if batch.aborts:
                open_producers.discard(batch.producer)
        elif batch.producer is None or batch.producer not in open_producers:
            messages.append(batch)
    return messages


def read_records(batches: Sequence[RecordBatch]) -> Records:
    """Read the records of batches, or raise ``DamagedBatchError``."""
    data = np.empty(sum(len(batch.body) for batch in batches) + 2 * ROOM, np.uint8)
    data[:ROOM] = data[-ROOM:] = 0
    parts, begin = [], 0
    for group in _group_batches(batches):
        end = begin
        for batch in group:
            # A group is copied just before it is read, while it is in a core's cache.
            data[end + ROOM : end + ROOM + len(batch.body)] = np.frombuffer(batch.body, np.uint8)
            end += len(batch.body)
        parts.append(_read_group(group, data[begin : end + 2 * ROOM]).move(data, begin))
        begin = end
    return parts[0] if len(parts) == 1 else _join_records(parts)


def _group_batches(batches: Sequence[RecordBatch]) -> Iterator[Sequence[RecordBatch]]:
    """Yield groups of batches, at least one, whose numbers fit into a core's cache."""
    first = count = 0
    for index, batch in enumerate(batches):
        if count and count + batch.count > _RECORDS_AT_ONCE:
            yield batches[first:index]
            first, count = index, 0
        count += batch.count
    yield batches[first:]


def _join_records(parts: Sequence[Records]) -> Records:
    """Join records of the same buffer."""
    columns = [
        (p.offsets, p.timestamps, p.append_time, p.header_counts, p.header_starts, p.keys.starts,
         p.keys.sizes, p.values.starts, p.values.sizes)
        for p in parts
    ]  # fmt: skip
    offsets, timestamps, append_time, header_counts, header_starts, *values = map(
        np.concatenate, zip(*columns, strict=True)
    )
    data = parts[0].values.data
    keys, payloads = ByteValues(data, *values[:2]), ByteValues(data, *values[2:])
    return Records(offsets, timestamps, append_time, keys, payloads, header_counts, header_starts)


def _read_group(batches: Sequence[RecordBatch], data: Bytes) -> Records:
    """Read the records of batches whose bytes stand in a buffer, with `ROOM` around them."""
    sizes = np.array([len(b.body) for b in batches], np.int64)
    counts = np.array([b.count for b in batches], np.int64)
    ends = np.cumsum(sizes) + ROOM
    if (counts * _SMALLEST_RECORD > sizes).any():
        raise DamagedBatchError("a batch says that it has more records than bytes")
    try:
        chain = find_records(data, ends - sizes, ends, counts)
    except BrokenChainError as error:
        raise DamagedBatchError(_FRAMING) from error
    fields = None
    if chain.is_complete and all(b.last - b.base + 1 == b.count for b in batches):
        fields = read_plain(data, chain, counts)
    if fields is None:
        fields = _read_fields(data, chain.starts, ends, counts)
    of_batch = np.repeat(np.arange(len(batches)), counts)
    base = np.array([b.base for b in batches], np.int64)[of_batch]
    last = np.array([b.last for b in batches], np.int64)[of_batch]
    offsets = fields.offsets + base
    _require(((offsets >= base) & (offsets <= last)).all())
    times = np.array([b.time for b in batches], np.int64)[of_batch]
    append_time = np.array([b.append_time is not None for b in batches], bool)[of_batch]
    appended = np.array([b.append_time or 0 for b in batches], np.int64)[of_batch]
    timestamps = np.where(append_time, appended, times + fields.timestamps)
    return Records(offsets, timestamps, append_time, *fields[2:])


def _read_fields(data: Bytes, starts: Integers, ends: Integers, counts: Integers) -> RecordFields:
    """Read the fields of records of any form."""
    cursor = ByteCursor(data, starts.copy(), starts.copy())
    all_rows = slice(None)
    length = cursor.zigzag(all_rows)
    cursor.end = cursor.at + length
    firsts = np.cumsum(counts) - counts
    _require((length > 0).all() and _are_adjacent(starts, cursor.end, ends, firsts, counts))
    cursor.move(all_rows, 1)
    timestamps = cursor.zigzag(all_rows)
    offsets = cursor.zigzag(all_rows)
    keys = _read_values(cursor, data)
    values = _read_values(cursor, data)
    header_counts = cursor.zigzag(all_rows)
    header_starts = cursor.at.copy()
    _require(not cursor.bad.any() and (header_counts >= 0).all())
    _skip_headers(cursor, header_counts)
    _require(not cursor.wrong().any())
    return RecordFields(timestamps, offsets, keys, values, header_counts, header_starts)


def _require(holds: Any) -> None:
    if not holds:
        raise DamagedBatchError(_FRAMING)


def _are_adjacent(
    starts: Integers, record_ends: Integers, ends: Integers, firsts: Integers, counts: Integers
) -> bool:
    """Return whether each record ends where the next one, or its batch's end, is."""
    expected = np.empty_like(starts)
    expected[:-1] = starts[1:]
    has = counts > 0
    expected[(firsts + counts - 1)[has]] = ends[has]
    return bool((record_ends == expected).all())


def _read_values(cursor: ByteCursor, data: Bytes) -> ByteValues:
    """Read the next bytes of each record, which may be null."""
    sizes = cursor.zigzag(slice(None))
    cursor.mark(slice(None), sizes < -1)
    starts, taken = cursor.take(slice(None), np.maximum(sizes, 0))
    return ByteValues(data, starts, np.where(sizes < 0, -1, taken))


def _skip_headers(cursor: ByteCursor, counts: Integers) -> None:
    """Skip the headers of each record: the first of all records, then the second, and so on."""
    left = np.flatnonzero(counts)
    counts = counts.copy()
    while len(left):
        sizes = cursor.zigzag(left)
        cursor.mark(left, sizes < 0)
        cursor.take(left, np.maximum(sizes, 0))
        sizes = cursor.zigzag(left)
        cursor.mark(left, sizes < -1)
        cursor.take(left, np.maximum(sizes, 0))
        counts[left] -= 1
        left = left[(counts[left] > 0) & ~cursor.bad[left]]


def _read_headers(data: memoryview, at: int, count: int) -> list[tuple[str, bytes | None]]:
    headers = []
    for _ in range(count):
        size, at = read_zigzag(data, at)
        name, at = str(data[at : at + size], "utf-8", "replace"), at + size
        size, at = read_zigzag(data, at)
        value = None if size < 0 else bytes(data[at : at + size])
        headers.append((name, value))
        at += max(size, 0)
    return headers


# The size limit of a decompressed batch, in bytes: few bytes may stand for gigabytes. Kafka's
# clients fill a batch with some kilobytes, or one message.
LARGEST_BODY = 128 << 20
# How many bytes one compressed byte stands for at most. A block of zstd has no such bound.
_RATIOS = {1: 1100, 2: 64, 3: 256}
_SMALLEST_RECORD = 7
_LOG = logging.getLogger(__name__)
_ROOM_BY_THREAD = threading.local()


class _OversizedError(ValueError):
    """A batch is larger than `LARGEST_BODY`."""


def _read_body(codec: int, body: memoryview, base: int, count: int) -> Any:
    """Return the records of a batch; for one that is too large, as many without key and value.

    A message without a value is malformed where payloads are decoded.
    """
    try:
        return _decompress(codec, body)
    except _OversizedError:
        if count * _SMALLEST_RECORD > LARGEST_BODY:
            raise DamagedBatchError(f"the batch at offset {base} has {count} records") from None
        _LOG.warning(
            "the batch at offset %d has more than %d MB in %d compressed bytes; its %d messages "
            "are read without key and value", base, LARGEST_BODY >> 20, len(body), count,
        )  # fmt: skip
        return _encode_empty_records(count)
    except (ValueError, struct.error) as error:
        if isinstance(error, UnknownFormatError):
            raise
        raise DamagedBatchError(f"the batch at offset {base} can't be decompressed") from error


def _decompress(codec: int, body: memoryview) -> Any:
    if codec == 0:
        return body
    import cramjam

    modules = {1: cramjam.gzip, 2: cramjam.snappy, 3: cramjam.lz4, 4: cramjam.zstd}
    if codec not in modules:
        raise UnknownFormatError(f"a batch with compression {codec}")
    try:
        if codec == 2:
            return _decompress_snappy(bytes(body))
        if len(body) * _RATIOS.get(codec, LARGEST_BODY) <= LARGEST_BODY:
            return bytes(modules[codec].decompress(bytes(body)))
        if not hasattr(_ROOM_BY_THREAD, "room"):
            # Memory that isn't written to takes no room.
            _ROOM_BY_THREAD.room = np.empty(LARGEST_BODY, np.uint8)
        room = _ROOM_BY_THREAD.room
        return room[: modules[codec].decompress_into(bytes(body), room)].tobytes()
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):
            raise _OversizedError from error
        raise ValueError(str(error)) from error


def _encode_empty_records(count: int) -> bytes:
    """Encode records with consecutive offsets that have no key, value or headers."""
    parts, first = [], 0
    for width in range(1, 5):
        # A signed number of variable length has seven bits a byte, the sign among them.
        deltas = np.arange(first, min(count, 1 << (7 * width - 1)))
        first += len(deltas)
        shifts = 7 * np.arange(width)
        varints = (2 * deltas[:, None] >> shifts & 127) | np.where(shifts < shifts[-1], 128, 0)
        records = np.empty((len(deltas), width + 6), np.uint8)
        records[:, :3] = 2 * (width + 5), 0, 0
        records[:, 3:-3] = varints
        records[:, -3:] = 1, 1, 0
        parts.append(records.tobytes())
    return b"".join(parts)


_XERIAL = b"\x82SNAPPY\x00"


def _decompress_snappy(body: bytes) -> bytes:
    """Decompress Snappy: blocks after a header, as Java's clients write them, or one block."""
    from cramjam import snappy

    if not body.startswith(_XERIAL):
        return _decompress_block(snappy, body)
    at, blocks = 16, []
    while at < len(body):
        (size,) = struct.unpack_from(">i", body, at)
        if size < 0:
            raise ValueError("a block has a negative size")
        at += 4
        blocks.append(_decompress_block(snappy, body[at : at + size]))
        at += size
        if sum(map(len, blocks)) > LARGEST_BODY:
            raise _OversizedError
    return b"".join(blocks)


def _decompress_block(snappy: Any, block: bytes) -> bytes:
    if snappy.decompress_raw_len(block) > LARGEST_BODY:
        raise _OversizedError
    return bytes(snappy.decompress_raw(block))
