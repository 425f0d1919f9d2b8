"""Tests that tables of a lake have the newest state of each window, and appended rows once.

They run if Delta or Iceberg supports the Spark of the tests; `make test-spark` has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from tests.services.delta import has_delta
from tests.services.iceberg import has_iceberg, iceberg_catalog
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.spark.sinks.writers import check_destination

AGGREGATES = {"n": mt.count(), "total": mt.sum("value")}
WINDOWS = ("key", "unix_seconds(window_start) % 86400", "n", "total", "revision")


class Lake:
    """A folder of tables; those of Delta are named by path or by name."""

    def __init__(self, spark: SparkSession, folder: Path, kind: str) -> None:
        self.spark = spark
        self.kind = kind
        self.folder = folder
        self.catalog = iceberg_catalog(spark, folder) if kind == "iceberg" else ""

    def sink(self, table: str, history: str | None = None) -> Any:
        """Return a sink that writes to a table."""
        make = mt.to_iceberg if self.kind == "iceberg" else mt.to_delta
        return make(self.name(table), history=history and self.name(history))

    def name(self, table: str) -> str:
        """Return the sink's name of a table."""
        if self.kind == "iceberg":
            return f"{self.catalog}.db.{table}"
        return f"lake.{table}" if table == "rejected" else f"{self.folder}/{table}"

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return the sorted rows of a table."""
        name = self.name(table)
        read = self.spark.read.format("delta").load if "/" in name else self.spark.table
        return sorted(map(tuple, read(name).selectExpr(*columns).collect()), key=str)


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    kind = request.param
    if not (has_delta() if kind == "delta" else has_iceberg()):
        pytest.skip(f"this Spark has no {kind}")
    spark.sql(f"CREATE SCHEMA lake LOCATION '{tmp_path}/catalog'")
    yield Lake(spark, tmp_path / "lake", kind)
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


def test_windows_and_what_is_appended(
    spark: SparkSession, feed: Feed, lake: Lake, tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoint"
    sinks = {"results": lake.sink("windows", "history"), "rejected": lake.sink("rejected")}
    run(spark, feed, folder, sinks)
    newest = lake.rows("windows", *WINDOWS)
    assert newest == [
        ("a", 0, 3, 15, 2),
        ("a", 30, 1, 1, 0),
        ("b", 0, 2, 5, 1),
        ("b", 20, 1, 7, 1),
    ]
    history = lake.rows("history", "batch", "key", "revision")
    rejected = lake.rows("rejected", "batch", "value", "reason")
    assert rejected == [(0, 4, "null_key"), (2, 4, "null_key")]

    # As after a crash between the sinks and the commit.
    last = folder / "commits" / "2"
    last.unlink()
    last.with_name(".2.crc").unlink(missing_ok=True)
    run(spark, feed, folder, sinks)
    assert lake.rows("windows", *WINDOWS) == newest
    assert lake.rows("history", "batch", "key", "revision") == history
    assert lake.rows("rejected", "batch", "value", "reason") == rejected

    # Another query appends to the same tables under its own numbers.
    run(spark, feed, tmp_path / "another", sinks)
    assert lake.rows("windows", *WINDOWS) == newest
    assert len(lake.rows("history", "batch")) == 2 * len(history)
    assert lake.rows("rejected", "batch", "value", "reason") == sorted(2 * rejected)


def test_sessions_that_grow_together_and_null(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "source")
    feed.add((None, at(0), 1), (None, at(20), 2), ("a", at(20), 1))
    feed.add((None, at(10), 4))
    stream = feed.stream(spark)
    sessions = mt.windowed(stream, key="key", time="at", nulls="group", lateness="1 minute")
    query = sessions.session("12 seconds").early(each=True).agg(**AGGREGATES)
    running_query = query.start(
        checkpoint=f"{tmp_path}/checkpoint",
        results=lake.sink("sessions"),
        available_now=True,
    )
    assert running_query.await_end(timeout=240)
    session_rows = lake.rows("sessions", "key", "n", "total", "emission")
    assert session_rows == [("a", 1, 1, "early"), (None, 3, 7, "early")]


def test_a_session_without_delta_is_refused(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    if has_delta():
        pytest.skip("this session has Delta")
    words = r"to_delta\(\) needs Delta, .* Start the session with Delta's jars"
    with pytest.raises(mt.SettingError, match=words):
        run(spark, feed, tmp_path / "checkpoint", {"results": mt.to_delta(f"{tmp_path}/windows")})
    assert not (tmp_path / "checkpoint").exists()


def test_a_session_without_the_catalog_is_refused(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    words = r"needs a catalog nowhere of Iceberg's, which this session lacks. Start the session"
    with pytest.raises(mt.SettingError, match=words):
        run(spark, feed, tmp_path / "checkpoint", {"results": mt.to_iceberg("nowhere.db.t")})
    spark.conf.set("spark.sql.catalog.jarless", "org.apache.iceberg.nowhere.Catalog")
    with pytest.raises(mt.SettingError, match="and this session lacks its jar"):
        run(spark, feed, tmp_path / "checkpoint", {"results": mt.to_iceberg("jarless.db.t")})
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
        check_destination(mt.to_delta("lake.t"), StructType.fromDDL(schema), None)
    if "batch" in schema and has_delta():
        check_destination(mt.to_delta("lake.t"), StructType.fromDDL(schema), ("batch",))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("a interval day to second", "column='a' has type interval day to second, which Iceberg"),
        ("a void", "column='a' has type void, which Iceberg lacks"),
        ("A int, a int", "column='a' is twice"),
        ("batch int", "column='batch' is the column in which lake.t keeps the batch's number"),
    ],
)
def test_columns_that_iceberg_cant_have(schema: str, words: str) -> None:
    with pytest.raises(mt.OptionError, match=words):
        check_destination(mt.to_iceberg("lake.t"), StructType.fromDDL(schema), None)


def test_the_history_is_said_to_keep_the_batchs_number() -> None:
    sink = mt.to_delta("lake.t", history="lake.h")
    with pytest.raises(mt.OptionError, match=r"in which lake\.h keeps .* or keep no history"):
        check_destination(sink, StructType.fromDDL("batch int"), ("batch",))


@pytest.mark.parametrize("table", ["", "/", "a`b", "lake.`t`"])
def test_what_is_no_table(table: str) -> None:
    with pytest.raises(mt.OptionError, match="can't be a table of Delta"):
        mt.to_delta(table)
    with pytest.raises(mt.OptionError, match=r"can't be a table|doesn't say its"):
        mt.to_iceberg(table)


@pytest.mark.parametrize(
    ("table", "words"), [("t", "doesn't say its catalog"), ("lake..t", "can't be")]
)
def test_what_is_no_table_of_a_catalog(table: str, words: str) -> None:
    with pytest.raises(mt.OptionError, match=words):
        mt.to_iceberg(table)
    with pytest.raises(mt.OptionError, match=words):
        mt.to_iceberg("lake.db.t", history=table)
