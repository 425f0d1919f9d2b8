"""The rows of a batch on Spark, in the form that sinks receive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin.model.errors import MuntinError
from muntin.sinks.batch import Batch
from muntin.spark.host.internals.checkpoints import read_query_id
from muntin.spark.host.internals.jvm import find_full_disk
from muntin.spark.host.internals.versions import make_arrow_schema
from muntin.spark.host.processor import unpack_rows
from muntin.spark.host.zones import ZONE_SETTING
from muntin.spark.sinks.writers import write_by_spark


@dataclass(frozen=True)
class EmittedRows:
    """The rows of one kind in the output of a batch.

    Attributes:
        emitted: The whole output of the shards.
        schema: Their columns, before the select list.
        blobs: The rows on the driver, if they are few: a DataFrame of them needs no Spark job.
        shape: Applies the select list to the rows; ``None`` selects all columns.
    """

    has_checkpoint: ClassVar[bool] = True

    emitted: DataFrame
    kind: str
    schema: StructType
    blobs: tuple[bytes, ...] | None = field(default=None, repr=False)
    checkpoint: str = ""
    shape: Callable[[DataFrame], DataFrame] | None = None

    @property
    def query(self) -> str:
        """The identifier of the query in its checkpoint, from which it is read each time."""
        return read_query_id(self.emitted.sparkSession, self.checkpoint)

    @property
    def zone(self) -> str:
        """The session's time zone."""
        return str(self.emitted.sparkSession.conf.get(ZONE_SETTING))

    @property
    def frame(self) -> DataFrame:
        """The rows as a DataFrame."""
        if self.blobs is None:
            rows = unpack_rows(self.emitted, self.kind, self.schema)
        else:
            rows = self.emitted.sparkSession.createDataFrame(self._fetch(), self.schema)
        return rows if self.shape is None else self.shape(rows)

    def table(self) -> pa.Table:
        """Fetch the rows to the driver as one Arrow table."""
        if self.shape is None:
            return self._fetch()
        frame = self.frame
        return frame.toArrow().cast(make_arrow_schema(frame.schema))

    def take_last(self, most: int) -> pa.Table:
        """Fetch at most `most` rows of each shard, the last ones; executors drop the others."""
        return self._fetch(most)

    def write_natively(self, sink: Any, batch: Batch) -> bool:
        """Have Spark write a batch, if it writes this kind of sink; return whether it did.

        Raises:
            OSError: When a disk takes no more.
        """
        try:
            return write_by_spark(sink, batch, few=self.blobs is not None)
        except Exception as error:
            full = find_full_disk(error)
            if full is None or isinstance(error, MuntinError):
                raise
            raise OSError(full) from error

    def _fetch(self, most: int | None = None) -> pa.Table:
        """Fetch the rows, or at most ``most`` of each shard."""
        blobs = self.blobs
        if blobs is None:
            rows = self.emitted.where(F.col("kind") == self.kind).select("blob")
            if most is not None:
                rows = rows.mapInArrow(partial(_shorten, most=most), "blob binary")
            blobs = tuple(row[0] for row in rows.collect())
        parts = [_last(pa.ipc.open_stream(blob).read_all(), most) for blob in blobs]
        return pa.concat_tables([make_arrow_schema(self.schema).empty_table(), *parts])


def _last(rows: pa.Table, most: int | None) -> pa.Table:
    return rows if most is None else rows.slice(max(0, rows.num_rows - most))


def _shorten(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """Cut the blobs of shards to their last rows, on the executors."""
    for batch in batches:
        blobs = []
        for blob in batch.column(0):
            last = _last(pa.ipc.open_stream(blob.as_py()).read_all(), most)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, last.schema) as writer:
                writer.write_table(last)
            blobs.append(sink.getvalue().to_pybytes())
        yield pa.RecordBatch.from_arrays([pa.array(blobs, pa.binary())], ["blob"])
