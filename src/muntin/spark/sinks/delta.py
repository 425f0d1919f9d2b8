"""Results and rejected messages in Delta tables."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DayTimeIntervalType, StructType, YearMonthIntervalType

from muntin.engine import columns
from muntin.model.errors import OptionError, SettingError, SinkError
from muntin.spark.host.internals.jvm import JvmError, has_class, is_connected
from muntin.spark.sinks.batch import Batch
from muntin.spark.sinks.files import BATCH, TableSink

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_START = (
    "start the session with Delta's jars and with .config('spark.sql.extensions', "
    f"'{_EXTENSION}').config('spark.sql.catalog.spark_catalog', '{_CATALOG}')"
)
# What no column of Delta's may have in its name, unless the table maps names.
_UNNAMEABLE = set(" ,;{}()\n\t=")


class DeltaSink(TableSink):
    """Delta tables; see ``to_delta``."""

    def __init__(self, table: str, history: str | None) -> None:
        super().__init__(table, history, lambda name: f"Delta {name.rstrip('/')}")

    def __repr__(self) -> str:
        return f"DeltaSink({self.table!r}, {self.history!r})"

    def check(self, schema: StructType, keys: tuple[str, ...] | None) -> None:
        super().check(schema, keys)
        for field in schema.fields:
            _check_column(field.name, field.dataType)
        spark = SparkSession.getActiveSession()
        if spark is not None:
            _require(spark)

    def _write(self, batch: Batch) -> None:
        try:
            self._merge(batch)
        except JvmError as error:
            if "NoSuchMethod" not in str(error) and "NoClassDefFound" not in str(error):
                raise
            spark = batch.emitted.sparkSession
            raise SinkError(
                f"Delta {self.table}: these jars of Delta aren't made for Spark {spark.version}; "
                "take those of this Spark, or a Spark that Delta's newest release is made for"
            ) from error

    def _merge(self, batch: Batch) -> None:
        frame = batch.frame
        log = self.table if batch.identity is None else self.history
        if batch.identity is not None:
            _make(frame, self.table)
            if not batch.empty:
                _merge(frame, self.table, batch.identity)
        if log is not None:
            numbered = frame.withColumn(BATCH, F.lit(batch.number).cast("long"))
            _append(numbered, log, f"muntin {batch.query} {batch.kind}", batch.number)


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
    for option, name in (("table", table), ("history", history)):
        if name is not None and ("`" in name or not name.strip("/ ")):
            hint = "give a name of the catalog, or a path"
            raise OptionError(option, name, "can't be a table of Delta", hint)
    return DeltaSink(table, history)


def _require(spark: SparkSession) -> None:
    # Which jars a server has isn't seen from here, and what it was started with is.
    if not is_connected(spark) and not has_class(spark, _EXTENSION):
        raise SettingError(f"to_delta() needs Delta, which this session hasn't: {_START}")
    if _EXTENSION not in str(spark.conf.get("spark.sql.extensions", "")):
        raise SettingError(f"to_delta() needs Delta's SQL, which this session hasn't: {_START}")


def _check_column(name: str, dtype: DataType) -> None:
    if wrong := _UNNAMEABLE & set(name):
        problem = f"has {sorted(wrong)[0]!r} in its name, which Delta's columns haven't"
        raise OptionError("column", name, problem, "give the column another name")
    if isinstance(dtype, DayTimeIntervalType | YearMonthIntervalType):
        hint = "cast it to a number or a string first"
        raise OptionError("column", name, "is an interval, which Delta has no type for", hint)


def _named(table: str) -> str:
    """The table in SQL."""
    if "/" in table:
        return f"delta.`{table}`"
    return ".".join(f"`{part}`" for part in table.split("."))


def _make(frame: DataFrame, table: str) -> None:
    empty = frame.sparkSession.createDataFrame([], frame.schema).write.format("delta")
    if "/" in table:
        empty.mode("ignore").save(table)
    else:
        empty.mode("ignore").saveAsTable(table)


def _merge(frame: DataFrame, table: str, identity: Iterable[str]) -> None:
    identity = tuple(identity)
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
            f"MERGE INTO {_named(table)} AS kept USING {view} AS newest ON {same} "
            f"{newer} AND {back} THEN DELETE {newer} THEN UPDATE SET * "
            f"WHEN NOT MATCHED AND NOT {back} THEN INSERT *"
        )
    finally:
        spark.catalog.dropTempView(view)


def _append(rows: DataFrame, table: str, writer_id: str, number: int) -> None:
    writer = rows.write.format("delta").mode("append")
    writer = writer.option("txnAppId", writer_id).option("txnVersion", number)
    if "/" in table:
        writer.save(table)
    else:
        writer.saveAsTable(table)
