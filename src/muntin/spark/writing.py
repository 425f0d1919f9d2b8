"""Writes each batch of a query on Spark: its rows to the sinks, its figures to the handle."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol

import pyarrow as pa
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin.engine.function_times import collect_function_times
from muntin.hosts.failures import Failure
from muntin.hosts.phases import STEP, Phases, name_sink_phase
from muntin.hosts.watchers import RefCounted
from muntin.sinks.batch import Batch
from muntin.sinks.sink import Sink, SinkLike, to_sink, watch_sink
from muntin.sinks.unwritable import (
    SINK_COLUMN,
    UNWRITABLE,
    UNWRITABLE_COLUMNS,
    WHY_COLUMN,
    UnwritableRows,
    warn_of_unwritable,
)
from muntin.spark.host.internals.checkpoints import path_exists
from muntin.spark.host.processor import PROGRESS, limit_blobs
from muntin.spark.sinks.batch import EmittedRows
from muntin.spark.sinks.writers import table_schema

# Largest size of rows, over all shards, that are fetched along with the progress and so need no
# Spark job of their own, bytes.
_FEW = 1 << 22
# Number of consecutive batches with few rows after which batches aren't cached any more.
_IN_A_ROW = 16
# Number of batches that are cached after one that wasn't, was large, and so had to run twice.
_WARY = 1000
_SCHEMA = ", ".join(f"{name} string" for name in UNWRITABLE_COLUMNS)


@dataclass(frozen=True)
class Destination:
    """The sink of one kind of rows."""

    kind: str
    schema: StructType
    keys: tuple[str, ...] | None
    sink: SinkLike | None
    by_window: bool = True

    @cached_property
    def target(self) -> Sink | None:
        """The sink; a function is wrapped into one."""
        return to_sink(self.sink, self.kind)

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns in Arrow's types, which sinks use."""
        return table_schema(self.schema)


@dataclass(frozen=True)
class WrittenBatch:
    """A batch that all sinks have.

    Attributes:
        number: Its number.
        emitted: The output of the shards.
        figures: The figures of the shards.
        batches: The rows of each kind.
        unwritable: The number of rows that sinks couldn't store.
        references: Releases the output when nobody reads it any more.
        seconds: The time of the shards' steps and of each sink.
        functions: The time of each of the user's functions among the sinks.
    """

    number: int
    emitted: DataFrame
    figures: Sequence[dict[str, Any]]
    batches: list[Batch]
    unwritable: int
    references: RefCounted
    seconds: dict[str, float] = field(default_factory=dict)
    functions: dict[str, float] = field(default_factory=dict)


class BatchListener(Protocol):
    """Follows the batches of a query."""

    def writing(self, emitted: DataFrame, number: int) -> AbstractContextManager[None]:
        """Return a context in which a batch is written."""

    def record_batch(self, batch: WrittenBatch) -> None:
        """Handle a batch that all sinks have."""

    def record_failure(self, failure: Failure, error: Exception) -> None:
        """Handle an exception of user code."""


class Writer:
    """The function that ``foreachBatch`` runs; it is pickled for a server of Spark Connect."""

    def __init__(
        self,
        outputs: Sequence[Destination],
        checkpoint: str,
        report: BatchListener,
        shards: int,
        remote: bool = False,
    ) -> None:
        self._outputs = tuple(outputs)
        self._checkpoint = checkpoint
        self._dead = DeadLetters(checkpoint)
        self._report = report
        self._few = _FEW // shards
        # Always cache over Spark Connect, where a watching client gets the whole output.
        self._few_in_a_row = -math.inf if remote else 0

    def __call__(self, emitted: DataFrame, number: int) -> None:
        """Write a batch."""
        with self._report.writing(emitted, number):
            references, phases = RefCounted(partial(_release, emitted)), Phases()
            try:
                with phases.measure(STEP), self._report_failures(number, "in a worker"):
                    figures, batches = self._fetch_and_cache(emitted, number)
                with collect_function_times() as functions:
                    self._write_to_sinks(batches, number, phases)
                unwritable = self._dead.keep(emitted.sparkSession, batches)
                self._report.record_batch(
                    WrittenBatch(
                        number, emitted, figures, batches, unwritable, references, phases.batch,
                        functions,
                    )
                )  # fmt: skip
            finally:
                references.done()

    def _write_to_sinks(self, batches: Sequence[Batch], number: int, phases: Phases) -> None:
        for batch, output in zip(batches, self._outputs, strict=True):
            if output.target is not None:
                with (
                    phases.measure(name_sink_phase(batch.kind)),
                    watch_sink(output.target, batch.kind, number),
                    self._report_failures(number, f"the sink of {batch.kind}"),
                ):
                    output.target.write(batch)

    def _fetch_and_cache(
        self, emitted: DataFrame, number: int
    ) -> tuple[list[dict[str, Any]], list[Batch]]:
        """Run a batch, and cache its output unless the last batches all had few rows.

        Without the cache, each sink of a large batch would run the whole batch again. The cache
        costs a plan and a copy, which a query of small batches can save.
        """
        arguments = number, emitted, self._outputs, self._checkpoint, self._few
        keeps = self._few_in_a_row < _IN_A_ROW
        if keeps:
            emitted.persist()
        figures, batches = fetch_batch(*arguments, is_cached=keeps)
        few = all(_are_few(batch) for batch in batches)
        if not few and not keeps:
            self._few_in_a_row = -_WARY
            emitted.persist()
            return fetch_batch(*arguments)
        self._few_in_a_row = self._few_in_a_row + 1 if few else min(self._few_in_a_row, 0)
        return figures, batches

    @contextmanager
    def _report_failures(self, number: int, part: str) -> Iterator[None]:
        """Report an exception of user code in the context."""
        try:
            yield
        except Exception as error:
            trace = str(error) if isinstance(error, PythonException) else ""
            failure = Failure.of(error, number, part, trace=trace)
            if failure is not None:
                self._report.record_failure(failure, error)
            raise


