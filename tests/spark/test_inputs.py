"""Tests that a checkpoint keeps its number of sources, of which ticks are one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.hosts.tick_period import period_of
from muntin.model.axis import MILLISECOND
from muntin.model.policies import Every
from muntin.spark.sources.inputs import check_ticks
from muntin.tables import App

LATE: dict[str, dict[str, Any]] = {"each": {"each": True}, "every": {"every": "1 second"}}


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1), ("b", at(2), 2))
    return feed


def windows(
    feed: Feed, spark: SparkSession, late: dict[str, Any], **options: Any
) -> mt.WindowedAggregate:
    input_windows = mt.windowed(feed.stream(spark), key="key", time="at", **options)
    return input_windows.tumbling("10 seconds").late(grace="1 minute", **late).agg(n=mt.count())


def run(windows: mt.WindowedAggregate, folder: Path) -> str:
    """Run a query, and return its checkpoint."""
    checkpoint = f"{folder}/checkpoint"
    query = windows.start(checkpoint=checkpoint, results=lambda f, n: None, available_now=True)
    assert query.await_end(timeout=240)
    return checkpoint


def check(windows: mt.WindowedAggregate, checkpoint: str) -> None:
    check_ticks(windows.plan.output, checkpoint, windows.plan.specs)


@pytest.mark.slow
def test_a_first_policy_on_the_wall_clock_needs_a_new_checkpoint(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    checkpoint = run(windows(feed, spark, LATE["each"]), tmp_path)
    check(windows(feed, spark, {"rows": 5}), checkpoint)
    check(windows(feed, spark, LATE["every"]), f"{tmp_path}/another")
    error = (
        r"doesn't use the machine's clock, and this one uses the machine's clock \(late: was each "
        r"message, is every 1 second of wall clock\).* Use the policies .*or start with a new "
        "checkpoint"
    )
    with pytest.raises(mt.SpecChangedError, match=error):
        check(windows(feed, spark, LATE["every"]), checkpoint)


@pytest.mark.slow
def test_the_last_policy_on_the_wall_clock_needs_a_new_checkpoint(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    checkpoint = run(windows(feed, spark, LATE["every"]), tmp_path)
    check(windows(feed, spark, {"every": "2 seconds"}), checkpoint)
    with pytest.raises(mt.SpecChangedError, match=r"late: was every 1 second .*is each message"):
        check(windows(feed, spark, LATE["each"]), checkpoint)
    with pytest.raises(mt.SpecChangedError, match=r"machine's clock, .*idle=, clock= "):
        check(windows(feed, spark, LATE["every"], clock="at"), checkpoint)


def test_so_does_a_first_table_by_the_wall_clock(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    def start(by_clock: bool) -> mt.WindowedQuery:
        app = App("shop", max_ahead=None)
        views = app.Table("views", default=int).tumbling("1 hour", expires="1 day")
        seen = views.relative_to_now() if by_clock else views

        @app.agent(app.topic("clicks"))
        async def count(clicks: Any) -> None:
            async for click in clicks:
                seen[click["key"]] += 1

        source = mt.source(feed.stream(spark), key="key", time="at")
        run = mt.on_spark(app, {"clicks": source})
        return run.start(checkpoint=f"{tmp_path}/checkpoint", available_now=True)

    assert start(by_clock=False).await_end(timeout=240)
    with pytest.raises(mt.SpecChangedError, match=r"machine's clock, .*relative_to_now\(\)"):
        start(by_clock=True)


@pytest.mark.parametrize(
    ("periods", "ticks"),
    [
        ((), None),
        ((5_000,), 5_000),
        ((3_600_000,), 3_600_000),
        ((2_000, 10_000), 2_000),
        ((3_000, 5_000), 1_000),
        ((250,), 250),
        ((300, 1_000), 300),
        ((1_000, 1_001), 1_000),
    ],
)
def test_a_tick_comes_as_often_as_a_policy_asks_for_it(
    periods: tuple[int, ...], ticks: int | None
) -> None:
    policies = [Every(period * MILLISECOND) for period in periods]
    assert period_of([*policies, None]) == (None if ticks is None else ticks * MILLISECOND)
