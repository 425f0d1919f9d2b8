"""Tests that neither a row that a sink can't store nor a watcher ends a query."""

from __future__ import annotations

import json
import random
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.services.postgres import Postgres
from tests.services.postgres import rows as fetch_rows
from tests.spark.feed import MESSAGE, Feed, at, rows

import muntin as mt
from muntin.hosts.inspect.observed import list_newest, observe
from muntin.serve import Feed as PageFeed
from muntin.sinks.batch import Batch

LONG = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=6000))
# Milliseconds that were read as seconds, and a time before the year 1.
FUTURE, ANCIENT = 1_767_225_600_000_000_000, -219_966_000_000_000_000
ZONELESS = MESSAGE.set(2, pa.field("at", pa.timestamp("us", tz="UTC")))


def moments(*micros: int) -> list[Any]:
    return pa.array(micros, pa.int64()).cast(pa.timestamp("us", tz="UTC"))


def fill(feed: Feed, *messages: tuple[str, int, int]) -> None:
    """Add a file of messages of (key, microseconds, value)."""
    keys, times, values = zip(*messages, strict=True)
    ids = range(feed.ids, feed.ids + len(messages))
    feed.ids += len(messages)
    columns = [pa.array(ids, pa.int64()), pa.array(keys), moments(*times), pa.array(values)]
    feed.add_table(pa.table(columns, schema=MESSAGE))


def micros(seconds: float) -> int:
    return round(at(seconds).timestamp() * 1_000_000)


def read_unwritable(spark: SparkSession, checkpoint: Path) -> list[tuple[Any, ...]]:
    """Return the unwritable rows: batch, output, sink, reason, and values."""
    rows_of_files = spark.read.json(f"{checkpoint}/unwritable").orderBy("batch", "row").collect()
    assert {row.reason for row in rows_of_files} <= {"unwritable"}
    return [
        (row.batch, row.output, row.sink, row.why, json.loads(row.row)) for row in rows_of_files
    ]


def start(spark: SparkSession, feed: Feed, checkpoint: Path, **sinks: Any) -> mt.WindowedQuery:
    windows = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("10 seconds")
    windows = windows.early(each=True).agg(n=mt.count(), total=mt.sum("value"))
    return windows.start(checkpoint=str(checkpoint), available_now=True, **sinks)


@pytest.mark.slow
def test_rows_that_postgres_cant_take_end_no_query(
    spark: SparkSession, postgres: Postgres, tmp_path: Path
) -> None:
    """A restart changes nothing, nor does one that repeats a batch."""
    dsn, checkpoint = postgres.database(), tmp_path / "checkpoint"
    feed = Feed(tmp_path / "source")
    fill(feed, ("a", micros(1), 1), (LONG, micros(2), 2), ("a", FUTURE, 3), ("a\0", micros(3), 4))
    fill(feed, ("a", ANCIENT, 5), ("a␀", micros(3), 6))
    page = PageFeed()

    def run() -> mt.WindowedQuery:
        query = start(
            spark,
            feed,
            checkpoint,
            results=mt.to_postgres(dsn, "windows", patience="1 hour"),
            rejected=mt.to_postgres(dsn, "rejected", patience="1 hour"),
        )
        observe(query, lambda seen: None)
        assert query.await_end(timeout=240)
        assert query.watcher_failures == 0
        assert query.progress.adds_up()
        return query

    assert run().progress.unwritable == 2
    for is_repeated in (False, True):
        assert fetch_rows(dsn, "SELECT key, n FROM windows ORDER BY 1") == [
            ("a", 1), ("a␀", 1), ("a␛␀", 1)
        ]  # fmt: skip
        assert fetch_rows(dsn, "SELECT id, reason, batch FROM rejected") == [(2, "future", 0)]
        unwritable = read_unwritable(spark, checkpoint)
        assert [(batch, output) for batch, output, *_ in unwritable] == [
            (0, "results"),
            (1, "rejected"),
        ]
        assert [unwritable[0][4]["key"], unwritable[1][4]["id"]] == [LONG, 4]
        assert unwritable[1][4]["reason"] == "late"
        if not is_repeated:
            for name in ("1", ".1.crc"):
                (checkpoint / "commits" / name).unlink(missing_ok=True)
        run()
    assert page.snapshot()["queries"] == []


@pytest.mark.slow
def test_a_batch_of_which_all_is_taken_now_leaves_nothing_behind(
    spark: SparkSession, postgres: Postgres, tmp_path: Path
) -> None:
    """The batch is repeated with another sink, which can store all of its rows."""
    dsn, checkpoint = postgres.database(), tmp_path / "checkpoint"
    feed = Feed(tmp_path / "source")
    fill(feed, (LONG, micros(2), 2))
    sink = mt.to_postgres(dsn, "windows")
    assert start(spark, feed, checkpoint, results=sink).await_end(timeout=240)
    assert len(read_unwritable(spark, checkpoint)) == 1
    shutil.rmtree(checkpoint / "commits")
    other = mt.to_duckdb(f"{tmp_path}/out.duckdb", "windows")
    assert start(spark, feed, checkpoint, results=other).await_end(timeout=240)
    assert rows(tmp_path / "out.duckdb", "SELECT key, n FROM windows") == [(LONG, 1)]
    assert spark.read.schema("row string").json(f"{checkpoint}/unwritable").count() == 0


def test_what_watches_cant_end_a_query(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1))
    feed.add(("a", at(2), 2))
    query = start(spark, feed, tmp_path / "checkpoint")
    shown: list[int] = []

    def fail(number: int, batches: Any) -> None:
        raise RuntimeError("the page is gone")

    query.watchers += [fail, lambda number, batches: shown.append(number)]
    assert query.await_end(timeout=240)
    assert query.progress.counts == {"seen": 2, "counted": 2}
    assert query.watcher_failures == len(shown) >= 1
    assert "the page is gone" in caplog.text


def test_what_watches_cant_delay_a_query(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    for number in range(5):
        feed.add(("a", at(number), number))
    ended, shown = threading.Event(), []

    def linger(number: int, batches: list[Batch]) -> None:
        assert ended.wait(timeout=240)
        shown.append((number, [list_newest(batch, 10) for batch in batches]))

    query = start(spark, feed, tmp_path / "checkpoint")
    query.watchers.append(linger)
    # A watcher that waits for the query's end would wait forever if the query waited for it.
    assert query.query.awaitTermination(240)
    ended.set()
    query.stop()
    assert query.progress.counts == {"seen": 5, "counted": 5}
    numbers = [number for number, _ in shown]
    assert numbers == sorted(numbers)
    assert numbers[-1] == query.progress.batch
    assert len(shown) + query.watcher_skipped == query.progress.batch + 1
    assert query.watcher_skipped > 0
    # The batches of a slow watcher are kept for it.
    assert all(isinstance(rows, list) for _, kinds in shown for rows in kinds)


def test_a_function_that_raises_ends_the_query_in_its_own_words(
    spark: SparkSession, tmp_path: Path
) -> None:
    def fail(frame: DataFrame, number: int) -> None:
        raise RuntimeError("I refuse batch 0")

    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1))
    with pytest.raises(Exception, match="I refuse batch 0"):
        start(spark, feed, tmp_path / "checkpoint", results=fail).await_end(timeout=240)
