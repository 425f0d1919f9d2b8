"""Fetches ranges of Kafka's messages as record batches, over sockets to the partitions' leaders.

This is the direct way, which covers nearly all requests. In any other case (a leader moves, a range
was deleted, a setting or format isn't supported) it raises `FetchError`, and librdkafka reads the
range.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, NamedTuple

from muntin.model.references import resolve_all
from muntin.sources.kafka_connection import (
    Connection,
    ConnectionPool,
    ConnectionSettings,
    FetchError,
)
from muntin.sources.kafka_consumer import PartitionName
from muntin.sources.record_batches import (
    Aborted,
    DamagedBatchError,
    RecordBatch,
    UnknownFormatError,
    select_messages,
    split_batches,
)

# The Fetch request, in the first version that supports every compression.
_FETCH, _VERSION = 1, 11
_WAIT_MS, _PATIENCE = 100, 10.0
# The limits of an answer in bytes, in all and per partition. A range begins with fewer bytes, and
# then asks for as many as its first messages suggest.
_MOST, _FIRST, _LEAST = 16 << 20, 1 << 20, 1 << 16
# The size limit of what is decompressed of an answer at once, in bytes.
_MOST_DECOMPRESSED = 256 << 20
_COMMITTED = "read_committed"


@dataclass
class FetchProgress:
    """The progress of fetching one range.

    Attributes:
        batches: Fetched batches that weren't taken yet, without control batches.
        wanted: Number of bytes to ask for.
    """

    topic: str
    partition: int
    start: int
    end: int
    batches: list[RecordBatch] = field(default_factory=list)
    wanted: int = _FIRST

    @property
    def is_open(self) -> bool:
        """True if a part of the range isn't fetched yet."""
        return self.start < self.end

    def add(self, data: memoryview, aborted: Sequence[Aborted]) -> None:
        """Add the batches of the range that a broker sent."""
        batches, size = [], 0
        for batch in split_batches(data):
            if batch.last >= self.start:
                batches.append(batch)
                size += len(batch.body)
            if size >= _MOST_DECOMPRESSED:
                break  # The rest is fetched again, when this has been taken.
        if not batches:
            return
        before = self.start
        for batch in batches:
            if batch.base < self.start and batch is not batches[0]:
                raise DamagedBatchError(f"the batch at offset {batch.base} comes twice")
            self.start = batch.last + 1
        messages = select_messages(batches, aborted)
        self.batches += [batch for batch in messages if batch.base < self.end and batch.count]
        each = len(data) / (self.start - before)
        self.wanted = int(min(max((self.end - self.start) * each * 1.1, _LEAST), _MOST / 2))


class Fetched(NamedTuple):
    """The answer for one partition."""

    topic: str
    partition: int
    error: int
    aborted: list[Aborted]
    data: memoryview


