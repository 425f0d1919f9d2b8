"""Tests of ``muntin why``: explanations of windows and messages from the checkpoint alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.dataframe.state import explain_checkpoint, read_checkpoint
from muntin.spark.windowed import Windowed

DAY = "2026-01-01 00:"


def run_query(spark: SparkSession, folder: Path, make: object) -> str:
    """Run a query for four batches, whose latest event time is 100 s; return its checkpoint."""
    feed = Feed(folder / "messages")
    feed.add(("a", at(1), 1), ("a", at(4), 1), ("b", at(8), 1))
    feed.add(("a", at(42), 1), ("a", at(44), 1), ("a", at(57), 1))
    feed.add(("b", at(100), 1), ("b", at(2), 1), ("a", at(43), 1), ("a", at(91), 1))
    feed.add(("b", at(3), 1))
    windows = mt.windowed(feed.stream(spark), key="key", time="at", lateness="20 seconds")
    assert callable(make)
    query = (
        make(windows)
        .agg(n=mt.count())
        .start(checkpoint=str(folder / "checkpoint"), available_now=True)
    )
    assert query.await_end(120)
    return str(folder / "checkpoint")


def explain(spark: SparkSession, checkpoint: str, key: str, time: str) -> str:
    return " ".join(
        " ".join(
            explain_checkpoint(read_checkpoint(checkpoint, spark=spark), [key], DAY + time)
        ).split()
    )


def test_windows(spark: SparkSession, tmp_path: Path) -> None:
    def make(windows: Windowed) -> Windowed:
        return windows.tumbling("10 seconds").early(rows=3).late(grace="30 seconds", rows=5)

    checkpoint = run_query(spark, tmp_path, make)
    early = explain(spark, checkpoint, "a", "01:32")
    assert "watermark 2026-01-01 00:01:20, 20 seconds behind the latest event time" in early
    assert "window 2026-01-01 00:01:30 to 2026-01-01 00:01:40" in early
    assert "any key has the event time 2026-01-01 00:02:00 or later" in early
    assert "holds 1 messages, and hasn't emitted early: 1 of 3 new messages have arrived" in early
    assert "would be taken now, by its window" in early

    past = explain(spark, checkpoint, "a", "00:51")
    assert "emitted in full when the watermark passed its end; holds 1 messages" in past
    assert "until a message of any key has the event time 2026-01-01 00:01:50" in past

    closed = explain(spark, checkpoint, "b", "00:05")
    assert "closed: the watermark has passed its end and its grace of 30 seconds" in closed
    assert "rejected 1 late, of all keys so far" in closed
    assert (
        "is rejected as late: its last window takes nothing since the watermark passed "
        "2026-01-01 00:00:40, 40 seconds ago" in closed
    )
    assert "holds no message of this key" in explain(spark, checkpoint, "nobody", "01:32")


@pytest.mark.slow
def test_late_messages_that_wait(spark: SparkSession, tmp_path: Path) -> None:
    def make(windows: Windowed) -> Windowed:
        return windows.hopping("20 seconds", "10 seconds").late(grace="40 seconds", rows=5)

    checkpoint = run_query(spark, tmp_path, make)
    emitted = explain(spark, checkpoint, "a", "00:43")
    assert emitted.count("window ") >= 2
    assert "window 2026-01-01 00:00:30 to 2026-01-01 00:00:50" in emitted
    assert "would be taken now, by 2 of its 2 windows" in emitted
    # 00:43 arrived in the batch that moved the watermark, so it wasn't late.
    assert "holds 3 messages" in emitted


@pytest.mark.slow
def test_sessions(spark: SparkSession, tmp_path: Path) -> None:
    def make(windows: Windowed) -> Windowed:
        return windows.session("10 seconds").late(grace="15 seconds", rows=9)

    checkpoint = run_query(spark, tmp_path, make)
    current = explain(spark, checkpoint, "a", "01:35")
    assert "session 2026-01-01 00:01:31 to 2026-01-01 00:01:41" in current
    assert "holds 1 messages, and hasn't emitted" in current
    assert "it emits when it ends" in current
    past = explain(spark, checkpoint, "a", "01:00")
    assert (
        "session 2026-01-01 00:00:57 to 2026-01-01 00:01:07 holds 1 messages, and has emitted"
        in past
    )
    assert "has ended, and takes late messages" in past
    assert "would be taken now" in past
    late = explain(spark, checkpoint, "b", "00:20")
    assert "is rejected as late: no session that it would join is open" in late


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"time": "at noon"}, "isn't a point in time"),
        ({"key": ["a", "b"]}, "isn't 1 values; give --key once for each of key"),
        ({"checkpoint": "nowhere"}, "holds no windows"),
    ],
)
def test_what_cannot_be_asked(
    spark: SparkSession, tmp_path: Path, change: dict[str, object], error: str
) -> None:
    checkpoint = "nowhere"
    if "checkpoint" not in change:
        checkpoint = run_query(spark, tmp_path, lambda windows: windows.tumbling("10 seconds"))
    arguments = {"checkpoint": checkpoint, "key": ["a"], "time": DAY + "00:05"} | change
    with pytest.raises(mt.OptionError, match=error):
        explain_checkpoint(
            read_checkpoint(arguments["checkpoint"], spark=spark),
            arguments["key"],
            arguments["time"],
        )
