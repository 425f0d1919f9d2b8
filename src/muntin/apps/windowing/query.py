"""The windowing application on Spark: one query that inserts, deletes, tracks and averages.

Tuples are generated (or read) and split into shards before the shuffle. After it, each shard's
rows, a shard in Spark's state, are inserted, deleted and summarized. Every task sends every
shard a part, so that each batch runs everywhere, and all shards know the same limits.

Source: the VoltDB windowing example application.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muntin.apps.windowing.calls import CALL_COLUMNS, answer_calls
from muntin.apps.windowing.division import DIVISIONS
from muntin.apps.windowing.options import Options
from muntin.apps.windowing.packing import AT, UUID
from muntin.apps.windowing.random_tuples import FORMAT_NAME, RandomTuples
from muntin.apps.windowing.source import RANDOM
from muntin.apps.windowing.table_operator import CALLS, TableOperator
from muntin.apps.windowing.table_shard import TableProgress
from muntin.apps.windowing.tuples import VALUE
from muntin.hosts.progress import Progress
from muntin.hosts.watchers import WatcherCall
from muntin.model.axis import MILLISECOND, Duration
from muntin.model.counts import add_counts
from muntin.model.errors import OptionError, SpecChangedError
from muntin.spark.host.internals.checkpoints import read_newest_offsets
from muntin.spark.host.internals.data_sources import register
from muntin.spark.host.internals.plans import count_streams
from muntin.spark.host.internals.versions import BOUNDS_BATCHES
from muntin.spark.host.plan import build_output
from muntin.spark.host.shards import read_stored_shards, slots
from muntin.spark.host.task import Stage, identity
from muntin.spark.query import WindowedQuery
from muntin.spark.rescale import fit_checkpoint
from muntin.spark.session import require
from muntin.spark.sources.inputs import Input, OperatorInput
from muntin.spark.starting import launch
from muntin.spark.writing import WrittenBatch

# The interval of the clock for a custom source, microseconds.
_TICK = 200 * MILLISECOND
# The number of batches that may wait for the callback; their progress is small.
_BATCHES = 10_000

OnBatch = Callable[[int, list[TableProgress], int], None]


class TableQuery(WindowedQuery):
    """A handle on a running application.

    Args:
        on_batch: Called with each batch's number, the progress of its shards, and when it was done
            (milliseconds since the epoch), in a separate thread; more than once if a batch is
            repeated.
        deletes: The folder in which calls to delete are answered, if there is one.
    """

    def __init__(self, on_batch: OnBatch, deletes: str | None) -> None:
        super().__init__()
        self._on_batch = on_batch
        self._deletes = deletes

    def note(self, batch: WrittenBatch) -> None:
        """Process the progress of the shards after a batch."""
        emitted = [TableProgress(**json.loads(line)) for line in batch.lines]
        inserted = sum(one.inserted for one in emitted)
        rejected = add_counts(one.rejected for one in emitted)
        seen = inserted + sum(rejected.values())
        counts = add_counts([self.progress.counts, {"inserted": inserted, "seen": seen}, rejected])
        clocks = [one.clock * MILLISECOND for one in emitted if one.clock is not None]
        backlog, rows = sum(one.backlog for one in emitted), sum(one.rows for one in emitted)
        number = batch.number
        self._take(Progress(number, max(clocks, default=None), counts, backlog, rows))
        if self._deletes is not None:
            answer_calls(self._deletes, emitted)
        shown = WatcherCall(number, (number, emitted, time.time_ns() // 1_000_000))
        self._show(self._on_batch, shown, _BATCHES)


def start(
    spark: SparkSession,
    options: Options,
    on_batch: OnBatch,
    checkpoint: str,
    source: DataFrame | None = None,
    every: Duration = "500 milliseconds",
    available_now: bool = False,
) -> TableQuery:
    """Start the application.

    Args:
        spark: The session.
        options: The application's options.
        on_batch: A callback for each batch; see ``TableQuery``.
        checkpoint: The folder for progress and state; a stopped run continues from there.
        source: A stream with the columns ``uuid``, ``val`` and ``update_ts``, instead of random
            tuples.
        every: The minimum duration of a batch.
        available_now: Whether to stop when everything that the source has now is inserted.

    Returns:
        The query. A batch's inserts and deletes are committed together, and a batch that is
        repeated after a failure inserts and deletes the same rows.

    Raises:
        OptionError: When the source lacks a column, or the folder of deletes isn't on a disk.
        SettingError: When the session's settings don't suit stateful queries.
        SpecChangedError: When the checkpoint was written with ``deletes`` and this run has none,
            or the other way round.
    """
    require(spark)
    random = source is None
    read = Input(
        _read_due_ranges(spark, options) if source is None else _select_columns(source), None
    )
    inputs = [OperatorInput(read, read.columns())]
    if options.deletes is not None:
        calls = Input(_read_calls(spark, options.deletes), None)
        inputs.append(OperatorInput(calls, calls.columns(), name=CALLS))
    name = f"windowing-{uuid.uuid4().hex[:8]}"

    def run(query: WindowedQuery, shards: int) -> WindowedQuery:
        make = partial(TableOperator, replace(options, shards=shards), random=random)
        stage = Stage(make, slots(shards), {}, identity())
        stream = build_output(stage, tuple(inputs), None if random else _TICK)
        _check_sources(stream, checkpoint)
        return launch(stream, [], checkpoint, shards, name, every, available_now, query)

    shard_count = read_stored_shards(spark, checkpoint)
    fit_checkpoint(spark, checkpoint, shard_count, options.shards, DIVISIONS)
    query = TableQuery(on_batch, options.deletes)
    run(query, options.shards)
    query.restarts(
        lambda handle: run(handle, read_stored_shards(spark, checkpoint) or options.shards),
        DIVISIONS,
    )
    return query


def _read_calls(spark: SparkSession, folder: str) -> DataFrame:
    """Read calls to delete from a folder; each file is removed when its batch is done."""
    if "://" in folder:
        raise OptionError("deletes", folder, "isn't on a disk", "give a folder on a disk")
    Path(folder).mkdir(parents=True, exist_ok=True)
    reader = spark.readStream.schema(CALL_COLUMNS).option("cleanSource", "delete")
    return reader.json(Path(folder).resolve().as_uri())


def _check_sources(stream: DataFrame, checkpoint: str) -> None:
    """Refuse a checkpoint whose sources include calls to delete if the run has none."""
    lines, has = read_newest_offsets(stream.sparkSession, checkpoint), count_streams(stream)
    had = None if lines is None else len([line for line in lines[2:] if line])
    if None in (had, has) or had == has:
        return
    raise SpecChangedError(
        f"the checkpoint was written by a run of {had} sources, and this one has {has}, which "
        "Spark can't go on from: give deletes if it was begun with deletes, and only then, and the "
        "source of then; or start with a new checkpoint folder"
    )


def _read_due_ranges(spark: SparkSession, options: Options) -> DataFrame:
    """Read the ranges of due random tuples."""
    if not BOUNDS_BATCHES:
        raise OptionError("source", RANDOM, "needs Spark 4.2", "give another one, or a newer Spark")
    register(spark, RandomTuples)
    reader = spark.readStream.format(FORMAT_NAME).option("rate", str(options.ratelimit))
    return reader.option("parts", str(options.shards)).load()


def _select_columns(source: DataFrame) -> DataFrame:
    for column in (UUID, VALUE, AT):
        if column not in source.columns:
            hint = f"give a source with {UUID}, {VALUE} and {AT}"
            raise OptionError("source", ", ".join(source.columns), f"has no {column}", hint)
    return source.select(
        F.col(UUID).cast("string").alias(UUID),
        F.col(VALUE).try_cast("bigint").alias(VALUE),
        F.col(AT).try_cast("timestamp").alias(AT),
    )
