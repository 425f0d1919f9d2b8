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
from types import MappingProxyType
from typing import Any

from muntin.model.references import resolve_all
from muntin.sources.fetch_requests import (
    BY_ID,
    BY_NAME,
    FETCH,
    MOST_BYTES,
    Fetched,
    decode_by_id,
    decode_by_name,
    encode_by_id,
    encode_by_name,
    parse_topic_id,
)
from muntin.sources.kafka_connection import (
    Connection,
    ConnectionPool,
    ConnectionSettings,
    FetchError,
)
from muntin.sources.kafka_consumer import MOST_MESSAGES, PartitionName
from muntin.sources.record_batches import (
    Aborted,
    DamagedBatchError,
    RecordBatch,
    UnknownFormatError,
    select_messages,
    split_batches,
)

_WAIT_MS, _PATIENCE = 100, 10.0
# The limits of an answer in bytes per partition. A range begins with fewer bytes, and then asks for
# as many as its first messages suggest.
_FIRST, _LEAST = 1 << 20, 1 << 16
# The size limit of what is decompressed of an answer at once, in bytes.
_MOST_DECOMPRESSED = 256 << 20
_COMMITTED = "read_committed"
NO_IDS: Mapping[str, str] = MappingProxyType({})


@dataclass
class FetchProgress:
    """The progress of fetching one range.

    Attributes:
        batches: Fetched batches that weren't taken yet, without control batches.
        wanted: Number of bytes to ask for.
        newest: Offset after the partition's last message, as of the last answer; ``None`` before.
    """

    topic: str
    partition: int
    start: int
    end: int
    batches: list[RecordBatch] = field(default_factory=list)
    wanted: int = _FIRST
    newest: int | None = None

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
        # More than a frame's messages would make a larger frame, which no cache holds.
        count = min(self.end - self.start, MOST_MESSAGES)
        self.wanted = int(min(max(count * each * 1.1, _LEAST), MOST_BYTES / 2))


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

    def fetch(self, ranges: Sequence[FetchProgress], ids: Mapping[str, str] = NO_IDS) -> bool:
        """Fetch a piece of each open range, and wait for some, or raise ``FetchError``.

        Args:
            ranges: The ranges.
            ids: The ids of their topics, as far as they are known.

        Returns:
            Whether the messages are certainly those of topics with these ids.
        """
        deadline = time.monotonic() + _PATIENCE
        before = sum(one.start for one in ranges)
        are_certain = True
        while sum(one.start for one in ranges) == before:
            are_certain &= self.fetch_once(ranges, ids, _WAIT_MS)
            if time.monotonic() > deadline:
                raise FetchError("the brokers sent no messages")
        return are_certain

    def fetch_once(
        self, ranges: Sequence[FetchProgress], ids: Mapping[str, str], wait: int
    ) -> bool:
        """Fetch a piece of each open range, if there is one; see ``fetch``.

        Args:
            ranges: The ranges.
            ids: The ids of their topics, as far as they are known.
            wait: How long a broker waits for the first message, milliseconds.
        """
        by_leader: dict[int, list[FetchProgress]] = {}
        for one in ranges:
            if one.is_open:
                by_leader.setdefault(self._find_leader(one), []).append(one)
        are_certain = True
        for leader, some in by_leader.items():
            are_certain &= self._fetch_from(leader, some, ids, wait)
        return are_certain

    def count_leaders(self, ranges: Sequence[FetchProgress]) -> int:
        """Return how many brokers lead the partitions of ranges, or raise ``FetchError``."""
        return len({self._find_leader(one) for one in ranges})

    def close(self) -> None:
        """Close all connections."""
        while self._connections:
            self._connections.popitem()[1].close()

    def _fetch_from(
        self, leader: int, ranges: Sequence[FetchProgress], ids: Mapping[str, str], wait: int
    ) -> bool:
        """Fetch from one broker; return whether the topics certainly have these ids."""
        progress_by_partition = {(one.topic, one.partition): one for one in ranges}
        try:
            connection = self._connect(leader)
            by_id = connection.takes(FETCH, BY_ID) and all(one.topic in ids for one in ranges)
            for fetched in self._ask(connection, ranges, ids if by_id else NO_IDS, wait):
                if fetched.error:
                    raise FetchError(f"the broker answers with error {fetched.error}")
                one = progress_by_partition[fetched.topic, fetched.partition]
                one.newest = fetched.newest
                one.add(fetched.data, fetched.aborted)
            return by_id
        except UnknownFormatError as error:
            raise FetchError(str(error)) from error
        except (FetchError, OSError, struct.error, KeyError) as error:
            self.close()
            self._leaders.clear()
            raise FetchError(f"a broker can't be asked: {error}") from error

    def _ask(
        self,
        connection: Connection,
        ranges: Sequence[FetchProgress],
        ids: Mapping[str, str],
        wait: int,
    ) -> Iterator[Fetched]:
        """Send a request, which names topics by their ids if there are some."""
        committed = self.committed
        if not ids:
            request = encode_by_name(ranges, committed=committed, wait=wait)
            answer = connection.ask(FETCH, BY_NAME, request)
            return decode_by_name(answer, committed=committed)
        numbers = {one.topic: parse_topic_id(ids[one.topic]) for one in ranges}
        request = encode_by_id(ranges, numbers, committed=committed, wait=wait)
        answer = connection.ask(FETCH, BY_ID, request, has_tags=True)
        return decode_by_id(answer, numbers, committed=committed)

    def _connect(self, leader: int) -> Connection:
        connection = self._connections.get(leader)
        if connection is None:
            connection = Connection(*self._addresses[leader], self.settings)
            self._connections[leader] = connection
            connection.require(FETCH, BY_NAME)
        return connection

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
