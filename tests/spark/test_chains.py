"""Tests of windows over windows in one query: each window counts once, all counts add up."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from tests.spark.feed import Feed, at
from tests.spark.runner import rows_of

import muntin as mt
from muntin.model.axis import SECOND
from muntin.spark.windowed import WindowedAggregate
from muntin.testing.oracle import Oracle

pytestmark = pytest.mark.slow

Make = Callable[[DataFrame], WindowedAggregate]


def fill(feed: Feed, seed: int) -> list[list[dict[str, Any]]]:
    """Add files of messages out of order, some too late; return the same steps for an oracle."""
    chance, steps = random.Random(seed), []
    for number in range(4):
        seconds = [20 * number + chance.uniform(-25, 20) for _ in range(30)]
        rows = [(chance.choice("abc"), at(s), n) for n, s in enumerate(seconds)]
        rows.append((None, at(20 * number), 0))
        feed.add(*rows)
        steps.append(
            [
                {"key": key, "at": round(time.timestamp() * SECOND), "value": value}
                for key, time, value in rows
            ]
        )
    return steps


class Ran:
    """Runs a chain to its end, and has its output."""

    def __init__(self, chain: WindowedAggregate, folder: Path) -> None:
        self.results: list[dict[str, Any]] = []
        self.rejected: list[Row] = []

        def results(frame: DataFrame, number: int) -> None:
            self.results += rows_of(frame.toArrow())

        query = chain.start(
            checkpoint=f"{folder}/checkpoint",
            results=results,
            rejected=lambda frame, number: self.rejected.extend(frame.collect()),
            available_now=True,
        )
        assert query.await_end(timeout=300)
        self.progress = query.progress


def by_oracles(
    inner: WindowedAggregate, outer: WindowedAggregate, steps: list[list[dict[str, Any]]]
) -> tuple[list[dict[str, Any]], dict[str, int], dict[str, int]]:
    """Return the firings of an oracle over another's full firings, and the counts of both."""
    wall = time.time_ns() // 1000
    inner_oracle, outer_oracle = Oracle(inner.plan.spec), Oracle(outer.plan.spec)
    firings: list[dict[str, Any]] = []
    counts: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for step in steps:
        inner_step = inner_oracle.step(step, wall)
        full = [f for f in inner_step.firings if f["emission"] == "full"]
        # A window that is full later ends behind the inner watermark.
        reached = None if inner_step.watermark is None else inner_step.watermark + 1
        outer_step = outer_oracle.step(full, wall, reached=reached)
        firings += outer_step.firings
        outer_step.counts["filtered"] = len(inner_step.firings) - len(full)
        outer_step.counts["seen"] = len(inner_step.firings)
        for total, new in zip(counts, (inner_step.counts, outer_step.counts), strict=True):
            for name, n in new.items():
                total[name] = total.get(name, 0) + n
    return firings, *({n: c for n, c in total.items() if c} for total in counts)


def hourly(frame: DataFrame) -> WindowedAggregate:
    windows = mt.windowed(frame, key="key", time="at", lateness="2 seconds")
    return windows.hopping("10 seconds", "5 seconds").agg(
        n=mt.count(), value=mt.sum("value"), id=mt.max("key")
    )


def restless(frame: DataFrame) -> WindowedAggregate:
    windows = mt.windowed(frame, key="key", time="at")
    windows = windows.tumbling("5 seconds").early(each=True).late(grace="10 seconds", each=True)
    return windows.agg(n=mt.count(), value=mt.sum("value"), id=mt.max("key"))


def daily(windows: WindowedAggregate | DataFrame) -> WindowedAggregate:
    outer = mt.windowed(windows, key="key", time="window_end")
    outer = outer.tumbling("20 seconds").early(each=True)
    return outer.agg(n=mt.sum("n"), most=mt.max("value"), windows=mt.count())


@pytest.mark.parametrize("make", [hourly, pytest.param(restless, marks=pytest.mark.slow)])
def test_a_chain_says_what_oracles_over_oracles_say(
    spark: SparkSession, tmp_path: Path, make: Make
) -> None:
    feed = Feed(tmp_path / "source")
    steps = fill(feed, 3)
    inner = make(feed.stream(spark))
    outer = daily(inner if make is hourly else inner.full)
    emitted, inner_counts, outer_counts = by_oracles(inner, outer, steps)
    ran = Ran(outer, tmp_path)
    assert sorted(ran.results, key=repr) == sorted(emitted, key=repr) != []

    assert {n: c for n, c in ran.progress.inner.counts.items() if c} == inner_counts
    assert {n: c for n, c in ran.progress.counts.items() if c} == outer_counts
    assert sum(ran.progress.inner.fired.values()) == ran.progress.counts["seen"]
    assert ran.progress.received == feed.ids
    assert ran.progress.adds_up()

    rejected = [(row["stage"], row["reason"]) for row in ran.rejected]
    assert rejected.count((1, "null_key")) == inner_counts["null_key"] == 4
    assert rejected.count((1, "late")) == inner_counts["late"] > 0
    assert len(rejected) == inner_counts["late"] + inner_counts["null_key"] + outer_counts.get(
        "late", 0
    )
    # A result of another type than the input's column of its name has a column of its own.
    assert {"id", "id_result", "value", "n"} <= set(outer.rejected.columns)
    assert mt.open_state(f"{tmp_path}/checkpoint").counts == ran.progress.counts


