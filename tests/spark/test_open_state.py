"""Tests that a query's state, read from outside, agrees with its results."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.spark.feed import DAY, Feed, at, rows

import muntin as mt
from muntin.hosts.inspect.joins import OpenJoin
from muntin.hosts.inspect.windows import OpenWindows
from muntin.spark.windowed import Windowed

pytestmark = pytest.mark.slow

FILES = [
    [("a", 1, 1), ("b", 4, 2), ("a", 12, 3)],
    [("a", 14, 4), ("c", 33, 5)],
    [("a", 95, 6), ("b", 5, 7), ("b", 97, 8)],
]
AGGREGATES = {"n": mt.count(), "most": mt.max("value"), "all": mt.collect_list("value")}


def make_feed(folder: Path) -> Feed:
    feed = Feed(folder / "messages")
    for file in FILES:
        feed.add(*((key, at(second), value) for key, second, value in file))
    return feed


def run_query(spark: SparkSession, folder: Path, windows: Windowed) -> str:
    """Run a query for three batches into a table, and return its checkpoint."""
    query = windows.agg(**AGGREGATES).start(
        checkpoint=str(folder / "checkpoint"),
        results=mt.to_duckdb(str(folder / "out.duckdb"), "windows"),
        available_now=True,
    )
    assert query.await_end(120)
    assert query.progress.batch == 2
    return str(folder / "checkpoint")


def values(frame: Any) -> list[tuple[Any, ...]]:
    return [tuple(row[c] for c in COLUMNS) for row in frame]


COLUMNS = ("key", "window_start", "window_end", "n", "most", "all")


def read_sink(folder: Path) -> list[tuple[Any, ...]]:
    """Return the rows of the sink, in the order of windows."""
    names = ", ".join(f'"{name}"' for name in COLUMNS)
    return rows(folder / "out.duckdb", f"SELECT {names} FROM windows ORDER BY window_start, key")


def test_windows(spark: SparkSession, tmp_path: Path) -> None:
    windowed = mt.windowed(
        make_feed(tmp_path).stream(spark), key="key", time="at", lateness="2 seconds"
    )
    windows = windowed.hopping("20 seconds", "10 seconds").early(each=True)
    windows = windows.late(grace="2 minutes", each=True).keep("10 minutes")
    checkpoint = run_query(spark, tmp_path, windows)
    sink = read_sink(tmp_path)

    state = mt.open_state(checkpoint)
    assert isinstance(state, OpenWindows)
    assert (state.batch, state.watermark) == (2, at(95))
    assert state.counts["seen"] == 8
    assert values(state.fetch().to_dicts()) == sink
    order = F.struct("window_start", "key")
    assert values(state.frame().orderBy(order).toArrow().to_pylist()) == sink
    assert (
        state.frame().schema
        == windows.agg(**AGGREGATES).results.drop("emission", "revision").schema
    )
    assert values(state.fetch("b").to_dicts()) == [row for row in sink if row[0] == "b"]
    overlapping = [r for r in sink if r[2] > at(25) and r[1] <= at(40)]
    assert values(state.fetch(start=at(25), end=at(40)).to_dicts()) == overlapping
    assert not len(state.fetch("nobody"))

    windows_of_b = state.windows("b", end=at(30)).to_dicts()
    assert [(row["window_start"], row["messages"], row["late"]) for row in windows_of_b] == [
        (at(-10), 2, 1),
        (at(0), 2, 1),
    ]
    assert {row["stage"] for row in windows_of_b} == {"past"}
    assert state.windows("b", start=at(96)).to_dicts()[-1]["stage"] == "current"

    earlier = mt.open_state(checkpoint, batch=1)
    assert [row["n"] for row in earlier.fetch("a", start=at(10)).to_dicts()] == [3, 2]
    changes = state.changes(since=1).to_dicts()
    assert {(r["key"], (r["window_start"] - DAY) // timedelta(seconds=1), r["change"])
            for r in changes} == {
        ("b", -10, "changed"), ("b", 0, "changed"), ("a", 80, "new"), ("a", 90, "new"),
        ("b", 80, "new"), ("b", 90, "new"),
    }  # fmt: skip
    assert all(row in sink for row in values(changes))


@pytest.mark.slow
def test_sessions(spark: SparkSession, tmp_path: Path) -> None:
    windowed = mt.windowed(
        make_feed(tmp_path).stream(spark), key="key", time="at", lateness="2 minutes"
    )
    checkpoint = run_query(
        spark, tmp_path, windowed.session("10 seconds").early(each=True).keep("1 hour")
    )
    state = mt.open_state(checkpoint)
    sink = read_sink(tmp_path)
    # Sessions that were merged into others are retracted, and have no aggregates.
    assert values(state.fetch().to_dicts()) == [row for row in sink if row[3] is not None]
    assert [row["window_end"] for row in state.fetch("a").to_dicts()] == [at(11), at(24), at(105)]
    sessions_of_a = state.windows("a").to_dicts()
    assert [(r["window_start"], r["messages"], r["stage"]) for r in sessions_of_a] == [
        (at(1), 1, "current"),
        (at(12), 2, "current"),
        (at(95), 1, "current"),
    ]
    changes = {(r["key"], r["window_start"], r["change"]) for r in state.changes(0).to_dicts()}
    assert changes == {
        ("a", at(12), "gone"), ("a", at(12), "new"), ("c", at(33), "new"), ("a", at(95), "new"),
        ("b", at(4), "gone"), ("b", at(4), "new"), ("b", at(97), "new"),
    }  # fmt: skip


@pytest.mark.slow
def test_joins(spark: SparkSession, tmp_path: Path) -> None:
    left, right = Feed(tmp_path / "left"), Feed(tmp_path / "right")
    left.add(("a", at(1), 1), ("b", at(2), 2))
    left.add(("a", at(100), 3), ("c", at(101), 4))
    right.add(("a", at(3), 10), ("b", at(50), 20))
    right.add(("d", at(104), 40))
    sides = [mt.windowed(f.stream(spark), time="at", lateness="1 second") for f in (left, right)]
    joined = mt.join(*sides, on="key", within="10 seconds", how="inner")
    checkpoint = str(tmp_path / "checkpoint")
    query = joined.start(checkpoint=checkpoint, available_now=True)
    assert query.await_end(120)

    state = mt.open_state(checkpoint)
    assert isinstance(state, OpenJoin)
    assert state.watermarks == {"left": at(100), "right": at(103)}
    # The others can't get a partner any more.
    assert state.fetch("left")["value"].to_list() == [3, 4]
    assert state.fetch("right")["value"].to_list() == [40]
    assert state.fetch("left", "c")["at"].to_list() == [at(101)]
    assert not len(state.fetch("left", start=at(102)))
    assert [row["value"] for row in state.frame("left", "a").collect()] == [3]
    earlier = mt.open_state(checkpoint, batch=0)
    assert isinstance(earlier, OpenJoin)
    assert sorted(earlier.fetch("right")["value"]) == [10, 20]
    assert state.changes("left", since=0)["value"].to_list() == [3, 4]
    with pytest.raises(mt.OptionError, match="side='both' isn't a side"):
        state.fetch("both")  # type: ignore[arg-type]


def test_what_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(mt.OptionError, match=r"nowhere' holds no windows \(no state at all\)"):
        mt.open_state(str(tmp_path / "nowhere"))
    feed = Feed(tmp_path / "messages")
    feed.add(("a", at(1), 1))
    windows = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("1 minute")
    own_aggregate = mt.apply(len, "value", result_type="long")
    query = windows.agg(mine=own_aggregate).start(
        checkpoint=str(tmp_path / "own"), available_now=True
    )
    assert query.await_end(120)
    with pytest.raises(mt.OptionError, match="batch=7 isn't kept: there are batches 0 to 0"):
        mt.open_state(str(tmp_path / "own"), batch=7)
    with pytest.raises(mt.OptionError, match="aggregates='mine' is computed by a function"):
        mt.open_state(str(tmp_path / "own"))
    state = mt.open_state(str(tmp_path / "own"), aggregates={"mine": own_aggregate})
    assert state.fetch("a")["mine"].to_list() == [1]
    shutil.copytree(tmp_path / "own", tmp_path / "my own")
    with pytest.raises(
        mt.OptionError, match="can't read state in a folder with a space or % in its name"
    ):
        mt.open_state(str(tmp_path / "my own"))
    for options, error in (
        ({"key": 7}, "key=7 isn't a key"),
        ({"start": "soon"}, "start='soon' isn't a point in time"),
    ):
        with pytest.raises(mt.OptionError, match=error):
            state.fetch(**options)
    with pytest.raises(mt.OptionError, match="since=0 isn't before the batch that is read"):
        state.changes(0)
