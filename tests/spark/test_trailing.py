"""Tests that the newest row of each key and look-back is the same on both hosts."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from pyspark.sql import SparkSession

import muntin as mt

pytestmark = pytest.mark.slow

START = datetime(2026, 1, 1, 9, tzinfo=UTC)
SCHEMA = {"user": pl.String, "at": pl.Datetime("us", "UTC"), "amount": pl.Int64}
BATCHES = [
    [("ann", 0, 1), ("ben", 20, 2)],
    [("ann", 40, 4), ("ben", 60, 8)],
    [("cy", 59, 16), ("ann", 150, 32), ("cy", 165, 64)],
]


def trail(frame: Any) -> Any:
    windows = mt.windowed(frame, key="user", time="at", lateness="5 minutes")
    return windows.trailing("1 hour", "1 day", every="10 minutes").agg(
        n=mt.count(), spent=mt.sum("amount"), most=mt.max("amount")
    )


def test_a_stream_updates_the_table(spark: SparkSession, tmp_path: Path) -> None:
    source, file = tmp_path / "in", tmp_path / "now.duckdb"
    source.mkdir()
    tables = []
    frame = pl.DataFrame(schema=SCHEMA)
    for number, batch in enumerate(BATCHES):
        rows = [(user, START + timedelta(minutes=minute), n) for user, minute, n in batch]
        frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
        path = source / f"{number}.parquet"
        frame.write_parquet(path)
        # Spark reads the file with the oldest time first.
        os.utime(path, (1_767_225_600 + number, 1_767_225_600 + number))
    clicks = spark.read.parquet(str(source))
    stream = spark.readStream.schema(clicks.schema).option("maxFilesPerTrigger", 1)
    ways = {
        "now": stream.parquet(str(source)),
        "local": mt.files(f"{source}/*.parquet", files_per_batch=1),
    }
    for table, messages in ways.items():
        query = trail(messages).start(
            results=mt.to_duckdb(file, table),
            checkpoint=tmp_path / table,
            available_now=True,
        )
        assert query.await_end(120)
        with duckdb.connect(str(file)) as database:
            database.sql("SET TimeZone = 'UTC'")
            tables.append(
                database.sql(f"SELECT * FROM {table} ORDER BY user, look_back").fetchall()
            )
    on_spark, local = tables
    assert on_spark == local
    assert [row[:2] for row in local] == [
        ("ann", "1 day"), ("ann", "1 hour"), ("ben", "1 day"), ("cy", "1 day"),
    ]  # fmt: skip
    state = mt.open_state(str(tmp_path / "now"))
    fetched = state.fetch("ann").select("look_back", "n", "spent").rows()
    assert fetched == [("1 day", 3, 37), ("1 hour", 1, 32)]


def test_a_frame_has_the_rows_of_all_instants(spark: SparkSession) -> None:
    rows = [(user, START + timedelta(minutes=m), n) for part in BATCHES for user, m, n in part]
    local = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    frame = spark.createDataFrame(rows, "user string, at timestamp, amount long")
    emitted = pl.from_arrow(trail(frame).results.toArrow())
    assert isinstance(emitted, pl.DataFrame)
    order = ["window_end", "look_back", "user"]
    columns = [*order, "n", "spent", "most", "emission", "revision"]
    expected = trail(local).results.select(columns).sort(order)
    assert emitted.select(columns).sort(order).rows() == expected.rows()
