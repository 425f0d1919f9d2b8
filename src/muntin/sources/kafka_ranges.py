"""Ranges of Kafka's offsets: where a query begins, how far it may read, what a task reads.

A host asks `Broker` for the newest offsets before each batch and writes them down, so that a batch
that is repeated reads the same ranges.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muntin.model.errors import SourceError
from muntin.sources.kafka_consumer import QUIET, Range

Offsets = dict[str, dict[str, int]]

# Fewer messages aren't worth a second task.
_MESSAGES_OF_A_TASK = 20_000
_PATIENCE = 60
_EARLIEST, _LATEST = -2, -1


@dataclass(frozen=True)
class Topics:
    """What is read, and where.

    Attributes:
        names: The topics.
        starting: ``earliest``, ``latest``, or offsets by topic and partition.
        per_batch: How many messages a batch takes, about; ``None`` is all there are.
        client: Settings of librdkafka.
        lossy: Whether to go on where messages were deleted before they were read.
    """

    names: tuple[str, ...]
    starting: str | Mapping[str, Mapping[str, int]]
    per_batch: int | None
    client: Mapping[str, str] = field(repr=False)
    lossy: bool = False


class Broker:
    """What a cluster says of its topics: their partitions, and the offsets in them."""

    def __init__(self, topics: Topics) -> None:
        from confluent_kafka.admin import AdminClient

        self.topics = topics
        self._committed = topics.client.get("isolation.level") == "read_committed"
        settings = {**QUIET, **topics.client}
        ours = {name: value for name, value in settings.items() if name not in _OF_CONSUMERS}
        self._admin = AdminClient(dict[str, Any](ours))

    def partitions(self) -> dict[str, list[int]]:
        """The partitions of each topic."""
        found = {}
        for name in self.topics.names:
            try:
                topic = self._admin.list_topics(name, timeout=_PATIENCE).topics[name]
            except Exception as error:
                raise self._unreachable(error) from error
            if topic.error is not None or not topic.partitions:
                reason = topic.error.str() if topic.error is not None else "it has no partitions"
                raise SourceError(f"topic {name!r} can't be read: {reason}; create it first")
            found[name] = sorted(topic.partitions)
        return found

    def offsets(self, which: int, partitions: Mapping[str, Iterable[int]]) -> Offsets:
        """The earliest or the latest offset of each partition.

        Raises:
            SourceError: When the brokers don't answer, after a minute.
        """
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._asked(which, partitions)
            except Exception as error:
                if time.monotonic() > deadline:
                    raise self._unreachable(error) from error
            # A broker that has just come back knows less than what is remembered of it.
            time.sleep(0.2)
            self.partitions()

    def _asked(self, which: int, partitions: Mapping[str, Iterable[int]]) -> Offsets:
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        spec = OffsetSpec.earliest() if which == _EARLIEST else OffsetSpec.latest()
        asked = {TopicPartition(t, p): spec for t, numbers in partitions.items() for p in numbers}
        level = IsolationLevel.READ_UNCOMMITTED
        if self._committed:
            level = IsolationLevel.READ_COMMITTED
        answers = self._admin.list_offsets(asked, isolation_level=level, request_timeout=_PATIENCE)
        found: Offsets = {}
        for place, answer in answers.items():
            offset = answer.result(timeout=_PATIENCE).offset
            found.setdefault(place.topic, {})[str(place.partition)] = offset
        return found

    def latest(self) -> Offsets:
        """Up to where each partition can be read."""
        return self.offsets(_LATEST, self.partitions())

    def first(self) -> Offsets:
        """Where a new query begins."""
        starting, partitions = self.topics.starting, self.partitions()
        if isinstance(starting, str):
            return self.offsets(_EARLIEST if starting == "earliest" else _LATEST, partitions)
        ends = {which: self.offsets(which, partitions) for which in (_EARLIEST, _LATEST)}
        return {
            topic: {
                str(p): ends[given][topic][str(p)] if given < 0 else given
                for p in numbers
                for given in [starting.get(topic, {}).get(str(p), _EARLIEST)]
            }
            for topic, numbers in partitions.items()
        }

    def _unreachable(self, error: Exception) -> SourceError:
        where = self.topics.client["bootstrap.servers"]
        return SourceError(f"Kafka at {where} doesn't say what {self.topics.names} hold: {error}")


# Settings that an admin client doesn't know.
_OF_CONSUMERS = frozenset(
    ("isolation.level", "group.id", "auto.offset.reset", "enable.partition.eof",
     "enable.auto.commit", "queued.max.messages.kbytes", "fetch.wait.max.ms")
)  # fmt: skip


def ends_of(offset: Mapping[str, Any]) -> Offsets:
    """The offsets that a checkpoint has, by this reader or by Spark's connector."""
    return dict(offset["ends"]) if "ends" in offset else dict(offset)


def within(start: Offsets, newest: Offsets, limit: int) -> Offsets:
    """Ends of a batch of at most about so many messages, shared out by what there is."""
    rest = {
        (topic, p): max(0, end - start.get(topic, {}).get(p, 0))
        for topic, numbers in newest.items()
        for p, end in numbers.items()
    }
    whole = sum(rest.values())
    if whole <= limit:
        return newest
    return {
        topic: {p: end - rest[topic, p] + -(-rest[topic, p] * limit // whole)
                for p, end in numbers.items()}
        for topic, numbers in newest.items()
    }  # fmt: skip


def ranges_of(start: Offsets, end: Offsets) -> list[Range]:
    """What lies between two offsets."""
    found = []
    for topic in sorted(start.keys() | end.keys()):
        for p in sorted(start.get(topic, {}).keys() | end.get(topic, {}).keys(), key=int):
            # A partition that is new begins with its first message.
            first, behind = start.get(topic, {}).get(p, 0), end.get(topic, {}).get(p)
            if behind is None or behind < first:
                has = "is gone" if behind is None else f"ends at {behind}"
                raise SourceError(
                    f"partition {p} of topic {topic!r} was read up to {first} and {has}: the topic "
                    "was made anew; start with a new checkpoint folder"
                )
            if behind > first:
                found.append(Range(topic, int(p), first, behind))
    return found


def shares(ranges: Sequence[Range], tasks: int) -> list[list[Range]]:
    """Ranges cut into parts of like size, one a task, in their order."""
    whole = sum(one.size for one in ranges)
    count = max(1, min(tasks, whole // _MESSAGES_OF_A_TASK))
    found: list[list[Range]] = [[] for _ in range(count)]
    done = 0
    for one in ranges:
        start = one.start
        while start < one.end:
            task = done * count // whole
            cut = min(one.end, start + -(-(task + 1) * whole // count) - done)
            found[task].append(one._replace(start=start, end=cut))
            done, start = done + cut - start, cut
    return [part for part in found if part]


def starting_of(text: str) -> str | Mapping[str, Mapping[str, int]]:
    """Where to begin: a word, or offsets as JSON."""
    if text in ("earliest", "latest"):
        return text
    found = json.loads(text)
    if not isinstance(found, dict) or not all(isinstance(v, dict) for v in found.values()):
        raise ValueError(text)
    return {t: {str(p): int(o) for p, o in numbers.items()} for t, numbers in found.items()}
