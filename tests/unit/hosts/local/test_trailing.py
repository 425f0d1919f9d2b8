"""Tests of trailing windows on the local host: the newest row of each key and look-back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import muntin as mt
from muntin import OptionError
from muntin.hosts.inspect.why import explain_state
from muntin.hosts.local.rescale import rescale_folder
from muntin.testing import run

START = datetime(2026, 1, 1, 9, tzinfo=UTC)


def make_clicks(*messages: tuple[str, float, int]) -> pl.DataFrame:
    """Return messages: a user, the minutes since the start, and an amount."""
    rows = [(user, START + timedelta(minutes=minute), amount) for user, minute, amount in messages]
    schema = {"user": pl.String, "at": pl.Datetime("us", "UTC"), "amount": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


CLICKS = make_clicks(
    ("ann", 0, 1), ("ben", 20, 2), ("ann", 40, 4), ("ann", 75, 8), ("ben", 120, 16)
)


def make_query(frame: Any, **options: Any) -> Any:
    windows = mt.windowed(frame, key="user", time="at", **options)
    return windows.trailing("1 hour", "1 day", every="10 minutes").agg(
        n=mt.count(), spent=mt.sum("amount")
    )


def read_rows(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    minutes = (pl.col("window_end").dt.epoch("s") // 60 - int(START.timestamp()) // 60).alias("m")
    return frame.select("user", "look_back", minutes, "n", "spent").sort("user", "look_back").rows()


NEWEST = [
    ("ann", "1 day", 80, 3, 13),
    ("ann", "1 hour", 110, 1, 8),
    ("ben", "1 day", 130, 2, 18),
    ("ben", "1 hour", 130, 1, 16),
]


def test_a_frame_has_the_rows_of_all_instants() -> None:
    results = make_query(CLICKS).results
    assert results.columns[:4] == ["user", "look_back", "window_start", "window_end"]
    assert results["window_end"].is_sorted()
    retractions = (
        results.filter(emission="retract").select("user", "look_back", "n", "spent").rows()
    )
    assert retractions == [("ben", "1 hour", None, None)]


def test_a_sink_holds_one_row_of_each_key_and_look_back(tmp_path: Path) -> None:
    query = make_query(CLICKS).start(checkpoint=tmp_path / "memory")
    assert query.await_end(60)
    assert read_rows(query.frame()) == NEWEST
    path = tmp_path / "now.duckdb"
    query = make_query(CLICKS).start(
        results=mt.to_duckdb(path, "now"), checkpoint=tmp_path / "file"
    )
    assert query.await_end(60)
    with duckdb.connect(str(path)) as database:
        assert read_rows(database.sql("SELECT * FROM now").pl()) == NEWEST


@pytest.mark.parametrize("shards", [None, 3])
def test_batches_update_the_table(shards: int | None, tmp_path: Path) -> None:
    """A batch in which a key disappears and reappears leaves its newest row."""
    source, path = tmp_path / "in", tmp_path / "now.duckdb"
    source.mkdir()
    last = make_clicks(("ann", 150, 4), ("cy", 165, 1))
    batches = [CLICKS[:1], make_clicks(("ben", 60, 2)), make_clicks(("ann", 30, 3)), last]
    for number, batch in enumerate(batches):
        batch.write_parquet(source / f"{number}.parquet")
        sink = mt.to_duckdb(path, "now")
        query = make_query(mt.files(f"{source}/*.parquet")).start(
            results=sink, checkpoint=tmp_path / "checkpoint", available_now=True
        )
        assert query.await_end(60)
        if shards is not None:
            rescale_folder(str(tmp_path / "checkpoint"), shards)
    with duckdb.connect(str(path)) as database:
        rows = read_rows(database.sql("SELECT * FROM now").pl())
    assert rows == [
        ("ann", "1 day", 160, 3, 8),
        ("ann", "1 hour", 160, 1, 4),
        ("ben", "1 day", 70, 1, 2),
    ]

    state = mt.open_state(tmp_path / "checkpoint")
    snapshot = state.fetch()
    assert [row[:2] for row in read_rows(snapshot)] == [row[:2] for row in rows]
    assert set(snapshot["window_end"]) == {START + timedelta(minutes=160)}
    assert state.fetch("ann")["spent"].to_list() == [8, 4]
    assert state.windows("ann")["messages"].to_list() == [3, 1]
    assert state.fetch("ann", end=START).select("look_back").to_series().to_list() == ["1 day"]
    lines = explain_state(state.checkpoint, ["ann"], "2026-01-01 10:00")
    assert "           1 hour: holds 1 messages now" in lines
    assert lines[-1] == (
        "a message at 2026-01-01 10:00:00 counts from 2026-01-01 11:50:00 on: "
        "for 1 day until 2026-01-02 10:00:00"
    )
    lines = explain_state(state.checkpoint, ["ann"], "2025-12-31 11:40")
    assert lines[-1].startswith("a message at 2025-12-31 11:40:00 is rejected as late")


def test_messages_leave_windows_by_the_clock() -> None:
    definition = make_query(mt.files("none/*.parquet", columns=CLICKS.schema), idle="1 minute")
    ticks = [START, START + timedelta(minutes=2), START + timedelta(minutes=72)]
    outcome = run(definition, [CLICKS[:1]], ticks=ticks, final=False)
    rows = outcome.emissions.select("look_back", "n", "emission", "batch").rows()
    assert rows == [
        ("1 day", 1, "full", 2),
        ("1 hour", 1, "full", 2),
        ("1 hour", None, "retract", 2),
    ]


def test_windows_over_the_rows() -> None:
    with pytest.raises(OptionError, match=r"give \.full in place of \.results"):
        mt.windowed(make_query(CLICKS), key="user", time="window_end").tumbling("1 day")
    windows = mt.windowed(make_query(CLICKS).full, key="user", time="window_end").tumbling("1 day")
    rows = windows.agg(most=mt.max("spent")).results.sort("user").select("user", "most").rows()
    assert rows == [("ann", 13), ("ben", 18)]


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda w: w.top(3, by="amount"), "give one row for each key"),
        (lambda w: w.sets("cube").agg(n=mt.count()), "are others for each set of keys"),
        (lambda w: w.agg(n=mt.count()).top(1, by="n"), "emit only the keys that change"),
    ],
)
def test_invalid_trailing_queries_are_refused(build: Callable[[Any], Any], problem: str) -> None:
    windows = mt.windowed(CLICKS, key="user", time="at").trailing("1 hour", every="1 minute")
    with pytest.raises(OptionError, match=problem):
        build(windows)


def test_trailing_queries_are_explained() -> None:
    text = make_query(CLICKS).explain(rate=100, keys=10)
    assert "windows   trailing 1 hour, 1 day every 10 minutes, by user on at" in text
    assert "|  the last hour" in text
    assert "late      counted from the next multiple on, and rejected if older than 1 day" in text
    assert "careful" not in text
