"""Tests of a row for each message on the local host, against Polars' and pandas' rolling."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import polars as pl
import pytest

import muntin as mt
from muntin.model.errors import OptionError
from muntin.testing import run

START = datetime(2026, 1, 1)
# Gaps of 0 to 20 seconds, so that messages share times and lie just a size apart.
GAPS = [0, 3, 5, 0, 7, 20, 5, 10, 0, 0, 13, 1, 4, 5, 5, 30, 2, 8]
CLICKS = pl.DataFrame(
    {
        "user": ["a", "a", "b"] * 6,
        "at": [START + timedelta(seconds=sum(GAPS[: n + 1])) for n in range(18)],
        "v": [float(n * 7 % 11) for n in range(18)],
    }
)
POLARS: dict[str, Any] = {"right": "right", "both": "both", "left": "left", "neither": "none"}
AGGREGATES = {
    "n": mt.count(),
    "total": mt.sum("v"),
    "mean": mt.mean("v"),
    "least": mt.min("v"),
    "near": mt.max("v").over("5 seconds"),
}


def roll(closed: Any) -> pl.DataFrame:
    windows = mt.windowed(CLICKS, key="user", time="at").rolling("10 seconds", closed=closed)
    return windows.agg(**AGGREGATES).results.sort("user", "at", "v")


@pytest.mark.parametrize("closed", POLARS)
def test_polars_rolling(closed: str) -> None:
    options: dict[str, Any] = {"group_by": "user", "closed": POLARS[closed]}
    over_10_s = CLICKS.rolling("at", period="10s", **options).agg(
        pl.len().cast(pl.Int64).alias("n"),
        # Polars' sum of no rows is 0, SQL's is NULL.
        pl.when(pl.len() > 0).then(pl.sum("v")).alias("total"),
        pl.mean("v").alias("mean"),
        pl.min("v").alias("least"),
    )
    over_5_s = CLICKS.rolling("at", period="5s", **options).agg(pl.max("v").alias("near"))
    expected = pl.concat([over_10_s, over_5_s.select("near")], how="horizontal").sort("user", "at")
    actual = roll(closed).select(expected.columns)
    assert actual.drop("mean").rows() == expected.drop("mean").rows()
    assert actual["mean"].to_list() == pytest.approx(expected["mean"].to_list())


@pytest.mark.parametrize("closed", POLARS)
def test_pandas_rolling(closed: str) -> None:
    # pandas counts only earlier rows among those of one time, so each row has a time of its own.
    distinct_clicks = CLICKS.unique(["user", "at"], maintain_order=True, keep="first")
    windows = mt.windowed(distinct_clicks, key="user", time="at").rolling(
        "10 seconds", closed=closed
    )  # type: ignore[arg-type]
    actual = windows.agg(total=mt.sum("v"), most=mt.max("v")).results.sort("user", "at")
    frame = distinct_clicks.to_pandas().set_index("at").groupby("user")["v"]
    rolling = frame.rolling("10s", closed=closed)
    expected = pd.DataFrame({"total": rolling.sum(), "most": rolling.max()}).sort_index()
    for name in ("total", "most"):
        values = [None if pd.isna(value) else value for value in expected[name]]
        assert actual[name].to_list() == values


@pytest.mark.parametrize("rows", [1, 3])
def test_polars_rolling_by_rows(rows: int) -> None:
    windows = mt.windowed(CLICKS, key="user").rolling(mt.rows(rows))
    actual = windows.agg(total=mt.sum("v"), own=mt.last("v")).results
    total = pl.col("v").rolling_sum(rows, min_samples=1).over("user")
    expected = CLICKS.with_columns(total.alias("total"))
    assert sorted(actual.select("user", "at", "v", "total").rows()) == sorted(expected.rows())
    assert actual["own"].to_list() == actual["v"].to_list()


def test_rows_have_all_columns_of_their_messages() -> None:
    messages = pl.DataFrame({"k": ["a", "a"], "at": [START, START], "v": [1, 2]})
    query = mt.windowed(messages, key="k", time="at").rolling("5 minutes").agg(n=mt.count())
    assert query.results.rows(named=True) == [
        {
            "k": "a",
            "window_start": START - timedelta(minutes=5),
            "window_end": START,
            "at": START,
            "v": number,
            "n": 2,
            "emission": "full",
            "revision": 0,
            "row_number": number,
        }
        for number in (1, 2)
    ]
    assert "for each message: n=count()" in query.explain()


def test_a_key_and_a_time_that_are_computed() -> None:
    messages = pl.DataFrame({"k": ["a", "A"], "at": ["2026-01-01 09:00:00", "2026-01-01 09:00:30"]})
    key = pl.col("k").str.to_uppercase().alias("letter")
    query = mt.windowed(messages, key=key, time="at").rolling("1 minute").agg(n=mt.count())
    rows = query.results.sort("at")
    assert rows.select("letter", "k", "n").rows() == [("A", "a", 1), ("A", "A", 2)]


def test_messages_without_columns_of_their_own() -> None:
    messages = pl.DataFrame({"k": ["a", "b", "a"]})
    query = mt.windowed(messages, key="k").rolling(mt.rows(5)).agg(n=mt.count())
    assert sorted(query.results.select("k", "n").rows()) == [("a", 1), ("a", 2), ("b", 1)]


def test_rows_over_windows_and_windows_over_rows() -> None:
    sums = mt.windowed(CLICKS, key="user", time="at").tumbling("10 seconds")
    inner = sums.agg(total=mt.sum("v"))
    rolling = mt.windowed(inner, key="user", time="window_time").rolling("20 seconds")
    query = rolling.agg(lately=mt.sum("total"))
    assert "total" in query.results.columns
    hours = mt.windowed(query, key="user", time="window_end").tumbling("1 hour")
    results = hours.agg(n=mt.count(), most=mt.max("lately")).results
    assert results["n"].sum() == len(inner.results)
    assert results["most"].max() == query.results["lately"].max()


def test_a_stream_emits_a_row_once_and_again_for_late_messages() -> None:
    clicks = pl.DataFrame(schema={"k": pl.String, "at": pl.Datetime("us", "UTC"), "v": pl.Int64})
    query = mt.windowed(clicks, key="k", time="at").rolling("10 seconds")
    query = query.late(grace="1 minute", each=True).agg(total=mt.sum("v"))
    times = [f"2026-01-01T00:00:{second:02}Z" for second in (1, 5, 20)]
    batches = [
        [{"k": "a", "at": times[1], "v": 1}, {"k": "b", "at": times[2], "v": 0}],
        [{"k": "a", "at": times[0], "v": 2}],
    ]
    outcome = run(query, batches, final=False)
    rows = outcome.emissions.select("batch", "v", "total", "emission", "revision").rows()
    assert rows == [(0, 1, 1, "full", 0), (1, 2, 2, "late", 0), (1, 1, 3, "late", 1)]


@pytest.mark.parametrize(
    ("make_query", "problem"),
    [
        (lambda w: w.rolling("5 s").agg(v=mt.sum("v")), "agg='v' is a column of the messages"),
        (lambda w: w.rolling("5 s").sets("cube").agg(n=mt.count()), "a row for each message"),
        (lambda w: w.rolling("5 s").top(3, by="v"), "a row for each message"),
        (lambda w: w.rolling("5 s").deltas().agg(n=mt.count()), "a row for each message"),
        (lambda w: w.rolling("5 s", closed="none"), "closed='none'"),
        (lambda w: w.rolling("0 s"), "size="),
        (lambda w: w.rolling("5 s").fill("zero", up_to="1 h").agg(n=mt.count()), "fill="),
    ],
)
def test_invalid_rolling_queries_are_refused(make_query: Any, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        make_query(mt.windowed(CLICKS, key="user", time="at"))
