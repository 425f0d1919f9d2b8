"""Writes Delta tables with Spark."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, DayTimeIntervalType, YearMonthIntervalType

from muntin.model.errors import OptionError, SettingError
from muntin.sinks.batch import Batch
from muntin.spark.host.internals.checkpoints import path_exists
from muntin.spark.host.internals.jvm import has_class, is_connected
from muntin.spark.sinks.lake import LakeWriter

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_START = (
    "Start the session with Delta's jars and with .config('spark.sql.extensions', "
    f"'{_EXTENSION}').config('spark.sql.catalog.spark_catalog', '{_CATALOG}')"
)


class DeltaWriter(LakeWriter):
    """Writes the batches of ``to_delta``."""

    lake = "Delta"

    def _require(self, spark: SparkSession) -> None:
        if "DATABRICKS_RUNTIME_VERSION" in os.environ:
            return  # Delta is part of the runtime, without the settings of a session.
        # The client can read the settings of a server of Spark Connect, but not its jars.
        if not is_connected(spark) and not has_class(spark, _EXTENSION):
            raise SettingError(f"to_delta() needs Delta, which this session lacks. {_START}")
        if _EXTENSION not in str(spark.conf.get("spark.sql.extensions", "")):
            raise SettingError(f"to_delta() needs Delta's SQL, which this session lacks. {_START}")

    def _check_type(self, name: str, dtype: DataType) -> None:
        if isinstance(dtype, DayTimeIntervalType | YearMonthIntervalType):
            hint = "cast it to a number or a string first"
            raise OptionError("column", name, "is an interval, which Delta has no type for", hint)

    def _sql_name(self, table: str) -> str:
        return f"delta.`{table}`" if "/" in table else super()._sql_name(table)

    def _exists(self, spark: SparkSession, table: str) -> bool:
        if "/" not in table:
            return spark.catalog.tableExists(self._sql_name(table))
        return path_exists(spark, f"{table.rstrip('/')}/_delta_log")

    def _make(self, frame: DataFrame, table: str) -> None:
        empty = frame.sparkSession.createDataFrame([], frame.schema).write.format("delta")
        if "/" in table:
            empty.mode("ignore").save(table)
        else:
            empty.mode("ignore").saveAsTable(table)

    def _append(self, rows: DataFrame, table: str, writer: str, batch: Batch) -> None:
        write = rows.write.format("delta").mode("append")
        write = write.option("txnAppId", writer).option("txnVersion", batch.number)
        if "/" in table:
            write.save(table)
        else:
            write.saveAsTable(table)
