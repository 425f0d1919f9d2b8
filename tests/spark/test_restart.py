"""Tests that a query with restarts gives the results of a single run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.moved_queries import COLUMNS
from tests.spark.feed import MESSAGE, STAMP, Feed, at, emitted, rows

import muntin as mt
from muntin.model.axis import SECOND

AGGREGATES = {"n": mt.count(), "total": mt.sum("value"), "most": mt.max("value")}
# Seconds of a file's messages: some out of order, some late, one (3 in the last) too late.
FILES = [[1, 4, 2, 9], [12, 8, 31], [7, 29, 33, 30], [64, 35], [36, 62, 3, 70]]
TOO_LATE = [15]


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "source")


def query(feed: Feed, spark: SparkSession, folder: Path, **options: object) -> mt.WindowedQuery:
    return start(feed.stream(spark), folder, **options)


def start(messages: Any, folder: Path, **options: object) -> Any:
    windows = (
        mt.windowed(messages, key="key", time="at", lateness="2 seconds")
        .hopping("10 seconds", slide="4 seconds")
        .early(each=True)
        .late(grace="25 seconds", each=True)
        .agg(**AGGREGATES)
    )
    return windows.start(
        checkpoint=f"{folder}/checkpoint",
        results=mt.to_duckdb(f"{folder}/out.duckdb", "windows", history="history"),
        rejected=mt.to_duckdb(f"{folder}/out.duckdb", "rejected"),
        **options,
    )


def add_all(feed: Feed) -> None:
    for number in range(len(FILES)):
        add(feed, number)


def add(feed: Feed, number: int) -> None:
    feed.add(*(("ab"[second % 2], at(second), second) for second in FILES[number]))


@pytest.mark.slow
def test_a_restart_after_each_batch_changes_nothing(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    """The local host emits the same without a restart."""
    for number in range(len(FILES)):
        add(feed, number)
        part = query(feed, spark, tmp_path / "parts", available_now=True)
        assert part.await_end(timeout=240)
        assert part.progress.batch == number
        assert part.progress.counts["seen"] == feed.ids
        assert part.progress.adds_up()
    files = mt.files(feed.folder / "*.parquet", columns=COLUMNS, files_per_batch=1)
    whole = start(files, tmp_path / "whole", available_now=True)
    assert whole.await_end(timeout=240)

    in_parts, at_once = tmp_path / "parts/out.duckdb", tmp_path / "whole/out.duckdb"
    assert emitted(in_parts) == emitted(at_once) == feed.windows(10, 4, but=TOO_LATE)
    for table in ("history", "rejected"):
        everything = f"SELECT * FROM {table} ORDER BY ALL"
        assert rows(in_parts, everything) == rows(at_once, everything)
    assert rows(in_parts, "SELECT id FROM rejected") == [(15,)]
    assert part.progress.counts == whole.progress.counts


def test_a_stopped_query_goes_on(feed: Feed, spark: SparkSession, tmp_path: Path) -> None:
    add(feed, 0)
    add(feed, 1)
    first = query(feed, spark, tmp_path)
    assert first.await_idle(timeout=240)
    first.stop()
    assert not first.is_active
    for number in (2, 3, 4):
        add(feed, number)
    second = query(feed, spark, tmp_path)
    assert second.await_idle(timeout=240)
    second.stop()
    assert second.progress.counts["seen"] == feed.ids
    assert emitted(tmp_path / "out.duckdb") == feed.windows(10, 4, but=TOO_LATE)


def test_late_messages_are_told_apart_in_the_first_batch(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    """The tasks don't know the watermark then, so the shards reject late messages."""
    windows = (
        mt.windowed(feed.stream(spark), key="key", time="at", where="value >= 0")
        .tumbling("10 seconds")
        .late(grace="5 seconds", each=True)
        .agg(**AGGREGATES)
    )

    def run() -> mt.WindowedQuery:
        sinks = {
            kind: mt.to_duckdb(f"{tmp_path}/{kind}.duckdb", "t") for kind in ("results", "rejected")
        }
        run = windows.start(checkpoint=f"{tmp_path}/checkpoint", available_now=True, **sinks)
        assert run.await_end(timeout=240)
        return run

    feed.add(("a", at(1), 1), ("b", at(22), 1))
    assert run().progress.watermark_micros == _micros(22)
    late, taken = [("a", at(2), 2), ("b", at(9.999999), 2)], [("a", at(12), 3), ("b", at(21), 3)]
    refused = [(None, at(21), 4), ("a", None, 4)]
    feed.add(*late, *taken, *refused, ("a", at(23), -1), ("a", at(23), 5))
    progress = run().progress

    assert progress.counts == {
        "seen": 10, "counted": 5, "filtered": 1, "late": 2, "null_key": 1, "null_time": 1
    }  # fmt: skip
    assert progress.adds_up()
    assert progress.watermark_micros == _micros(23)
    rejected = rows(tmp_path / "rejected.duckdb", "SELECT id, reason, epoch_us(watermark) FROM t")
    reasons = [(2, "late"), (3, "late"), (6, "null_key"), (7, "null_time")]
    assert sorted(rejected) == [(*pair, _micros(22)) for pair in reasons]
    assert emitted(tmp_path / "results.duckdb", "t") == [
        ("a", _micros(0), 1, 1, 1),
        ("a", _micros(10), 1, 3, 3),
    ]


