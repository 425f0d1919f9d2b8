"""Batches of a DataFrame's rows, without a query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from muntin.sinks.batch import Batch
from muntin.sinks.unwritable import UnwritableRows
from muntin.spark.host.zones import ZONE_SETTING
from muntin.spark.sinks.writers import table_schema, write_by_spark
from muntin.testing import SinkBatch


@dataclass(frozen=True)
class FrameRows:
    """A DataFrame as the rows of a batch.

    Attributes:
        build: Makes the DataFrame.
        few: Whether its rows are on the driver already.
        query: The name of the query.
    """

    build: Callable[[], DataFrame]
    few: bool = True
    query: str = "a query"

    @property
    def frame(self) -> DataFrame:
        return self.build()

    @property
    def zone(self) -> str:
        return str(SparkSession.active().conf.get(ZONE_SETTING))

    def table(self) -> pa.Table:
        return self.frame.toArrow()

    def write_natively(self, sink: Any, batch: Batch) -> bool:
        return write_by_spark(sink, batch, few=self.few)


def batch_of(
    frame: DataFrame,
    number: int = 0,
    kind: str = "results",
    keys: tuple[str, ...] | None = None,
    *,
    few: bool = True,
) -> Batch:
    """Return a batch of a DataFrame's rows."""
    rows = FrameRows(lambda: frame, few)
    schema = table_schema(frame.schema)
    return Batch(number, kind, schema, keys, rows, unwritable=UnwritableRows(kind))


@dataclass
class OnSpark:
    """A sink whose batches of ``muntin.testing`` Spark writes."""

    sink: Any

    def write(self, batch: SinkBatch) -> None:
        def build() -> DataFrame:
            return SparkSession.active().createDataFrame(batch.table())

        rows = FrameRows(build, few=False, query=batch.query)
        self.sink.write(
            Batch(batch.number, batch.kind, batch.schema, batch.keys, rows, batch.empty)
        )
