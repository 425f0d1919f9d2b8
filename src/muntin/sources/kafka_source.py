"""Topics of Kafka as a source of columns, for hosts in this process."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import polars as pl

from muntin.engine.columns import PARTITION
from muntin.engine.utf8 import GARBLED
from muntin.model.errors import SourceError
from muntin.sources.fetch import Fetcher, FetchProgress, lend_fetcher
from muntin.sources.kafka_broker import Broker, Described, Offsets, TopicIds, Topics
from muntin.sources.kafka_columns import KafkaReader, ReadAhead
from muntin.sources.kafka_connection import FetchError
from muntin.sources.kafka_ranges import (
    TopicWatch,
    ends_of,
    lag_of,
    limit_batch,
    partition_backlog,
    ranges_of,
    refuse_expired,
    refuse_recreated,
)
from muntin.sources.kafka_reading import FetchedMessages
from muntin.sources.kafka_sizes import MessageSizes
from muntin.sources.record_batches import DamagedBatchError
from muntin.sources.source import (
    MALFORMED_COLUMN,
    Planned,
    Source,
    SourceOffsets,
    SourceReader,
)

# The bytes of a batch by default.
_BATCH_BYTES = 256 << 20
# How often to look for new partitions of topics, in seconds.
_DESCRIBING = 5.0
# How long a broker waits for the first message, in seconds. It doubles from the first to the last,
# so that a query is soon known to be idle.
_SHORTEST_WAIT, _LONGEST_WAIT = 0.001, 0.05
# The messages of a batch after which the next one may be small enough for a single request.
_FEW_MESSAGES = 20_000
# How long nothing is fetched here after an error, in seconds.
_PAUSE = 5.0
# No partition has as many messages.
_END = 1 << 62


@dataclass(frozen=True)
class KafkaSource(Source):
    """The topics of Kafka as a source; see `Source`.

    Attributes:
        topics: The topics, and where a new query begins.
        columns: Reads ranges, and decodes payloads.
        has_partitions: Each partition has a clock.
    """

    topics: Topics
    columns: KafkaReader = field(repr=False)
    has_partitions: ClassVar[bool] = True

    @property
    def schema(self) -> pl.Schema:
        """The columns of a message."""
        return pl.Schema(self.columns.wanted)

    @property
    def malformed_column(self) -> str | None:
        """The column of payloads that can't be decoded, if payloads are decoded."""
        return MALFORMED_COLUMN if self.columns.payload is not None else None

    def open(self) -> KafkaSourceReader:
        """Connect to the brokers.

        Raises:
            SourceError: When a topic doesn't exist, or the brokers don't answer.
        """
        return KafkaSourceReader(self)


@dataclass(frozen=True)
class BatchReading:
    """A batch that is being read.

    Attributes:
        is_fetched: True if its messages were fetched before it was planned.
    """

    before: Offsets
    ends: Offsets
    frames: Generator[pl.DataFrame, None, None] | ReadAhead[pl.DataFrame]
    watch: TopicWatch
    is_fetched: bool = False


