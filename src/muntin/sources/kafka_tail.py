"""Fetches all messages after some offsets in one request, when they are few.

A reader that keeps up with its topics needs neither to ask for the newest offsets nor to wait for
the next poll: the broker answers a fetch as soon as there is a message, and says in the answer
where its partitions end.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from muntin.sources.fetch import Fetcher, FetchProgress, lend_fetcher
from muntin.sources.kafka_broker import Offsets, TopicIds
from muntin.sources.kafka_connection import FetchError
from muntin.sources.kafka_reading import FetchedMessages
from muntin.sources.record_batches import DamagedBatchError

# How long nothing is fetched here after an error, in seconds.
_PAUSE = 5.0
# No partition has as many messages.
_END = 1 << 62


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
    """Fetches the newest messages of topics, for a reader that keeps up with them."""

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
