"""Compares muntin's windows with Spark's own in append mode, over the same files.

The cases are those of Spark's tests of watermarks, windows, sessions and duplicates. Every
row that Spark emits is the newest row of one of muntin's windows, and vice versa.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.spark.feed import Feed, at

import muntin as mt

pytestmark = pytest.mark.slow
# The time of a message that closes all windows before it; its own stays open.
CLOSING = 36_000
FILES: list[list[tuple[str, float | None, int]]] = [
    [("a", 1, 1), ("a", 7, 2), ("b", 3, 4), ("a", 12, 8), ("b", 25, 16), ("a", None, 32)],
    # Spark uses the watermark of the batch before, so one more batch has to pass.
    [("b", 24, 32768)],
    # The watermark is at 20: for tumbling windows the first two and the last come too late.
    [("a", 8, 64), ("b", 19.999999, 128), ("a", 20, 256), ("a", 21, 512), ("b", -1, 1024)],
    # The last is before 1970, far too late.
    [
        ("a", 21, 512),
        ("a", 31, 2048),
        ("b", 40, 4096),
        ("c", 52, 8192),
        ("b", -2_000_000_000, 16384),
    ],
]


@dataclass(frozen=True)
class Case:
    """One query, written for both.

    Attributes:
        native: The query of Spark, with the columns to compare.
        ours: The query of muntin.
        shows: The same columns of muntin's results; times are in microseconds.
        dropped: The value of a message that Spark drops and muntin counts; muntin's query doesn't
            get it.
    """

    native: Callable[[DataFrame], DataFrame]
    ours: Callable[[DataFrame], Any]
    shows: str
    dropped: int | None = None


def group_natively(window: Callable[[], Column], *keys: str) -> Callable[[DataFrame], DataFrame]:
    def query(messages: DataFrame) -> DataFrame:
        grouped = messages.withWatermark("at", "5 seconds").groupBy(window().alias("w"), *keys)
        rows = grouped.agg(F.count("*").alias("n"), F.sum("value").alias("total"))
        return rows.select(*keys, "w.start", "w.end", "n", "total")

    return query


def group(kind: Callable[[Any], Any], **options: Any) -> Callable[[DataFrame], Any]:
    def query(messages: DataFrame) -> Any:
        windows = kind(mt.windowed(messages, time="at", lateness="5 seconds", **options))
        return windows.agg(n=mt.count(), total=mt.sum("value"))

    return query


def drop_duplicates(messages: DataFrame) -> DataFrame:
    watermarked = messages.withWatermark("at", "5 seconds")
    return watermarked.dropDuplicatesWithinWatermark(["key", "value"])


def count_unique_natively(messages: DataFrame) -> DataFrame:
    rows = drop_duplicates(messages).groupBy(F.window("at", "10 seconds").alias("w"), "key").count()
    return rows.select("key", "w.start", "w.end", "count")


def count_unique(messages: DataFrame) -> Any:
    windows = mt.windowed(drop_duplicates(messages), key="key", time="at", lateness="5 seconds")
    return windows.tumbling("10 seconds").agg(n=mt.count())


def chain_natively(messages: DataFrame) -> DataFrame:
    inner = messages.withWatermark("at", "5 seconds").groupBy(F.window("at", "10 seconds"), "key")
    outer = inner.agg(F.sum("value").alias("total")).groupBy(
        F.window(F.window_time("window"), "20 seconds").alias("w")
    )
    rows = outer.agg(F.count("*").alias("n"), F.max("total").alias("most"))
    return rows.select("w.start", "w.end", "n", "most")


def chain(messages: DataFrame) -> Any:
    windows = mt.windowed(messages, key="key", time="at", lateness="5 seconds").tumbling(
        "10 seconds"
    )
    inner = windows.agg(total=mt.sum("value"))
    outer = mt.windowed(inner, time="window_time").tumbling("20 seconds")
    return outer.agg(n=mt.count(), most=mt.max("total"))


OF_KEY, OF_ALL = "key window_start window_end n total", "window_start window_end n total"
CASES = {
    "tumbling": Case(
        group_natively(lambda: F.window("at", "10 seconds"), "key"),
        group(lambda w: w.tumbling("10 seconds"), key="key"),
        OF_KEY,
    ),
    "hopping, with a start, without a key": Case(
        group_natively(lambda: F.window("at", "10 seconds", "5 seconds", "2 seconds")),
        group(lambda w: w.hopping("10 seconds", "5 seconds", origin="2026-01-01 00:00:02")),
        OF_ALL,
    ),
    "sessions": Case(
        group_natively(lambda: F.session_window("at", "9 seconds"), "key"),
        group(lambda w: w.session("9 seconds"), key="key"),
        OF_KEY,
        # Late by itself, it falls into a session that is open.
        dropped=64,
    ),
    "duplicates": Case(count_unique_natively, count_unique, "key window_start window_end n"),
    "windows over windows": Case(chain_natively, chain, "window_start window_end n most"),
}


def write_files(folder: Path, dropped: int | None = None) -> Feed:
    feed = Feed(folder)
    for rows in FILES:
        feed.add(*((k, None if s is None else at(s), v) for k, s, v in rows if v != dropped))
    feed.add(("end", at(CLOSING), 0))
    return feed


def collect(rows: DataFrame) -> list[tuple[Any, ...]]:
    times = {name for name, kind in rows.dtypes if kind == "timestamp"}
    columns = [F.unix_micros(name) if name in times else F.col(name) for name in rows.columns]
    return sorted(map(tuple, rows.select(*columns).collect()), key=repr)


@pytest.mark.parametrize("name", CASES)
def test_both_emit_the_same(name: str, spark: SparkSession, tmp_path: Path) -> None:
    case = CASES[name]
    messages = write_files(tmp_path / "source")
    fewer = write_files(tmp_path / "fewer", case.dropped)
    table = f"native_{list(CASES).index(name)}"
    native = (
        case.native(messages.stream(spark))
        .writeStream.format("memory")
        .queryName(table)
        .option("checkpointLocation", str(tmp_path / "native"))
        .trigger(availableNow=True)
        .start()
    )
    native.awaitTermination()
    query = case.ours(fewer.stream(spark)).start(
        checkpoint=str(tmp_path / "ours"),
        results=mt.to_parquet(str(tmp_path / "results")),
        rejected=mt.to_parquet(str(tmp_path / "rejected")),
        available_now=True,
    )
    assert query.await_end(120)
    ours = spark.read.parquet(str(tmp_path / "results"))
    assert collect(ours.select(*case.shows.split())) == collect(spark.table(table)) != []
    # Spark drops the others silently.
    reasons = {row["reason"] for row in spark.read.parquet(str(tmp_path / "rejected")).collect()}
    assert {"late", "null_time"} >= reasons != set()
