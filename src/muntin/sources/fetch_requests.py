"""Encodes Fetch requests of Kafka's protocol, and decodes their answers.

Version 13 names topics by their ids, so that a topic that was created again doesn't answer for the
one before. Version 11, the first that supports every compression, names them by their names.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from muntin.sources.kafka_connection import FetchError
from muntin.sources.record_batches import Aborted

FETCH, BY_NAME, BY_ID = 1, 11, 13
# The limit of an answer, bytes.
MOST_BYTES = 16 << 20


class Wanted(Protocol):
    """A range to fetch from.

    Attributes:
        start: The offset of the next message.
        wanted: Number of bytes to ask for.
    """

    topic: str
    partition: int
    start: int
    wanted: int


class Fetched(NamedTuple):
    """The answer for one partition.

    Attributes:
        newest: The offset after its last message that may be read.
    """

    topic: str
    partition: int
    error: int
    newest: int
    aborted: list[Aborted]
    data: memoryview


def parse_topic_id(text: str) -> bytes:
    """Return the bytes of a topic's id.

    Example:
        >>> parse_topic_id("AAAAAAAAAAAAAAAAAAAAAQ").hex()
        '00000000000000000000000000000001'
    """
    standard = text.replace("-", "+").replace("_", "/")
    return base64.b64decode(standard + "=" * (-len(standard) % 4))


def encode_by_name(ranges: Sequence[Wanted], *, committed: bool, wait: int) -> bytes:
    """Encode a request of version 11, which waits some milliseconds for messages."""
    parts = [_encode_limits(wait, committed=committed)]
    topics = _group_by_topic(ranges)
    parts.append(struct.pack(">i", len(topics)))
    for topic, some in topics.items():
        name = topic.encode()
        parts.append(struct.pack(">h", len(name)) + name + struct.pack(">i", len(some)))
        parts += [struct.pack(">iiqqi", r.partition, -1, r.start, -1, r.wanted) for r in some]
    return b"".join([*parts, struct.pack(">ih", 0, 0)])


def encode_by_id(
    ranges: Sequence[Wanted], ids: Mapping[str, bytes], *, committed: bool, wait: int
) -> bytes:
    """Encode a request of version 13, which waits some milliseconds for messages."""
    parts = [_encode_limits(wait, committed=committed)]
    topics = _group_by_topic(ranges)
    parts.append(_encode_count(len(topics)))
    for topic, some in topics.items():
        parts += [ids[topic], _encode_count(len(some))]
        parts += [struct.pack(">iiqiqix", r.partition, -1, r.start, -1, -1, r.wanted) for r in some]
        parts.append(_NO_TAGS)
    # No topics to forget, no rack, no tags.
    return b"".join([*parts, _encode_count(0), _encode_count(0), _NO_TAGS])


def decode_by_name(answer: memoryview, *, committed: bool) -> Iterator[Fetched]:
    """Decode an answer of version 11."""
    _, error, _, topics = struct.unpack_from(">ihii", answer, 0)
    _refuse(error)
    at = 14
    for _ in range(topics):
        (size,) = struct.unpack_from(">h", answer, at)
        topic, at = str(answer[at + 2 : at + 2 + size], "utf-8"), at + 2 + size
        (partitions,) = struct.unpack_from(">i", answer, at)
        at += 4
        for _ in range(partitions):
            number, error, high, stable, _, count = struct.unpack_from(">ihqqqi", answer, at)
            at += 34
            pairs = [struct.unpack_from(">qq", answer, at + 16 * n) for n in range(max(count, 0))]
            at += 16 * len(pairs)
            _, length = struct.unpack_from(">ii", answer, at)
            data, at = _take_bytes(answer, at + 8, length)
            aborted = [Aborted(*pair) for pair in pairs] if committed else []
            yield Fetched(topic, number, error, stable if committed else high, aborted, data)


def decode_by_id(
    answer: memoryview, ids: Mapping[str, bytes], *, committed: bool
) -> Iterator[Fetched]:
    """Decode an answer of version 13."""
    names = {topic_id: topic for topic, topic_id in ids.items()}
    at = _skip_tags(answer, 0)
    _, error, _ = struct.unpack_from(">ihi", answer, at)
    _refuse(error)
    topics, at = _read_count(answer, at + 10)
    for _ in range(topics):
        topic = names[bytes(answer[at : at + 16])]
        partitions, at = _read_count(answer, at + 16)
        for _ in range(partitions):
            number, error, high, stable, _ = struct.unpack_from(">ihqqq", answer, at)
            count, at = _read_count(answer, at + 30)
            aborted = []
            for _ in range(count):
                aborted.append(Aborted(*struct.unpack_from(">qq", answer, at)))
                at = _skip_tags(answer, at + 16)
            length, at = _read_count(answer, at + 4)
            data, at = _take_bytes(answer, at, length)
            at = _skip_tags(answer, at)
            newest = stable if committed else high
            yield Fetched(topic, number, error, newest, aborted if committed else [], data)
        at = _skip_tags(answer, at)


_NO_TAGS = b"\0"


def _encode_limits(wait: int, *, committed: bool) -> bytes:
    # The client is no replica, wants at least a byte, and keeps no fetch session.
    return struct.pack(">iiiibii", -1, wait, 1, MOST_BYTES, int(committed), 0, -1)


def _group_by_topic(ranges: Sequence[Wanted]) -> dict[str, list[Wanted]]:
    topics: dict[str, list[Wanted]] = {}
    for one in ranges:
        topics.setdefault(one.topic, []).append(one)
    return topics


def _refuse(error: int) -> None:
    if error:
        raise FetchError(f"the broker answers with error {error}")


def _take_bytes(answer: memoryview, at: int, length: int) -> tuple[memoryview, int]:
    data = answer[at : at + max(length, 0)]
    if len(data) < length:
        raise FetchError("the broker's answer is cut off")
    return data, at + len(data)


def _encode_count(count: int) -> bytes:
    """Encode a length as the protocol does: one more, so that zero means null."""
    number, encoded = count + 1, bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _read_count(answer: memoryview, at: int) -> tuple[int, int]:
    """Read a length, which is zero for null, and return the position after it."""
    number, at = _read_varint(answer, at)
    return max(number - 1, 0), at


def _read_varint(answer: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(answer) or shift > 28:
            raise FetchError("the broker's answer is cut off")
        low = answer[at]
        number |= (low & 127) << shift
        at, shift = at + 1, shift + 7
        if low < 128:
            return number, at


def _skip_tags(answer: memoryview, at: int) -> int:
    """Return the position after optional fields, none of which is used."""
    count, at = _read_varint(answer, at)
    for _ in range(count):
        _, at = _read_varint(answer, at)
        size, at = _read_varint(answer, at)
        at += size
    return at
