"""Tests of the number of shards: by default that of cores; a checkpoint keeps its number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.host.shards import PARTITIONS, count_shards, read_stored_shards


@pytest.fixture
def many(spark: SparkSession) -> Iterator[SparkSession]:
    """Return a session with many more shuffle partitions than cores."""
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, "64")
    yield spark
    spark.conf.set(PARTITIONS, str(before))


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1), ("b", at(2), 2), ("c", at(3), 3))
    return feed


def windows(frame: Any, shards: int | None = None) -> mt.WindowedAggregate:
    plan = mt.windowed(frame, key="key", time="at", shards=shards).tumbling("10 seconds")
    return plan.agg(n=mt.count(), total=mt.sum("value"), most=mt.max("value"))


def run(query: Any, tmp_path: Path) -> dict[str, int]:
    handle = query.start(checkpoint=str(tmp_path / "state"), available_now=True)
    assert handle.await_end(120)
    counts: dict[str, int] = handle.progress.counts
    return counts


def partitions(tmp_path: Path) -> list[int]:
    """Return the partitions of the first operator's state."""
    stores = (tmp_path / "state" / "state" / "0").iterdir()
    return sorted(int(store.name) for store in stores if store.name.isdigit())


def shards(spark: SparkSession, tmp_path: Path) -> int:
    return len(Checkpoint(spark, str(tmp_path / "state")).manifests)


@pytest.mark.slow
def test_there_are_as_many_shards_as_cores_and_a_start_goes_on_with_them(
    feed: Feed, many: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(windows(feed.stream(many)), tmp_path)["counted"] == 3
    assert partitions(tmp_path) == [0, 1]
    assert shards(many, tmp_path) == 2
    assert many.conf.get(PARTITIONS) == "64"

    feed.add(("a", at(4), 1))
    monkeypatch.setattr("muntin.spark.host.shards._cores", lambda _: 5)
    again = windows(feed.stream(many))
    assert again.plan.shards == 5
    assert run(again, tmp_path)["counted"] == 4
    assert partitions(tmp_path) == [0, 1]
    assert shards(many, tmp_path) == 2
    feed.add(("a", at(5), 1))
    # The state moves to a requested number.
    assert run(windows(feed.stream(many), shards=5), tmp_path)["counted"] == 5
    assert shards(many, tmp_path) == 5


@pytest.mark.slow
def test_a_number_that_was_asked_for_goes_first(
    feed: Feed, many: SparkSession, tmp_path: Path
) -> None:
    run(windows(feed.stream(many), shards=3), tmp_path)
    assert partitions(tmp_path) == [0, 1, 2]
    assert shards(many, tmp_path) == 3
    feed.add(("a", at(4), 1))
    # Without the option, the number stays.
    assert run(windows(feed.stream(many)), tmp_path)["counted"] == 4


@pytest.mark.slow
def test_a_checkpoint_with_a_shard_for_each_of_many_partitions_is_gone_on_with(
    feed: Feed, many: SparkSession, tmp_path: Path
) -> None:
    many.conf.set(PARTITIONS, "7")
    run(windows(feed.stream(many), shards=7), tmp_path)
    many.conf.set(PARTITIONS, "64")
    feed.add(("a", at(4), 1))
    assert run(windows(feed.stream(many)), tmp_path)["counted"] == 4
    assert shards(many, tmp_path) == 7


@pytest.mark.slow
def test_windows_over_windows_are_kept_in_as_many_shards(
    feed: Feed, many: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_chain() -> mt.WindowedAggregate:
        inner = windows(feed.stream(many), shards=3)
        outer = mt.windowed(inner, key="key", time="window_start").tumbling("1 minute")
        return outer.agg(total=mt.sum("n"))

    run(make_chain(), tmp_path)
    assert partitions(tmp_path) == [0, 1]
    feed.add(("a", at(40), 1))
    monkeypatch.setattr("muntin.spark.host.shards._cores", lambda _: 5)
    assert make_chain().plan.shard_counts == ((3, 3), (5, None))
    assert run(make_chain(), tmp_path)["seen"] == 3
    assert partitions(tmp_path) == [0, 1]


@pytest.mark.slow
def test_a_join_and_agents_go_on_with_their_shards(
    feed: Feed, many: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_join() -> mt.Joined:
        sides = [mt.windowed(feed.stream(many), time="at") for _ in range(2)]
        return mt.join(*sides, on="key", within="5 seconds")

    app = mt.App("pages")
    views = app.Table("views", default=int)

    @app.agent(app.topic("messages"))
    async def count(messages: Any) -> None:
        async for message in messages:
            views[message["key"]] += 1

    def make_run() -> Any:
        return mt.on_spark(app, {"messages": mt.source(feed.stream(many), key="key", time="at")})

    for name, make in (("join", make_join), ("agents", make_run)):
        folder = tmp_path / name
        monkeypatch.setattr("muntin.spark.host.shards._cores", lambda _: 2)
        before = run(make(), folder)
        assert partitions(folder) == [0, 1]
        feed.add(("a", at(4), 1))
        monkeypatch.setattr("muntin.spark.host.shards._cores", lambda _: 5)
        assert run(make(), folder)["seen"] > before["seen"]
        assert partitions(folder) == [0, 1]


def test_no_more_than_shuffle_partitions_and_those_where_cores_come_and_go(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert count_shards(spark, None) == 2
    monkeypatch.setattr("muntin.spark.host.shards._cores", lambda _: 5)
    assert count_shards(spark, None) == 2
    monkeypatch.setattr("muntin.spark.host.shards._cores", lambda _: None)
    assert count_shards(spark, None) == 2
    assert count_shards(spark, 9) == 9
    with pytest.raises(mt.OptionError, match="shards=0 is less than one"):
        count_shards(spark, 0)


def test_a_damaged_plan_of_a_batch_is_left_to_spark(
    feed: Feed, many: SparkSession, tmp_path: Path
) -> None:
    run(windows(feed.stream(many)), tmp_path)
    newest = tmp_path / "state" / "offsets" / "0"
    head = newest.read_text().split("\n")
    assert json.loads(head[1])["conf"][PARTITIONS] == "2"
    newest.with_name(".0.crc").unlink(missing_ok=True)
    newest.write_text("v1\n{}\n")
    assert read_stored_shards(many, str(tmp_path / "state")) is None
    assert read_stored_shards(many, str(tmp_path / "nowhere")) is None
