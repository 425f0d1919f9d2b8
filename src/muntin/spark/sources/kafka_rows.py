"""A Spark data source of Kafka topics, planned by the driver and read by the workers.

Spark asks for the newest offsets before each batch and stores them, so that a repeated batch reads
the same ranges. The function of a task is part of the source and receives its ranges, so a single
Python stage reads messages and combines them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import BinaryType, StructField, StructType

from muntin.engine.utf8 import cast_unchecked
from muntin.model.errors import SourceError
from muntin.sources.kafka_broker import Broker, Described, Offsets, TopicIds, Topics
from muntin.sources.kafka_columns import KafkaReader
from muntin.sources.kafka_consumer import CONTINUE_HINT, Range
from muntin.sources.kafka_ranges import (
    ends_of,
    limit_batch,
    partition_backlog,
    ranges_of,
    refuse_expired,
    refuse_recreated,
    split_ranges,
)
from muntin.sources.kafka_sizes import MessageSizes
from muntin.spark.host.internals.data_sources import register
from muntin.spark.host.internals.jvm import is_connected
from muntin.spark.host.internals.plans import reads, recall, remember
from muntin.spark.host.internals.source_process import silence_lost_jvm
from muntin.spark.host.internals.versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    make_arrow_schema,
)
from muntin.spark.host.packed import PackedTask
from muntin.spark.host.schema import to_batch
from muntin.spark.sources.kafka_task import RANGES, RangeReader

KafkaTask = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

KAFKA_SOURCE = "muntin_kafka"
# The bytes of a batch for each task by default.
_TASK_BYTES = 128 << 20
_SOURCE = "_muntin_columnar"
# The references to secrets that tasks of a source look up, by the source's name in a plan.
_REFERENCES: dict[str, frozenset[str]] = {}


class _Ranges(InputPartition):
    """The ranges that one task reads, as rows of ``RANGES``."""

    def __init__(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self.rows = rows


class _Reader:
    """Plans ranges on the driver; ``read`` runs in a worker.

    Args:
        run: Name of the source in this run of its query, if workers read the next batch's ranges.
    """

    def __init__(self, topics: Topics, task: KafkaTask, tasks: int, run: str | None = None) -> None:
        self.topics, self.task, self.tasks, self.run = topics, task, tasks, run
        self._broker: Broker | None = None
        self._last: tuple[Described, Offsets] | None = None
        self._planned_offset: dict[str, Any] | None = None
        self._sizes = MessageSizes(topics.client)
        # The ends of a batch, and those of the batch that follows it.
        self._next: tuple[Offsets, Offsets] | None = None
        self._is_by_rows = False

    @property
    def broker(self) -> Broker:
        """The broker; it is connected on first use, since a worker needs none."""
        if self._broker is None:
            self._broker = Broker(self.topics)
        return self._broker

    def plan(
        self,
        ranges: Sequence[Range],
        now: int,
        ids: TopicIds,
        backlog: Mapping[str, bool],
        next_ranges: Sequence[Range] = (),
    ) -> Sequence[InputPartition]:
        """Return the ranges as the partitions of a batch, with those that the next one will have.

        ``now`` is the batch's wall clock, microseconds. ``backlog`` says which partitions have more
        messages than the batch reads; ``next_ranges`` has the next ranges that are certain.
        """
        if not ranges:
            return []

        def describe(one: Range, *, is_next: bool) -> tuple[Any, ...]:
            is_behind = backlog.get(f"{one.topic}[{one.partition}]", False)
            return *one, now, ids.get(one.topic), is_behind, self.run, is_next

        parts = split_ranges(ranges, self.tasks)
        rows = [[describe(one, is_next=False) for one in part] for part in parts]
        for number, part in enumerate(split_ranges(next_ranges, self.tasks)):
            rows[number % len(rows)] += [describe(one, is_next=True) for one in part]
        return [_Ranges(part) for part in rows]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _Ranges):
            # Spark reads from a batch frame even if it has no partitions.
            return iter(())
        columns = zip(*partition.rows, strict=True)
        arrays = [pa.array(values, f.type) for values, f in zip(columns, RANGES, strict=True)]
        return self.task(iter([pa.RecordBatch.from_arrays(arrays, schema=RANGES)]))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {
            "_broker": None,
            "_last": None,
            "_planned_offset": None,
            "_next": None,
        }


class _Stream(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream whose batches end at the newest offsets, or after a number of messages.

    The offset of a batch holds the end of each partition, the wall clock (so that a repeated batch
    has the same one), the topics' ids, and the newest offsets at the time of planning.
    """

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        described = self.broker.describe()
        return {"ends": self.broker.first(described.partitions), "now": 0, "ids": described.ids}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self.topics.per_batch
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        self._refuse_other_topics(ends_of(start))
        self.broker.remember(ends_of(start))
        described, newest = self._newest() if self._last is None else self._last
        before = self._start_offsets(start, described)
        lossy = self.topics.lossy
        ranges = ranges_of(before, newest, lossy=lossy)
        if self._planned_offset is None and not lossy:
            # Messages may have expired while the query was stopped.
            refuse_expired(ranges, self.broker.earliest(described.partitions))
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        ends = self._limit_batch(before, newest, rows)
        # Without new messages, keep the offset: a new clock alone would start a batch.
        if not ranges:
            return start
        now = time.time_ns() // 1000
        self._planned_offset = {"ends": ends, "now": now, "ids": described.ids, "newest": newest}
        return self._planned_offset

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = self._newest()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the newest offsets for Spark's own ``lastProgress``."""
        return None if self._planned_offset is None else {"ends": self._planned_offset["newest"]}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ids, next_ranges = end.get("ids", {}), []
        before, ends = ends_of(start), ends_of(end)
        lossy = self.topics.lossy
        for topic, topic_id in start.get("ids", {}).items():
            if ids.get(topic, topic_id) != topic_id:
                # The batch was planned with `lossy`, so a recreated topic is read from its start.
                before[topic] = {}
        ranges = ranges_of(before, ends, lossy=lossy)
        if end != self._planned_offset:
            ranges = self._find_readable(ranges, ids, ends)
        elif self.run is not None and self._next is not None:
            next_ranges = ranges_of(*self._next)
        return self.plan(ranges, end.get("now", 0), ids, partition_backlog(end), next_ranges)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the end of a batch to the consumer group."""
        self.broker.commit(ends_of(end))

    def _bound_batch(self, before: Offsets, newest: Offsets, limit: int | None) -> Offsets:
        """Return the ends of a batch that has about as many messages and bytes as it may."""
        ends = newest if limit is None else limit_batch(before, newest, limit)
        most = self.topics.bytes_per_batch or self.tasks * _TASK_BYTES
        return self._sizes.limit(before, ends, most)

    def _limit_batch(self, before: Offsets, newest: Offsets, limit: int | None) -> Offsets:
        """Return the ends of a batch, and plan the batch that follows it.

        The ends that were planned with the last batch are used if its messages still exist, since
        workers may have read them.
        """
        if self._is_by_rows != (limit is not None):
            self._next, self._is_by_rows = None, limit is not None
        planned = self._next[1] if self._next is not None and self._next[0] == before else None
        if planned is None or not _has_all(newest, planned):
            planned = self._bound_batch(before, newest, limit)
        following = self._bound_batch(planned, newest, limit)
        self._next = None if following == planned else (planned, following)
        return planned

    def _refuse_other_topics(self, before: Offsets) -> None:
        """Refuse a checkpoint that has read a topic which the query leaves out."""
        for topic in before:
            if topic not in self.topics.names and not self.topics.lossy:
                reads = ", ".join(map(repr, self.topics.names))
                raise SourceError(
                    f"the checkpoint has read topic {topic!r}, and the query reads {reads}. Name "
                    f"the topics that it read, too. {CONTINUE_HINT}"
                )

    def _newest(self) -> tuple[Described, Offsets]:
        described = self.broker.describe()
        return described, self.broker.latest(described.partitions)

    def _start_offsets(self, start: dict[str, Any], described: Described) -> Offsets:
        """Return the start offsets of a batch: the last one's ends, without recreated topics."""
        before, was = ends_of(start), start.get("ids", {})
        if not self.topics.lossy:
            refuse_recreated(was, described.ids, before, described.partitions)
        for topic, topic_id in described.ids.items():
            if was.get(topic, topic_id) != topic_id:
                before[topic] = {}
        return before

    def _find_readable(self, ranges: list[Range], ids: TopicIds, ends: Offsets) -> list[Range]:
        """Return the ranges of a batch planned by an earlier run, as far as they still exist."""
        self.broker.remember(ends)
        described = self.broker.describe()
        if not self.topics.lossy:
            refuse_recreated(ids, described.ids, ends, described.partitions)
            refuse_expired(ranges, self.broker.earliest(described.partitions))
            return ranges
        return [
            one
            for one in ranges
            if one.topic in described.partitions
            and described.ids.get(one.topic) == ids.get(one.topic, described.ids.get(one.topic))
        ]


