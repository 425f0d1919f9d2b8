"""Tests that statements, mostly without windows, give the same rows on both hosts."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

import muntin as mt

CLICKS = pl.DataFrame(
    {"page": ["home", "cart", "home"], "ms": [120, 340, None], "at": [datetime(2026, 1, 1)] * 3}
)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT page, ms * 2 AS two FROM clicks WHERE ms > 100",
        "SELECT * FROM clicks EMIT CHANGES",
        "SELECT ms FROM clicks ORDER BY ms DESC LIMIT 1",
        "SELECT page, ms FROM clicks UNION ALL SELECT upper(page), ms * 2 FROM clicks WHERE ms > 1",
        "SELECT page, sum(ms) / count(*) AS mean, 1 - 3 / count(*) AS less FROM clicks "
        "GROUP BY page, TUMBLE(at, INTERVAL '1' DAY) HAVING sum(ms) / count(*) > 9",
    ],
)
def test_both_hosts_give_the_same_rows(spark: SparkSession, statement: str) -> None:
    local = mt.sql(statement, clicks=CLICKS).results
    clicks = spark.createDataFrame(CLICKS.rows(), "page string, ms long, at timestamp_ntz")
    on_spark = mt.sql(spark, statement, clicks=clicks).results
    assert on_spark.columns == local.columns
    assert sorted(map(tuple, on_spark.collect()), key=repr) == sorted(local.rows(), key=repr)


def test_a_stream_appends_each_row_once(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        rows = pl.DataFrame({"page": ["home", "cart"], "ms": [number, 9]})
        rows.write_ndjson(tmp_path / "in" / f"{number}.json")
        clicks = spark.readStream.schema("page string, ms long").json(str(tmp_path / "in"))
        home = mt.sql(spark, "SELECT ms FROM clicks WHERE page = 'home'", clicks=clicks)
        query = home.start(
            checkpoint=str(tmp_path / "checkpoint"),
            results=mt.to_parquet(str(tmp_path / "out")),
            available_now=True,
        )
        query.await_end()
    stored = pl.read_parquet(tmp_path / "out" / "*" / "*.parquet")
    assert sorted(stored["ms"]) == [0, 1]