def _are_few(batch: Batch) -> bool:
    return isinstance(batch.rows, EmittedRows) and batch.rows.blobs is not None


def _release(emitted: DataFrame) -> None:
    # Unpersisting a frame that isn't cached makes Spark compare plans.
    if emitted.is_cached:
        emitted.unpersist()


def fetch_batch(
    number: int,
    emitted: DataFrame,
    outputs: Sequence[Destination],
    checkpoint: str = "",
    few: int = _FEW,
    *,
    is_cached: bool = True,
) -> tuple[list[dict[str, Any]], list[Batch]]:
    """Return the progress of a batch's shards, and the batch of each output.

    Args:
        number: The number of the batch.
        emitted: The output of the shards.
        outputs: The sinks.
        checkpoint: The checkpoint of the query.
        few: Size of the largest blob that is fetched along with the progress, bytes.
        is_cached: Whether the output is cached. If it isn't, the shards leave out larger blobs
            themselves, so that Spark plans no query over their output.
    """
    if is_cached:
        small = f"CASE WHEN length(blob) <= {few} THEN blob END AS blob"
        rows = emitted.selectExpr("kind", "progress", small).collect()
    else:
        with limit_blobs(emitted.sparkSession, few):
            rows = emitted.collect()
    batches = []
    for o in outputs:
        blobs = [row.blob for row in rows if row.kind == o.kind]
        held = tuple(map(bytes, blobs)) if None not in blobs else None
        emitted_rows = EmittedRows(emitted, o.kind, o.schema, held, checkpoint)
        of = (number, o.kind, o.columns, o.keys, emitted_rows, not blobs)
        batches.append(Batch(*of, UnwritableRows(o.kind), o.by_window))
    return [json.loads(row.progress) for row in rows if row.kind == PROGRESS], batches


class DeadLetters:
    """The folder of unwritable rows in a checkpoint, with a folder for each batch."""

    def __init__(self, checkpoint: str) -> None:
        self.path = f"{checkpoint.rstrip('/')}/{UNWRITABLE}"
        self._begun = False

    def keep(self, spark: SparkSession, batches: Sequence[Batch]) -> int:
        """Replace the unwritable rows of earlier attempts at a batch, and return their number."""
        if not batches:
            return 0
        first, self._begun = not self._begun, True
        frames = [frame for batch in batches for frame in _frames(batch.unwritable, spark)]
        number = batches[0].number
        path = f"{self.path}/batch={number}"
        if not frames:
            # The first batch of a run may repeat one whose rows the sinks can now all store.
            if first and path_exists(spark, path):
                spark.createDataFrame([], _SCHEMA).write.mode("overwrite").json(path)
            return 0
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.union(frame)
        whole.coalesce(1).write.mode("overwrite").json(path)
        by_sink = spark.read.schema(_SCHEMA).json(path).groupBy("output", SINK_COLUMN)
        first_reason = F.first(WHY_COLUMN).alias("reason")
        counts = by_sink.agg(F.count("*").alias("rows"), first_reason).collect()
        for batch in batches:
            while batch.unwritable.frames:
                batch.unwritable.frames.pop().unpersist()
        for row in counts:
            warn_of_unwritable(
                row[SINK_COLUMN], row["rows"], row["output"], number, row["reason"], path
            )
        return int(sum(row["rows"] for row in counts))


def _frames(unwritable: UnwritableRows, spark: SparkSession) -> Iterator[DataFrame]:
    """Yield the unwritable rows of one output, in the columns of the folder."""
    for frame in unwritable.frames:
        # Most batches have none, and a column takes the JVM a dozen calls.
        fixed = (F.lit(unwritable.output).alias("output"), F.lit(UNWRITABLE).alias("reason"))
        yield frame.select(*fixed, *UNWRITABLE_COLUMNS[2:])
    if unwritable.tables:
        yield spark.createDataFrame(unwritable.table())
