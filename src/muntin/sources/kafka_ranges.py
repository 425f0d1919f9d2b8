"""Ranges of Kafka's offsets: those of a batch and of its tasks, and checks that topics still exist.

A host asks a ``Broker`` for the newest offsets before each batch and stores them, so that a
repeated batch reads the same ranges.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from muntin.model.errors import SourceError
from muntin.model.patience import AwayError
from muntin.sources.kafka_broker import Broker, Offsets, TopicIds, Topics
from muntin.sources.kafka_consumer import CONTINUE_HINT, Range

# A second task isn't worth it for fewer messages.
_MESSAGES_OF_A_TASK = 20_000
# How often a reader without messages queries the brokers, in seconds.
_SILENCE = 3.0
# A worker's admin clients, by their settings.
_BROKERS: dict[str, Broker] = {}


def ends_of(offset: Mapping[str, Any]) -> Offsets:
    """Return the offsets in a checkpoint, written by this reader or by Spark's connector."""
    return dict(offset["ends"]) if "ends" in offset else dict(offset)


def limit_batch(start: Offsets, newest: Offsets, limit: int) -> Offsets:
    """Return the ends of a batch of about ``limit`` messages, in proportion to the backlogs."""
    backlog = {
        (topic, p): max(0, end - start.get(topic, {}).get(p, 0))
        for topic, numbers in newest.items()
        for p, end in numbers.items()
    }
    whole = sum(backlog.values())
    if whole <= limit:
        return newest
    return {
        topic: {p: end - backlog[topic, p] + -(-backlog[topic, p] * limit // whole)
                for p, end in numbers.items()}
        for topic, numbers in newest.items()
    }  # fmt: skip


def ranges_of(start: Offsets, end: Offsets, *, lossy: bool = False) -> list[Range]:
    """Return the ranges between the first offsets and those after the last messages.

    A partition without a start begins with its first message. One that is gone, or shorter than it
    was, is an error unless ``lossy``.
    """
    ranges = []
    for topic in sorted(start.keys() | end.keys()):
        for p in sorted(start.get(topic, {}).keys() | end.get(topic, {}).keys(), key=int):
            first, behind = start.get(topic, {}).get(p, 0), end.get(topic, {}).get(p)
            if behind is None or behind < first:
                if lossy:
                    continue
                has = "is gone" if behind is None else f"ends at {behind} now"
                raise SourceError(
                    f"partition {p} of topic {topic!r} was read up to offset {first} and {has}: "
                    f"the topic was deleted, or a broker has lost messages. {CONTINUE_HINT}"
                )
            if behind > first:
                ranges.append(Range(topic, int(p), first, behind))
    return ranges


def refuse_recreated(was: TopicIds, now: TopicIds, ends: Offsets, present: Collection[str]) -> None:
    """Raise when a topic was deleted, or created again, since it was read.

    ``was`` and ``now`` are the topics' ids then and now, ``ends`` are offsets up to which they were
    read, and ``present`` the topics that exist.
    """
    for topic, topic_id in was.items():
        if topic in present and now.get(topic, topic_id) == topic_id:
            continue
        upto = ", ".join(f"{p} up to {n}" for p, n in sorted(ends.get(topic, {}).items()))
        again = f" and created again (id {topic_id}, now {now[topic]})" if topic in now else ""
        raise SourceError(
            f"topic {topic!r} was deleted{again}: partition {upto} was read, and the rest is gone. "
            f"A new topic isn't read in its place. {CONTINUE_HINT}"
        )


def refuse_expired(ranges: Sequence[Range], lows: Offsets) -> None:
    """Raise when messages of a range were deleted."""
    for one in ranges:
        low = lows.get(one.topic, {}).get(str(one.partition), one.start)
        if low > one.start:
            raise one.make_loss_error(low)


def lag_of(offset: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of unread messages per partition when a batch was planned.

    Example:
        >>> lag_of({"ends": {"orders": {"0": 5, "1": 7}}, "newest": {"orders": {"0": 9, "1": 7}}})
        {'orders[0]': 4, 'orders[1]': 0}
    """
    ends = ends_of(offset)
    return {
        f"{topic}[{p}]": max(0, newest - ends.get(topic, {}).get(p, 0))
        for topic, numbers in offset.get("newest", {}).items()
        for p, newest in numbers.items()
    }


def partition_backlog(offset: Mapping[str, Any]) -> dict[str, bool]:
    """Return whether each partition had more than a batch reads, when it was planned.

    Example:
        >>> partition_backlog(
        ...     {"ends": {"orders": {"0": 5, "1": 7}}, "newest": {"orders": {"0": 9, "1": 7}}}
        ... )
        {'orders[0]': True, 'orders[1]': False}
    """
    return {name: lag > 0 for name, lag in lag_of(offset).items()}


def lag_of_line(line: str) -> dict[str, int]:
    """Return the lag in a source's offset, as a host has stored it; empty for another source.

    Example:
        >>> lag_of_line('{"ends": {"t": {"0": 5}}, "newest": {"t": {"0": 9}}}'), lag_of_line("7")
        ({'t[0]': 4}, {})
    """
    try:
        offset = json.loads(line)
    except ValueError:
        return {}
    is_ours = isinstance(offset, dict) and "ends" in offset and "newest" in offset
    return lag_of(offset) if is_ours else {}


def split_ranges(ranges: Sequence[Range], tasks: int) -> list[list[Range]]:
    """Cut ranges into parts of similar size in their order, one for each task."""
    whole = sum(one.size for one in ranges)
    count = max(1, min(tasks, whole // _MESSAGES_OF_A_TASK))
    parts: list[list[Range]] = [[] for _ in range(count)]
    assigned = 0
    for one in ranges:
        start = one.start
        while start < one.end:
            task = assigned * count // whole
            cut = min(one.end, start + -(-(task + 1) * whole // count) - assigned)
            parts[task].append(one._replace(start=start, end=cut))
            assigned, start = assigned + cut - start, cut
    return [part for part in parts if part]


class TopicWatch:
    """Checks, in a worker, that topics are those that a batch was planned for.

    Args:
        ids: The ids of the batch's topics, as far as the brokers gave them.
        patience: How long brokers may be away, seconds.
    """

    def __init__(self, client: Mapping[str, str], ids: TopicIds, patience: float) -> None:
        self.patience = patience
        self.ids = ids
        self._has_read_by_id = False
        broker_key = json.dumps([dict(client), patience], sort_keys=True)
        if broker_key not in _BROKERS:
            _BROKERS[broker_key] = Broker(Topics((), "earliest", None, client, patience=patience))
        self._broker = _BROKERS[broker_key]
        self._last_query = 0.0

    def note_messages(self) -> None:
        """Forget an earlier silence."""
        self._last_query = 0.0
        self._broker.waiting.note_answer()

    def note_silence(self, seconds: float) -> None:
        """Query the brokers about the topics, every few seconds of silence."""
        if seconds < self._last_query + _SILENCE:
            return
        self._last_query = seconds
        try:
            described = self._broker.describe_now(self.ids)
        except AwayError as error:
            self._broker.waiting.note_failure(error)
            return
        self._broker.waiting.note_answer()
        for topic in self.ids:
            if topic not in described.partitions:
                raise SourceError(
                    f"topic {topic!r} was deleted while a batch read it. The batch is discarded"
                )
        self._compare_ids(described.ids)

    def note_reading(self, *, by_id: bool) -> None:
        """Note whether the messages were fetched by the topics' ids."""
        self._has_read_by_id = by_id

    def refuse_other_topics(self) -> None:
        """Raise if a topic was created again: the messages read may be those of the new one."""
        if self.ids and not self._has_read_by_id:
            self._compare_ids(self._broker.ids(self.ids))

    def _compare_ids(self, now: TopicIds) -> None:
        for topic, topic_id in self.ids.items():
            if now.get(topic, topic_id) != topic_id:
                raise SourceError(
                    f"topic {topic!r} was deleted and created again while a batch read it (id "
                    f"{topic_id}, now {now[topic]}). The batch is discarded"
                )
