"""A row for each message on Spark, in Python, SQL and TOML, held against Spark's own ``OVER``."""

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


def shown(frame: DataFrame) -> list[tuple[Any, ...]]:
    rows = frame.select("key", "at", "value", "total", "near").collect()
    return sorted((tuple(row) for row in rows), key=repr)


def expected(spark: SparkSession) -> list[tuple[Any, ...]]:
    """Spark's own frames, which include both ends."""
    spark.createDataFrame(MESSAGES, COLUMNS).createOrReplaceTempView("rolling_clicks")
    total, near = (OVER.format(size, "CURRENT ROW") for size in (10, 3))
    return shown(
        spark.sql(
            f"SELECT *, sum(value) {total} AS total, max(value) {near} AS near FROM rolling_clicks"
        )
    )


def test_the_rows_of_spark_sql(spark: SparkSession) -> None:
    clicks = spark.createDataFrame(MESSAGES, COLUMNS)
    made = mt.windowed(clicks, key="key", time="at").rolling("10 seconds", closed="both")
    near = mt.max("value").over("3 seconds")
    python = made.agg(total=mt.sum("value"), near=near)
    assert shown(python.results) == expected(spark)
    total, recent = (OVER.format(size, "CURRENT ROW") for size in (10, 3))
    text = f"SELECT key, at, value, sum(value) {total} AS total, max(value) {recent} AS near FROM c"
    assert shown(mt.sql(spark, text, c=clicks).results) == expected(spark)
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
        found = mt.sql(spark, text, c=clicks).results.select("key", "value", "total").collect()
        made = rolling.agg(total=mt.sum("value")).results.select("key", "value", "total").collect()
        assert sorted(map(repr, found)) == sorted(map(repr, made))
        assert any(row["total"] is None for row in made)


def test_a_stream_of_rows_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    clicks = spark.createDataFrame(MESSAGES, COLUMNS).coalesce(1)
    clicks.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(COLUMNS).parquet(str(tmp_path / "in"))
    rolled = mt.windowed(stream, key="key", time="at").rolling("10 seconds", closed="both")
    near = mt.max("value").over("3 seconds")
    sink = mt.to_parquet(tmp_path / "out")
    made = rolled.agg(total=mt.sum("value"), near=near)
    query = made.start(checkpoint=tmp_path / "checkpoint", results=sink, available_now=True)
    query.await_end(120)
    written = spark.read.parquet(str(tmp_path / "out"))
    # What shares the greatest time waits for a later message.
    last = max(row[1] for row in expected(spark))
    assert shown(written) == [row for row in expected(spark) if row[1] < last]
