"""Nexmark's queries say what DuckDB says of all events at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from examples.nexmark.check import WINDOWED
from examples.nexmark.generator import Nexmark
from examples.nexmark.queries import QUERIES, Frames
from examples.nexmark.statements import STATEMENTS
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin as mt

EVENTS = Nexmark(per_second=1_000, seed=7)
STOP = 60_000
KINDS = ("persons", "auctions", "bids")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A minute of events, as files."""
    folder = tmp_path_factory.mktemp("nexmark")
    for kind in KINDS:
        (folder / kind).mkdir()
        for start in range(0, STOP, STOP // 4):
            part = getattr(EVENTS, kind)(start, start + STOP // 4)
            pq.write_table(part, folder / kind / f"{start:06d}.parquet")
    return folder


def wanted(folder: Path, name: str) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        for kind in KINDS:
            files = f"read_parquet('{folder / kind}/*.parquet')"
            connection.execute(f"CREATE VIEW {kind} AS SELECT * FROM {files}")
        said = connection.execute(WINDOWED[name])
        columns = [column for column, *_ in said.description]
        return [dict(zip(columns, row, strict=True)) for row in said.fetchall()]


def in_order(rows: list[dict[str, Any]]) -> list[list[tuple[str, Any]]]:
    return sorted(sorted(row.items()) for row in rows)


SAID = [
    *((name, QUERIES) for name in WINDOWED),
    *((name, STATEMENTS) for name in WINDOWED if name in STATEMENTS),
]


@pytest.mark.parametrize(
    ("name", "words"), SAID, ids=[f"{n} {'SQL' if w is STATEMENTS else 'Python'}" for n, w in SAID]
)
def test_a_query_over_all_events_at_once(
    name: str, words: dict[str, Callable[[Frames], DataFrame]], folder: Path, spark: SparkSession
) -> None:
    frames = {kind: spark.read.parquet(str(folder / kind)) for kind in KINDS}
    emitted = words[name](frames)
    expected = wanted(folder, name)
    columns = [name for name in expected[0] if name != "window_start"]
    start = F.unix_millis("window_start").alias("window_start")
    found = [row.asDict() for row in emitted.select(start, *columns).collect()]
    assert len(expected) > 5
    assert in_order(found) == in_order(expected)


@pytest.mark.parametrize("words", [QUERIES, STATEMENTS], ids=["Python", "SQL"])
def test_windows_of_the_clock_hold_every_bid(
    words: dict[str, Callable[[Frames], DataFrame]], folder: Path, spark: SparkSession
) -> None:
    bids = spark.read.parquet(str(folder / "bids"))
    emitted = words["q12"]({"bids": bids}).agg(F.sum("bids"), F.countDistinct("bidder"))
    seen = bids.agg(F.count("*"), F.countDistinct("bidder"))
    assert emitted.collect()[0][:] == seen.collect()[0][:]


PRINTED = {
    "q7": """
        SELECT B.auction, B.price, B.bidder, B.time AS bid_at
        FROM bids B
        JOIN (
            SELECT MAX(price) AS maxprice, window_end AS ended
            FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(time), INTERVAL '10' SECOND))
            GROUP BY window_start, window_end
        ) B1
        ON B.price = B1.maxprice
        WHERE B.time BETWEEN B1.ended - INTERVAL '10' SECOND AND B1.ended
    """,
    "q8": """
        SELECT P.id, P.name, P.starttime
        FROM (
            SELECT id, name, window_start AS starttime, window_end AS endtime
            FROM TABLE(TUMBLE(TABLE persons, DESCRIPTOR(time), INTERVAL '10' SECOND))
            GROUP BY id, name, window_start, window_end
        ) P
        JOIN (
            SELECT seller, window_start AS starttime, window_end AS endtime
            FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(time), INTERVAL '10' SECOND))
            GROUP BY seller, window_start, window_end
        ) A
        ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime
    """,
}
SAME = {
    "q7": """
        WITH best AS (
            SELECT max(price) AS maxprice, epoch_ms(time) // 10000 * 10000 + 10000 AS ended
            FROM bids GROUP BY ended
        )
        SELECT B.auction, B.price, B.bidder FROM bids B JOIN best
        ON B.price = maxprice AND epoch_ms(B.time) BETWEEN ended - 10000 AND ended
    """,
    "q8": "SELECT id, name FROM ({})",
}


@pytest.mark.parametrize("name", PRINTED)
def test_a_query_as_flink_prints_it(name: str, folder: Path, spark: SparkSession) -> None:
    frames = {kind: spark.read.parquet(str(folder / kind)) for kind in KINDS}
    with duckdb.connect() as connection:
        for kind in KINDS:
            files = f"read_parquet('{folder / kind}/*.parquet')"
            connection.execute(f"CREATE VIEW {kind} AS SELECT * FROM {files}")
        expected = connection.execute(SAME[name].format(WINDOWED["q8"])).fetchall()
    emitted = mt.sql(spark, PRINTED[name], **frames).results
    columns = {"q7": ("auction", "price", "bidder"), "q8": ("id", "name")}[name]
    found = [tuple(row) for row in emitted.select(*columns).collect()]
    assert len(expected) > 5
    assert sorted(found) == sorted(expected)
