"""Encodes record batches as Kafka's protocol describes them; shares no code with the reader."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import cramjam

CODECS: dict[int, Callable[[bytes], bytes]] = {
    0: bytes,
    1: gzip.compress,
    2: lambda body: bytes(cramjam.snappy.compress_raw(body)),
    3: lambda body: bytes(cramjam.lz4.compress(body)),
    4: lambda body: bytes(cramjam.zstd.compress(body)),
}
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def compress_xerial(body: bytes) -> bytes:
    """Compress as Java's clients do, in blocks."""
    blocks = [body[at : at + 1000] for at in range(0, len(body), 1000)]
    packed = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
    return XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in packed)


@dataclass(frozen=True)
class Record:
    value: bytes | None
    key: bytes | None = None
    offset: int = 0
    time: int = 0
    headers: Sequence[tuple[str, bytes | None]] = field(default=())


def compute_checksum(data: bytes) -> int:
    """Compute CRC32C, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def encode_number(value: int) -> bytes:
    value = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def encode_sized(value: bytes | None) -> bytes:
    return encode_number(-1) if value is None else encode_number(len(value)) + value


def encode_record(record: Record, base: int, time: int) -> bytes:
    body = b"\x00" + encode_number(record.time - time) + encode_number(record.offset - base)
    body += (
        encode_sized(record.key) + encode_sized(record.value) + encode_number(len(record.headers))
    )
    for name, value in record.headers:
        body += encode_sized(name.encode()) + encode_sized(value)
    return encode_number(len(body)) + body


def encode_batch(
    records: Sequence[Record],
    base: int = 0,
    *,
    last: int | None = None,
    codec: int = 0,
    compress: Callable[[bytes], bytes] | None = None,
    append_time: int | None = None,
    producer: int | None = None,
    control: bool = False,
    body: bytes | None = None,
) -> bytes:
    """Encode one batch; ``body`` replaces its records."""
    time = records[0].time if records else -1
    if body is None:
        body = b"".join(encode_record(record, base, time) for record in records)
    compressed = (compress or CODECS[codec])(body)
    attributes = codec | (8 if append_time is not None else 0)
    attributes |= (16 if producer is not None else 0) | (32 if control else 0)
    last = max((r.offset for r in records), default=base) if last is None else last
    greatest = max((r.time for r in records), default=-1) if append_time is None else append_time
    checksummed = struct.pack(
        ">hiqqqhii", attributes, last - base, time, greatest,
        -1 if producer is None else producer, 0, 0, len(records),
    ) + compressed  # fmt: skip
    head = struct.pack(">ibI", 0, 2, compute_checksum(checksummed)) + checksummed
    return struct.pack(">qi", base, len(head)) + head


def encode_marker(offset: int, producer: int, *, commits: bool) -> bytes:
    """Encode the marker that ends a transaction."""
    key = struct.pack(">hh", 0, int(commits))
    marker = Record(struct.pack(">hi", 0, 0), key, offset)
    return encode_batch([marker], offset, producer=producer, control=True)
