"""Tests that a chain of three operators emits the same windows however it is run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.property import joined_chains as chains
from tests.property.joined_chains import (
    CLOSING,
    LATENESS,
    ON,
    Rows,
    Step,
    format_windows,
    to_micros,
)
from tests.spark.feed import Feed, at

import muntin as mt

STEPS: list[Step] = [
    ([("a", 1, 10), ("a", 8, 1), ("b", 4, 3)], [("a", 9, 2)]),
    ([("a", 12, 5), ("b", 7, 4), (None, 13, 9)], [("b", 13, 6), ("a", 11, 1), ("a", 9, 7)]),
    ([("b", 21, 1), ("b", 33, 2), ("a", 28, 1)], [("b", 22, 5), ("b", 38, 2)]),
    *CLOSING,
]
# Shop, begin of the window in seconds, pairs of windows, sums of orders and of shipments.
WANTED: Rows = [
    ("a", 0, 2, 16, 10),
    ("a", 20, 1, 1, None),
    ("b", 0, 2, 7, 6),
    ("b", 20, 2, 3, 7),
]


def by_duckdb(spark: SparkSession, folder: Path) -> Rows:
    connection = duckdb.connect()
    for side, name in enumerate(("orders", "shipments")):
        messages = [message for step in STEPS for message in chains.make_messages(step[side])]
        connection.register(name, pa.Table.from_pylist(messages))
    windows = """
        SELECT key, "at" // 10000000 * 10000000 AS start, sum(value)::BIGINT AS total FROM {}
        WHERE key IS NOT NULL GROUP BY ALL
    """
    return connection.sql(f"""
        SELECT key, (start // 20000000 * 20000000 - {to_micros(0)}) // 1000000, count(*),
            sum(l.total)::BIGINT, sum(r.total)::BIGINT
        FROM ({windows.format("orders")}) AS l FULL JOIN ({windows.format("shipments")}) AS r
        USING (key, start) WHERE key <> 'z' GROUP BY ALL ORDER BY ALL
    """).fetchall()


def on_spark(orders: DataFrame, shipments: DataFrame) -> Any:
    sides = []
    for frame in (orders, shipments):
        windows = mt.windowed(frame, key="key", time="at", lateness=LATENESS)
        sides.append(windows.tumbling("10 seconds").agg(total=mt.sum("value")))
    pairs = mt.join(*sides, on=ON, how="full")
    whole = mt.windowed(pairs, key="key", time="window_time").tumbling("20 seconds")
    return whole.agg(n=mt.count(), orders=mt.sum("total"), shipped=mt.sum("total_right"))


def in_sql(orders: DataFrame, shipments: DataFrame) -> Any:
    inner = """
        (SELECT key, window_start, window_end, window_time, sum(value) AS total FROM TABLE(TUMBLE(
            TABLE {}, DESCRIPTOR(at), INTERVAL '10' SECONDS)) WATERMARK at DELAY OF INTERVAL
         5 SECONDS WHERE key IS NOT NULL GROUP BY key, window_start, window_end, window_time)
    """
    return mt.sql(
        orders.sparkSession,
        f"""
        WITH pairs AS (
            SELECT coalesce(l.key, r.key) AS key, coalesce(l.window_time, r.window_time) AS t,
                l.total AS orders, r.total AS shipped
            FROM {inner.format("orders")} l FULL JOIN {inner.format("shipments")} r
            ON l.key = r.key AND l.window_start = r.window_start AND l.window_end = r.window_end
        )
        SELECT key, count(*) AS n, sum(orders) AS orders, sum(shipped) AS shipped
        FROM TABLE(TUMBLE(TABLE pairs, DESCRIPTOR(t), INTERVAL '20' SECONDS))
        GROUP BY key, window_start, window_end
        """,
        orders=orders,
        shipments=shipments,
    )


def feeds(folder: Path) -> list[Feed]:
    both_feeds = [Feed(folder / name) for name in ("orders", "shipments")]
    # On Spark, a batch goes through all operators: what ends all windows fits into one.
    orders, shipments = ([m for step in CLOSING for m in step[side]] for side in (0, 1))
    for step in [*STEPS[: -len(CLOSING)], (orders, shipments)]:
        for feed, messages in zip(both_feeds, step, strict=True):
            feed.add(*((key, at(second), value) for key, second, value in messages))
    return both_feeds


def in_batch(make: Callable[..., Any]) -> Callable[[SparkSession, Path], Rows]:
    def run(spark: SparkSession, folder: Path) -> Rows:
        query = make(*(feed.frame(spark) for feed in feeds(folder)))
        return format_windows([chains.convert_times(row) for row in utc(query.results)])

    return run


def as_stream(make: Callable[..., Any]) -> Callable[[SparkSession, Path], Rows]:
    def run(spark: SparkSession, folder: Path) -> Rows:
        emitted: list[dict[str, Any]] = []
        windows = make(*(feed.stream(spark) for feed in feeds(folder)))
        query = windows.start(
            checkpoint=f"{folder}/checkpoint",
            results=lambda frame, _: emitted.extend(utc(frame)),
            available_now=True,
        )
        assert query.await_end(timeout=240)
        assert query.progress.adds_up()
        return format_windows([chains.convert_times(row) for row in emitted])

    return run


def utc(frame: DataFrame) -> list[dict[str, Any]]:
    return frame.toArrow().to_pylist()


WAYS: dict[str, Callable[[SparkSession, Path], Rows]] = {
    "oracle": lambda *_: chains.run_oracles(STEPS),
    "standalone": lambda *_: chains.run_operators(STEPS),
    "duckdb": by_duckdb,
    "batch": in_batch(on_spark),
    "stream": as_stream(on_spark),
    "sql, batch": in_batch(in_sql),
    "sql, stream": as_stream(in_sql),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_every_way_emits_the_same(spark: SparkSession, tmp_path: Path, way: str) -> None:
    assert sorted(WAYS[way](spark, tmp_path), key=repr) == sorted(WANTED, key=repr)