def test_windows_that_emit_again_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1))
    inner = restless(feed.stream(spark))
    inner.results.createOrReplaceTempView("restless")
    derived = [
        inner,
        inner.results,
        inner.results.where("n > 1").select("key", "window_end"),
        inner.results.selectExpr("key", "window_end + INTERVAL 1 SECOND AS window_end", "n + 1 n"),
        spark.table("restless"),
    ]
    for frame in derived:
        with pytest.raises(mt.OptionError, match=r"each would count; give \.full"):
            mt.windowed(frame, key="key", time="window_end")
    query = "SELECT key, count(*) AS n FROM w GROUP BY key, TUMBLE(window_end, INTERVAL 1 MINUTE)"
    for table in (inner, inner.results, inner.results.where("n > 1")):
        with pytest.raises(mt.SqlError, match=r"each would count"):
            mt.sql(spark, query, w=table)
    side = mt.windowed(inner.full.where("n > 1"), time="window_end")
    assert side.tumbling("1 minute").agg(n=mt.count()).results.isStreaming
    deltas = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("5 seconds")
    deltas = deltas.early(each=True).deltas()
    with pytest.raises(mt.OptionError, match="leave out deltas"):
        _ = deltas.agg(n=mt.count()).full
    # A batch frame has each window once.
    assert daily(restless(feed.frame(spark))).results.collect()[0]["n"] == 1


@pytest.mark.slow
def test_what_may_change_in_a_chain(spark: SparkSession, tmp_path: Path) -> None:
    """Policies of each operator may change, but not ticks, nor the number of operators."""
    feed = Feed(tmp_path / "source")
    fill(feed, 5)

    def inner(**early: Any) -> DataFrame:
        windows = mt.windowed(feed.stream(spark), key="key", time="at", lateness="2 seconds")
        windows = windows.tumbling("5 seconds").keep("1 hour" if early else "1 minute")
        windows = windows.early(**early) if early else windows
        return windows.agg(n=mt.count(), value=mt.sum("value")).full

    def outer(frame: DataFrame, **early: Any) -> WindowedAggregate:
        windows = mt.windowed(frame, key="key", time="window_end").tumbling("20 seconds")
        return windows.early(**early).agg(n=mt.sum("n"), most=mt.max("value"))

    seen = Ran(outer(inner(), each=True), tmp_path).progress.counts["seen"]
    feed.add(("a", at(200), 1))
    ran = Ran(outer(inner(rows=2), rows=2), tmp_path)
    assert ran.progress.adds_up()
    assert ran.progress.counts["seen"] > seen
    ticks = r"\(early: was every 2 rows, is every 1 second of wall clock"
    with pytest.raises(mt.SpecChangedError, match=rf"{ticks}\), which Spark can't"):
        Ran(outer(inner(rows=2), every="1 second"), tmp_path)
    with pytest.raises(mt.SpecChangedError, match=rf"{ticks}, of tumbling 5 seconds by key\)"):
        Ran(outer(inner(every="1 second"), rows=2), tmp_path)
    feed.add(("a", at(300), 1))
    third = mt.windowed(outer(inner(rows=2), rows=2).full, time="window_end").tumbling("1 hour")
    with pytest.raises(mt.SpecChangedError, match=r"a chain of 2 operators .* this query has 3"):
        Ran(third.agg(windows=mt.count()), tmp_path)


@pytest.mark.slow
def test_windows_over_windows_in_sql(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    for second in (1, 2, 11, 31, 95, 150):
        feed.add(("a", at(second), second), ("b", at(second), second), (None, at(second), 1))
    feed.add(("a", None, 1))
    inner = mt.sql(
        spark,
        "SELECT key, window_end AS until, count(*) AS n FROM clicks "
        "GROUP BY key, TUMBLE(at, INTERVAL 10 SECONDS) HAVING key <> 'b'",
        clicks=feed.stream(spark),
    )
    outer = mt.sql(
        spark,
        "SELECT key, window_start, sum(n) AS n FROM inside "
        "GROUP BY key, TUMBLE(until, INTERVAL 1 MINUTE)",
        inside=inner,
    )
    ran = Ran(outer, tmp_path)
    start = round(at(0).timestamp() * SECOND)
    # The inner watermark, at 150 s, ends the second minute, too.
    assert [(row["key"], row["window_start"] - start, row["n"]) for row in ran.results] == [
        ("a", 0, 4),
        ("a", 60 * SECOND, 1),
    ]
    assert ran.progress.inner.counts == {"seen": 19, "counted": 18, "null_time": 1}
    # HAVING lets four windows of a on, and those of NULL and b not.
    assert ran.progress.counts == {"seen": 4, "counted": 4}
    assert {(row["stage"], row["reason"]) for row in ran.rejected} == {(1, "null_time")}
    assert outer.explain().index("tumbling 10 seconds") < outer.explain().index("tumbling 1 minute")
