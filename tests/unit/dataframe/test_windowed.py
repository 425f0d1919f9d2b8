"""Tests of `windowed` and `join` over frames without Spark, with results of the same kind."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from inspect import signature
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import muntin as mt
from muntin import OptionError
from muntin.dataframe.join import JoinOptions
from muntin.dataframe.windowed import WindowedOptions

_START = datetime(2026, 1, 1, tzinfo=UTC)


def _make_clicks(*rows: tuple[str, float, int]) -> pl.DataFrame:
    keys, times, values = zip(*rows, strict=True)
    at = [_START + timedelta(seconds=second) for second in times]
    return pl.DataFrame({"k": keys, "at": at, "v": values})


CLICKS = _make_clicks(("a", 1, 1), ("b", 2, 2), ("a", 3, 3), ("a", 70, 4))


def test_windows_of_a_polars_frame() -> None:
    counted = mt.windowed(CLICKS, key="k", time="at").tumbling("1 minute")
    results = counted.agg(n=mt.count(), s=mt.sum("v")).results
    assert results.select("k", "n", "s", "emission", "revision").rows() == [
        ("a", 2, 4, "full", 0),
        ("b", 1, 2, "full", 0),
        ("a", 1, 4, "full", 0),
    ]
    assert results["window_start"][2] == _START + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (CLICKS.lazy(), pl.DataFrame),
        (CLICKS.to_pandas(), pd.DataFrame),
        (CLICKS.to_arrow(), pa.Table),
    ],
)
def test_frames_come_back_as_they_were_given(frame: object, kind: type) -> None:
    windows = mt.windowed(frame, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
    assert isinstance(windows.results, kind)
    assert isinstance(windows.rejected, kind)
    assert len(windows.results) == 3


def test_keys_times_and_aggregates_are_names_expressions_or_sql() -> None:
    nested = CLICKS.select(pl.struct("k", "at").alias("event"), "v")
    windows = mt.windowed(
        nested,
        key=["event.k", (pl.col("v") % 2).alias("odd")],
        time="event.at",
        where="V < 4 AND V IS NOT NULL",
    ).tumbling("1 minute")
    counted = windows.agg(s=mt.sum(pl.col("v") * 10), m=mt.max("v + 1"))
    assert counted.results.select("k", "odd", "s", "m").rows() == [
        ("a", 1, 40, 4),
        ("b", 0, 20, 3),
    ]


def test_rejected_messages_come_back_as_they_came() -> None:
    frame = pl.DataFrame(
        {
            "k": ["a", None, "a", "a"],
            "at": ["2026-01-01T00:00:01Z", "2026-01-01 00:00:02", None, "soon"],
        }
    )
    counted = mt.windowed(frame, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
    assert counted.rejected.select("k", "at", "reason").rows() == [
        ("a", "soon", "malformed"),
        ("a", None, "null_time"),
        (None, "2026-01-01 00:00:02", "null_key"),
    ]


def test_text_that_is_not_utf8_is_malformed_where_something_is_computed_of_it() -> None:
    keys = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
    frame = pa.table({"k": keys, "at": [_START, _START]})
    counted = mt.windowed(frame, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
    assert counted.rejected["reason"].to_pylist() == ["malformed"]
    assert counted.results["k"].to_pylist() == ["a"]


def test_windows_over_windows() -> None:
    minutes = mt.windowed(CLICKS, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
    hours = mt.windowed(minutes, time="window_time").tumbling("1 hour").agg(n=mt.sum("n"))
    assert hours.results["n"].to_list() == [4]
    assert mt.windowed(minutes.full, key="k", time="window_time").tumbling("1 hour").agg(
        n=mt.sum("n")
    ).results.select("k", "n").rows() == [("a", 3), ("b", 1)]


def test_the_first_rows_of_windows() -> None:
    windows = mt.windowed(CLICKS, key="k", time="at").tumbling("1 minute")
    dearest = windows.top(1, by="v").results
    assert dearest.columns == [
        "k", "window_start", "window_end", "at", "v", "rank", "emission", "revision",
    ]  # fmt: skip
    assert dearest["v"].to_list() == [3, 2, 4]
    busiest = windows.agg(n=mt.count()).top(1, by="n").results
    assert busiest.select("k", "n", "rank").rows() == [("a", 2, 1), ("a", 1, 1)]


@pytest.mark.parametrize(("ascending", "value"), [(False, 2), (True, 3)])
def test_messages_of_equal_times_are_ranked_by_arrival(ascending: bool, value: int) -> None:
    frame = pl.DataFrame({"v": [3, 1, 2], "partition": [0] * 3, "offset": [0, 1, 2]})
    frame = frame.with_columns(at=pl.lit(datetime(2026, 1, 1)))
    messages = mt.windowed(frame, time="at", offset=("partition", "offset"))
    first = messages.tumbling("1 minute").top(1, by="at", ascending=ascending).results
    assert first["v"].to_list() == [value]


def test_a_join_and_windows_over_it() -> None:
    left = mt.windowed(CLICKS, time="at")
    right = mt.windowed(CLICKS.rename({"v": "w"}), time="at")
    pairs = mt.join(left, right, on="k", within="2 seconds")
    assert sorted(pairs.results.select("k", "v", "w").rows()) == [
        ("a", 1, 1), ("a", 1, 3), ("a", 3, 1), ("a", 3, 3), ("a", 4, 4), ("b", 2, 2),
    ]  # fmt: skip
    counted = mt.windowed(pairs, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
    assert counted.results.select("k", "n").rows() == [("a", 4), ("b", 1), ("a", 1)]


def test_times_without_a_zone_stay_so() -> None:
    bare = CLICKS.with_columns(pl.col("at").dt.replace_time_zone(None))
    counted = mt.windowed(bare, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
    assert counted.results.schema["window_start"] == pl.Datetime("us")
    days = CLICKS.with_columns(pl.col("at").dt.date())
    counted = mt.windowed(days, key="k", time="at").tumbling("1 day").agg(n=mt.count())
    assert counted.results["window_start"].to_list() == [datetime(2026, 1, 1)] * 2


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"key": "x"}, "key='x' isn't a column"),
        ({"time": "v"}, "time='v' has type Int64, not a timestamp"),
        ({"where": "rand() > 0.5"}, "which SQL text can't have here"),
        ({"where": "v"}, "has type Int64, and a condition is true or false"),
        ({"where": pl.col("x") > 1}, "can't be computed"),
        ({"offset": ("k", "at")}, "offset='at' has type"),
        ({"clock": "k"}, None),
        ({"shards": 0}, "shards=0 is less than one"),
        ({"host": "flink"}, "host='flink' isn't a host"),
        ({"host": "spark"}, "host='spark' can't read a DataFrame"),
    ],
)
def test_what_can_not_work_is_refused(options: dict[str, object], problem: str | None) -> None:
    arguments = {"key": "k", "time": "at", **options}
    if problem is None:
        mt.windowed(CLICKS, **arguments).tumbling("1 minute").agg(n=mt.count())
        return
    with pytest.raises(OptionError, match=problem.replace("(", r"\(").replace(")", r"\)")):
        mt.windowed(CLICKS, **arguments).tumbling("1 minute").agg(n=mt.count())


@pytest.mark.parametrize("name", ["*", "^v.*$"])
def test_a_name_that_polars_reads_as_several_is_refused(name: str) -> None:
    renamed = CLICKS.rename({"v": name})
    windows = mt.windowed(CLICKS, key="k", time="at").tumbling("1 minute")
    with pytest.raises(OptionError, match=r"column=.* is read as a pattern of names; rename it"):
        mt.windowed(renamed, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
    with pytest.raises(OptionError, match=r"agg=.* is read as a pattern of names; rename it"):
        windows.agg(**{name: mt.count()})
    sides = mt.windowed(CLICKS, time="at"), mt.windowed(renamed, time="at")
    with pytest.raises(OptionError, match=r"right=.* is read as a pattern of names; rename it"):
        mt.join(*sides, on="k", within="1 s")


def test_other_inputs_are_refused() -> None:
    with pytest.raises(OptionError, match="isn't a frame or a source"):
        mt.windowed([1, 2], time="at")
    early = mt.windowed(mt.ticks(1), time="timestamp").tumbling("1 s").early(each=True)
    with pytest.raises(OptionError, match="emit a window again when it changes"):
        mt.windowed(early.agg(n=mt.count()), time="window_time")
    with pytest.raises(OptionError, match=r"may go on.*query\.frame\(\)"):
        _ = early.agg(n=mt.count()).results
    with pytest.raises(OptionError, match=r"write muntin\.files\('clicks\.csv'\)"):
        mt.windowed("clicks.csv", time="at")  # type: ignore[call-overload]
    side = mt.windowed(CLICKS, time="at")
    with pytest.raises(OptionError, match=r'how=.outer. isn.t known; write "full"'):
        mt.join(side, side, on="k", within="1 s", how="outer")  # type: ignore[call-overload]
    with pytest.raises(OptionError, match=r"size=10 isn.t a length; write .*muntin\.rows\(10\)"):
        side.rolling(10)  # type: ignore[arg-type]


def test_named_levels_of_a_pandas_index_are_columns() -> None:
    indexed = CLICKS.to_pandas().set_index(["at", "k"])
    counted = mt.windowed(indexed, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
    assert counted.results["n"].sum() == len(CLICKS)


def test_a_frame_whose_messages_are_all_rejected_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    texts = pl.DataFrame({"at": ["01/02/2026", "02/02/2026"]})
    assert mt.windowed(texts, time="at").tumbling("1 day").agg(n=mt.count()).results.is_empty()
    assert "no message is in a window: 2 as malformed; .rejected has" in caplog.text
    assert "One has at='01/02/2026'; parse times that aren't ISO texts" in caplog.text


def test_nothing_imports_spark() -> None:
    code = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ImportError(f"{name} is imported")

sys.meta_path.insert(0, Blocker())
import polars as pl
import muntin as mt
frame = pl.DataFrame({"k": ["a"], "at": ["2026-01-01T00:00:00Z"]})
windows = mt.windowed(frame, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
assert windows.results["n"].to_list() == [1]
assert "runs      in this process" in windows.explain()
query = windows.start(checkpoint=None)
assert query.await_end(60)
assert query.frame()["n"].to_list() == [1]
side = mt.windowed(frame, time="at")
assert len(mt.join(side, side, on="k", within="1 s").results) == 1
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_a_side_of_a_join_has_no_shards_of_its_own() -> None:
    sides = (mt.windowed(CLICKS, time="at", shards=count) for count in (None, 4))
    with pytest.raises(OptionError, match="shards=4 can't be set for one side; give it to join"):
        mt.join(*sides, on="k", within="1 minute")


@pytest.mark.parametrize(
    ("entrance", "inputs", "options"),
    [
        (mt.windowed, {"frame"}, WindowedOptions),
        (mt.join, {"left", "right"}, JoinOptions),
    ],
)
def test_type_checkers_know_every_option(entrance: Any, inputs: set[str], options: Any) -> None:
    assert {*options.__annotations__} == {*signature(entrance).parameters} - inputs
