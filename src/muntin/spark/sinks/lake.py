"""What tables of a lake have in common: windows are merged in, all else is appended once."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from muntin.engine import columns
from muntin.model.errors import OptionError, SinkError
from muntin.spark.host.internals.jvm import JvmError
from muntin.spark.sinks.batch import Batch
from muntin.spark.sinks.sink import BATCH, TableSink, warn_of_new_table

# What the JVM says where a lake's jars were made for another Spark.
_OTHERS = ("NoSuchMethod", "NoClassDefFound", "AbstractMethod", "IncompatibleClassChange")


class LakeSink(TableSink):
    """Tables that Spark merges into."""

    # What the tables are called by, and a hint at what names they have.
    lake: ClassVar[str]
    hint: ClassVar[str]

    def __init__(self, table: str, history: str | None) -> None:
        for option, name in (("table", table), ("history", history)):
            if name is not None:
                self._check_table(option, name)
        super().__init__(table, history, lambda name: f"{self.lake} {name.rstrip('/')}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.table!r}, {self.history!r})"

    def check(self, schema: StructType, keys: tuple[str, ...] | None) -> None:
        super().check(schema, keys)
        for field in schema.fields:
            self._check_column(field.name, field.dataType)
        spark = SparkSession.getActiveSession()
        if spark is not None:
            self._require(spark)

    def _write(self, batch: Batch) -> None:
        try:
            self._merge_and_append(batch)
        except JvmError as error:
            if not any(name in str(error) for name in _OTHERS):
                raise
            spark = batch.emitted.sparkSession
            raise SinkError(
                f"{self.lake} {self.table}: these jars of {self.lake} aren't made for Spark "
                f"{spark.version}; take those of this Spark, or a Spark that {self.lake}'s newest "
                "release is made for"
            ) from error

    def _merge_and_append(self, batch: Batch) -> None:
        frame = batch.frame
        if batch.identity is not None:
            self._ensure(frame, self.table, batch.number)
            if not batch.empty:
                _merge(frame, self._named(self.table), batch.identity)
        if (log := self._log(batch.keys)) is not None:
            numbered = frame.withColumn(BATCH, F.lit(batch.number).cast("long"))
            self._ensure(numbered, log, batch.number)
            self._append(numbered, log, f"muntin {batch.query} {batch.kind}", batch)

    def _ensure(self, frame: DataFrame, table: str, number: int) -> None:
        """Create a table for such rows where none exists."""
        if not self._exists(frame.sparkSession, table):
            self._make(frame, table)
            warn_of_new_table(f"{self.lake} {table}", number)

    def _check_table(self, option: str, name: str) -> None:
        """Raise an ``OptionError`` where no table can have such a name."""
        if "`" in name or not name.strip("/ "):
            raise OptionError(option, name, f"can't be a table of {self.lake}", self.hint)

    @abstractmethod
    def _require(self, spark: SparkSession) -> None:
        """Raise a ``SettingError`` where the session lacks what the lake needs."""

    @abstractmethod
    def _check_column(self, name: str, dtype: DataType) -> None:
        """Raise an ``OptionError`` where no table can have such a column."""

    def _named(self, table: str) -> str:
        """The table in SQL."""
        return dotted(table)

    @abstractmethod
    def _exists(self, spark: SparkSession, table: str) -> bool:
        """Whether a table exists."""

    @abstractmethod
    def _make(self, frame: DataFrame, table: str) -> None:
        """Create a table for such rows."""

    @abstractmethod
    def _append(self, rows: DataFrame, table: str, writer: str, batch: Batch) -> None:
        """Append a batch's rows, unless its writer has."""


def dotted(table: str) -> str:
    """A name of a catalog in SQL.

    Example:
        >>> print(dotted("lake.db.worst"))
        `lake`.`db`.`worst`
    """
    return ".".join(f"`{part}`" for part in table.split("."))


def _merge(frame: DataFrame, table: str, identity: tuple[str, ...]) -> None:
    # A window may emit early and in full within one batch: only its newest row counts.
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
