"""Reads ranges of Kafka's offsets by librdkafka.

A worker keeps one consumer for each cluster over batches. The consumer never joins a group, commits
nothing, and reads exactly the ranges that it is asked for.
"""

from __future__ import annotations

import gc
import json
import logging
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from muntin.model.errors import SourceError
from muntin.model.references import resolve_all
from muntin.sources.kafka_connection import ConnectionPool

_LOG = logging.getLogger(__name__)
# The advice for messages that no longer exist.
CONTINUE_HINT = (
    "To continue without them, from the state as it is, start the query with "
    "options={'failOnDataLoss': 'false'}"
)
_AT_ONCE, _WAIT = 2_000, 0.02
# The approximate limits of a frame, in messages and bytes. Shorter ranges are read together.
MOST_MESSAGES, MOST_BYTES = 100_000, 64 << 20
_PATIENCE = 120.0
# The setting that librdkafka names where an answer is larger.
_TOO_LARGE = "receive.message.max.bytes"
# Settings of a consumer of ranges, which take precedence over all others.
_CONSUMER = {
    "group.id": "muntin",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
}
# A worker's errors end the query, so the client's log is off; brief outages are no errors.
QUIET = {"log_level": "2"}
_DEFAULTS = {
    # The default of Kafka's own clients.
    "isolation.level": "read_uncommitted",
    # All messages of a range exist before it is requested. Behind its end the broker would wait for
    # more, and the request for the next range would wait for the broker.
    "fetch.wait.max.ms": "5",
    # Messages beyond a range are discarded, so the queue is short. By default, librdkafka waits a
    # second before it refills a queue that was full.
    "queued.max.messages.kbytes": "2048",
    "queued.min.messages": "1000000",
    "fetch.queue.backoff.ms": "10",
    **QUIET,
}

PartitionName = tuple[str, int]
CONSUMERS = ConnectionPool["_Client"]()


class Range(NamedTuple):
    """A range of offsets in one partition, from ``start`` to before ``end``."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def partition_name(self) -> PartitionName:
        """The topic and the partition."""
        return self.topic, self.partition

    @property
    def size(self) -> int:
        """The number of offsets, which is the greatest number of messages."""
        return self.end - self.start

    def describe_loss(self, low: int) -> str:
        """Describe the messages that were deleted, where the partition begins with ``low`` now."""
        return (
            f"messages {self.start} to {min(low, self.end) - 1} of partition {self.partition} of "
            f"topic {self.topic!r} were deleted before they were read: the partition begins with "
            f"offset {low} now"
        )

    def make_loss_error(self, low: int) -> SourceError:
        """Return the error of messages that were deleted."""
        return SourceError(
            f"{self.describe_loss(low)}. Keep messages for longer than the query may be stopped. "
            f"{CONTINUE_HINT}"
        )


@dataclass
class Columns:
    """Messages of one partition, as a list for each of their fields.

    Attributes:
        lists: Values of each field, by the name of its confluent_kafka method.
        size: Bytes of their keys and payloads, if these are among the fields.
    """

    topic: str
    partition: int
    lists: dict[str, Any]
    count: int = 0
    size: int = 0

    @property
    def is_full(self) -> bool:
        """True if there are enough messages or bytes for a frame."""
        return self.count >= MOST_MESSAGES or self.size >= MOST_BYTES

    def add(self, messages: Sequence[Any], getters: Mapping[str, Callable[[Any], Any]]) -> None:
        """Append the fields of messages; the messages themselves aren't kept."""
        if not messages:
            return
        for name, get in getters.items():
            if name == "offset" and _is_consecutive(messages):
                self.lists[name] += range(messages[0].offset(), messages[-1].offset() + 1)
                continue
            values = [*map(get, messages)]
            self.lists[name] += values
            if name in ("key", "value"):
                self.size += sum(map(len, filter(None, values)))
        self.count += len(messages)


class Watch(Protocol):
    """Checks on the brokers while a reader gets no messages.

    Attributes:
        patience: Longest silence, in seconds.
    """

    patience: float

    @property
    def ids(self) -> Mapping[str, str]:
        """The ids of the topics that are read, as far as they are known."""

    def note_silence(self, seconds: float) -> None:
        """Note that no message has come for some seconds; raise if none will come."""

    def note_messages(self) -> None:
        """Note that messages come again."""

    def note_reading(self, *, by_id: bool) -> None:
        """Note whether all messages that were read are certainly those of topics with the ids."""


