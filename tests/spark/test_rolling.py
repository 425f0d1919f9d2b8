"""Tests of rolling windows in Python, SQL and TOML, compared with Spark's own ``OVER``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from tests.spark.feed import at

import muntin as mt
from muntin.pipelines.toml import parse_pipeline
from muntin.spark.statements import bind

MESSAGES = [(k, at(s), s % 7) for s in (0, 3, 3, 9, 10, 30, 31) for k in "ab"]
MESSAGES = [(k, t, v) for k, t, v in MESSAGES if (k, v) != ("b", 3)]
COLUMNS = "key string, at timestamp, value long"
OVER = "OVER (PARTITION BY key ORDER BY at RANGE BETWEEN INTERVAL '{}' SECOND PRECEDING AND {})"


def collect_rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    rows = frame.select("key", "at", "value", "total", "near").collect()
    return sorted((tuple(row) for row in rows), key=repr)


def compute_by_spark(spark: SparkSession) -> list[tuple[Any, ...]]:
    """Return the rows of Spark's own frames, which include both ends."""
    spark.createDataFrame(MESSAGES, COLUMNS).createOrReplaceTempView("rolling_clicks")
    total, near = (OVER.format(size, "CURRENT ROW") for size in (10, 3))
    return collect_rows(
        spark.sql(
            f"SELECT *, sum(value) {total} AS total, max(value) {near} AS near FROM rolling_clicks"
        )
    )


def test_the_rows_of_spark_sql(spark: SparkSession) -> None:
    clicks = spark.createDataFrame(MESSAGES, COLUMNS)
    windows = mt.windowed(clicks, key="key", time="at").rolling("10 seconds", closed="both")
    near = mt.max("value").over("3 seconds")
    python = windows.agg(total=mt.sum("value"), near=near)
    assert collect_rows(python.results) == compute_by_spark(spark)
    total, recent = (OVER.format(size, "CURRENT ROW") for size in (10, 3))
    text = f"SELECT key, at, value, sum(value) {total} AS total, max(value) {recent} AS near FROM c"
    assert collect_rows(mt.sql(spark, text, c=clicks).results) == compute_by_spark(spark)
    file = parse_pipeline(
        """
        checkpoint = "c"
        [tables.clicks]
        connector = "memory"
        time = "at"
        [tables.out]
        connector = "memory"
        [queries.rolled]
        from = "clicks"
        key = "key"
        windows = { rolling = "10 seconds", closed = "both" }
        agg = { total = "sum(value)", near = "max(value)" }
        into = "out"
        """
    )
    toml = bind(file.flows[0].query, lambda _: clicks)
    columns = ["key", "window_start", "window_end", "at", "value", "total", "near"]
    assert toml.results.columns == [*columns, "emission", "revision", "row_number"]
    assert python.results.columns == toml.results.columns
    assert toml.results.count() == len(MESSAGES)


def test_rows_that_exclude_their_message(spark: SparkSession) -> None:
    clicks = spark.createDataFrame(MESSAGES, COLUMNS).coalesce(1)
    frames = {
        "PARTITION BY key ORDER BY at RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW "
        "EXCLUDE GROUP": mt.windowed(clicks, key="key", time="at").rolling(
            "10 seconds", closed="left"
        ),
        "PARTITION BY key ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING": mt.windowed(
            clicks, key="key"
        ).rolling(mt.rows(2), closed="left"),
    }
    for frame, rolling in frames.items():
        text = f"SELECT key, value, sum(value) OVER ({frame}) AS total FROM c"
        sql_rows = mt.sql(spark, text, c=clicks).results.select("key", "value", "total").collect()
        python_rows = (
            rolling.agg(total=mt.sum("value")).results.select("key", "value", "total").collect()
        )
        assert sorted(map(repr, sql_rows)) == sorted(map(repr, python_rows))
        assert any(row["total"] is None for row in python_rows)


def test_a_stream_of_rows_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    clicks = spark.createDataFrame(MESSAGES, COLUMNS).coalesce(1)
    clicks.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(COLUMNS).parquet(str(tmp_path / "in"))
    windows = mt.windowed(stream, key="key", time="at").rolling("10 seconds", closed="both")
    near = mt.max("value").over("3 seconds")
    sink = mt.to_parquet(tmp_path / "out")
    aggregates = windows.agg(total=mt.sum("value"), near=near)
    query = aggregates.start(checkpoint=tmp_path / "checkpoint", results=sink, available_now=True)
    query.await_end(120)
    stored = spark.read.parquet(str(tmp_path / "out"))
    # Rows of the greatest time wait for a later message.
    last = max(row[1] for row in compute_by_spark(spark))
    assert collect_rows(stored) == [row for row in compute_by_spark(spark) if row[1] < last]