class KafkaSourceReader(SourceReader):
    """Reads ranges of topics; see `SourceReader`."""

    def __init__(self, source: KafkaSource) -> None:
        self._source = source
        self._broker = Broker(source.topics)
        self._description = self._broker.describe()
        self._description_time = time.monotonic()
        self._sizes = MessageSizes(source.topics.client)
        self._first: Offsets | None = None
        self._last_start: SourceOffsets | None = None
        self._most: int | None = None
        self._next: BatchReading | None = None
        self._tail = Tail(source.topics.client)
        # Whether the last batch had all messages that there were, and these were few.
        self._keeps_up = False
        self._wait = _SHORTEST_WAIT

    def plan(self, start: SourceOffsets | None, limit: int | None) -> Planned:
        """Plan a batch up to the newest messages, or up to a number of messages or bytes."""
        topics = self._source.topics
        described = self._refresh_description(start)
        before = self._start_offsets(start, described)
        self._most = min(filter(None, (limit, topics.per_batch)), default=None)
        newest = self._fetch_newest(before, described)
        if newest is None:
            newest = self._broker.latest(described.partitions)
        try:
            ranges = ranges_of(before, newest, lossy=topics.lossy)
        except SourceError:
            # A topic that was created again has fewer messages, which its id tells.
            self._description_time = -math.inf
            self._refresh_description(start)
            raise
        resumed = start is not None and self._last_start is None
        if resumed and not topics.lossy:
            # Messages may have expired while the query stood still.
            refuse_expired(ranges, self._broker.earliest(described.partitions))
        if start is not None and start != self._last_start:
            # Every offset before the start of a batch is processed.
            self._broker.commit(before)
        self._last_start = start
        if not ranges:
            self._keeps_up = start is not None
            nothing = (
                self._create_offsets(before, newest, described, start) if start is None else start
            )
            return Planned(nothing, has_new=False)
        self._wait = _SHORTEST_WAIT
        if self._next is not None and self._next.before == before:
            ends = self._next.ends
        else:
            ends = self._limit(before, newest)
        few = sum(one.size for one in ranges) <= _FEW_MESSAGES
        self._keeps_up = start is not None and ends == newest and few
        end = self._create_offsets(ends, newest, described, start)
        return Planned(end, has_new=True, caught_up=ends == newest)

    def wait(self, start: SourceOffsets | None, timeout: float) -> bool:
        """Wait for the first message after all that were planned; see `SourceReader`."""
        if start is None or self._next is not None:
            return False
        wait, self._wait = min(timeout, self._wait), min(2 * self._wait, _LONGEST_WAIT)
        return self._fetch_newest(ends_of(start), self._description, wait) is not None

    def _fetch_newest(
        self, before: Offsets, described: Described, wait: float = 0.0
    ) -> Offsets | None:
        """Fetch all messages after some offsets as the next batch, if they are likely to be few.

        Returns:
            The offsets after them; `None` when they have to be planned and read in two steps.
        """
        if self._next is not None and self._next.is_fetched and self._next.before == before:
            return self._next.ends
        has_all = {t: {int(p) for p in numbers} for t, numbers in before.items()} == {
            topic: {*numbers} for topic, numbers in described.partitions.items()
        }
        if self._next is not None or not self._keeps_up or not has_all:
            return None
        new = self._tail.fetch(before, described.ids, wait)
        if new is None or new.size > (self._source.topics.bytes_per_batch or _BATCH_BYTES):
            return None
        count = sum(one.size for one in ranges_of(before, new.ends))
        if self._most is not None and count > self._most:
            return None
        if count:
            self._next = self._take(new, described)
        return new.ends

    def _take(self, new: NewMessages, described: Described) -> BatchReading:
        """Return the reading of a batch whose messages were fetched."""
        topics = self._source.topics
        watch = TopicWatch(topics.client, described.ids, topics.patience)
        watch.note_reading(by_id=new.is_by_id)
        frames = self._columns.read_parts(new.parts)
        return BatchReading(new.before, new.ends, frames, watch, is_fetched=True)

    @property
    def _columns(self) -> KafkaReader:
        return replace(self._source.columns, has_partition_names=True)

    def _limit(self, before: Offsets, newest: Offsets) -> Offsets:
        """Return the ends of a batch that has at most the messages and bytes of one."""
        ends = newest if self._most is None else limit_batch(before, newest, self._most)
        return self._sizes.limit(before, ends, self._source.topics.bytes_per_batch or _BATCH_BYTES)

    def read(self, start: SourceOffsets | None, end: SourceOffsets) -> Iterator[pl.DataFrame]:
        """Read the messages of a range, partition by partition in order.

        When the source has messages for another batch, their reading begins before the caller has
        computed this one.
        """
        before: Offsets = dict(end["from"]) if start is None else ends_of(start)
        begun, self._next = self._next, None
        if begun is not None and (begun.before, begun.ends) != (before, ends_of(end)):
            begun.frames.close()
            begun = None
        batch = begun or self._begin(before, ends_of(end), end)
        with closing(batch.frames):
            for frame in batch.frames:
                marks = [GARBLED] if GARBLED in frame.columns else []
                yield frame.select(*self._source.schema.names(), PARTITION, *marks)
            # A topic that was created again meanwhile may have returned its own messages.
            batch.watch.refuse_other_topics()
        self._begin_next(end)

    def _begin(self, before: Offsets, ends: Offsets, end: SourceOffsets) -> BatchReading:
        topics = self._source.topics
        watch = TopicWatch(topics.client, end.get("ids", {}), topics.patience)
        ranges = ranges_of(before, ends, lossy=topics.lossy)
        return BatchReading(before, ends, self._columns.read(ranges, watch), watch)

    def _begin_next(self, end: SourceOffsets) -> None:
        """Begin to read the next batch, if it is certain to be full."""
        before, newest = ends_of(end), end.get("newest", {})
        if before == newest:
            return
        ends = self._limit(before, newest)
        if ends != newest:
            self._next = self._begin(before, ends, end)

    def backlog(self, end: SourceOffsets) -> Mapping[str, bool]:
        """Return whether each partition had more than a batch reads; see `SourceReader`."""
        return partition_backlog(end)

    def lag(self, end: SourceOffsets) -> Mapping[str, int]:
        """Return how many messages each partition had after a batch, when it was planned."""
        return lag_of(end)

    def close(self) -> None:
        """Stop reading ahead; connections are kept for the next query on the cluster."""
        if self._next is not None:
            self._next.frames.close()
        self._tail.close()

    def _refresh_description(self, start: SourceOffsets | None) -> Described:
        if time.monotonic() > self._description_time + _DESCRIBING:
            self._description = self._broker.describe()
            self._description_time = time.monotonic()
        if start is not None and not self._source.topics.lossy:
            now = self._description
            refuse_recreated(start.get("ids", {}), now.ids, ends_of(start), now.partitions)
        return self._description

    def _start_offsets(self, start: SourceOffsets | None, described: Described) -> Offsets:
        if start is not None:
            return ends_of(start)
        if self._first is None:
            self._first = self._broker.first(described.partitions)
        return self._first

    def _create_offsets(
        self, ends: Offsets, newest: Offsets, described: Described, start: SourceOffsets | None
    ) -> dict[str, Any]:
        """Return the end of a range with facts for planning; the first one also has its start."""
        offsets: dict[str, Any] = {"ends": ends, "ids": described.ids, "newest": newest}
        return offsets if start is not None else {**offsets, "from": self._first}


