"""Tests that Nexmark's queries give the results that DuckDB computes over all events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from examples.nexmark.check import WINDOWED
from examples.nexmark.generator import Nexmark
from examples.nexmark.printed import PRINTED
from examples.nexmark.queries import QUERIES, Frames
from examples.nexmark.statements import STATEMENTS
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin as mt

pytestmark = pytest.mark.slow

EVENTS = Nexmark(per_second=1_000, seed=7)
STOP = 60_000
KINDS = ("persons", "auctions", "bids")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with files of a minute of events."""
    folder = tmp_path_factory.mktemp("nexmark")
    for kind in KINDS:
        (folder / kind).mkdir()
        for start in range(0, STOP, STOP // 4):
            part = getattr(EVENTS, kind)(start, start + STOP // 4)
            pq.write_table(part, folder / kind / f"{start:06d}.parquet")
    return folder


def compute_expected(folder: Path, name: str) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        for kind in KINDS:
            files = f"read_parquet('{folder / kind}/*.parquet')"
            connection.execute(f"CREATE VIEW {kind} AS SELECT * FROM {files}")
        cursor = connection.execute(WINDOWED[name])
        columns = [column for column, *_ in cursor.description]
        return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


def sort_rows(rows: list[dict[str, Any]]) -> list[list[tuple[str, Any]]]:
    return sorted(sorted(row.items()) for row in rows)


CASES = [
    *((name, QUERIES) for name in WINDOWED),
    *((name, STATEMENTS) for name in WINDOWED if name in STATEMENTS),
]


@pytest.mark.parametrize(
    ("name", "queries"),
    CASES,
    ids=[f"{n} {'SQL' if w is STATEMENTS else 'Python'}" for n, w in CASES],
)
def test_a_query_over_all_events_at_once(
    name: str, queries: dict[str, Callable[[Frames], DataFrame]], folder: Path, spark: SparkSession
) -> None:
    frames = {kind: spark.read.parquet(str(folder / kind)) for kind in KINDS}
    emitted = queries[name](frames)
    expected = compute_expected(folder, name)
    columns = [name for name in expected[0] if name != "window_start"]
    start = F.unix_millis("window_start").alias("window_start")
    rows = [row.asDict() for row in emitted.select(start, *columns).collect()]
    assert len(expected) > 5
    assert sort_rows(rows) == sort_rows(expected)


@pytest.mark.parametrize("queries", [QUERIES, STATEMENTS], ids=["Python", "SQL"])
def test_windows_of_the_clock_hold_every_bid(
    queries: dict[str, Callable[[Frames], DataFrame]], folder: Path, spark: SparkSession
) -> None:
    bids = spark.read.parquet(str(folder / "bids"))
    emitted = queries["q12"]({"bids": bids}).agg(F.sum("bids"), F.countDistinct("bidder"))
    expected = bids.agg(F.count("*"), F.countDistinct("bidder"))
    assert emitted.collect()[0][:] == expected.collect()[0][:]


@pytest.mark.parametrize("name", PRINTED)
def test_a_query_as_flink_prints_it(name: str, folder: Path, spark: SparkSession) -> None:
    frames = {kind: spark.read.parquet(str(folder / kind)) for kind in KINDS}
    statement, columns, duckdb_statement = PRINTED[name]
    with duckdb.connect() as connection:
        for kind in KINDS:
            files = f"read_parquet('{folder / kind}/*.parquet')"
            connection.execute(f"CREATE VIEW {kind} AS SELECT * FROM {files}")
        expected = connection.execute(duckdb_statement).fetchall()
    emitted = mt.sql(spark, statement, **frames).results
    rows = [tuple(row) for row in emitted.selectExpr(*columns).collect()]
    assert len(expected) > (0 if name.startswith("q15") else 2)
    assert sorted(rows) == sorted(expected)
