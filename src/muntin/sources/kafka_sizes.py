"""Bounds a batch of Kafka's messages by bytes.

Brokers say how many messages a range has, not how large they are. So a planner reads a few messages
at the start, in the middle and at the end of each partition's range, and cuts the range by their
mean size until what it samples fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muntin.model.errors import SourceError
from muntin.sources.fetch import FetchProgress, lend_fetcher
from muntin.sources.kafka_broker import Offsets
from muntin.sources.kafka_connection import FetchError
from muntin.sources.kafka_consumer import Range, consume
from muntin.sources.kafka_ranges import limit_batch, ranges_of
from muntin.sources.record_batches import DamagedBatchError

# Brokers take no larger messages by default.
_LARGEST = 1 << 20
# How much larger than the bound a batch may be by the last sample, so that few samples are read.
_TOLERANCE = 1.25
_MOST_CUTS = 8
# The partitions that are sampled, those with the most messages, and bytes and messages of each.
_PARTITIONS, _SAMPLE_BYTES, _SAMPLE_MESSAGES = 4, 1 << 16, 20
# How far below the bound the end of a range and the last range are if no more is sampled.
_FAR_BELOW = 3


class MessageSizes:
    """Estimates the sizes of messages, and cuts ranges that have too many bytes."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._client = client
        self._last_mean: float | None = None

    def limit(self, start: Offsets, ends: Offsets, most: int) -> Offsets:
        """Return the ends of a batch of about ``most`` uncompressed bytes, at least one message.

        ``start`` has its first offsets, ``ends`` the ones after the last that it may have.
        """
        for _ in range(_MOST_CUTS):
            ranges = ranges_of(start, ends, lossy=True)
            count = sum(one.size for one in ranges)
            # Brokers take no larger messages, so a look at them isn't needed.
            if count * _LARGEST <= most:
                return ends
            size = count * self._estimate_mean(ranges, most / count / _FAR_BELOW)
            if size <= most * _TOLERANCE:
                return ends
            ends = limit_batch(start, ends, max(1, int(count * most / size)))
        return ends

    def _estimate_mean(self, ranges: Sequence[Range], small: float) -> float:
        """Return the mean size of messages by samples, of few if it is likely below ``small``."""
        largest = sorted(ranges, key=lambda one: one.size, reverse=True)[:_PARTITIONS]
        sizes, counts = 0.0, 0
        mean = 0.0
        for part in (1.0, 0.5, 0.0):
            points = [one._replace(start=one.start + int((one.size - 1) * part)) for one in largest]
            for one, sample in zip(largest, self._sample(points), strict=True):
                if sample is not None:
                    sizes, counts = sizes + sample * one.size, counts + one.size
            mean = sizes / max(counts, 1)
            if self._last_mean is not None and max(mean, self._last_mean) <= small:
                break
        self._last_mean = mean
        return mean

    def _sample(self, points: Sequence[Range]) -> list[float | None]:
        """Return the mean size of the first messages of each range; ``None`` without messages."""
        try:
            return self._fetch(points)
        except FetchError:
            return self._consume(points)
        except DamagedBatchError:
            # The reader of the range reports it.
            return [None] * len(points)

    def _fetch(self, points: Sequence[Range]) -> list[float | None]:
        """Fetch the first batches of each range."""
        progress = [FetchProgress(*one, wanted=_SAMPLE_BYTES) for one in points]
        unread = list(zip(progress, points, strict=True))
        with lend_fetcher(self._client) as fetcher:
            if fetcher is None:
                raise FetchError("the cluster is read by librdkafka only")
            while unread:
                # A broker that has no room for a whole batch sends it when it is asked for first.
                fetcher.fetch([one for one, _ in unread])
                unread = [pair for pair in unread if pair[0].start == pair[1].start]
        return [
            sum(len(batch.body) for batch in one.batches) / sum(b.count for b in one.batches)
            if one.batches
            else None
            for one in progress
        ]

    def _consume(self, points: Sequence[Range]) -> list[float | None]:
        """Read the first messages of each range by librdkafka."""
        ranges = [one._replace(end=min(one.end, one.start + _SAMPLE_MESSAGES)) for one in points]
        means: dict[tuple[str, int], float] = {}
        try:
            for columns in consume(self._client, True, ranges, ("key", "value")):
                for one in columns:
                    means[one.topic, one.partition] = one.size / max(one.count, 1)
        except SourceError:
            # The reader of the range reports it.
            pass
        return [means.get(one.partition_name) for one in points]
