"""The windowing application on Spark: one query that inserts, deletes, follows and averages.

Tuples are made (or read) and cut into buckets before the shuffle; each bucket's rows, a shard of
their own in Spark's state, are inserted, deleted and summed up behind it. Every task tells every
bucket something, so that each batch runs everywhere, and all buckets know the same limits.

Source: the VoltDB windowing example application.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from muntin.engine.codec import decode, encode
from muntin.engine.runs import FrameCache
from muntin.model.axis import MILLISECOND, Duration
from muntin.model.errors import OptionError
from muntin.spark.combiner import as_sent, slots, task_number, to_batch
from muntin.spark.figures import Figures as QueryFigures
from muntin.spark.inputs import ticks
from muntin.spark.processor import FIGURES, TOLD, wall_of
from muntin.spark.query import WindowedQuery, launch
from muntin.spark.session import require
from muntin.spark.state import SparkBlobs
from muntin.spark.utf8 import GARBLED
from muntin.spark.windowing_source import NAME, RandomTuples
from muntin.windowing.bucket import Bucket, Figures
from muntin.windowing.options import Options
from muntin.windowing.packing import AT, UUID, Packed, pack, taken
from muntin.windowing.tuples import VALUE, Stretch, made

# What a task sends to a bucket: its tuples, and what every bucket has to know of all of them.
_ROW = pa.schema(
    [
        ("slot", pa.int32()),
        ("task", pa.int32()),
        ("latest", pa.int64()),
        ("rejected", pa.string()),
        ("rows", pa.binary()),
        ("ledger", pa.binary()),
        ("wall", pa.int64()),
    ]
)
ROW = from_arrow_schema(_ROW)
# Rows are seldom read again (where a limit cuts a millisecond in two), cells in every batch.
CACHE = FrameCache(64 << 20)
# The clock of a source of one's own ticks so often, microseconds.
_TICK = 200 * MILLISECOND

Took = Callable[[int, list[Figures], int], None]


class Insert:
    """The function given to ``mapInArrow``: tuples in or made, a row a bucket out.

    Args:
        options: What the application does.
        slots: The grouping key of each bucket.
        random: Whether what comes in says which tuples to make.
    """

    def __init__(self, options: Options, slots: tuple[int, ...], random: bool) -> None:
        self.options = options
        self.slots = slots
        self.random = random

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Cut all tuples of a task into buckets."""
        read = self._made(batches) if self.random else self._read(batches)
        for tuples, rejected, wall in read:
            options = self.options
            packed = pack(tuples, options.buckets, ledger=bool(options.maxrows))
            packed.rejected = rejected
            yield self._rows(packed, wall)

    def _made(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pl.DataFrame, Any, int]]:
        for batch in batches:
            for row in batch.to_pylist():
                stretch = Stretch(**row)
                yield made(self.options.seed, stretch), {}, stretch.clock * MILLISECOND

    def _read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pl.DataFrame, Any, None]]:
        for rows in as_sent(batches):
            # A UUID that isn't UTF-8 is escaped, and so none.
            tuples, rejected = taken(rows.drop(GARBLED, strict=False))
            yield tuples, rejected, None

    def _rows(self, packed: Packed, wall: int | None) -> pa.RecordBatch:
        ledger = None if packed.ledger is None else encode(packed.ledger)
        # What was rejected is told once, by the first bucket.
        aside = [json.dumps(packed.rejected)] + [None] * (len(self.slots) - 1)
        rows = []
        for bucket, slot in enumerate(self.slots):
            part = packed.parts.get(bucket)
            blob = None if part is None else encode(part)
            task = task_number()
            rows.append((slot, task, packed.latest, aside[bucket], blob, ledger, wall))
        return to_batch(rows, _ROW)


