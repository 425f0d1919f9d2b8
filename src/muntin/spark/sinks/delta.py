"""Results and rejected messages in Delta tables."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, DayTimeIntervalType, YearMonthIntervalType

from muntin.model.errors import OptionError, SettingError
from muntin.spark.host.internals.checkpoints import is_there
from muntin.spark.host.internals.jvm import has_class, is_connected
from muntin.spark.sinks.batch import Batch
from muntin.spark.sinks.lake import LakeSink

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_START = (
    "start the session with Delta's jars and with .config('spark.sql.extensions', "
    f"'{_EXTENSION}').config('spark.sql.catalog.spark_catalog', '{_CATALOG}')"
)
# What no column of Delta's may have in its name, unless the table maps names.
_UNNAMEABLE = set(" ,;{}()\n\t=")


class DeltaSink(LakeSink):
    """Delta tables; see ``to_delta``."""

    lake = "Delta"
    hint = "give a name of the catalog, or a path"

    def _require(self, spark: SparkSession) -> None:
        # Which jars a server has isn't seen from here, and what it was started with is.
        if not is_connected(spark) and not has_class(spark, _EXTENSION):
            raise SettingError(f"to_delta() needs Delta, which this session hasn't: {_START}")
        if _EXTENSION not in str(spark.conf.get("spark.sql.extensions", "")):
            raise SettingError(f"to_delta() needs Delta's SQL, which this session hasn't: {_START}")

    def _check_column(self, name: str, dtype: DataType) -> None:
        if wrong := _UNNAMEABLE & set(name):
            problem = f"has {sorted(wrong)[0]!r} in its name, which Delta's columns haven't"
            raise OptionError("column", name, problem, "give the column another name")
        if isinstance(dtype, DayTimeIntervalType | YearMonthIntervalType):
            hint = "cast it to a number or a string first"
            raise OptionError("column", name, "is an interval, which Delta has no type for", hint)

    def _named(self, table: str) -> str:
        return f"delta.`{table}`" if "/" in table else super()._named(table)

    def _exists(self, spark: SparkSession, table: str) -> bool:
        if "/" not in table:
            return spark.catalog.tableExists(self._named(table))
        return is_there(spark, f"{table.rstrip('/')}/_delta_log")

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


def to_delta(table: str, *, history: str | None = None) -> DeltaSink:
    """Keep the newest state of every window in a Delta table.

    Results are merged by keys and window, the greater revision wins, a batch in one transaction;
    sessions that were taken back are deleted. Pairs of joins and rejected messages are appended
    with their batch's number, in a column ``batch``, which therefore none of theirs may be called.
    A repeated batch changes nothing: what was appended is known by the query and the batch
    (Delta's ``txnAppId`` and ``txnVersion``), also where another query writes to the same table.

    Args:
        table: The table: a name of the catalog, or a path (whatever has a ``/``). It is made at the
            first batch where it isn't there.
        history: Another table that keeps every firing, with the batch's number.

    A session without Delta is refused by a ``SettingError`` when the query starts; columns that
    Delta can't have, by an ``OptionError``.
    """
    return DeltaSink(table, history)
