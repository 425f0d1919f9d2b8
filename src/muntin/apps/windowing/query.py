"""The windowing application on Spark: one query that inserts, deletes, follows and averages.

Tuples are made (or read) and cut into buckets before the shuffle; each bucket's rows, a shard of
their own in Spark's state, are inserted, deleted and summed up behind it. Every task sends every
bucket something, so that each batch runs everywhere, and all buckets know the same limits.

Source: the VoltDB windowing example application.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muntin.apps.windowing.bucket import TableProgress
from muntin.apps.windowing.division import WindowingDivision
from muntin.apps.windowing.options import Options
from muntin.apps.windowing.packing import AT, UUID
from muntin.apps.windowing.random_tuples import NAME, RandomTuples
from muntin.apps.windowing.source import RANDOM
from muntin.apps.windowing.table_operator import TableOperator
from muntin.apps.windowing.tuples import VALUE
from muntin.model.axis import MILLISECOND, Duration
from muntin.model.counts import summed
from muntin.model.errors import OptionError
from muntin.spark.host.internals.data_sources import register
from muntin.spark.host.internals.versions import BOUNDS_BATCHES
from muntin.spark.host.plan import emitted
from muntin.spark.host.progress import Progress
from muntin.spark.host.shards import remembered, slots
from muntin.spark.host.task import Stage, identity
from muntin.spark.host.watchers import Shown
from muntin.spark.query import WindowedQuery
from muntin.spark.rescale import fit_checkpoint
from muntin.spark.session import require
from muntin.spark.sources.inputs import Input, OperatorInput
from muntin.spark.starting import launch
from muntin.spark.writing import Written

# The clock of a source of one's own ticks so often, microseconds.
_TICK = 200 * MILLISECOND
# How many batches may wait for the one that follows the application: figures, and small.
_BATCHES = 10_000

Took = Callable[[int, list[TableProgress], int], None]


class TableQuery(WindowedQuery):
    """A handle on a running application.

    Args:
        took: Is given each batch's number, what its buckets emitted, and when it was done
            (milliseconds since the epoch), in a thread of its own; more than once where a batch is
            repeated.
    """

    def __init__(self, took: Took) -> None:
        super().__init__()
        self._took = took

    def note(self, batch: Written) -> None:
        """Take in what the buckets emitted with a batch."""
        emitted = [TableProgress(**json.loads(line)) for line in batch.lines]
        inserted = sum(progress.inserted for progress in emitted)
        rejected = summed(progress.rejected for progress in emitted)
        seen = inserted + sum(rejected.values())
        counts = summed([self.progress.counts, {"inserted": inserted, "seen": seen}, rejected])
        clock = max(
            (progress.clock for progress in emitted if progress.clock is not None), default=None
        )
        number = batch.number
        self._take(
            Progress(
                number,
                None if clock is None else clock * MILLISECOND,
                counts,
                sum(progress.backlog for progress in emitted),
                sum(progress.rows for progress in emitted),
            )
        )
        shown = Shown(number, (number, emitted, time.time_ns() // 1_000_000))
        self._show(self._took, shown, _BATCHES)


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
    random = source is None
    read = Input(_due(spark, options) if source is None else _columns(source), None)
    make = partial(TableOperator, options, random=random)
    stage = Stage(make, slots(options.buckets), {}, identity())
    stream = emitted(stage, (OperatorInput(read, read.columns()),), None if random else _TICK)
    name = f"windowing-{uuid.uuid4().hex[:8]}"
    count = options.buckets
    known = remembered(spark, checkpoint)
    fit_checkpoint(spark, checkpoint, known, count, {"windowing": WindowingDivision})
    return launch(  # type: ignore[return-value]
        stream, [], checkpoint, count, name, every, available_now, TableQuery(took)
    )


def _due(spark: SparkSession, options: Options) -> DataFrame:
    """Which random tuples are due."""
    if not BOUNDS_BATCHES:
        raise OptionError("source", RANDOM, "needs Spark 4.2", "give another one, or a newer Spark")
    register(spark, RandomTuples)
    reader = spark.readStream.format(NAME).option("rate", str(options.ratelimit))
    return reader.option("parts", str(options.buckets)).load()


def _columns(source: DataFrame) -> DataFrame:
    for column in (UUID, VALUE, AT):
        if column not in source.columns:
            hint = f"give a source with {UUID}, {VALUE} and {AT}"
            raise OptionError("source", ", ".join(source.columns), f"has no {column}", hint)
    return source.select(
        F.col(UUID).cast("string").alias(UUID),
        F.col(VALUE).try_cast("bigint").alias(VALUE),
        F.col(AT).try_cast("timestamp").alias(AT),
    )
