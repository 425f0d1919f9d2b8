"""Reads the ranges of a task in a worker, and afterwards those of the next batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa

from muntin.sources.kafka_columns import KafkaReader
from muntin.sources.kafka_consumer import Range
from muntin.sources.kafka_ranges import TopicWatch
from muntin.spark.sources.prefetch import open_prefetch_folder

# Columns of a range of messages; `now` is the batch's wall clock in microseconds, and `behind` says
# whether the partition has more messages than the batch reads. `run` names the source in a run of
# its query, and `is_next` marks the ranges of the next batch.
RANGES = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("now", pa.int64()),
        ("topic_id", pa.string()),
        ("behind", pa.bool_()),
        ("run", pa.string()),
        ("is_next", pa.bool_()),
    ]
)
_IDENTITY = ("run", "topic", "topic_id", "partition", "start", "end")


@dataclass(frozen=True)
class RangeReader:
    """Reads the rows of ``RANGES`` that a task gets as frames of messages."""

    columns: KafkaReader = field(repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
        """Yield the messages of all ranges, with their flags, in frames of a bounded size."""
        for batch in batches:
            rows = batch.to_pylist()
            yield from self._read([row for row in rows if not row["is_next"]])
            self._begin_next([row for row in rows if row["is_next"]])

    def backlog(self, batch: pa.RecordBatch) -> dict[str, bool]:
        """Return whether each partition has more than the batch reads; empty without partitions."""
        if not self.columns.has_partition_names:
            return {}
        rows = batch.select(["topic", "partition", "behind", "is_next"]).to_pylist()
        return {
            f"{row['topic']}[{row['partition']}]": row["behind"]
            for row in rows
            if not row["is_next"]
        }

    def _read(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[pl.DataFrame]:
        if not rows:
            return
        ranges, watch, now = _ranges_of(rows), self._watch(rows), max(row["now"] for row in rows)
        folder = open_prefetch_folder()
        if rows[0]["run"] is None or folder is None:
            frames: Iterator[pl.DataFrame] = self.columns.read(ranges, watch)
        else:
            frames = folder.take(_identify(rows), lambda: self.columns.read(ranges, watch))
        for frame in frames:
            yield self.columns.flags.add(frame, now)
        # A topic that was created again meanwhile may have returned its own messages.
        watch.refuse_other_topics()

    def _begin_next(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Begin to read the ranges of the next batch."""
        if rows and (folder := open_prefetch_folder()) is not None:
            ranges, watch = _ranges_of(rows), self._watch(rows)
            folder.begin(_identify(rows), lambda: self.columns.read(ranges, watch))

    def _watch(self, rows: Sequence[Mapping[str, Any]]) -> TopicWatch:
        ids = {row["topic"]: row["topic_id"] for row in rows if row["topic_id"] is not None}
        return TopicWatch(self.columns.client, ids, self.columns.patience)


def _ranges_of(rows: Sequence[Mapping[str, Any]]) -> list[Range]:
    return [Range(row["topic"], row["partition"], row["start"], row["end"]) for row in rows]


def _identify(rows: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """Return what sets the messages of ranges apart from all others on this machine."""
    return [[row[name] for name in _IDENTITY] for row in rows]
