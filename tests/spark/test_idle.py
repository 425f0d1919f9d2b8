"""Tests that policies on the wall clock emit without input."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.model.axis import SECOND
from muntin.spark.host.heartbeat import parse_tick


def test_idle_windows_speak_and_then_are_quiet(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    emitted: list[Row] = []

    def collect(frame: DataFrame, number: int) -> None:
        emitted.extend(frame.collect())

    query = (
        mt.windowed(feed.stream(spark), key="key", time="at")
        .tumbling("10 seconds")
        .early(every="1 second")
        .late(grace="1 hour", every="1 second")
        .agg(n=mt.count())
        .start(checkpoint=f"{tmp_path}/checkpoint", results=collect)
    )
    try:
        feed.add(("a", at(1), 0), ("b", at(2), 0))
        wait_for(lambda: len(emitted) == 2)
        assert describe_rows(emitted) == [("a", 0, 1, "early", 0), ("b", 0, 1, "early", 0)]

        feed.add(("a", at(25), 0))
        wait_for(lambda: ("a", 20, 1, "early", 0) in describe_rows(emitted))
        feed.add(("a", at(3), 0))
        wait_for(lambda: ("a", 0, 2, "late", 2) in describe_rows(emitted))
        assert query.await_idle(timeout=240)

        everything, last = list(emitted), query.progress.batch
        wait_for(lambda: query.progress.batch >= last + 2)
        assert emitted == everything
        assert query.progress.fired == {"early": 3, "full": 2, "late": 1}
        assert query.progress.counts == {"seen": 4, "counted": 4}
    finally:
        query.stop()


@pytest.mark.slow
def test_idle_batches_leave_nothing_in_the_sinks(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    results, rejected = tmp_path / "results", tmp_path / "rejected"
    query = (
        mt.windowed(feed.stream(spark), key="key", time="at")
        .tumbling("10 seconds")
        .late(grace="1 hour", every="1 second")
        .agg(n=mt.count())
        .start(
            checkpoint=f"{tmp_path}/checkpoint",
            results=mt.to_parquet(str(results)),
            rejected=mt.to_parquet(str(rejected)),
        )
    )
    try:
        wait_for(lambda: query.progress.batch >= 2)
        feed.add(("a", at(1), 0), ("a", at(25), 0))
        wait_for(lambda: query.progress.fired.get("full") == 1)
        last = query.progress.batch
        wait_for(lambda: query.progress.batch >= last + 2)
    finally:
        query.stop()
    # The first batch creates the table, and the window's batch has rows.
    folders = sorted(path.name for path in results.glob("[!.]*"))
    assert len(folders) == 2
    assert folders[0] == "batch=0"
    assert [path.name for path in rejected.glob("[!.]*")] == ["batch=0"]
    assert [row.n for row in spark.read.parquet(str(results)).collect()] == [1]
    assert spark.read.parquet(str(rejected)).count() == 0


@pytest.mark.slow
def test_the_last_windows_of_an_idle_stream_emit(spark: SparkSession, tmp_path: Path) -> None:
    """They emit once, also after a restart; messages behind the clock are late then."""
    feed = Feed(tmp_path / "source")
    emitted: list[Row] = []
    rejected: list[Row] = []

    def start() -> mt.WindowedQuery:
        windows = mt.windowed(feed.stream(spark), key="key", time="at", idle="2 seconds")
        return (
            windows.tumbling("5 seconds")
            .agg(n=mt.count())
            .start(
                checkpoint=f"{tmp_path}/checkpoint",
                results=lambda frame, number: emitted.extend(frame.collect()),
                rejected=lambda frame, number: rejected.extend(frame.collect()),
            )
        )

    query = start()
    try:
        feed.add(("a", at(1), 0), ("b", at(2), 0), ("a", at(4), 0))
        wait_for(lambda: query.progress.counts.get("counted") == 3)
        query.stop()
        assert describe_rows(emitted) == []
        query = start()
        wait_for(lambda: len(emitted) == 2)
        assert describe_rows(emitted) == [("a", 0, 2, "full", 0), ("b", 0, 1, "full", 0)]
        feed.add(("a", at(3), 0))
        wait_for(lambda: len(rejected) == 1)
        assert rejected[0].reason == "late"
        last = query.progress.batch
        wait_for(lambda: query.progress.batch >= last + 2)
        assert len(emitted) == 2
        assert query.progress.counts == {"seen": 4, "counted": 3, "late": 1}
    finally:
        query.stop()


def test_a_silent_side_of_a_join_lets_the_others_messages_go(
    spark: SparkSession, tmp_path: Path
) -> None:
    left, right = Feed(tmp_path / "left"), Feed(tmp_path / "right")
    emitted: list[Row] = []
    sides = [mt.windowed(feed.stream(spark), time="at", idle="1 second") for feed in (left, right)]
    query = mt.join(*sides, on="key", within="1 second", how="left").start(
        checkpoint=f"{tmp_path}/checkpoint",
        results=lambda frame, number: emitted.extend(frame.collect()),
    )
    try:
        left.add(("a", at(10), 1))
        right.add(("b", at(10), 1))
        wait_for(lambda: len(emitted) == 1)
        assert (emitted[0].key, emitted[0].emission) == ("a", "full")
        assert emitted[0].id_right is None
        assert query.progress.adds_up()
    finally:
        query.stop()


def describe_rows(emitted: list[Row]) -> list[tuple[Any, ...]]:
    """Return sorted (key, start in seconds, count, emission, revision)."""
    midnight = at(0).replace(tzinfo=None)
    return sorted(
        (r.key, (r.window_start - midnight).seconds, r.n, r.emission, r.revision) for r in emitted
    )


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline, "nothing happens"
        time.sleep(0.05)


@pytest.mark.slow
def test_the_last_step_of_a_run_emits_what_waits_for_the_clock(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The tables of a run from cron have all early results and late messages."""
    feed, sink = Feed(tmp_path / "source"), mt.to_memory()
    windows = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("10 seconds")
    early = windows.early(every="1 hour").late(grace="1 hour", every="1 hour")

    def run() -> list[tuple[int, str]]:
        query = early.agg(n=mt.count()).start(
            checkpoint=f"{tmp_path}/checkpoint", results=sink, available_now=True, name="cron"
        )
        assert query.await_end(120)
        assert not query.is_active
        assert query.progress.pending == 0
        return query.frame().sort("window_start").select("n", "emission").rows()

    feed.add(("a", at(1), 0), ("a", at(12), 0))
    assert run() == [(1, "full"), (1, "early")]
    feed.add(("a", at(2), 0))
    assert run() == [(2, "late"), (1, "early")]
    commits = len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*")))
    # No window waits, so at most one batch runs, for a tick.
    assert run() == [(2, "late"), (1, "early")]
    assert len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))) <= commits + 1


