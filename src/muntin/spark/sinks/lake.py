"""Writes tables of a lake with Spark: merges windows, and appends all other rows once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from muntin.engine import columns
from muntin.model.errors import SinkError
from muntin.sinks.batch import Batch
from muntin.sinks.sink import BATCH_COLUMN, TableSink, warn_of_new_table
from muntin.spark.host.internals.jvm import JvmError

# The JVM's errors when a lake's jars were built for another version of Spark.
_OTHERS = ("NoSuchMethod", "NoClassDefFound", "AbstractMethod", "IncompatibleClassChange")


class LakeWriter(ABC):
    """Writes the batches of a sink whose tables Spark merges into."""

    # The name of the kind of tables.
    lake: ClassVar[str]

    def __init__(self, sink: TableSink) -> None:
        self.sink = sink

    def check(self, schema: StructType, keys: tuple[str, ...] | None) -> None:
        """Refuse columns that a table can't have, and a session without the lake's jars."""
        self.sink.check_names(schema.names, keys)
        for field in schema.fields:
            self._check_type(field.name, field.dataType)
        spark = SparkSession.getActiveSession()
        if spark is not None:
            self._require(spark)

    def write(self, batch: Batch, *, few: bool) -> bool:
        """Merge a batch into the table, and append it to the history."""
        frame: DataFrame = batch.frame
        try:
            self._merge_and_append(frame, batch)
        except JvmError as error:
            if not any(name in str(error) for name in _OTHERS):
                raise
            version = frame.sparkSession.version
            raise SinkError(
                f"{self.lake} {self.sink.table}: these jars of {self.lake} aren't made for Spark "
                f"{version}; take those of this Spark, or a Spark that {self.lake}'s newest "
                "release is made for"
            ) from error
        return True

    def _merge_and_append(self, frame: DataFrame, batch: Batch) -> None:
        if batch.identity is not None:
            self._ensure(frame, self.sink.table, batch.number)
            if not batch.empty:
                _merge(frame, self._sql_name(self.sink.table), batch.identity)
        if (log := self.sink.get_log_table(batch.keys)) is not None:
            numbered = frame.withColumn(BATCH_COLUMN, F.lit(batch.number).cast("long"))
            self._ensure(numbered, log, batch.number)
            self._append(numbered, log, f"muntin {batch.query} {batch.kind}", batch)

    def _ensure(self, frame: DataFrame, table: str, number: int) -> None:
        """Create a table for the rows of a frame, if it doesn't exist."""
        if not self._exists(frame.sparkSession, table):
            self._make(frame, table)
            warn_of_new_table(f"{self.lake} {table}", number)

    @abstractmethod
    def _require(self, spark: SparkSession) -> None:
        """Raise a ``SettingError`` if the session lacks a setting or jar that the lake needs."""

    @abstractmethod
    def _check_type(self, name: str, dtype: DataType) -> None:
        """Raise an ``OptionError`` if a table can't have a column of this type."""

    def _sql_name(self, table: str) -> str:
        return quote_table(table)

    @abstractmethod
    def _exists(self, spark: SparkSession, table: str) -> bool:
        """Return whether a table exists."""

    @abstractmethod
    def _make(self, frame: DataFrame, table: str) -> None:
        """Create a table for the rows of a frame."""

    @abstractmethod
    def _append(self, rows: DataFrame, table: str, writer: str, batch: Batch) -> None:
        """Append a batch's rows, unless the writer has already appended that batch."""


def quote_table(table: str) -> str:
    """Return the name of a table in a catalog, quoted for SQL.

    Example:
        >>> print(quote_table("lake.db.worst"))
        `lake`.`db`.`worst`
    """
    return ".".join(f"`{part}`" for part in table.split("."))


def _merge(frame: DataFrame, table: str, identity: tuple[str, ...]) -> None:
    # A window may have an early and a full emission in one batch: only its newest row counts.
    newest = Window.partitionBy(*(F.col(f"`{name}`") for name in identity))
    ranked = F.row_number().over(newest.orderBy(F.col(columns.REVISION).desc()))
    rows = frame.withColumn("__muntin_rank", ranked).where("__muntin_rank = 1")
    spark, view = frame.sparkSession, f"muntin_newest_{id(frame)}"
    rows.drop("__muntin_rank").createOrReplaceTempView(view)
    same = " AND ".join(f"kept.`{name}` <=> newest.`{name}`" for name in identity)
    back = f"newest.{columns.EMISSION} = 'retract'"
    newer = f"WHEN MATCHED AND newest.{columns.REVISION} >= kept.{columns.REVISION}"
    try:
        spark.sql(
            f"MERGE INTO {table} AS kept USING {view} AS newest ON {same} "
            f"{newer} AND {back} THEN DELETE {newer} THEN UPDATE SET * "
            f"WHEN NOT MATCHED AND NOT {back} THEN INSERT *"
        )
    finally:
        spark.catalog.dropTempView(view)
