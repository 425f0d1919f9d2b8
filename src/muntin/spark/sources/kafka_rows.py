"""Topics of Kafka as a data source of Spark's, planned by the driver and read by the workers.

Spark asks for the newest offsets before each batch and writes them down, so that a batch that is
repeated reads the same ranges. A task's function travels with the source and gets its ranges: one
Python stage reads messages and combines them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
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

from muntin.engine.utf8 import unchecked
from muntin.sources.kafka_columns import KafkaReader
from muntin.sources.kafka_consumer import Range
from muntin.sources.kafka_ranges import (
    Broker,
    Offsets,
    Topics,
    ends_of,
    ranges_of,
    shares,
    within,
)
from muntin.spark.host.internals.data_sources import register
from muntin.spark.host.internals.jvm import is_connected
from muntin.spark.host.internals.plans import remember, remembered
from muntin.spark.host.internals.versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from muntin.spark.host.packed import PackedTask
from muntin.spark.host.schema import to_batches

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

# A range of messages and the batch's wall clock, microseconds.
RANGES = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("now", pa.int64()),
    ]
)
NAME = "muntin_kafka"
_MADE_OF = "_muntin_columnar"


class _Ranges(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: Sequence[Range], now: int) -> None:
        self.rows = [(*one, now) for one in ranges]


class _Reader:
    """Plans ranges on the driver; ``read`` runs in a worker."""

    def __init__(self, topics: Topics, task: Task, tasks: int) -> None:
        self.topics, self.task, self.tasks = topics, task, tasks
        self._broker: Broker | None = None
        self._last: Offsets | None = None

    @property
    def broker(self) -> Broker:
        """Made where it is used: a worker needs none."""
        if self._broker is None:
            self._broker = Broker(self.topics)
        return self._broker

    def planned(self, start: Offsets, end: Offsets, now: int) -> Sequence[InputPartition]:
        ranges = ranges_of(start, end)
        return [_Ranges(part, now) for part in shares(ranges, self.tasks)] if ranges else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _Ranges):
            # A batch frame without any partition is asked for rows all the same.
            return iter(())
        columns = zip(*partition.rows, strict=True)
        arrays = [pa.array(values, f.type) for values, f in zip(columns, RANGES, strict=True)]
        return self.task(iter([pa.RecordBatch.from_arrays(arrays, schema=RANGES)]))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_broker": None}


class _Stream(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A batch goes up to what there is, or to so many messages."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"ends": self.broker.first(), "now": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self.topics.per_batch
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        newest = self.broker.latest() if self._last is None else self._last
        before = ends_of(start)
        if isinstance(limit, ReadMaxRows):
            newest = within(before, newest, limit.max_rows)
        # The clock is a part of the offset, so that a batch that is repeated has the one it had;
        # alone it doesn't make a batch.
        if not ranges_of(before, newest):
            return start
        return {"ends": newest, "now": time.time_ns() // 1000}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = self.broker.latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self.planned(ends_of(start), ends_of(end), end.get("now", 0))


class _Batch(_Reader, DataSourceReader):
    """Everything that the topics hold when the query is planned."""

    def partitions(self) -> Sequence[InputPartition]:
        return self.planned(self.broker.first(), self.broker.latest(), time.time_ns() // 1000)


@dataclass(frozen=True)
class KafkaRows:
    """Ranges of topics to which a function is applied, as ``DataFrame.mapInArrow`` applies one."""

    spark: SparkSession
    topics: Topics
    streaming: bool

    def mapInArrow(self, task: Task, schema: StructType) -> DataFrame:  # noqa: N802
        """What a function makes of the ranges, which it gets as rows of ``RANGES``."""
        topics, tasks, packed = self.topics, _tasks(self.spark), PackedTask(task)
        made = schema
        format_name = f"{NAME}_{uuid.uuid4().hex[:12]}"

        class Ranges(DataSource):
            """Topics of Kafka, read in columns."""

            @classmethod
            def name(cls) -> str:
                return format_name

            def schema(self) -> StructType:
                return made

            def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
                return _Stream(topics, packed, tasks)

            def reader(self, schema: Any) -> DataSourceReader:
                return _Batch(topics, packed, tasks)

        register(self.spark, Ranges)
        reader = self.spark.readStream if self.streaming else self.spark.read
        return reader.format(format_name).load()


def _tasks(spark: SparkSession) -> int:
    if not is_connected(spark):
        return spark.sparkContext.defaultParallelism
    return int(spark.conf.get("spark.sql.shuffle.partitions", "2") or 2)


def messages(rows: KafkaRows, reader: KafkaReader, schema: StructType) -> DataFrame:
    """The messages of topics as a DataFrame, which remembers what it was made of."""
    payload = set() if reader.payload is None else reader.payload.columns.keys()
    texts = {"key"} & (reader.wanted.keys() - payload)
    as_bytes = replace(reader, wanted={**reader.wanted, **dict.fromkeys(texts, pl.Binary())})
    frame = rows.mapInArrow(MessageReader(as_bytes, schema, texts), schema)
    remember(frame, _MADE_OF, (rows, reader))
    return frame


def columnar(frame: DataFrame) -> tuple[KafkaRows, KafkaReader] | None:
    """What a DataFrame was made of, where it is a topic's and nothing else."""
    found: tuple[KafkaRows, KafkaReader] | None = remembered(frame, _MADE_OF)
    return found


@dataclass(frozen=True)
class MessageReader:
    """Gives messages to Spark, as rows of a DataFrame; for ``mapInArrow``."""

    read: KafkaReader
    schema: StructType
    texts: set[str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The messages of ranges."""
        held = [
            StructField(f.name, BinaryType() if f.name in self.texts else f.dataType, f.nullable)
            for f in self.schema.fields
        ]
        for frame in self.read(batches):
            for batch in to_batches(frame, StructType(held)):
                yield unchecked(batch, self.texts)
