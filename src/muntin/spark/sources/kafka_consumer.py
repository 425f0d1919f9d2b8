"""Ranges of Kafka's offsets, read by a worker.

A worker keeps one consumer for each cluster that it reads from, over batches: it is never a member
of a group, commits nothing, and reads just the ranges that it is given.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muntin.model.errors import SourceError

_AT_ONCE = 10_000
# A frame is made of about as many messages, or of as many bytes.
_MESSAGES, _BYTES = 100_000, 64 << 20
# Ranges this short are asked for together.
_SHORT = 50_000
_PATIENCE = 120.0
# What a consumer of ranges is, whatever else is set.
_CONSUMER = {
    "group.id": "muntin",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
}
# A worker's errors are the query's; a broker that is away for a moment is none.
QUIET = {"log_level": "2"}
_DEFAULTS = {
    # As Kafka's own clients have it.
    "isolation.level": "read_uncommitted",
    "fetch.wait.max.ms": "100",
    # What is fetched beyond a range is thrown away, so the queue is short; and librdkafka waits a
    # second by default before it fills a queue that was full.
    "queued.max.messages.kbytes": "4096",
    "queued.min.messages": "1000000",
    "fetch.queue.backoff.ms": "10",
    **QUIET,
}

Place = tuple[str, int]
_CONSUMERS: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Range:
    """Messages of one partition, from the first offset to before the end."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def place(self) -> Place:
        """The topic and the partition."""
        return self.topic, self.partition


def read(client: Mapping[str, str], lossy: bool, ranges: Sequence[Range]) -> Iterator[list[Any]]:
    """The messages of ranges, in the order of the ranges and of their offsets, some at a time.

    Args:
        client: Settings of librdkafka.
        lossy: Whether to go on where messages were deleted before they were read.
        ranges: What to read; no two of one partition.

    Raises:
        SourceError: When messages of a range aren't there any more, or the brokers don't give them.
    """
    group: list[Range] = []
    for one in ranges:
        if group and sum(r.end - r.start for r in group) + one.end - one.start > _SHORT:
            yield from _Reading(client, lossy, group).messages()
            group = []
        group.append(one)
    if group:
        yield from _Reading(client, lossy, group).messages()


class _Reading:
    """Reads a few ranges at once."""

    def __init__(self, client: Mapping[str, str], lossy: bool, ranges: Sequence[Range]) -> None:
        from confluent_kafka import Consumer

        self.lossy = lossy
        self.open = {one.place: one for one in ranges}
        self.found: dict[Place, list[Any]] = {one.place: [] for one in ranges}
        self.where = client["bootstrap.servers"]
        settings = {**_DEFAULTS, **client, **_CONSUMER}
        known = json.dumps(settings, sort_keys=True)
        if known not in _CONSUMERS:
            _CONSUMERS[known] = Consumer(settings)
        self.consumer = _CONSUMERS[known]

    def messages(self) -> Iterator[list[Any]]:
        """What the ranges hold, some messages at a time."""
        from confluent_kafka import TopicPartition

        starts = [TopicPartition(r.topic, r.partition, r.start) for r in self.open.values()]
        # Of one range a part can go on before the rest is there; several are kept in their order.
        alone, size, deadline = len(starts) == 1, 0, time.monotonic() + _PATIENCE
        self.consumer.assign(starts)
        try:
            while self.open:
                came = self.consumer.consume(_AT_ONCE, 0.1)
                if came:
                    size += self._take_all(came) if alone else sum(map(self._take, came))
                    deadline = time.monotonic() + _PATIENCE
                if time.monotonic() > deadline:
                    raise SourceError(
                        f"Kafka at {self.where} gave no message of {self._rest()} in "
                        f"{_PATIENCE:.0f} s; bring the brokers back and start the query again"
                    )
                kept = next(iter(self.found.values()))
                if alone and (len(kept) >= _MESSAGES or size >= _BYTES):
                    yield kept.copy()
                    kept.clear()
                    size = 0
        finally:
            self.consumer.unassign()
        yield from (messages for messages in self.found.values() if messages)

    def _take_all(self, came: list[Any]) -> int:
        """Keep messages of the only range that is read, all at once; returns their size."""
        if any(message.error() for message in came):
            return sum(map(self._take, came))
        [one] = self.open.values()
        offsets = [message.offset() for message in came]
        if offsets[-1] >= one.end - 1:
            del self.open[one.place]
            came = came[: bisect_left(offsets, one.end)]
        self.found[one.place] += came
        return sum(map(len, came))

    def _take(self, message: Any) -> int:
        """Keep a message, where it is of a range; returns its size."""
        place = message.topic(), message.partition()
        one = self.open.get(place)
        if message.error() is not None:
            self._judge(message, one)
            return 0
        if one is None:
            return 0
        if message.offset() >= one.end - 1:
            del self.open[place]
        if message.offset() >= one.end:
            return 0
        self.found[place].append(message)
        return len(message)

    def _judge(self, message: Any, one: Range | None) -> None:
        """What an event of the consumer means for a range."""
        from confluent_kafka import KafkaError, TopicPartition

        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            # Transactions' marks and what compaction has removed have offsets, and no messages.
            if one is not None and message.offset() >= one.end:
                del self.open[one.place]
            return
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            for lost in [one] if one is not None else list(self.open.values()):
                low, _ = self.consumer.get_watermark_offsets(
                    TopicPartition(lost.topic, lost.partition), timeout=_PATIENCE
                )
                self._skip(lost, low)
            return
        if error.fatal() or (not error.retriable() and one is not None):
            raise SourceError(f"Kafka at {self.where} doesn't give {self._rest()}: {error.str()}")

    def _skip(self, lost: Range, low: int) -> None:
        """Go on behind messages that aren't there any more, where that is allowed."""
        from confluent_kafka import TopicPartition

        if low <= lost.start:
            return
        if not self.lossy:
            raise SourceError(
                f"messages {lost.start} to {min(low, lost.end) - 1} of partition {lost.partition} "
                f"of topic {lost.topic!r} were deleted before they were read; keep messages for "
                "longer than the query may stand still, and to go on without them say so: "
                "options={'failOnDataLoss': 'false'}"
            )
        if low >= lost.end:
            del self.open[lost.place]
            return
        self.open[lost.place] = Range(lost.topic, lost.partition, low, lost.end)
        rest = [TopicPartition(r.topic, r.partition, r.start) for r in self.open.values()]
        for messages in self.found.values():
            messages.clear()
        self.consumer.assign(rest)

    def _rest(self) -> str:
        return ", ".join(f"{r.topic}[{r.partition}] {r.start}–{r.end - 1}" for r in
                         self.open.values())  # fmt: skip
