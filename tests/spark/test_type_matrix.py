"""Every aggregate over every Spark type: every interface gives what Spark SQL and the oracle give.

All types are columns of one frame, so that each interface runs one query. Unsupported types are
refused by name before anything runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from tests.spark.feed import at
from tests.transcripts.comparison import same
from tests.typed import (
    AGGREGATES,
    GROWS,
    SPARK,
    SQL,
    TYPES,
    UNORDERED,
    Typed,
    apply_to,
    fit_mean,
    list_unsupported_aggregates,
)

import muntin as mt
from muntin.model.aggregates import Aggregate
from muntin.model.errors import MuntinError, OptionError
from muntin.spark.host.internals.versions import make_arrow_schema
from muntin.testing.oracle.values import value as value_of
from muntin.testing.oracle.window import Placed

pytestmark = pytest.mark.slow

# Beyond this scale a mean of 38 digits has another type than Spark's.
_SPARKS_SCALE = 18
CORE = [t for t in TYPES if t.name in ("double", "decimal(38,18)", "array of doubles", "map")]
SIZE = 20
IDENTITY = ("k", "window_start")

Rows = dict[tuple[Any, ...], dict[str, Any]]


class Wide:
    """One frame with a column of each type.

    Attributes:
        types: The types, by the column's name.
        aggregates: Every aggregate that isn't refused, by its name and the column's.
        rows: The messages.
    """

    def __init__(self, types: Sequence[Typed]) -> None:
        self.types = {f"v{i}": typed for i, typed in enumerate(types)}
        self.aggregates = {
            f"{name}_{column}": apply_to(agg, column)
            for column, typed in self.types.items()
            for name, agg in AGGREGATES.items()
            if name not in list_unsupported_aggregates(typed)
        }
        groups = dict.fromkeys(key for typed in types for key in typed.groups)
        self.rows = [row for key in groups for row in self._group(key)]

    def _group(self, key: str) -> list[dict[str, Any]]:
        columns = {name: typed.groups.get(key, []) for name, typed in self.types.items()}
        length = max(len(values) for values in columns.values())
        return [
            {
                "k": key,
                "t": at(7 * (i // 2)),
                "w": None if i % 5 == 4 else i // 3,
                **{n: values[i] if i < len(values) else None for n, values in columns.items()},
            }
            for i in range(length)
        ]

    def schema(self, spark: SparkSession) -> StructType:
        """Return the columns of messages."""
        declared = ", ".join(f"{name} {typed.spark}" for name, typed in self.types.items())
        columns = f"k string, t timestamp, w bigint, {declared}"
        return spark.createDataFrame([], columns).schema

    def table(self, spark: SparkSession) -> pa.Table:
        """Return the messages in Arrow."""
        types = {name: typed.polars for name, typed in self.types.items()}
        types = {"k": pl.String(), "t": pl.Datetime("us", "UTC"), "w": pl.Int64(), **types}
        arrow = pl.DataFrame(self.rows, schema=types).to_arrow()
        return arrow.cast(make_arrow_schema(self.schema(spark)))

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the messages in Spark."""
        return spark.createDataFrame(self.table(spark), self.schema(spark))

    def compute_expected(self) -> Rows:
        """Return the oracle's values of each window."""
        windows: dict[tuple[Any, ...], list[Placed]] = {}
        for row in self.rows:
            second = int((row["t"] - at(0)).total_seconds())
            start = at(second // SIZE * SIZE)
            windows.setdefault((row["k"], start), []).append(Placed((row["k"],), second, row))
        return {
            key: {
                name: self._value(name, agg, window_messages)
                for name, agg in self.aggregates.items()
            }
            for key, window_messages in windows.items()
        }

    def _value(self, name: str, agg: Aggregate, window_messages: list[Placed]) -> Any:
        result = value_of(agg, window_messages)
        if isinstance(result, Decimal):
            dtype = self.types[name.rpartition("_")[2]].polars
            assert isinstance(dtype, pl.Decimal)
            if agg.kind == "mean":
                return fit_mean(result, dtype)
            digits = dtype.precision + GROWS.get(agg.kind, 0)
            return result if len(result.as_tuple().digits) <= min(38, digits) else None
        whole = agg.entry.overflows and isinstance(result, int) and not isinstance(result, bool)
        return None if whole and not -(2**63) <= result < 2**63 else result


def index_by_window(frame: pl.DataFrame) -> Rows:
    return {tuple(row[c] for c in IDENTITY): row for row in frame.to_dicts()}


def polars(frame: DataFrame) -> pl.DataFrame:
    rows = pl.from_arrow(frame.toArrow())
    assert isinstance(rows, pl.DataFrame)
    return rows


def find_differences(results: Rows, wanted: Rows, names: Sequence[str]) -> list[str]:
    assert results.keys() == wanted.keys()
    return [
        f"{name} of {key[0]}: {results[key][name]!r}, not {wanted[key][name]!r}"
        for key in wanted
        for name in names
        if not same(results[key][name], wanted[key][name])
    ]


def compute_in_spark(frame: DataFrame, wide: Wide) -> Rows:
    """Return the values of the same windows in Spark SQL."""
    items = []
    for name in wide.aggregates:
        kind, _, column = name.rpartition("_")
        typed = wide.types[column]
        if kind not in SPARK or ("map" in typed.spark and kind in UNORDERED):
            continue
        floats = typed.name in ("float", "double")
        number = f"FILTER (WHERE NOT isnan({column}))" if floats else ""
        items.append(f"{SPARK[kind].format(v=column, number=number)} AS {name}")
    frame.createOrReplaceTempView("typed_messages")
    results = frame.sparkSession.sql(
        f"SELECT k, window.start AS window_start, {', '.join(items)} FROM typed_messages "
        f"GROUP BY k, window(t, '{SIZE} seconds')"
    )
    return index_by_window(polars(results))


ALL = pytest.param(TYPES, id="all", marks=pytest.mark.slow)


@pytest.mark.parametrize("types", [pytest.param(CORE, id="core"), ALL])
def test_batch_and_spark_agree(spark: SparkSession, types: Sequence[Typed]) -> None:
    wide = Wide(types)
    frame = wide.frame(spark)
    query = mt.windowed(frame, key="k", time="t").tumbling(f"{SIZE} seconds").agg(**wide.aggregates)
    results = query.results
    rows = index_by_window(polars(results))
    assert find_differences(rows, wide.compute_expected(), list(wide.aggregates)) == []
    spark_rows = compute_in_spark(frame, wide)
    common_names = [name for name in wide.aggregates if name in next(iter(spark_rows.values()))]
    for name, column in wide.types.items():
        if isinstance(column.polars, pl.Decimal) and column.polars.scale > _SPARKS_SCALE:
            common_names.remove(f"mean_{name}")
    assert find_differences(rows, spark_rows, common_names) == []
    for name, column in wide.types.items():
        if isinstance(column.polars, pl.Decimal):
            calls = {"sum": "sum({})", "mean": "avg({})", "sum_distinct": "sum(DISTINCT {})"}
            spark_types = frame.selectExpr(*(f"{c.format(name)} AS {n}" for n, c in calls.items()))
            if column.polars.scale > _SPARKS_SCALE:
                calls.pop("mean")  # Spark's type has no room for the digits before the point
            for aggregate_name in calls:
                assert (
                    results.schema[f"{aggregate_name}_{name}"].dataType
                    == spark_types.schema[aggregate_name].dataType
                )


@pytest.mark.slow
def test_stream_state_and_sql_say_the_same(spark: SparkSession, tmp_path: Path) -> None:
    wide = Wide(TYPES)
    table, folder = wide.table(spark), tmp_path / "messages"
    folder.mkdir()
    for number in (0, 1):
        part = table.take(pa.array(range(number, len(table), 2)))
        pq.write_table(part, folder / f"{number}.parquet")
    stream = (
        spark.readStream.schema(wide.schema(spark))
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder))
    )
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}

    def note(frame: DataFrame, number: int) -> None:
        rows = polars(frame).sort("revision").to_dicts()
        newest.update({tuple(row[c] for c in IDENTITY): row for row in rows})

    windows = mt.windowed(stream, key="k", time="t", lateness="1 hour").tumbling(f"{SIZE} seconds")
    query = windows.early(each=True).agg(**wide.aggregates)
    own = {n: agg for n, agg in wide.aggregates.items() if agg.functions or agg.rows}
    running = query.start(checkpoint=f"{tmp_path}/checkpoint", results=note, available_now=True)
    assert running.await_end(240)
    wanted = wide.compute_expected()
    assert find_differences(newest, wanted, list(wide.aggregates)) == []
    state = mt.open_state(f"{tmp_path}/checkpoint", aggregates=own)
    assert find_differences(index_by_window(state.fetch()), wanted, list(wide.aggregates)) == []
    assert (
        find_differences(index_by_window(polars(state.frame())), wanted, list(wide.aggregates))
        == []
    )

    calls = {n: SQL.get(n.rpartition("_")[0]) for n in wide.aggregates}
    items = ", ".join(f"{c.format(v=n.rpartition('_')[2])} AS {n}" for n, c in calls.items() if c)
    statement = (
        f"SELECT k, window_start, {items} FROM TABLE(TUMBLE(TABLE m, DESCRIPTOR(t), "
        f"INTERVAL '{SIZE}' SECOND)) GROUP BY k, window_start, window_end"
    )
    batch = mt.sql(spark, statement, m=wide.frame(spark)).results
    assert (
        find_differences(index_by_window(polars(batch)), wanted, [n for n, c in calls.items() if c])
        == []
    )