@pytest.mark.slow
def test_what_waits_goes_on_after_a_start_with_a_clock_behind(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Ticks continue from the checkpoint's, and the log says how far the clock is behind."""
    feed, sink = Feed(tmp_path / "source"), mt.to_memory()
    windows = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("1 day")
    early = windows.early(every="1 second").agg(n=mt.count())
    options = {"checkpoint": f"{tmp_path}/checkpoint", "results": sink}
    feed.add(("a", at(1), 0))
    query = early.start(**options)
    try:
        wait_for(lambda: not sink.frame().is_empty())
    finally:
        query.stop()
    move_ticks(tmp_path / "checkpoint" / "offsets", 600)
    feed.add(("a", at(2), 0))
    query = early.start(**options)
    try:
        wait_for(lambda: sink.frame()["n"].to_list() == [2])
    finally:
        query.stop()
    (line,) = [line for line in caplog.messages if "clock is" in line]
    assert re.match(r"this machine's clock is (5\d\d|600) s behind the last batch\. What", line)


def move_ticks(offsets: Path, seconds: int) -> None:
    """Move the newest ticks of a checkpoint ahead, as if the clock had been set back since."""
    newest = max(offsets.glob("[0-9]*"), key=lambda path: int(path.name))
    lines = newest.read_text().splitlines()
    (number,) = [n for n, line in enumerate(lines) if parse_tick(line) is not None]
    lines[number] = json.dumps({"tick": json.loads(lines[number])["tick"] + seconds * SECOND})
    newest.write_text("\n".join(lines))
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
