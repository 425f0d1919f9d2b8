"""Tests of a local query's state: reading it from outside, and rescaling it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import muntin as mt
from muntin import OptionError
from muntin.hosts.inspect.why import explain_state
from muntin.hosts.local.definition import LocalDefinition
from muntin.hosts.local.query import LocalQuery
from muntin.hosts.local.rescale import rescale_folder

_START = datetime(2026, 1, 1, tzinfo=UTC)
_ORDER = ["window_start", "k"]


def _make_messages(count: int = 60) -> pl.DataFrame:
    at = [_START + timedelta(seconds=second) for second in range(count)]
    keys = ["abcdefg"[second % 7] for second in range(count)]
    return pl.DataFrame({"k": keys, "at": at, "v": range(count)})


def _build_query(shards: int | None = None, count: int = 60) -> LocalDefinition:
    frame = _make_messages(count)
    windows = mt.windowed(frame, key="k", time="at", shards=shards, lateness="1 hour")
    return windows.tumbling("20 seconds").agg(n=mt.count(), s=mt.sum("v"))


def _build_join() -> LocalDefinition:
    """Return a join that stores its messages, since the source is silent after the first tick."""
    sides = [mt.windowed(mt.ticks(0.001), time="timestamp") for _ in range(2)]
    return mt.join(*sides, on="value", within="10 seconds", how="left", shards=2)


def _run_feed(folder: Path, rate: float = 2000, shards: int = 2) -> tuple[LocalQuery, pl.DataFrame]:
    """Run a query over some ticks; return it and the newest revision of each window."""
    feed = mt.windowed(
        mt.ticks(rate), key=(pl.col("value") % 7).alias("k"), time="timestamp", shards=shards
    )
    windows = feed.tumbling("100 milliseconds").early(each=True).keep("1 day")
    counts = windows.agg(n=mt.count(), m=mt.median("value"))
    query = counts.start(checkpoint=folder)
    deadline = time.monotonic() + 60
    while query.progress.seen < 500 and time.monotonic() < deadline:
        time.sleep(0.01)
    query.stop()
    return query, query.frame().drop("emission", "revision").sort(_ORDER)


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert holds()


def test_windows_are_read_while_they_are_retained(tmp_path: Path) -> None:
    query, expected = _run_feed(tmp_path)
    state = mt.open_state(tmp_path)
    assert len(expected) > 7
    assert_frame_equal(state.fetch().sort(_ORDER), expected)
    assert_frame_equal(state.fetch(3).sort(_ORDER), expected.filter(k=3))
    middle = expected["window_start"][len(expected) // 2]
    assert_frame_equal(
        state.fetch(start=middle).sort(_ORDER), expected.filter(pl.col("window_end") > middle)
    )
    assert state.counts == query.progress.counts
    assert state.watermark == query.progress.watermark
    assert state.batch == query.progress.batch
    assert state.windows(3)["messages"].sum() == expected.filter(k=3)["n"].sum()
    lines = explain_state(state.checkpoint, ["3"], None)
    window_lines = [line for line in lines if line.startswith("window ")]
    assert len(window_lines) == min(12, len(state.windows(3)))
    assert not any(line.startswith("a message at") for line in lines)
    assert "tumbling 100 milliseconds" in repr(state)


def test_requests_for_absent_state_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, tmp_path = tmp_path, tmp_path / "views"
    assert _build_query().start(checkpoint=tmp_path).await_end(60)
    with pytest.raises(OptionError, match=r"folder for each of its queries; give one of .*views"):
        mt.open_state(folder)
    with pytest.raises(OptionError, match="operator=1 isn't one of the 1 operators"):
        mt.open_state(tmp_path, operator=1)
    with pytest.raises(OptionError, match="batch=7 isn't kept"):
        mt.open_state(tmp_path, batch=7)
    with pytest.raises(OptionError, match="isn't a k"):
        mt.open_state(tmp_path).fetch(3)
    monkeypatch.setattr("muntin.hosts.local.state.find_spec", lambda _: None)
    with pytest.raises(OptionError, match="doesn't exist"):
        mt.open_state(tmp_path / "nowhere")


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("windows", ["tumbling", "hopping", "session"])
def test_closed_windows_of_a_finished_input_are_retained(
    windows: str, shards: int, tmp_path: Path
) -> None:
    messages = mt.windowed(_make_messages(), key="k", time="at", shards=2)
    sized_windows = {
        "tumbling": lambda: messages.tumbling("20 seconds"),
        "hopping": lambda: messages.hopping("20 seconds", "10 seconds"),
        "session": lambda: messages.session("5 seconds"),
    }[windows]()
    query = sized_windows.keep("1 day").agg(n=mt.count(), s=mt.sum("v")).start(checkpoint=tmp_path)
    assert query.await_end(60)
    expected = query.frame().drop("emission", "revision").sort(_ORDER)
    rescale_folder(str(tmp_path), shards)
    state = mt.open_state(tmp_path)
    assert_frame_equal(state.fetch().sort(_ORDER), expected)
    state_windows = state.windows("a")
    assert state_windows["messages"].to_list() == expected.filter(k="a")["n"].to_list()
    assert set(state_windows["fired"].drop_nulls()) <= {1}
    assert set(state_windows["stage"]) == {"closed"}
    lines = explain_state(state.checkpoint, ["a"], None)
    assert "input      has ended: every window has emitted its final result" in lines


def test_a_finished_input_without_retention_leaves_no_state(tmp_path: Path) -> None:
    assert _build_query().start(checkpoint=tmp_path).await_end(60)
    state = mt.open_state(tmp_path)
    assert state.fetch().is_empty()
    assert state.checkpoint.measure_blobs() == {0: {}}


def test_messages_of_a_join_are_read(tmp_path: Path) -> None:
    assert _build_join().start(checkpoint=tmp_path, available_now=True).await_end(60)
    state = mt.open_state(tmp_path)
    assert state.fetch("left").select("value", "waits").rows() == [(0, False)]
    assert len(state.fetch("right", 0)) == 1
    assert len(state.fetch("right", 1)) == 0
    rescale_folder(str(tmp_path), 3)
    assert len(mt.open_state(tmp_path).fetch("left", 0)) == 1
    with pytest.raises(OptionError, match="side='middle' isn't a side"):
        state.fetch("middle")


@pytest.mark.parametrize("shards", [1, 3])
def test_a_query_continues_with_other_shards(shards: int, tmp_path: Path) -> None:
    feed = mt.windowed(mt.ticks(2000), key=(pl.col("value") % 7).alias("k"), time="timestamp")

    def make_query(shards: int | None) -> LocalDefinition:
        windows = replace(feed, _shards=shards)
        return (
            windows.tumbling("1 second")
            .early(each=True)
            .agg(n=mt.count(), first=mt.min("value"), last=mt.max("value"))
        )

    sink = mt.to_memory()
    for count in (2, shards, None):
        query = make_query(count).start(checkpoint=tmp_path, results=sink, available_now=True)
        assert query.await_end(60)
    assert query.progress.adds_up()
    newest = sink.frame()
    # Each tick is counted in exactly one window.
    assert newest["n"].sum() == query.progress.counts["counted"]
    assert newest["n"].sum() == newest["last"].max() + 1


@pytest.mark.parametrize("shards", [1, 4])
def test_a_running_query_is_rescaled(shards: int, tmp_path: Path) -> None:
    ticks = mt.windowed(mt.ticks(2000), key=(pl.col("value") % 7).alias("k"), time="timestamp")
    windows = ticks.tumbling("100 milliseconds").early(each=True).keep("1 day")
    query = windows.agg(n=mt.count(), last=mt.max("value")).start(checkpoint=tmp_path)
    for count in (2, shards):
        old_batch = query.progress.batch
        query.rescale(count)
        _wait_until(lambda old_batch=old_batch: query.progress.batch > old_batch + 1)
    assert query.is_active
    assert not query.await_end(0)
    query.stop()
    newest = query.frame().drop("emission", "revision").sort(_ORDER)
    state = mt.open_state(tmp_path)
    assert state.spec.shards == shards
    assert_frame_equal(state.fetch().sort(_ORDER), newest)
    # Each tick is in one window, and metrics of removed shards are not counted.
    assert newest["n"].sum() == newest["last"].max() + 1 == query.progress.seen
    assert query.progress.adds_up()
    with pytest.raises(OptionError, match="is of a query that has ended"):
        query.rescale(2)


def test_a_join_is_rescaled_while_it_runs(tmp_path: Path) -> None:
    sides = [mt.windowed(mt.ticks(1000), time="timestamp") for _ in range(2)]
    sink = mt.to_memory()
    query = mt.join(*sides, on="value", within="10 seconds").start(
        checkpoint=tmp_path, results=sink
    )
    for count in (3, 2):
        old_batch = query.progress.batch
        query.rescale(count)
        _wait_until(lambda old_batch=old_batch: query.progress.batch > old_batch + 1)
    query.stop()
    pairs = sink.frame()["value"].sort()
    assert pairs.to_list() == list(range(len(pairs)))
    assert len(pairs) > 0


def test_shards_that_a_query_sets_itself_are_not_changed(tmp_path: Path) -> None:
    ticks = mt.ticks(1)
    with_shards = (
        mt.windowed(ticks, time="timestamp", shards=2).tumbling("1 second").agg(n=mt.count())
    )
    without_shards = mt.windowed(ticks, time="timestamp").tumbling("1 second").agg(n=mt.count())
    for definition, folder, problem in (
        (with_shards, tmp_path, "can't be changed on a running query"),
        (without_shards, None, "needs a checkpoint"),
    ):
        query = definition.start(checkpoint=folder)
        with pytest.raises(OptionError, match=problem):
            query.rescale(4)
        assert query.is_active
        query.stop()
    query = without_shards.start(checkpoint=tmp_path / "free")
    with pytest.raises(OptionError, match="shards=0 is less than one"):
        query.rescale(0)
    query.stop()


@pytest.mark.parametrize("shards", [1, 4])
def test_a_folder_is_rescaled(shards: int, tmp_path: Path) -> None:
    _, expected = _run_feed(tmp_path)
    rescale_folder(str(tmp_path), shards)
    state = mt.open_state(tmp_path)
    assert state.spec.shards == shards
    assert_frame_equal(state.fetch().sort(_ORDER), expected)
    assert_frame_equal(state.fetch(5).sort(_ORDER), expected.filter(k=5))
    with pytest.raises(OptionError, match="is less than one"):
        rescale_folder(str(tmp_path), 0)


def test_the_state_of_a_running_query_is_not_rescaled(tmp_path: Path) -> None:
    feed = mt.windowed(mt.ticks(1), time="timestamp").tumbling("1 second").agg(n=mt.count())
    query = feed.start(checkpoint=tmp_path)
    with pytest.raises(OptionError, match="is in use by"):
        rescale_folder(str(tmp_path), 2)
    query.stop()
