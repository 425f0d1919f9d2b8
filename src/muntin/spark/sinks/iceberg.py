"""Writes Iceberg tables with Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from muntin.model.errors import OptionError, SettingError
from muntin.sinks.batch import Batch
from muntin.spark.host.internals.jvm import has_class, is_connected
from muntin.spark.sinks.lake import LakeWriter, quote_table

_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_PACKAGE = "org.apache.iceberg."
_UNKNOWN = (T.CalendarIntervalType, T.DayTimeIntervalType, T.NullType, T.YearMonthIntervalType)
# Properties of a snapshot that name the writer and the batch that it appended.
_WRITER, _BATCH = "muntin.writer", "muntin.batch"


class IcebergWriter(LakeWriter):
    """Writes the batches of ``to_iceberg``."""

    lake = "Iceberg"

    def _require(self, spark: SparkSession) -> None:
        for table in (self.sink.table, self.sink.history):
            if table is not None:
                _require_catalog(spark, table)

    def _check_type(self, name: str, dtype: T.DataType) -> None:
        if isinstance(dtype, _UNKNOWN):
            problem = f"has type {dtype.simpleString()}, which Iceberg lacks"
            hint = "cast it to a number or a string first"
            raise OptionError("column", name, problem, hint)

    def _exists(self, spark: SparkSession, table: str) -> bool:
        return spark.catalog.tableExists(quote_table(table))

    def _make(self, frame: DataFrame, table: str) -> None:
        empty = frame.sparkSession.createDataFrame([], frame.schema)
        empty.writeTo(quote_table(table)).using("iceberg").create()

    def _append(self, rows: DataFrame, table: str, writer: str, batch: Batch) -> None:
        if batch.empty or _has(rows.sparkSession, table, writer, batch.number):
            return
        write = rows.writeTo(quote_table(table)).option(f"snapshot-property.{_WRITER}", writer)
        write.option(f"snapshot-property.{_BATCH}", str(batch.number)).append()


def _require_catalog(spark: SparkSession, table: str) -> None:
    catalog = table.partition(".")[0]
    kind = str(spark.conf.get(f"spark.sql.catalog.{catalog}", "") or "")
    where = f"to_iceberg({table!r}) needs a catalog {catalog} of Iceberg's, "
    start = (
        "Start the session with Iceberg's jar and with "
        f".config('spark.sql.catalog.{catalog}', '{_CATALOG}'), and set its type "
        f"(.config('spark.sql.catalog.{catalog}.type', …))"
    )
    if not kind.startswith(_PACKAGE):
        raise SettingError(f"{where}which this session lacks. {start}")
    # The jars of a server of Spark Connect can't be checked by the client.
    if not is_connected(spark) and not has_class(spark, kind):
        raise SettingError(f"{where}and this session lacks its jar. {start}")


def _has(spark: SparkSession, table: str, writer: str, number: int) -> bool:
    """Return whether a batch was appended, by the snapshots in the table's present history."""
    name = quote_table(table)
    summary = F.col("summary")
    mine = (summary[_WRITER] == writer) & (summary[_BATCH] == str(number))
    ancestors = spark.table(f"{name}.history").where("is_current_ancestor")
    snapshots = spark.table(f"{name}.snapshots").where(mine).join(ancestors, "snapshot_id")
    return not snapshots.isEmpty()
