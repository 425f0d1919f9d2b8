"""Tests of windows and rows that Spark computes before muntin's query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructType, TimestampType
from tests.spark.feed import Feed, at, rows

import muntin as mt

pytestmark = pytest.mark.slow

INTERVAL = StructType().add("since", TimestampType()).add("until", TimestampType())


@F.pandas_udf(ArrayType(INTERVAL))
def intervals(times: pd.Series) -> pd.Series:
    """Return the half minute of each time, and seconds 20 to 50 of its minute if it is in them."""

    def around(time: Any) -> list[dict[str, Any]]:
        half, first = time.floor("30s"), time.floor("60s") + pd.Timedelta("20s")
        spans = [{"since": half, "until": half + pd.Timedelta("30s")}]
        if first <= time < first + pd.Timedelta("30s"):
            spans.append({"since": first, "until": first + pd.Timedelta("30s")})
        return spans

    return times.map(around)


def explode_intervals(messages: DataFrame) -> DataFrame:
    """Return a row for each interval of a message."""
    exploded = messages.select("key", "at", "value", F.explode(intervals("at")).alias("span"))
    return exploded.select("key", "at", "value", "span.since", "span.until")


@pytest.mark.slow
def test_the_intervals_of_a_function(spark: SparkSession, tmp_path: Path) -> None:
    """Each interval is one window in the end, in any order of messages."""
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(25), 1), ("b", at(29), 2))
    feed.add(("a", at(22), 4), ("a", at(40), 8))
    feed.add(("a", at(55), 16), ("a", at(45), 32), ("b", at(49.5), 64))
    feed.add(("a", at(95), 128))
    expected = (
        explode_intervals(feed.frame(spark))
        .groupBy("key", "since", "until")
        .agg(F.count("*"), F.sum("value"), F.min("at"))
        .selectExpr("key", "unix_micros(since)", "unix_micros(until)", "`count(1)`", "`sum(value)`",
                    "unix_micros(`min(at)`)")
        .collect()
    )  # fmt: skip
    feed.add(("a", at(41), 256))
    sessions = (
        mt.windowed(explode_intervals(feed.stream(spark)), key=["key", "since", "until"], time="at")
        .session(by=F.col("until") - F.col("at"), closed="left")
        .early(each=True)
        .agg(n=mt.count(), total=mt.sum("value"))
    )
    out = str(tmp_path / "out.duckdb")
    query = sessions.start(
        checkpoint=str(tmp_path / "checkpoint"),
        results=mt.to_duckdb(out, "w"),
        rejected=mt.to_parquet(str(tmp_path / "rejected")),
        available_now=True,
    )
    assert query.await_end(120)
    stored = rows(
        Path(out),
        "SELECT key, epoch_us(since), epoch_us(until), n, total, epoch_us(window_start) FROM w "
        "WHERE epoch_us(window_end) = epoch_us(until)",
    )
    assert sorted(stored) == sorted(map(tuple, expected))
    late = spark.read.parquet(str(tmp_path / "rejected")).select("value", "reason").collect()
    assert [tuple(row) for row in late] == [(256, "late"), (256, "late")]
    assert query.progress.adds_up()


def test_rows_of_an_array_are_made_in_a_view(spark: SparkSession) -> None:
    visits = spark.createDataFrame(
        [("09:00:10", ["a", "b"]), ("09:00:40", ["a"]), ("09:00:50", [])],
        "clock string, tags array<string>",
    )
    text = """
        WITH v AS (
            SELECT concat('2026-01-01 ', clock) AS at, explode(tags) AS tag FROM visits
        )
        SELECT tag, count(*) AS n FROM v GROUP BY tag, TUMBLE(at, INTERVAL '1' MINUTE)
    """
    results = mt.sql(spark, text, visits=visits).results.collect()
    assert sorted((row["tag"], row["n"]) for row in results) == [("a", 2), ("b", 1)]


def test_two_streams_are_aggregated_together(spark: SparkSession) -> None:
    orders = spark.createDataFrame(
        [("ann", "2026-01-01 09:00:10", 5)], "user string, at string, price int"
    )
    clicks = spark.createDataFrame(
        [("ann", "2026-01-01 09:00:20", "home"), ("bob", "2026-01-01 09:00:30", "cart")],
        "user string, at string, page string",
    )
    both = orders.unionByName(clicks, allowMissingColumns=True)
    windows = mt.windowed(both, key="user", time="at").tumbling("1 minute")
    aggregates = windows.agg(
        orders=mt.count("price"), taken=mt.sum("price"), clicks=mt.count("page")
    )
    results = aggregates.results.select("user", "orders", "taken", "clicks").collect()
    assert sorted(map(tuple, results)) == [("ann", 1, 5, 1), ("bob", 0, None, 1)]


def test_repeats_are_taken_out_in_front(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1), ("a", at(1), 1), ("b", at(2), 1))
    feed.add(("a", at(1), 1), ("a", at(12), 1))
    deduplicated = feed.stream(spark).withWatermark("at", "1 minute")
    deduplicated = deduplicated.dropDuplicatesWithinWatermark(["key", "at"])
    windows = mt.windowed(deduplicated, key="key", time="at", lateness="1 minute").tumbling(
        "10 seconds"
    )
    assert run_counts(windows.early(each=True).agg(n=mt.count()), tmp_path) == [
        ("a", 1),
        ("a", 1),
        ("b", 1),
    ]


def test_the_time_of_the_batch_that_reads_a_row(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1), ("a", at(900), 1))
    feed.add(("b", at(2), 1))
    text = """
        WITH v AS (SELECT key, current_timestamp() AS now FROM t)
        SELECT key, count(*) AS n FROM v GROUP BY key, TUMBLE(now, INTERVAL '365' DAY) EMIT CHANGES
    """
    stored_counts = run_counts(mt.sql(spark, text, t=feed.stream(spark)), tmp_path)
    assert stored_counts == [("a", 2), ("b", 1)]


def run_counts(windows: Any, folder: Path) -> list[tuple[Any, ...]]:
    """Run a query of counts over all input, and return the rows that it has written."""
    out = folder / "out.duckdb"
    query = windows.start(
        checkpoint=str(folder / "checkpoint"),
        results=mt.to_duckdb(str(out), "w"),
        available_now=True,
    )
    assert query.await_end(120)
    return sorted(rows(out, "SELECT key, n FROM w"))
