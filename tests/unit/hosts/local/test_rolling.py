"""A row for each message on the local host, held against Polars' and pandas' rolling."""

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


def rolled(closed: Any) -> pl.DataFrame:
    made = mt.windowed(CLICKS, key="user", time="at").rolling("10 seconds", closed=closed)
    return made.agg(**AGGREGATES).results.sort("user", "at", "v")


@pytest.mark.parametrize("closed", POLARS)
def test_polars_rolling(closed: str) -> None:
    by: dict[str, Any] = {"group_by": "user", "closed": POLARS[closed]}
    whole = CLICKS.rolling("at", period="10s", **by).agg(
        pl.len().cast(pl.Int64).alias("n"),
        # Polars' sum of nothing is 0, SQL's NULL.
        pl.when(pl.len() > 0).then(pl.sum("v")).alias("total"),
        pl.mean("v").alias("mean"),
        pl.min("v").alias("least"),
    )
    near = CLICKS.rolling("at", period="5s", **by).agg(pl.max("v").alias("near"))
    expected = pl.concat([whole, near.select("near")], how="horizontal").sort("user", "at")
    mine = rolled(closed).select(expected.columns)
    assert mine.drop("mean").rows() == expected.drop("mean").rows()
    assert mine["mean"].to_list() == pytest.approx(expected["mean"].to_list())


@pytest.mark.parametrize("closed", POLARS)
def test_pandas_rolling(closed: str) -> None:
    # Of messages of one time pandas counts those that stand before a row, so each has its own.
    alone = CLICKS.unique(["user", "at"], maintain_order=True, keep="first")
    made = mt.windowed(alone, key="user", time="at").rolling("10 seconds", closed=closed)  # type: ignore[arg-type]
    mine = made.agg(total=mt.sum("v"), most=mt.max("v")).results.sort("user", "at")
    frame = alone.to_pandas().set_index("at").groupby("user")["v"]
    rolling = frame.rolling("10s", closed=closed)
    expected = pd.DataFrame({"total": rolling.sum(), "most": rolling.max()}).sort_index()
    for name in ("total", "most"):
        found = [None if pd.isna(one) else one for one in expected[name]]
        assert mine[name].to_list() == found


@pytest.mark.parametrize("rows", [1, 3])
def test_polars_rolling_by_rows(rows: int) -> None:
    made = mt.windowed(CLICKS, key="user").rolling(mt.rows(rows))
    mine = made.agg(total=mt.sum("v"), own=mt.last("v")).results
    total = pl.col("v").rolling_sum(rows, min_samples=1).over("user")
    expected = CLICKS.with_columns(total.alias("total"))
    assert sorted(mine.select("user", "at", "v", "total").rows()) == sorted(expected.rows())
    assert mine["own"].to_list() == mine["v"].to_list()


def test_rows_have_all_columns_of_their_messages() -> None:
    two = pl.DataFrame({"k": ["a", "a"], "at": [START, START], "v": [1, 2]})
    made = mt.windowed(two, key="k", time="at").rolling("5 minutes").agg(n=mt.count())
    assert made.results.rows(named=True) == [
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
    assert "for each message: n=count()" in made.explain()


def test_a_key_and_a_time_that_are_computed() -> None:
    texts = pl.DataFrame({"k": ["a", "A"], "at": ["2026-01-01 09:00:00", "2026-01-01 09:00:30"]})
    key = pl.col("k").str.to_uppercase().alias("letter")
    made = mt.windowed(texts, key=key, time="at").rolling("1 minute").agg(n=mt.count())
    rows = made.results.sort("at")
    assert rows.select("letter", "k", "n").rows() == [("A", "a", 1), ("A", "A", 2)]


def test_messages_without_columns_of_their_own() -> None:
    keys = pl.DataFrame({"k": ["a", "b", "a"]})
    made = mt.windowed(keys, key="k").rolling(mt.rows(5)).agg(n=mt.count())
    assert sorted(made.results.select("k", "n").rows()) == [("a", 1), ("a", 2), ("b", 1)]


def test_rows_over_windows_and_windows_over_rows() -> None:
    sums = mt.windowed(CLICKS, key="user", time="at").tumbling("10 seconds")
    inner = sums.agg(total=mt.sum("v"))
    rolling = mt.windowed(inner, key="user", time="window_time").rolling("20 seconds")
    made = rolling.agg(lately=mt.sum("total"))
    assert "total" in made.results.columns
    again = mt.windowed(made, key="user", time="window_end").tumbling("1 hour")
    counted = again.agg(n=mt.count(), most=mt.max("lately")).results
    assert counted["n"].sum() == len(inner.results)
    assert counted["most"].max() == made.results["lately"].max()


def test_a_stream_emits_a_row_once_and_again_for_late_messages() -> None:
    clicks = pl.DataFrame(schema={"k": pl.String, "at": pl.Datetime("us", "UTC"), "v": pl.Int64})
    made = mt.windowed(clicks, key="k", time="at").rolling("10 seconds")
    made = made.late(grace="1 minute", each=True).agg(total=mt.sum("v"))
    message = [f"2026-01-01T00:00:{second:02}Z" for second in (1, 5, 20)]
    batches = [
        [{"k": "a", "at": message[1], "v": 1}, {"k": "b", "at": message[2], "v": 0}],
        [{"k": "a", "at": message[0], "v": 2}],
    ]
    ran = run(made, batches, final=False)
    rows = ran.emissions.select("batch", "v", "total", "emission", "revision").rows()
    assert rows == [(0, 1, 1, "full", 0), (1, 2, 2, "late", 0), (1, 1, 3, "late", 1)]


@pytest.mark.parametrize(
    ("make", "problem"),
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
def test_refused(make: Any, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        make(mt.windowed(CLICKS, key="user", time="at"))