def group_ranges(ranges: Sequence[Range]) -> Iterator[list[Range]]:
    """Group ranges that are read together, in their order; a long range is alone."""
    group: list[Range] = []
    for one in ranges:
        if group and sum(r.size for r in (*group, one)) > MOST_MESSAGES:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def consume(
    client: Mapping[str, str],
    lossy: bool,
    ranges: Sequence[Range],
    fields: Collection[str],
    watch: Watch | None = None,
) -> Iterator[list[Columns]]:
    """Read the messages of ranges by librdkafka, a list for each field; see ``kafka_reading``."""
    settings = {**_DEFAULTS, **client, **_CONSUMER}
    with CONSUMERS.lend(json.dumps(settings, sort_keys=True), partial(_connect, client)) as one:
        for group in group_ranges(ranges):
            yield from _Reading(one, client, lossy, group, fields, watch).messages()


class _Client(NamedTuple):
    """A consumer, and the last problem of its connections, after which it tries again by itself."""

    consumer: Any
    problems: deque[str]


def _connect(client: Mapping[str, str]) -> _Client:
    """Create a consumer; only it gets the secrets that settings refer to."""
    from confluent_kafka import Consumer, KafkaError

    problems = deque[str](maxlen=1)

    def note_problem(error: Any) -> None:
        # That no broker is reached follows the message that says why.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            problems.append(error.str())

    settings = {**_DEFAULTS, **client, **resolve_all(client), **_CONSUMER}
    return _Client(Consumer({**settings, "error_cb": note_problem}), problems)