def test_what_is_told_again_in_the_first_batch_holds_nothing_back(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    """The tasks don't know the offsets read before, so the shards drop duplicates."""
    windows = (
        mt.windowed(feed.stream(spark), time="at", offset=("key", "value"))
        .tumbling("10 seconds")
        .agg(n=mt.count())
    )

    def run() -> mt.WindowedQuery:
        sink = mt.to_duckdb(f"{tmp_path}/out.duckdb", "t")
        run = windows.start(checkpoint=f"{tmp_path}/checkpoint", available_now=True, results=sink)
        assert run.await_end(timeout=240)
        return run

    feed.add(("p", at(1), 0), ("p", at(12), 1))
    assert run().progress.watermark_micros == _micros(12)
    feed.add(
        ("p", at(12), 1), ("p", at(1), 0), ("p", at(99), 1), ("p", at(15), 2), ("p", at(31), 3)
    )
    progress = run().progress

    assert progress.counts == {"seen": 7, "counted": 4, "duplicates": 3}
    assert progress.watermark_micros == _micros(31)
    stored = rows(tmp_path / "out.duckdb", "SELECT epoch_us(window_start), n FROM t ORDER BY ALL")
    assert stored == [(_micros(0), 1), (_micros(10), 2)]


@pytest.mark.slow
def test_what_waits_for_the_clock_is_told_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "source", MESSAGE.append(pa.field("came", STAMP)))
    windows = (
        mt.windowed(feed.stream(spark), key="key", time="at", clock="came")
        .tumbling("1 hour")
        .early(every="10 minutes")
        .agg(n=mt.count())
    )
    emitted = []

    def run_and_check_pending() -> bool:
        running = windows.start(
            checkpoint=f"{tmp_path}/checkpoint",
            results=lambda frame, number: emitted.extend(frame.collect()),
            available_now=True,
        )
        assert running.await_end(timeout=240)
        return running.progress.pending > 0

    feed.add(("a", at(1), 1, at(60)), ("b", at(2), 1, at(61)))
    assert run_and_check_pending()
    assert emitted == []
    feed.add(("b", at(3), 1, at(599)))
    assert run_and_check_pending()
    assert emitted == []
    feed.add(("c", at(4), 1, at(600)))
    assert not run_and_check_pending()
    assert sorted((row["key"], row["n"], row["emission"]) for row in emitted) == [
        ("a", 1, "early"),
        ("b", 2, "early"),
        ("c", 1, "early"),
    ]


@pytest.mark.slow
def test_a_batch_of_no_messages_after_a_restart_says_what_was_counted(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    add(feed, 0)
    before = query(feed, spark, tmp_path, available_now=True)
    assert before.await_end(timeout=240)
    feed.add_table(MESSAGE.empty_table())
    after = query(feed, spark, tmp_path, available_now=True)
    assert after.await_end(timeout=240)
    assert after.progress.batch == 1
    assert after.progress.counts == before.progress.counts != {}
    assert after.progress.watermark_micros == before.progress.watermark_micros == _micros(7)
    assert after.progress.state_rows == before.progress.state_rows


def _micros(seconds: float) -> int:
    return round(at(seconds).timestamp() * SECOND)


@pytest.mark.slow
def test_what_an_uncommitted_attempt_left_in_the_state_is_not_read(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    """A driver dies after its shards have written their state, before the batch is committed.

    The next one repeats that batch and does another; the third has to read their state.
    """
    commits = tmp_path / "checkpoint" / "commits"
    for number in range(len(FILES)):
        add(feed, number)
        run = query(feed, spark, tmp_path, available_now=True)
        assert run.await_end(timeout=240)
        assert run.progress.batch == number
        assert run.progress.counts["seen"] == feed.ids
        if number % 2 == 0:
            for file in (f"{number}", f".{number}.crc"):
                (commits / file).unlink()
    assert query(feed, spark, tmp_path, available_now=True).await_end(timeout=240)
    assert emitted(tmp_path / "out.duckdb") == feed.windows(10, 4, but=TOO_LATE)