@dataclass(frozen=True)
class NewMessages:
    """All messages of topics after some offsets.

    Attributes:
        before: The offsets.
        ends: The offsets after the last messages.
        parts: The messages, by partition.
        is_by_id: True if they are certainly those of topics with the ids.
    """

    before: Offsets
    ends: Offsets
    parts: list[FetchedMessages]
    is_by_id: bool

    @property
    def size(self) -> int:
        """The number of bytes of the messages."""
        return sum(len(batch.body) for part in self.parts for batch in part.batches)


class Tail:
    """Fetches the newest messages of topics, for a reader that keeps up with them.

    Such a reader needs neither to ask for the newest offsets nor to wait for the next poll: the
    broker answers a fetch as soon as there is a message, and says in the answer where its
    partitions end.
    """

    def __init__(self, client: Mapping[str, str]) -> None:
        self._lending = ExitStack()
        self._fetcher: Fetcher | None = self._lending.enter_context(lend_fetcher(client))
        self._paused_until = 0.0

    def fetch(self, before: Offsets, ids: TopicIds, wait: float = 0.0) -> NewMessages | None:
        """Fetch all messages after some offsets.

        Args:
            before: The offsets.
            ids: The ids of the topics, as far as they are known.
            wait: How long to wait for the first message, in seconds. Where partitions have several
                leaders, there is no wait for any of them.

        Returns:
            The messages; ``None`` when they are too many for one request, or can't be fetched.
        """
        if self._fetcher is None or time.monotonic() < self._paused_until:
            return None
        progress = [
            FetchProgress(topic, int(number), start, _END)
            for topic, starts in before.items()
            for number, start in starts.items()
        ]
        try:
            if wait and self._fetcher.count_leaders(progress) > 1:
                return None
            is_by_id = self._fetcher.fetch_once(progress, ids, int(wait * 1000))
        except (FetchError, DamagedBatchError):
            # Whoever reads the range describes the error.
            self._paused_until = time.monotonic() + _PAUSE
            return None
        if any(one.start != one.newest for one in progress):
            return None
        ends: Offsets = {topic: {} for topic in before}
        for one in progress:
            ends[one.topic][str(one.partition)] = one.start
        parts = [
            FetchedMessages(
                one.topic, one.partition, one.batches, before[one.topic][str(one.partition)],
                one.start,
            )
            for one in progress
            if one.batches
        ]  # fmt: skip
        return NewMessages(before, ends, parts, is_by_id)

    def close(self) -> None:
        """Return the connections."""
        self._fetcher = None
        self._lending.close()
