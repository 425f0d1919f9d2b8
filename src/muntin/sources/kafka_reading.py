"""Reads ranges of Kafka's messages: as record batches if possible, otherwise by librdkafka."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from muntin.model.errors import SourceError
from muntin.sources.fetch import NO_IDS, Fetcher, FetchProgress, lend_fetcher
from muntin.sources.kafka_connection import FetchError
from muntin.sources.kafka_consumer import (
    MOST_BYTES,
    MOST_MESSAGES,
    Columns,
    Range,
    Watch,
    consume,
    group_ranges,
)
from muntin.sources.record_batches import (
    DamagedBatchError,
    RecordBatch,
    Records,
    read_records,
)

# confluent_kafka's numbers for the producer's timestamp and the broker's.
_CREATE_TIME, _APPEND_TIME = 1, 2
# When several ranges together hold more than this many bytes, each is read alone.
MOST_HELD = 512 << 20


@dataclass(frozen=True)
class FetchedMessages:
    """Messages of one partition as record batches.

    Attributes:
        first_offset: Offset of the first message of the range.
        end: Offset after its last one; batches may have others before and after them.
    """

    topic: str
    partition: int
    batches: Sequence[RecordBatch]
    first_offset: int
    end: int

    def select(self, records: Records, fields: Collection[str]) -> Columns:
        """Return the fields of the messages that are among records of the batches."""
        is_in_range = (records.offsets >= self.first_offset) & (records.offsets < self.end)
        if not is_in_range.all():
            records = records.select(np.flatnonzero(is_in_range))
        lists = {name: _select_field(records, name) for name in fields}
        return Columns(self.topic, self.partition, lists, len(records))


MessagePart = Columns | FetchedMessages


def read(
    client: Mapping[str, str],
    lossy: bool,
    ranges: Sequence[Range],
    fields: Collection[str],
    watch: Watch | None = None,
) -> Generator[list[MessagePart], None, None]:
    """Yield the messages of ranges, by partition, in the order of ranges and offsets.

    There is at most one range per partition. Each yielded list has enough messages for a frame;
    ``decode_parts`` decodes those that are still record batches. ``fields`` are any of ``value``,
    ``key``, ``offset``, ``timestamp`` and ``headers``. Raises ``SourceError`` when messages are
    gone or damaged, or don't arrive in the time that ``watch`` allows.
    """
    reading = _Reading(watch)
    with lend_fetcher(client) as fetcher:
        for group in group_ranges(ranges):
            remaining: Sequence[Range] = group
            if fetcher is not None:
                remaining = yield from _fetch(fetcher, group, reading)
            if remaining:
                reading.is_by_id = False
                for columns in consume(client, lossy, remaining, fields, watch):
                    yield [*columns]
    reading.finish()


class _Reading:
    """Tells a watch whether all messages were read by the ids of their topics.

    Attributes:
        ids: The ids of the topics, as far as they are known.
        is_by_id: True if all messages so far were read by the ids.
    """

    def __init__(self, watch: Watch | None) -> None:
        self.ids = NO_IDS if watch is None else watch.ids
        self.is_by_id = True
        self._watch = watch
        if watch is not None:
            # Until all messages were read.
            watch.note_reading(by_id=False)

    def finish(self) -> None:
        """Tell the watch how all messages were read."""
        if self._watch is not None:
            self._watch.note_reading(by_id=self.is_by_id)


def decode_parts(parts: Sequence[MessagePart], fields: Collection[str]) -> list[Columns]:
    """Decode messages that were read; parts without messages are left out.

    Raises ``SourceError`` if a message is damaged.
    """
    fetched = [part for part in parts if isinstance(part, FetchedMessages)]
    decoded = iter(_decode_together(fetched, fields))
    columns = [next(decoded) if isinstance(part, FetchedMessages) else part for part in parts]
    return [one for one in columns if one.count]


def _decode_together(
    parts: Sequence[FetchedMessages], fields: Collection[str]
) -> Iterator[Columns]:
    """Decode the record batches of several partitions in one go.

    For few messages, the number of steps takes the time. A damaged batch is searched for partition
    by partition.
    """
    batches = [batch for part in parts for batch in part.batches]
    try:
        records = read_records(batches)
    except DamagedBatchError as error:
        if len(parts) == 1:
            raise _report_damage(error, parts[0]) from error
        for part in parts:
            yield from _decode_together([part], fields)
        return
    end = 0
    for part in parts:
        start, end = end, end + sum(batch.count for batch in part.batches)
        yield part.select(records.select(slice(start, end)), fields)


def _fetch(
    fetcher: Fetcher, ranges: Sequence[Range], reading: _Reading
) -> Generator[list[MessagePart], None, Sequence[Range]]:
    """Fetch ranges as record batches; return the ranges that librdkafka has to read."""
    progress = [FetchProgress(*one) for one in ranges]
    # A single range is yielded in parts; several are yielded in their order, when all are read.
    is_single = len(progress) == 1
    first_offset = progress[0].start
    try:
        while any(one.is_open for one in progress):
            reading.is_by_id &= fetcher.fetch(progress, reading.ids)
            if not is_single and sum(map(_measure_size, progress)) > MOST_HELD:
                left: list[Range] = []
                for one in ranges:
                    left += yield from _fetch(fetcher, [one], reading)
                return left
            if is_single and _is_full(progress[0]):
                yield [_take_messages(progress[0], first_offset)]
                first_offset = progress[0].start
    except FetchError:
        return [ranges[0]._replace(start=first_offset)] if is_single else ranges
    except DamagedBatchError as error:
        raise _report_damage(error, *ranges) from error
    taken: list[MessagePart] = [
        _take_messages(one, start.start)
        for one, start in zip(progress, ranges, strict=True)
        if one.batches
    ]
    if taken:
        yield taken
    return []


def _report_damage(error: DamagedBatchError, *ranges: Range | FetchedMessages) -> SourceError:
    where = ", ".join(f"{one.topic}[{one.partition}]" for one in ranges)
    return SourceError(f"a message of {where} can't be read: {error}")


def _is_full(progress: FetchProgress) -> bool:
    count = sum(batch.count for batch in progress.batches)
    return count >= MOST_MESSAGES or _measure_size(progress) >= MOST_BYTES


def _measure_size(progress: FetchProgress) -> int:
    """Return the size of the messages that are held, in bytes."""
    return sum(len(batch.body) for batch in progress.batches)


def _take_messages(progress: FetchProgress, first_offset: int) -> FetchedMessages:
    """Return the fetched messages from an offset on, and drop them from the progress."""
    batches, progress.batches = progress.batches, []
    topic, partition = progress.topic, progress.partition
    return FetchedMessages(topic, partition, batches, first_offset, progress.end)


def _select_field(records: Records, name: str) -> object:
    if name == "value":
        return records.values
    if name == "key":
        return records.keys
    if name == "offset":
        return records.offsets
    if name == "timestamp":
        kinds = np.where(records.append_time, _APPEND_TIME, _CREATE_TIME)
        return np.column_stack([kinds, records.timestamps])
    return [headers or None for headers in records.headers()]
