"""Reads ranges of Kafka's messages: as record batches if possible, otherwise by librdkafka."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence

import numpy as np

from muntin.model.errors import SourceError
from muntin.sources.fetch import Fetcher, FetchProgress, lend_fetcher
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
from muntin.sources.record_batches import DamagedBatchError, Records, read_records

# confluent_kafka's numbers for the producer's timestamp and the broker's.
_CREATE_TIME, _APPEND_TIME = 1, 2
# When several ranges together hold more than this many bytes, each is read alone.
MOST_HELD = 512 << 20


def read(
    client: Mapping[str, str],
    lossy: bool,
    ranges: Sequence[Range],
    fields: Collection[str],
    watch: Watch | None = None,
) -> Generator[list[Columns], None, None]:
    """Yield the messages of ranges, by partition, in the order of ranges and offsets.

    There is at most one range per partition. Each yielded list has enough messages for a frame.
    ``fields`` are any of ``value``, ``key``, ``offset``, ``timestamp`` and ``headers``. Raises
    ``SourceError`` when messages are gone or damaged, or don't arrive in the time that ``watch``
    allows.
    """
    with lend_fetcher(client) as fetcher:
        for group in group_ranges(ranges):
            remaining: Sequence[Range] = group
            if fetcher is not None:
                remaining = yield from _fetch(fetcher, group, fields)
            if remaining:
                yield from consume(client, lossy, remaining, fields, watch)


def _fetch(
    fetcher: Fetcher, ranges: Sequence[Range], fields: Collection[str]
) -> Generator[list[Columns], None, Sequence[Range]]:
    """Fetch ranges as record batches; return the ranges that librdkafka has to read."""
    progress = [FetchProgress(*one) for one in ranges]
    # A single range is yielded in parts; several are yielded in their order, when all are read.
    is_single = len(progress) == 1
    first_offset = progress[0].start
    try:
        while any(one.is_open for one in progress):
            fetcher.fetch(progress)
            if not is_single and sum(map(_measure_size, progress)) > MOST_HELD:
                left: list[Range] = []
                for one in ranges:
                    left += yield from _fetch(fetcher, [one], fields)
                return left
            if is_single and _is_full(progress[0]):
                yield [_take_messages(progress[0], first_offset, fields)]
                first_offset = progress[0].start
    except FetchError:
        return [ranges[0]._replace(start=first_offset)] if is_single else ranges
    except DamagedBatchError as error:
        where = ", ".join(f"{one.topic}[{one.partition}]" for one in ranges)
        raise SourceError(f"a message of {where} can't be read: {error}") from error
    taken = [
        _take_messages(one, start.start, fields)
        for one, start in zip(progress, ranges, strict=True)
    ]
    if rest := [columns for columns in taken if columns.count]:
        yield rest
    return []


def _is_full(progress: FetchProgress) -> bool:
    count = sum(batch.count for batch in progress.batches)
    return count >= MOST_MESSAGES or _measure_size(progress) >= MOST_BYTES


def _measure_size(progress: FetchProgress) -> int:
    """Return the size of the messages that are held, in bytes."""
    return sum(len(batch.body) for batch in progress.batches)


def _take_messages(progress: FetchProgress, first_offset: int, fields: Collection[str]) -> Columns:
    """Return the fetched messages from an offset on, and drop them from the progress."""
    batches, progress.batches = progress.batches, []
    records = read_records(batches)
    is_in_range = (records.offsets >= first_offset) & (records.offsets < progress.end)
    if not is_in_range.all():
        records = records.select(np.flatnonzero(is_in_range))
    lists = {name: _select_field(records, name) for name in fields}
    return Columns(progress.topic, progress.partition, lists, len(records))


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