class _Batch(_Reader, DataSourceReader):
    """A batch of all messages that the topics hold when the query is planned."""

    def partitions(self) -> Sequence[InputPartition]:
        described = self.broker.describe()
        first = self.broker.first(described.partitions)
        ranges = ranges_of(first, self.broker.latest(described.partitions))
        return self.plan(ranges, time.time_ns() // 1000, described.ids, {})


@dataclass(frozen=True)
class KafkaRows:
    """Ranges of topics; ``mapInArrow`` applies a function to them like that of a DataFrame."""

    spark: SparkSession
    topics: Topics
    streaming: bool
    references: frozenset[str] = frozenset()

    def mapInArrow(self, task: KafkaTask, schema: StructType) -> DataFrame:  # noqa: N802
        """Return the rows that a function computes from the ranges, its rows of ``RANGES``."""
        topics, tasks, packed = self.topics, _tasks(self.spark), PackedTask(task)
        row_schema = schema
        format_name = f"{KAFKA_SOURCE}_{uuid.uuid4().hex[:12]}"
        # On a cluster, another machine may get the ranges.
        run = format_name if _has_one_machine(self.spark) else None

        class Ranges(DataSource):
            """Topics of Kafka, read in columns."""

            @classmethod
            def name(cls) -> str:
                return format_name

            def schema(self) -> StructType:
                return row_schema

            def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
                silence_lost_jvm()
                return _Stream(topics, packed, tasks, run)

            def reader(self, schema: Any) -> DataSourceReader:
                return _Batch(topics, packed, tasks)

        register(self.spark, Ranges)
        _REFERENCES[format_name] = self.references
        reader = self.spark.readStream if self.streaming else self.spark.read
        return reader.format(format_name).load()


def _tasks(spark: SparkSession) -> int:
    if not is_connected(spark):
        return spark.sparkContext.defaultParallelism
    return int(spark.conf.get("spark.sql.shuffle.partitions", "2") or 2)


def _has_all(newest: Offsets, ends: Offsets) -> bool:
    """Return whether partitions have all messages before some ends."""
    return all(
        end <= newest.get(topic, {}).get(partition, -1)
        for topic, numbers in ends.items()
        for partition, end in numbers.items()
    )


def _has_one_machine(spark: SparkSession) -> bool:
    return not is_connected(spark) and str(spark.sparkContext.master).startswith("local[")


def read_topic_rows(rows: KafkaRows, reader: KafkaReader, schema: StructType) -> DataFrame:
    """Return the messages of topics as a DataFrame that `topics_of` recognizes."""
    payload = set() if reader.payload is None else reader.payload.columns.keys()
    texts = {"key"} & (reader.wanted.keys() - payload)
    as_bytes = replace(reader, wanted={**reader.wanted, **dict.fromkeys(texts, pl.Binary())})
    frame = rows.mapInArrow(KafkaRowReader(RangeReader(as_bytes), schema, texts), schema)
    remember(frame, _SOURCE, (rows, reader))
    return frame


def list_source_references(frame: DataFrame) -> frozenset[str]:
    """Return the references to secrets that the tasks of a plan's topics look up."""
    named = [(name, references) for name, references in _REFERENCES.items() if references]
    return frozenset().union(*(some for name, some in named if reads(frame, name)))


def topics_of(frame: DataFrame) -> tuple[KafkaRows, KafkaReader] | None:
    """Return the ranges and the reader of a DataFrame that is a topic unchanged, else ``None``."""
    source: tuple[KafkaRows, KafkaReader] | None = recall(frame, _SOURCE)
    return source


@dataclass(frozen=True)
class KafkaRowReader:
    """Turns ranges into the rows of a DataFrame; a function for ``mapInArrow``."""

    read: RangeReader
    schema: StructType
    texts: set[str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the messages of ranges."""
        held = [
            StructField(f.name, BinaryType() if f.name in self.texts else f.dataType, f.nullable)
            for f in self.schema.fields
        ]
        schema = make_arrow_schema(StructType(held))
        for frame in self.read(batches):
            yield cast_unchecked(to_batch(frame, schema), self.texts)
