"""Tests of a batch's metrics in a local query: times, shards, heaviest keys and lag."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.series import read_series

import muntin as mt
from muntin.dataframe.state import read_checkpoint, report_checkpoint
from muntin.engine.function_times import name_function
from muntin.hosts.inspect.observed import observe
from muntin.model.patience import AwayError, Patience
from muntin.sources.source import Planned, Source, SourceReader

ROWS = pl.DataFrame(
    {"page": ["home"] * 3000 + ["help"] * 1500, "at": ["2026-01-01 09:00:00"] * 4500}
).with_columns(pl.col("at").str.to_datetime())


class Partitions(Source, SourceReader):
    """A source that reports the number of unread messages of each partition."""

    schema = ROWS.schema
    ordered = True

    def open(self) -> Partitions:
        return self

    def plan(self, start: Any, limit: int | None) -> Planned:
        return Planned({"row": 1}, has_new=start is None, finished=True)

    def read(self, start: Any, end: Any) -> Iterator[pl.DataFrame]:
        yield ROWS

    def lag(self, end: Any) -> dict[str, int]:
        return {"orders[0]": 40, "orders[1]": 2}


@pytest.fixture
def query() -> Any:
    windows = mt.windowed(Partitions(), key="page", time="at", shards=2).tumbling("1 minute")
    query = windows.agg(n=mt.count()).start(checkpoint=None, rejected=mt.to_memory())
    query.await_end(60)
    return query


def test_the_figures_of_a_batch(query: Any) -> None:
    progress = query.progress
    assert progress.lag == {"orders[0]": 40, "orders[1]": 2}
    assert progress.heaviest_keys == {"home": 3000, "help": 1500}
    assert sum(shard["messages"] for shard in progress.shards.values()) == 4500
    assert all(shard["bytes"] > 0 for shard in progress.shards.values())
    assert [*progress.seconds] == [
        "plan",
        "read",
        "step",
        "sink results",
        "sink rejected",
        "commit",
    ]
    assert query.time_phases() == {name: 1000 * s for name, s in progress.seconds.items()}
    assert query.time_batches().seconds.keys() == progress.seconds.keys()
    assert ("heaviest keys", "home 3,000, help 1,500") in progress.lines()
    # Checkpoints don't store these metrics of the last batch.
    assert not {"shards", "heaviest_keys", "seconds"} & progress.to_dict().keys()


def test_the_metrics_of_a_batch(query: Any) -> None:
    metrics = read_series(query)
    assert metrics["muntin_lag", "orders[0]"] == 40
    assert metrics["muntin_heaviest_key_messages", "1"] == 3000
    assert metrics["muntin_shard_messages", "0"] + metrics["muntin_shard_messages", "1"] == 4500
    assert metrics["muntin_shard_bytes", "0"] > 0
    assert metrics["muntin_shard_rows", "0"] == 0
    sizes = [metrics["muntin_shard_state_bytes", shard] for shard in ("0", "1")]
    assert sizes == [shard["state_bytes"] for shard in query.progress.shards.values()]


TICKS = pl.DataFrame(
    {
        "p": [0, 1, 2] * 300, "n": range(900), "tz": ["UTC", "Asia/Tokyo", "Europe/Rome"] * 300,
        "at": [datetime(2026, 1, 1) + timedelta(minutes=number) for number in range(900)],
    }
)  # fmt: skip


def make_window_query(rows: Any) -> Any:
    return mt.windowed(rows, key="p", time="at", shards=3).tumbling("1 day").agg(n=mt.count())


def make_row_query(rows: Any) -> Any:
    windows = mt.windowed(rows, offset=("p", "n"), shards=2).tumbling(mt.rows(100))
    return windows.keep(mt.rows(500)).agg(n=mt.count())


def make_zone_query(rows: Any) -> Any:
    windows = mt.windowed(rows, key="p", time="at", shards=2)
    return windows.tumbling("1 day", zone_column="tz").agg(n=mt.count())


def make_join_query(rows: Any) -> Any:
    side = mt.windowed(rows, time="at")
    return mt.join(side, side, on="p", within="1 minute", shards=2)


@pytest.mark.parametrize(
    "make_query", [make_window_query, make_row_query, make_zone_query, make_join_query]
)
def test_the_bytes_of_shards_are_those_in_the_checkpoint(make_query: Any, tmp_path: Path) -> None:
    folder, messages = tmp_path / "checkpoint", tmp_path / "messages"
    messages.mkdir()
    for number in range(3):
        TICKS.slice(300 * number, 300).write_parquet(messages / f"{number}.parquet")
        rows = mt.files(messages / "*.parquet", files_per_batch=1)
        query = make_query(rows).start(checkpoint=folder)
        query.await_idle(60)
        progress = query.progress
        query.stop()
        shards = report_checkpoint(read_checkpoint(folder))["shards"]
        shard_bytes = {shard["shard"]: shard["bytes"] for shard in shards}
        assert {n: shard["state_bytes"] for n, shard in progress.shards.items()} == shard_bytes
        assert progress.state_bytes == sum(shard_bytes.values()) > 0
        assert ("bytes in the state", f"{progress.state_bytes:,}") in progress.lines()


def test_a_server_that_is_away_degrades_a_query(
    query: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(query), "is_active", True)
    degraded = ("muntin_degraded", "server_away")
    assert query.progress.degradation is None
    assert read_series(query)[degraded] == 0
    waiting = Patience("Kafka at h:9092", 60)
    waiting.note_failure(AwayError("refused"))
    assert query.progress.waiting_for == {"Kafka at h:9092": 1}
    pattern = r"waiting for Kafka at h:9092 \(since \d\d:\d\d:\d\d[+-]\d{4}, 1 retry\)"
    assert re.fullmatch(pattern, query.progress.degradation)
    assert "degraded='waiting for Kafka" in repr(query.progress)
    metrics = read_series(query)
    assert metrics[degraded] == metrics["muntin_waiting_retries", "Kafka at h:9092"] == 1
    waiting.note_answer()
    assert query.progress.degradation is None
    assert ("muntin_waiting_retries", "Kafka at h:9092") not in read_series(query)


def deliver(rows: Any, batch: int) -> None:
    time.sleep(0.05)


def add_slowly(total: float, value: float) -> float:
    time.sleep(0.01)
    return total + value


def test_the_time_in_users_functions_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    slow_sum = mt.aggregate(
        "v", initializer=lambda: 0.0, aggregator=add_slowly, merger=lambda a, b: a + b,
        state_type="double",
    )  # fmt: skip
    rows = ROWS.head(2).with_columns(v=pl.Series([1.0, 2.0]))
    windows = mt.windowed(rows, key="page", time="at").tumbling("1 minute").agg(total=slow_sum)
    batches: list[Any] = []
    query = windows.start(checkpoint=None, results=deliver)
    observe(query, batches.append)
    query.await_end(60)
    functions = query.progress.functions
    # A lower bound is exact: a function that sleeps can't take less.
    assert functions["deliver"] >= 0.05
    assert functions["add_slowly"] >= 0.02
    assert query.progress.seconds["sink results"] >= functions["deliver"]
    lines = dict(query.progress.lines())
    assert lines["time in deliver"] == f"{functions['deliver']:.3f} s"
    assert read_series(query)["muntin_function_seconds", "add_slowly"] == functions["add_slowly"]
    assert "functions" not in query.progress.to_dict()
    while not batches:
        time.sleep(0.01)
    assert batches[-1].load["functions"]["deliver"] == round(1000 * functions["deliver"])


def test_functions_are_named_as_in_their_source() -> None:
    assert name_function(partial(deliver, batch=1)) == "deliver"
    assert name_function(Partitions().open) == "Partitions.open"
    assert name_function(lambda rows: rows).startswith("<lambda> of line ")