class Fetcher:
    """Fetches from one cluster; keeps its connections and the leaders of partitions.

    Raises:
        FetchError: When a setting isn't supported here.
    """

    def __init__(self, client: Mapping[str, str]) -> None:
        self.settings = ConnectionSettings.of(resolve_all(client))
        self.committed = client.get("isolation.level") == _COMMITTED
        self.client = client
        self._connections: dict[int, Connection] = {}
        self._leaders: dict[PartitionName, int] = {}
        self._addresses: dict[int, tuple[str, int]] = {}

    def fetch(self, ranges: Sequence[FetchProgress]) -> None:
        """Fetch a piece of each open range, and wait for some, or raise ``FetchError``."""
        by_leader: dict[int, list[FetchProgress]] = {}
        for one in ranges:
            if one.is_open:
                by_leader.setdefault(self._find_leader(one), []).append(one)
        deadline = time.monotonic() + _PATIENCE
        before = sum(one.start for one in ranges)
        while sum(one.start for one in ranges) == before:
            for leader, some in by_leader.items():
                self._fetch_from(leader, some)
            if time.monotonic() > deadline:
                raise FetchError("the brokers sent no messages")

    def close(self) -> None:
        """Close all connections."""
        while self._connections:
            self._connections.popitem()[1].close()

    def _fetch_from(self, leader: int, ranges: Sequence[FetchProgress]) -> None:
        progress_by_partition = {(one.topic, one.partition): one for one in ranges}
        try:
            if leader not in self._connections:
                connection = Connection(*self._addresses[leader], self.settings)
                self._connections[leader] = connection
                connection.require(_FETCH, _VERSION)
            request = _encode(ranges, committed=self.committed)
            answer = self._connections[leader].ask(_FETCH, _VERSION, request)
            for fetched in _decode(answer):
                if fetched.error:
                    raise FetchError(f"the broker answers with error {fetched.error}")
                aborted = fetched.aborted if self.committed else []
                progress_by_partition[fetched.topic, fetched.partition].add(fetched.data, aborted)
        except UnknownFormatError as error:
            raise FetchError(str(error)) from error
        except (FetchError, OSError, struct.error, KeyError) as error:
            self.close()
            self._leaders.clear()
            raise FetchError(f"a broker can't be asked: {error}") from error

    def _find_leader(self, one: FetchProgress) -> int:
        partition = one.topic, one.partition
        if partition not in self._leaders:
            self._find_leaders(one.topic)
        if partition not in self._leaders:
            raise FetchError(f"partition {one.partition} of {one.topic!r} has no leader")
        return self._leaders[partition]

    def _find_leaders(self, topic: str) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        settings = {"log_level": "2", **self.settings.of_admin}
        try:
            metadata = AdminClient(dict[str, Any](settings)).list_topics(topic, timeout=_PATIENCE)
        except KafkaException as error:
            raise FetchError(f"the leaders of {topic!r} can't be asked for: {error}") from error
        self._addresses |= {b.id: (str(b.host), b.port) for b in metadata.brokers.values()}
        for number, partition in metadata.topics[topic].partitions.items():
            if partition.error is None and partition.leader in self._addresses:
                self._leaders[topic, number] = partition.leader


# Checksums and compression, both part of the extra `kafka`.
_NEEDED = ("google_crc32c", "cramjam")
FETCHERS = ConnectionPool[Fetcher]()


@contextmanager
def lend_fetcher(client: Mapping[str, str]) -> Iterator[Fetcher | None]:
    """Lend a fetcher of a cluster to one reader; ``None`` if the cluster needs librdkafka."""
    if not all(map(find_spec, _NEEDED)) or not _can_fetch(client):
        yield None
        return
    with FETCHERS.lend(json.dumps(dict(client), sort_keys=True), lambda: Fetcher(client)) as one:
        yield one


def _can_fetch(client: Mapping[str, str]) -> bool:
    try:
        ConnectionSettings.of(client)
    except FetchError:
        return False
    return True


def _encode(ranges: Sequence[FetchProgress], *, committed: bool) -> bytes:
    topics: dict[str, list[FetchProgress]] = {}
    for one in ranges:
        topics.setdefault(one.topic, []).append(one)
    # The client is no replica, and keeps no fetch session.
    parts = [struct.pack(">iiiibii", -1, _WAIT_MS, 1, _MOST, int(committed), 0, -1)]
    parts.append(struct.pack(">i", len(topics)))
    for topic, some in topics.items():
        name = topic.encode()
        parts.append(struct.pack(">h", len(name)) + name + struct.pack(">i", len(some)))
        parts += [struct.pack(">iiqqi", r.partition, -1, r.start, -1, r.wanted) for r in some]
    return b"".join([*parts, struct.pack(">ih", 0, 0)])


def _decode(answer: memoryview) -> Iterator[Fetched]:
    _, error, _, topics = struct.unpack_from(">ihii", answer, 0)
    if error:
        raise FetchError(f"the broker answers with error {error}")
    at = 14
    for _ in range(topics):
        (size,) = struct.unpack_from(">h", answer, at)
        topic, at = str(answer[at + 2 : at + 2 + size], "utf-8"), at + 2 + size
        (partitions,) = struct.unpack_from(">i", answer, at)
        at += 4
        for _ in range(partitions):
            number, error, _, _, _, count = struct.unpack_from(">ihqqqi", answer, at)
            at += 34
            pairs = [struct.unpack_from(">qq", answer, at + 16 * n) for n in range(max(count, 0))]
            at += 16 * len(pairs)
            _, length = struct.unpack_from(">ii", answer, at)
            at += 8
            data = answer[at : at + max(length, 0)]
            if len(data) < length:
                raise FetchError("the broker's answer is cut off")
            at += len(data)
            yield Fetched(topic, number, error, [Aborted(*pair) for pair in pairs], data)
