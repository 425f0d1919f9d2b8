"""Delta tables hold the newest state of each window, and what is appended once.

They run where Delta is made for the Spark of the tests; `make test-spark` has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from tests.services.delta import has_delta
from tests.spark.feed import Feed, at

import muntin as mt

with_delta = pytest.mark.skipif(not has_delta(), reason="this Spark has no Delta")
AGGREGATES = {"n": mt.count(), "total": mt.sum("value")}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """A schema of the catalog, in a folder."""
    spark.sql(f"CREATE SCHEMA lake LOCATION '{tmp_path}/catalog'")
    yield tmp_path / "lake"
    spark.sql("DROP SCHEMA lake CASCADE")


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1), ("b", at(2), 2), ("b", at(3), 3), (None, at(4), 4))
    feed.add(("a", at(9), 5), ("b", at(25), 7))
    feed.add(("a", at(5), 9), ("a", at(31), 1), (None, at(4), 4))
    return feed


def run(spark: SparkSession, feed: Feed, folder: Path, sinks: dict[str, Any]) -> None:
    windows = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("10 seconds")
    windows = windows.early(each=True).late(each=True, grace="1 minute")
    query = windows.agg(**AGGREGATES).start(checkpoint=str(folder), available_now=True, **sinks)
    assert query.await_end(timeout=240)


def rows(spark: SparkSession, table: str, *columns: str) -> list[tuple[Any, ...]]:
    frame = spark.read.format("delta").load(table) if "/" in table else spark.table(table)
    return sorted(map(tuple, frame.selectExpr(*columns).collect()), key=str)


WINDOWS = ("key", "unix_seconds(window_start) % 86400", "n", "total", "revision")


@with_delta
def test_windows_and_what_is_appended(
    spark: SparkSession, feed: Feed, lake: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoint"
    sinks = {
        "results": mt.to_delta(f"{lake}/windows", history=f"{lake}/history"),
        "rejected": mt.to_delta("lake.rejected"),
    }
    run(spark, feed, folder, sinks)
    newest = rows(spark, f"{lake}/windows", *WINDOWS)
    assert newest == [
        ("a", 0, 3, 15, 2),
        ("a", 30, 1, 1, 0),
        ("b", 0, 2, 5, 1),
        ("b", 20, 1, 7, 1),
    ]
    history = rows(spark, f"{lake}/history", "batch", "key", "revision")
    rejected = rows(spark, "lake.rejected", "batch", "value", "reason")
    assert rejected == [(0, 4, "null_key"), (2, 4, "null_key")]

    # As after a crash between the sinks and the commit.
    last = folder / "commits" / "2"
    last.unlink()
    last.with_name(".2.crc").unlink(missing_ok=True)
    run(spark, feed, folder, sinks)
    assert rows(spark, f"{lake}/windows", *WINDOWS) == newest
    assert rows(spark, f"{lake}/history", "batch", "key", "revision") == history
    assert rows(spark, "lake.rejected", "batch", "value", "reason") == rejected

    # Another query appends to the same tables under its own numbers.
    run(spark, feed, tmp_path / "another", sinks)
    assert rows(spark, f"{lake}/windows", *WINDOWS) == newest
    assert len(rows(spark, f"{lake}/history", "batch")) == 2 * len(history)
    assert rows(spark, "lake.rejected", "batch", "value", "reason") == sorted(2 * rejected)


@with_delta
def test_sessions_that_grow_together_and_null(
    spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "source")
    feed.add((None, at(0), 1), (None, at(20), 2), ("a", at(20), 1))
    feed.add((None, at(10), 4))
    stream = feed.stream(spark)
    sessions = mt.windowed(stream, key="key", time="at", nulls="group", lateness="1 minute")
    query = sessions.session("12 seconds").early(each=True).agg(**AGGREGATES)
    started = query.start(
        checkpoint=f"{tmp_path}/checkpoint",
        results=mt.to_delta("lake.sessions"),
        available_now=True,
    )
    assert started.await_end(timeout=240)
    found = rows(spark, "lake.sessions", "key", "n", "total", "emission")
    assert found == [("a", 1, 1, "early"), (None, 3, 7, "early")]


def test_a_session_without_delta_is_refused(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    if has_delta():
        pytest.skip("this session has Delta")
    words = r"to_delta\(\) needs Delta, .* start the session with Delta's jars"
    with pytest.raises(mt.SettingError, match=words):
        run(spark, feed, tmp_path / "checkpoint", {"results": mt.to_delta(f"{tmp_path}/windows")})
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("`a b` int", "column='a b' has ' ' in its name"),
        ("a interval day to second", "column='a' is an interval"),
        ("A int, a int", "column='a' is twice"),
        ("batch int", "column='batch' is the column in which lake.t keeps the batch's number"),
    ],
)
def test_columns_that_delta_cant_have(schema: str, words: str) -> None:
    with pytest.raises(mt.OptionError, match=words):
        mt.to_delta("lake.t").check(StructType.fromDDL(schema), None)
    if "batch" in schema and has_delta():
        mt.to_delta("lake.t").check(StructType.fromDDL(schema), ("batch",))


def test_the_history_is_said_to_keep_the_batchs_number() -> None:
    sink = mt.to_delta("lake.t", history="lake.h")
    with pytest.raises(mt.OptionError, match=r"in which lake\.h keeps .* or keep no history"):
        sink.check(StructType.fromDDL("batch int"), ("batch",))


@pytest.mark.parametrize("table", ["", "/", "a`b", "lake.`t`"])
def test_what_is_no_table(table: str) -> None:
    with pytest.raises(mt.OptionError, match="can't be a table of Delta"):
        mt.to_delta(table)
