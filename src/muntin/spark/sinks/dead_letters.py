"""Keeps the rows that sinks couldn't store, in a folder of the query's checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muntin.sinks.batch import Batch
from muntin.sinks.unwritable import (
    SINK_COLUMN,
    UNWRITABLE,
    UNWRITABLE_COLUMNS,
    WHY_COLUMN,
    UnwritableRows,
    warn_of_unwritable,
)
from muntin.spark.host.internals.checkpoints import is_there

_SCHEMA = ", ".join(f"{name} string" for name in UNWRITABLE_COLUMNS)


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
            if first and is_there(spark, path):
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
    fixed = (F.lit(unwritable.output).alias("output"), F.lit(UNWRITABLE).alias("reason"))
    for frame in unwritable.frames:
        yield frame.select(*fixed, *UNWRITABLE_COLUMNS[2:])
    if unwritable.tables:
        yield spark.createDataFrame(unwritable.table())
