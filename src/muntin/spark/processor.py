"""The stage behind the shuffle: one shard a bucket, inside Spark's ``transformWithState``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

from muntin.engine import columns
from muntin.engine.codec import decode
from muntin.engine.operator import shard
from muntin.engine.runs import FrameCache
from muntin.engine.told import Told
from muntin.model.errors import OptionError
from muntin.spark.combiner import BLOB, KIND, Stage, received
from muntin.spark.combiner import FIGURES as PASSED_FIGURES
from muntin.spark.handoff import leave
from muntin.spark.inputs import WALL
from muntin.spark.schema import to_blob
from muntin.spark.state import SparkBlobs

if TYPE_CHECKING:
    from muntin.spark.onward import Beside

# What a shard tells a batch: blobs of results and of rejected messages, and one line of figures.
TOLD = "kind string, blob binary, figures string"
RESULTS, REJECTED, FIGURES = "results", "rejected", "figures"
# In figures: which of several operators of a query told them; the last one doesn't say.
STAGE = "stage"
# What rejected pairs of a join have for a side.
PAIR = "pair"
_ROWS_A_BLOB = 500_000

# Decoded blobs of this worker process; see FrameCache for why retries can't see wrong ones.
CACHE = FrameCache()


class ShardProcessor(StatefulProcessor):
    """Runs a shard on the rows of one bucket.

    Args:
        stage: What both sides of the shuffle know.
        results: The columns of results.
        rejected: The columns of rejected messages; ``None`` where nobody wants them.
        beside: How rejected messages lie among those of an operator before this one.
        final: Whether the input ends with this batch (batch frames).
    """

    def __init__(
        self,
        stage: Stage,
        results: StructType,
        rejected: StructType | None,
        beside: Beside | None,
        final: bool,
    ) -> None:
        self.stage = stage
        self.results = results
        self.rejected = rejected
        self.beside = beside
        self.final = final

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state variables."""
        self.blobs = SparkBlobs(handle)
        self.combiner = self.stage.combiner()

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """One step of one shard."""
        waiting = list(rows)
        CACHE.turn_to((self.stage.operator, key[0]))
        mine = shard(self.combiner, self.blobs, CACHE)
        CACHE.keep(mine.state.numbers())
        combined = received(self.combiner, waiting, mine.state.watermark)
        told = mine.step(combined, wall_of(waiting, mine.state.wall), final=self.final)
        leave(self.stage.operator, told.watermark, mine.state.offsets.dumps())
        yield from rows_of(told.results, self.results)
        if self.rejected is not None and len(told.rejected):
            yield Row(kind=REJECTED, blob=self._rejected(told, self.rejected), figures=None)
        yield figures_of(self.stage.slots.index(key[0]), told)
        yield from passed(waiting)

    def _rejected(self, told: Told, schema: StructType) -> bytes:
        frame = told.rejected
        source = self.stage.spec.time if self.stage.spec.axis == "time" else None
        if source is not None and (frame[columns.REASON] == "overflow").any():
            # Rows made here have only the engine's own time.
            dtype = frame.schema[source]
            moment = pl.col(columns.TIME).cast(dtype if dtype.is_temporal() else pl.Datetime("us"))
            frame = frame.with_columns(pl.coalesce(source, moment.cast(dtype)).alias(source))
        watermark = pl.lit(told.judged, dtype=pl.Int64).alias(columns.WATERMARK)
        frame = frame.with_columns(watermark)
        if self.beside is not None:
            # Rejected messages of the operator before have other columns.
            frame = frame.rename(dict(self.beside.names), strict=False)
            wider = [name for name in schema.names if name not in frame.columns]
            frame = frame.with_columns(
                pl.lit(self.beside.values.get(name)).alias(name) for name in wider
            )
        return to_blob(frame, schema)

    def close(self) -> None:
        """Nothing is held."""


def passed(rows: Sequence[Any]) -> Iterator[Row]:
    """What an operator before this one told beside its results, as rows of ``TOLD``."""
    for row in rows:
        if row["passed"] is not None:
            for one in decode(bytes(row["passed"])).iter_rows(named=True):
                yield Row(kind=one[KIND], blob=one[BLOB], figures=one[PASSED_FIGURES])


def rows_of(results: pl.DataFrame, schema: StructType) -> Iterator[Row]:
    """Results as rows of ``TOLD``."""
    for start in range(0, len(results), _ROWS_A_BLOB):
        part = results.slice(start, _ROWS_A_BLOB)
        yield Row(kind=RESULTS, blob=to_blob(part, schema), figures=None)


def figures_of(bucket: int, told: Told) -> Row:
    """What a shard counted, as a row of ``TOLD``."""
    figures = {
        "bucket": bucket,
        "watermark": told.watermark,
        "counts": told.counts,
        "pending": told.pending,
        "rows": told.rows,
        "fired": dict(told.results[columns.EMISSION].value_counts().iter_rows()),
    }
    return Row(kind=FIGURES, blob=None, figures=json.dumps(figures))


def wall_of(rows: Sequence[Any], last: int | None) -> int:
    """The wall clock of a batch, out of its ticks; without one, the clock stands still.

    A tick belongs to the batch's offsets, so that a repeated batch has the same clock.
    """
    return max((row[WALL] for row in rows if row[WALL] is not None), default=last or 0)


def buckets_of(spark: SparkSession, asked: int | None) -> int:
    """In how many shards keys are kept: as many as were asked for, or one a shuffle partition.

    Raises:
        OptionError: When it can't be a number of shards.
    """
    if asked is None:
        return int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    if asked < 1:
        raise OptionError("buckets", asked, "is less than one", "give 1 or more")
    return asked


def unpacked(told: DataFrame, kind: str, schema: StructType) -> DataFrame:
    """The rows of one kind out of what the shards told."""
    return told.where(F.col("kind") == kind).select("blob").mapInArrow(unpack, schema)


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Blobs back into rows; given to ``mapInArrow``."""
    for batch in batches:
        for blob in batch.column("blob"):
            yield from pa.ipc.open_stream(blob.as_buffer())