class _Reading:
    """Reads a few ranges at once."""

    def __init__(
        self,
        connected: _Client,
        client: Mapping[str, str],
        lossy: bool,
        ranges: Sequence[Range],
        fields: Collection[str],
        watch: Watch | None = None,
    ) -> None:
        from confluent_kafka import Message

        self.lossy = lossy
        self.watch = watch
        self.patience = _PATIENCE if watch is None else watch.patience
        self.getters = {name: getattr(Message, name) for name in fields}
        # The rest of each range, from the next offset on.
        self.ranges = {one.partition_name: one for one in ranges}
        self.columns = {
            one.partition_name: self._create_columns(one.partition_name) for one in ranges
        }
        self.servers = client["bootstrap.servers"]
        self.consumer = connected.consumer
        self.problems = connected.problems
        self.problems.clear()

    def _create_columns(self, partition: PartitionName) -> Columns:
        return Columns(*partition, {name: [] for name in self.getters})

    def messages(self) -> Iterator[list[Columns]]:
        """Yield the messages of the ranges, by partition."""
        # A part of a single range can be yielded early; several ranges keep their order.
        only_partition = next(iter(self.ranges)) if len(self.ranges) == 1 else None
        last_message_at = time.monotonic()
        self._assign()
        try:
            while self.ranges:
                if self._receive():
                    last_message_at = time.monotonic()
                    if self.watch is not None:
                        self.watch.note_messages()
                else:
                    self._check_silence(time.monotonic() - last_message_at)
                if only_partition is not None and self.columns[only_partition].is_full:
                    full, self.columns[only_partition] = (
                        self.columns[only_partition],
                        self._create_columns(only_partition),
                    )
                    yield [full]
        finally:
            self.consumer.unassign()
        if rest := [columns for columns in self.columns.values() if columns.count]:
            yield rest

    def _check_silence(self, seconds: float) -> None:
        """Raise if no message has come for too long, or if none will come."""
        if self.watch is not None:
            self.watch.note_silence(seconds)
        problem = self.problems[-1] if self.problems else ""
        if _TOO_LARGE in problem:
            raise SourceError(
                f"messages of {self._describe_rest()} are larger than an answer may be: "
                f"{problem}. Raise it by options={{'{_TOO_LARGE}': …}}"
            )
        if seconds > self.patience:
            problem = f" ({problem})" if problem else ""
            raise SourceError(
                f"Kafka at {self.servers} sent no message of {self._describe_rest()} in "
                f"{self.patience:.0f} s{problem}. Bring the brokers back and start the query again"
            )

    def _assign(self) -> None:
        from confluent_kafka import TopicPartition

        remaining = self.ranges.values()
        self.consumer.assign([TopicPartition(r.topic, r.partition, r.start) for r in remaining])

    def _receive(self) -> bool:
        """Receive messages; return whether any have come.

        Python's garbage collector counts messages, and scans them again and again though none is
        part of a cycle. That takes longer than reading them, so it is disabled meanwhile.
        """
        remaining = sum(one.size for one in self.ranges.values())
        collects = gc.isenabled()
        gc.disable()
        try:
            # The client waits until it has the number of messages that it is asked for.
            received = self.consumer.consume(min(remaining, _AT_ONCE), _WAIT)
            if received:
                self._handle_messages(received)
            return bool(received)
        finally:
            if collects:
                gc.enable()

    def _handle_messages(self, messages_and_events: Sequence[Any]) -> None:
        """Keep messages, and handle the events among them."""
        from confluent_kafka import Message

        if not any(map(Message.error, messages_and_events)):
            is_single = len(self.columns) == 1
            for messages in (
                [messages_and_events] if is_single else _split_by_partition(messages_and_events)
            ):
                self._add_messages(_partition_of(messages[0]), messages)
            return
        for message in messages_and_events:
            partition = _partition_of(message)
            if message.error() is None:
                self._add_messages(partition, [message])
            elif self._handle_event(message, self.ranges.get(partition)):
                # The messages that follow are sent again.
                return

    def _add_messages(self, partition: PartitionName, messages: Sequence[Any]) -> None:
        """Keep the messages of one partition that belong to its range."""
        one = self.ranges.get(partition)
        if one is None:
            return
        last = messages[-1].offset()
        if last >= one.end - 1:
            self._close(partition)
            messages = messages[: bisect_left(messages, one.end, key=lambda m: m.offset())]
        else:
            self.ranges[partition] = one._replace(start=last + 1)
        self.columns[partition].add(messages, self.getters)

    def _close(self, partition: PartitionName) -> None:
        """Stop reading a range, so that what follows it isn't fetched while the others are read."""
        from confluent_kafka import TopicPartition

        del self.ranges[partition]
        if self.ranges:
            self.consumer.incremental_unassign([TopicPartition(*partition)])

    def _handle_event(self, message: Any, one: Range | None) -> bool:
        """Handle an event of the consumer; return whether the ranges were assigned again."""
        from confluent_kafka import KafkaError, TopicPartition

        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            # The markers of transactions, and messages removed by compaction, use up offsets.
            if one is not None and message.offset() >= one.end:
                self._close(one.partition_name)
            return False
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            for lost in [one] if one is not None else list(self.ranges.values()):
                low, _ = self.consumer.get_watermark_offsets(
                    TopicPartition(lost.topic, lost.partition), timeout=_PATIENCE
                )
                self._skip(lost, low)
            self._assign()
            return True
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise refuse_access(f"topic {message.topic()!r}", self.servers, error)
        if error.fatal() or (not error.retriable() and one is not None):
            raise SourceError(
                f"Kafka at {self.servers} doesn't send {self._describe_rest()}: {error.str()}"
            )
        return False

    def _skip(self, lost: Range, low: int) -> None:
        """Skip messages that were deleted, if that is allowed."""
        if low <= lost.start:
            return
        if not self.lossy:
            raise lost.make_loss_error(low)
        _LOG.warning("%s. The query goes on without them", lost.describe_loss(low))
        if low >= lost.end:
            self._close(lost.partition_name)
        else:
            self.ranges[lost.partition_name] = lost._replace(start=low)

    def _describe_rest(self) -> str:
        remaining = self.ranges.values()
        return ", ".join(f"{r.topic}[{r.partition}] {r.start}–{r.end - 1}" for r in remaining)


def refuse_access(resource: str, servers: str, error: Any) -> SourceError:
    """Return the error of a topic or a group that brokers don't let the query's user read."""
    return SourceError(
        f"{resource} on {servers}: {error.str().rpartition('Broker: ')[2]}. Allow the query's user "
        "to read and describe it, and start the query again"
    )


def _is_consecutive(messages: Sequence[Any]) -> bool:
    return bool(messages[-1].offset() - messages[0].offset() == len(messages) - 1)


def _split_by_partition(messages: Sequence[Any]) -> Iterator[Sequence[Any]]:
    from confluent_kafka import Message

    # A Python function called for each message would take as long as all the rest.
    partitions = np.fromiter(map(Message.partition, messages), np.int32, len(messages))
    topics = np.fromiter(map(Message.topic, messages), object, len(messages))
    begins = (partitions[1:] != partitions[:-1]) | (topics[1:] != topics[:-1])
    for start, end in pairwise([0, *(np.flatnonzero(begins) + 1).tolist(), len(messages)]):
        yield messages[start:end]


def _partition_of(message: Any) -> PartitionName:
    return message.topic(), message.partition()
