"""The stage after the shuffle: runs a step of each shard in Spark's ``transformWithState``.

``packed`` has the processor that Spark calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin.engine.operator import REJECTED, Operator, ShardState
from muntin.spark.host.handoff import write_watermark
from muntin.spark.host.internals.versions import make_arrow_schema
from muntin.spark.host.messages import BLOB, KIND
from muntin.spark.host.messages import PROGRESS as PASSED_PROGRESS
from muntin.spark.host.schema import to_blob
from muntin.spark.host.state import SparkBlobs
from muntin.spark.host.task import Stage, read_parts
from muntin.spark.sources.inputs import WALL
from muntin.state.frames import FrameCache, decode_frame

# The columns that a shard emits in a batch: blobs of rows by kind, and one line of progress.
EMITTED = "kind string, blob binary, progress string"
PROGRESS = "progress"
_ROWS_A_BLOB = 500_000
# The local property of a job whose shards leave out larger blobs, bytes.
_LARGEST_BLOB = "muntin.largest.blob"

# Decoded blobs of this worker process; `FrameCache` explains why retries can't read wrong ones.
CACHE = FrameCache()


class ShardSteps:
    """Runs a step of an operator on the rows that the tasks sent to one shard."""

    def __init__(self, stage: Stage, final: bool) -> None:
        self.stage = stage
        self.final = final

    @cached_property
    def operator(self) -> Operator:
        """The operator; a worker may run several of its shards."""
        return self.stage.operator()

    @cached_property
    def schemas(self) -> dict[str, pa.Schema]:
        """The columns of each kind of rows that is emitted."""
        return {kind: make_arrow_schema(schema) for kind, schema in self.stage.schemas.items()}

    def __call__(self, blobs: SparkBlobs, key: Any, rows: Iterator[Any]) -> Iterator[Row]:
        """Run one step of one shard, and yield its output as rows of ``EMITTED``."""
        waiting = list(rows)
        stage, shard = self.stage, self.stage.slots.index(key[0])
        CACHE.set_owner((stage.identity, shard))
        wall, ends_run = clock_of(waiting)
        step = self.operator.open(ShardState(stage.identity, shard, blobs, CACHE))
        parts = read_parts(shard, waiting)
        output = step.run(parts, wall, final=self.final, ends_run=ends_run)
        if step.task_watermark is not None:
            write_watermark(stage.identity, step.task_watermark)
        progress = json.dumps({"shard": shard, WALL: wall, **output.progress})
        figures = Row(kind=PROGRESS, blob=None, progress=progress)
        yield from _leave_out_large(chain(self._rows(output.rows), [figures], _pass_on(waiting)))

    def _rows(self, rows: Mapping[str, pl.DataFrame]) -> Iterator[Row]:
        """Yield rows of the kinds that are wanted, as rows of ``EMITTED``."""
        for kind, frame in rows.items():
            schema = self.schemas.get(kind)
            if schema is None or not len(frame):
                continue
            if kind == REJECTED and self.stage.layout is not None:
                frame = self.stage.layout.add_columns(frame)
            # The JVM receives a shard's output in one piece. When millions of windows close at
            # once, that could exceed its heap, so large output is compressed.
            large = len(frame) > _ROWS_A_BLOB
            for start in range(0, len(frame), _ROWS_A_BLOB):
                blob = to_blob(frame.slice(start, _ROWS_A_BLOB), schema, compressed=large)
                yield Row(kind=kind, blob=blob, progress=None)


def _pass_on(rows: Sequence[Any]) -> Iterator[Row]:
    """Yield the rejected messages and figures of upstream operators, as rows of ``EMITTED``."""
    for row in rows:
        if row["passed"] is not None:
            for one in decode_frame(bytes(row["passed"])).iter_rows(named=True):
                yield Row(kind=one[KIND], blob=one[BLOB], progress=one[PASSED_PROGRESS])


def _leave_out_large(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield rows of ``EMITTED``, without their blobs where ``limit_blobs`` forbids these."""
    context = TaskContext.get()
    most = context.getLocalProperty(_LARGEST_BLOB) if context else None
    for row in rows:
        if most is not None and row.blob is not None and len(row.blob) > int(most):
            yield Row(kind=row.kind, blob=None, progress=row.progress)
        else:
            yield row


@contextmanager
def limit_blobs(spark: SparkSession, most: int) -> Iterator[None]:
    """Have shards leave out blobs of more than some bytes in the jobs of the context.

    The driver can then collect the output of a batch as it is. Where it has a row of some kind
    without a blob, the batch has to run again outside of the context.
    """
    context = spark.sparkContext
    context.setLocalProperty(_LARGEST_BLOB, str(most))
    try:
        yield
    finally:
        context.setLocalProperty(_LARGEST_BLOB, None)  # type: ignore[arg-type]


def clock_of(rows: Sequence[Any]) -> tuple[int | None, bool]:
    """Return the wall clock of a batch from its ticks, and whether the run ends with the batch.

    A tick is part of the batch's offsets, so that a repeated batch has the same clock. Without a
    tick the clock is ``None``.
    """
    ticks = [row[WALL] for row in rows if row[WALL] is not None]
    return max(map(abs, ticks), default=None), any(tick < 0 for tick in ticks)


def unpack_rows(emitted: DataFrame, kind: str, schema: StructType) -> DataFrame:
    """Return the rows of one kind from the output of the shards."""
    return emitted.where(F.col("kind") == kind).select("blob").mapInArrow(unpack_blobs, schema)


def unpack_blobs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of blobs; a function for ``mapInArrow``."""
    for batch in batches:
        for blob in batch.column("blob"):
            yield from pa.ipc.open_stream(blob.as_buffer())
