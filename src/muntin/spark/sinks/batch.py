"""The rows of one kind in one batch, as a sink gets them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin.engine import columns
from muntin.spark.host.internals.checkpoints import query_of
from muntin.spark.host.internals.versions import arrow_schema
from muntin.spark.host.processor import unpacked
from muntin.spark.sinks.unstorable import Letters


@dataclass(frozen=True)
class Batch:
    """One batch of rows of one kind.

    Attributes:
        number: The batch's number, the same when it is repeated.
        emitted: What the shards emitted.
        kind: Which of the rows that the shards emitted.
        schema: The columns.
        keys: The key columns; ``None`` where rows have no identity but their batch (joins, rejected
            messages).
        empty: Whether the shards emitted no rows of this kind, as when no message came. Where the
            table is there already, nothing needs to be done then: a repeat has no rows either.
        letters: Takes the rows that a sink can't.
        blobs: The rows where they are few: a DataFrame of them needs no job of Spark's.
        checkpoint: The folder of the query's checkpoint.
        shape: What is shown of the rows; ``None`` where that is all of them.
    """

    number: int
    emitted: DataFrame
    kind: str
    schema: StructType
    keys: tuple[str, ...] | None
    empty: bool = False
    letters: Letters = field(default_factory=lambda: Letters(""), compare=False)
    blobs: tuple[bytes, ...] | None = field(default=None, repr=False)
    checkpoint: str = ""
    shape: Callable[[DataFrame], DataFrame] | None = None

    @property
    def query(self) -> str:
        """What distinguishes the query from any with another checkpoint; costs a look into it."""
        return query_of(self.emitted.sparkSession, self.checkpoint)

    @property
    def identity(self) -> tuple[str, ...] | None:
        """The columns that identify a row: the keys and the window; ``None`` where none do."""
        if self.keys is None:
            return None
        bounds = (columns.WINDOW_START, columns.WINDOW_END)
        return (*self.keys, *(name for name in bounds if name in self.schema.names))

    @property
    def frame(self) -> DataFrame:
        """The rows, as a DataFrame."""
        if self.blobs is None:
            rows = unpacked(self.emitted, self.kind, self.schema)
        else:
            rows = self.emitted.sparkSession.createDataFrame(self._fetched(), self.schema)
        return rows if self.shape is None else self.shape(rows)

    def table(self) -> pa.Table:
        """The rows, fetched to the driver as one Arrow table."""
        if self.shape is None:
            return self._fetched()
        frame = self.frame
        return frame.toArrow().cast(arrow_schema(frame.schema))

    def _fetched(self) -> pa.Table:
        blobs = self.blobs
        if blobs is None:
            rows = self.emitted.where(F.col("kind") == self.kind).select("blob").collect()
            blobs = tuple(row[0] for row in rows)
        parts = [pa.ipc.open_stream(blob).read_all() for blob in blobs]
        target = arrow_schema(self.schema)
        return pa.concat_tables([target.empty_table(), *parts])
