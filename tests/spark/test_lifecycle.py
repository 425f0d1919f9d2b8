"""Tests of a query's start, of its checkpoint while it runs, and of its restart."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.series import read_series
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.hosts.leases import FILE, Holder, LocalLeaseFile
from muntin.model.errors import LeaseLostError, OptionError, SpecChangedError
from muntin.spark.checkpoint_files import RECORD


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "source")


def start(
    feed: Feed, spark: SparkSession, folder: Path, size: str = "10 seconds", **options: object
) -> mt.WindowedQuery:
    windows = mt.windowed(feed.stream(spark), key="key", time="at").tumbling(size)
    return windows.agg(n=mt.count()).start(checkpoint=folder / "checkpoint", **options)


def run(feed: Feed, spark: SparkSession, folder: Path, **options: object) -> mt.WindowedQuery:
    query = start(feed, spark, folder, available_now=True, **options)
    assert query.await_end(240)
    return query


def test_a_changed_spec_is_refused_at_the_start_though_nothing_is_new(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    feed.add(("a", at(1), 1), ("b", at(12), 1))
    run(feed, spark, tmp_path)
    words = r"windows: was tumbling.*10 s.*, is tumbling.*1 min"
    for options in ({}, {"available_now": True}):
        with pytest.raises(SpecChangedError, match=words):
            start(feed, spark, tmp_path, "1 minute", **options)
    # Also where the record beside Spark's files is missing or damaged.
    record = tmp_path / "checkpoint" / RECORD
    record.unlink()
    with pytest.raises(SpecChangedError, match=words):
        start(feed, spark, tmp_path, "1 minute")
    record.write_text("{")
    with pytest.raises(SpecChangedError, match=words):
        start(feed, spark, tmp_path, "1 minute")
    assert not (tmp_path / "checkpoint" / FILE).exists()
    assert run(feed, spark, tmp_path).progress.counts == {"seen": 2, "counted": 2}


def test_a_restart_with_nothing_new_is_idle_and_shows_what_the_checkpoint_holds(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    feed.add(("a", at(1), 1), ("b", at(12), 1), (None, at(3), 1))
    before = run(feed, spark, tmp_path).progress
    for damaged in (False, True):
        if damaged:
            (tmp_path / "checkpoint" / RECORD).write_text("[]")
        again = start(feed, spark, tmp_path)
        shown, series = again.progress, read_series(again)
        try:
            assert again.await_idle(240)
        finally:
            again.stop()
        assert again.progress == shown
        assert (shown.batch, shown.watermark) == (0, at(12))
        assert shown.counts == before.counts == {"seen": 3, "counted": 2, "null_key": 1}
        assert shown.state_rows == before.state_rows
        assert shown.fired == {}
        assert series["muntin_batch",] == 0
        assert series["muntin_messages_total", "seen"] == 3
        assert series["muntin_rejected_total", "null_key"] == 1
        assert series["muntin_state_rows",] == before.state_rows
    feed.add(("a", at(25), 1))
    assert run(feed, spark, tmp_path).progress.counts["seen"] == 4


def test_a_stream_without_a_message_is_idle(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    query = start(feed, spark, tmp_path)
    try:
        assert query.await_idle(240)
    finally:
        query.stop()


def test_a_second_query_on_a_running_ones_checkpoint_is_refused(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    feed.add(("a", at(1), 1))
    first = start(feed, spark, tmp_path)
    try:
        assert first.await_idle(240)
        words = rf"is in use by a query of process {os.getpid()} on .*, started at 20"
        with pytest.raises(OptionError, match=words):
            start(feed, spark, tmp_path)
        feed.add(("a", at(12), 1))
        assert first.await_idle(240)
        assert first.progress.counts["counted"] == 2
    finally:
        first.stop()
    second = start(feed, spark, tmp_path)
    assert second.await_idle(240)
    second.stop()


def test_a_failed_query_gives_its_checkpoint_back(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    def fail(frame: object, number: int) -> None:
        raise ValueError("no")

    feed.add(("a", at(1), 1))
    for _ in range(2):
        query = start(feed, spark, tmp_path, results=fail)
        with pytest.raises(mt.BatchError, match="ValueError: no"):
            query.await_end(240)


def test_a_checkpoint_that_is_deleted_is_missed_at_the_next_batch(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    feed.add(("a", at(1), 1))
    query = start(feed, spark, tmp_path)
    assert query.await_idle(240)
    shutil.rmtree(tmp_path / "checkpoint")
    feed.add(("a", at(12), 1))
    with pytest.raises(LeaseLostError, match="the checkpoint was deleted while the query ran"):
        query.await_end(240)


def test_a_takeover_is_named_where_spark_meets_a_batch_of_the_other_query(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    feed.add(("a", at(1), 1))
    query = start(feed, spark, tmp_path)
    assert query.await_idle(240)
    checkpoint = tmp_path / "checkpoint"
    LocalLeaseFile(checkpoint).replace(Holder.create().to_text())
    shutil.copy(checkpoint / "offsets" / "0", checkpoint / "offsets" / "1")
    feed.add(("a", at(12), 1))
    with pytest.raises(LeaseLostError, match="the checkpoint was taken over by a query of") as lost:
        query.await_end(240)
    assert "CONCURRENT_STREAM_LOG_UPDATE" in str(lost.value.__cause__)


def test_a_thread_waits_for_the_end_like_the_main_one(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    query = start(feed, spark, tmp_path)
    ended: list[bool] = []
    thread = threading.Thread(target=lambda: ended.append(query.await_end()))
    thread.start()
    assert not query.await_end(0.3)
    query.stop()
    thread.join(60)
    assert ended == [True]


def test_the_record_is_plain_json(feed: Feed, spark: SparkSession, tmp_path: Path) -> None:
    feed.add(("a", at(1), 1))
    run(feed, spark, tmp_path)
    record = json.loads((tmp_path / "checkpoint" / RECORD).read_text())
    assert record["progress"]["counts"] == {"seen": 1, "counted": 1}
    assert [spec["kind"] for spec in record["specs"]] == ["windows"]