class TableProcessor(StatefulProcessor):
    """Runs a step of one bucket on the rows of ``ROW``.

    Args:
        options: What the application does.
        slots: The grouping key of each bucket.
    """

    def __init__(self, options: Options, slots: tuple[int, ...]) -> None:
        self.options = options
        self.slots = slots

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state variables."""
        self.blobs = SparkBlobs(handle)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """One step."""
        waiting = sorted(rows, key=lambda row: -1 if row["task"] is None else row["task"])
        bucket = Bucket(self.options, self.slots.index(key[0]), self.blobs, CACHE)
        wall = wall_of(waiting, bucket.wall * MILLISECOND) // MILLISECOND
        packed = [_packed(row, bucket.number) for row in waiting if row["task"] is not None]
        figures = bucket.step(packed, wall)
        yield Row(kind=FIGURES, blob=None, figures=json.dumps(asdict(figures)))

    def close(self) -> None:
        """Nothing is held."""


def _packed(row: Any, bucket: int) -> Packed:
    parts = {} if row["rows"] is None else {bucket: decode(bytes(row["rows"]))}
    ledger = None if row["ledger"] is None else decode(bytes(row["ledger"]))
    rejected = {} if row["rejected"] is None else json.loads(row["rejected"])
    return Packed(parts, row["latest"], ledger, rejected)


class TableQuery(WindowedQuery):
    """A handle on a running application.

    Args:
        took: Is given each batch's number, what its buckets told, and when it was done
            (milliseconds since the epoch); more than once where a batch is repeated.
    """

    def __init__(self, took: Took) -> None:
        super().__init__()
        self._took = took

    def note(self, batch: int, lines: list[str]) -> None:
        """Take in what the buckets told with a batch."""
        told = [Figures(**json.loads(line)) for line in lines]
        counts = dict(self.figures.counts)
        for name, n in [("inserted", sum(figures.inserted for figures in told))] + [
            rejected for figures in told for rejected in figures.rejected.items()
        ]:
            counts[name] = counts.get(name, 0) + n
            counts["seen"] = counts.get("seen", 0) + n
        clock = max((figures.clock for figures in told if figures.clock is not None), default=None)
        with self._changed:
            self.figures = QueryFigures(
                batch,
                None if clock is None else clock * MILLISECOND,
                counts,
                sum(figures.backlog for figures in told),
                sum(figures.rows for figures in told),
            )
            self._changed.notify_all()
        with self.watching(batch):
            self._took(batch, told, time.time_ns() // 1_000_000)


def start(
    spark: SparkSession,
    options: Options,
    took: Took,
    checkpoint: str,
    source: DataFrame | None = None,
    every: Duration = "500 milliseconds",
    available_now: bool = False,
) -> TableQuery:
    """Start the application.

    Args:
        spark: The session.
        options: What it does.
        took: See ``TableQuery``.
        checkpoint: Where progress and state are kept; a run that was stopped goes on from there.
        source: A stream with the columns ``uuid``, ``val`` and ``update_ts``, in place of random
            tuples.
        every: How long a batch takes at least.
        available_now: Whether to stop when all that the source has now was inserted.

    Returns:
        The query. What a batch inserted and deleted is committed together, and a batch that is
        repeated after a failure inserts and deletes the same.

    Raises:
        OptionError: When the source lacks a column.
        SettingError: When the session isn't set as state needs it.
    """
    require(spark)
    keys = slots(options.buckets)
    rows = _packed_rows(spark, options, keys, source)
    told = rows.groupBy("slot").transformWithState(
        TableProcessor(options, keys), TOLD, outputMode="append", timeMode="None"
    )
    name = f"windowing-{uuid.uuid4().hex[:8]}"
    return launch(told, [], checkpoint, name, every, available_now, TableQuery(took))  # type: ignore[return-value]


def _packed_rows(
    spark: SparkSession, options: Options, keys: tuple[int, ...], source: DataFrame | None
) -> DataFrame:
    if source is None:
        spark.dataSource.register(RandomTuples)
        reader = spark.readStream.format(NAME).option("rate", str(options.ratelimit))
        due = reader.option("parts", str(options.buckets)).load()
        return due.mapInArrow(Insert(options, keys, random=True), ROW)
    rows = _columns(source).mapInArrow(Insert(options, keys, random=False), ROW)
    return rows.unionByName(ticks(spark, keys, _TICK), allowMissingColumns=True)


def _columns(source: DataFrame) -> DataFrame:
    for column in (UUID, VALUE, AT):
        if column not in source.columns:
            cure = f"give a source with {UUID}, {VALUE} and {AT}"
            raise OptionError("source", ", ".join(source.columns), f"has no {column}", cure)
    return source.select(
        F.col(UUID).cast("string").alias(UUID),
        F.col(VALUE).try_cast("bigint").alias(VALUE),
        F.col(AT).try_cast("timestamp").alias(AT),
    )