@pytest.mark.parametrize("types", [pytest.param(CORE[1:], id="core"), ALL])
def test_refusals(spark: SparkSession, types: Sequence[Typed]) -> None:
    wide = Wide(types)
    frame = wide.frame(spark)
    windows = mt.windowed(frame, key="k", time="t").tumbling("1 minute")
    for column, typed in wide.types.items():
        for name in sorted(list_unsupported_aggregates(typed)):
            with pytest.raises(OptionError, match=r"^agg='x=.*' reads a column of type "):
                windows.agg(x=apply_to(AGGREGATES[name], column))


def test_refusals_in_sql(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 'a' AS k, timestamp'2026-01-01' AS t, map('a', 1) AS m, 'a' AS s")
    statement = "SELECT k, {} AS x FROM m GROUP BY k, TUMBLE(t, INTERVAL '1' MINUTE)"
    for call in ("MAX(m)", "SUM(s)", "BOOL_OR(s)", "COUNT(DISTINCT m)", "MIN_BY(s, m)"):
        with pytest.raises(MuntinError, match=r"reads a column of type"):
            mt.sql(spark, statement.format(call), m=frame)


def test_intervals_are_added_as_seconds(spark: SparkSession) -> None:
    """The cast that the error suggests gives Spark's own sum and mean."""
    frame = spark.sql(
        "SELECT 'a' AS k, timestamp'2026-01-01' AS t, make_dt_interval(id, 0, 0, id / 4) AS v "
        "FROM range(3)"
    )
    windows = mt.windowed(frame, key="k", time="t", max_ahead=None).tumbling("1 minute")
    for agg in (mt.sum("v"), mt.mean("v")):
        with pytest.raises(
            OptionError, match=r"interval day to second; cast it to decimal\(18, 6\)"
        ):
            windows.agg(x=agg)
    seconds = F.expr("CAST(v AS DECIMAL(18, 6))")
    (row,) = windows.agg(sum=mt.sum(seconds), mean=mt.mean(seconds)).results.collect()
    wanted = frame.selectExpr("CAST(sum(v) AS DECIMAL(18, 6))", "CAST(avg(v) AS DECIMAL(18, 6))")
    assert (row.sum, row.mean) == tuple(wanted.collect()[0]) == (Decimal("259200.75"), 86400.25)


ODD = {
    "text under a collation": "'a' COLLATE UTF8_LCASE",
    "a variant": "parse_json('1')",
    "an interval of months": "INTERVAL '1' YEAR",
    "nothing": "NULL",
    "an array of nothing": "array()",
}


@pytest.mark.parametrize("odd", ODD)
def test_types_that_have_no_order_here(spark: SparkSession, odd: str) -> None:
    frame = spark.sql(f"SELECT 'a' AS k, timestamp'2026-01-01' AS t, {ODD[odd]} AS v")
    windows = mt.windowed(frame, key="k", time="t").tumbling("1 minute")
    with pytest.raises(OptionError, match=r"has type|reads a column of type"):
        windows.agg(x=mt.max("v"))


def test_what_is_never_null_inside(spark: SparkSession) -> None:
    """A struct of literals has fields that are never null; windows may still have no struct."""
    frame = spark.sql(
        "SELECT k, timestamp'2026-01-01' AS t, "
        "CASE WHEN k = 'a' THEN struct(1 AS x, array(2) AS y) END AS v "
        "FROM VALUES ('a'), ('b'), (NULL) AS keys(k)"
    )
    query = mt.windowed(frame, key="k", time="t", max_ahead=None).tumbling("1 minute")
    query = query.agg(v=mt.last("v"), all=mt.collect_list("v"))
    rows = {row.k: (row.v, row.all) for row in query.results.collect()}
    assert rows == {"a": ((1, [2]), [(1, [2])]), "b": (None, [])}
    assert [(row.reason, row.v) for row in query.rejected.collect()] == [("null_key", None)]
