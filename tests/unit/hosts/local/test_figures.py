"""Tests of metrics for Prometheus and of the live page of a local query."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.series import read_series

import muntin as mt
from muntin.cli.page import add_query
from muntin.hosts.local.query import LocalQuery
from muntin.serve import Feed

_START = datetime(2026, 1, 1, tzinfo=UTC)


def _write(folder: Path, name: str, *seconds: int | None) -> None:
    at = [None if n is None else _START + timedelta(seconds=n) for n in seconds]
    rows = pl.DataFrame({"k": ["ab"[(n or 0) % 2] for n in seconds], "at": at}, strict=False)
    rows.cast({"at": pl.Datetime("us", "UTC")}).write_parquet(folder / f"{name}.parquet")


def _start(folder: Path) -> LocalQuery:
    windows = mt.windowed(mt.files(f"{folder}/source/*.parquet"), key="k", time="at")
    counts = windows.tumbling("10 seconds").keep("1 day").agg(n=mt.count())
    return counts.start(checkpoint=folder / "checkpoint", name="views")


@pytest.fixture
def query(tmp_path: Path) -> Iterator[LocalQuery]:
    source = tmp_path / "source"
    source.mkdir()
    _write(source, "1", 1, 2, 3, 15, None)
    running = _start(tmp_path)
    yield running
    running.stop()


def _read_figures(url: str) -> dict[tuple[str, ...], float]:
    with urllib.request.urlopen(url, timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {
        (sample.name, *(sample.labels[name] for name in sorted({*sample.labels} - {"query"}))): (
            sample.value
        )
        for family in families
        for sample in family.samples
        if sample.labels["query"] == "views"
    }


def test_figures_are_served(query: LocalQuery) -> None:
    server = mt.metrics(query, port=0)
    try:
        assert query.await_idle(60)
        figures = _read_figures(server.url)
    finally:
        server.close()
    assert figures["muntin_messages_total", "seen"] == 5
    assert figures["muntin_messages_total", "counted"] == 4
    assert figures["muntin_rejected_total", "null_time"] == 1
    assert figures["muntin_fired_total", "full"] == 2
    assert figures["muntin_watermark_seconds",] == (_START + timedelta(seconds=15)).timestamp()
    assert figures["muntin_running",] == figures["muntin_adds_up",] == 1
    assert figures["muntin_state_rows",] == query.progress.state_rows > 0


def test_figures_continue_from_the_checkpoint(query: LocalQuery, tmp_path: Path) -> None:
    assert query.await_idle(60)
    query.stop()
    old_series = read_series(query)
    resumed = _start(tmp_path)
    try:
        new_series = read_series(resumed)
    finally:
        resumed.stop()
    for name in ("muntin_messages_total", "muntin_rejected_total", "muntin_batch"):
        figures_by_run = [
            {k: v for k, v in series.items() if k[0] == name} for series in (old_series, new_series)
        ]
        assert figures_by_run[0] == figures_by_run[1] != {}
    assert not any(name == "muntin_fired_total" for name, *_ in new_series)


def test_the_page_shows_batches_and_state(query: LocalQuery, tmp_path: Path) -> None:
    feed, shown = Feed(), threading.Event()
    add_query(feed, query)
    assert query.await_idle(60)
    query.watchers.append(lambda *_: shown.set())
    _write(tmp_path / "source", "2", 30)
    assert shown.wait(60)
    query.stop()
    (page,) = json.loads(json.dumps(feed.snapshot()))["queries"]
    assert page["keys"] == ["k"]
    assert page["rejected"] == {"null_time": 1}
    last: Any = page["batches"][-1]
    assert last["numbers"]["seen"] == 6
    assert last["numbers"]["watermark"] == (_START + timedelta(seconds=30)).timestamp() * 1000
    emitted = [(row["k"], row["n"]) for row in page["windows"] if row["emission"] == "full"]
    assert ("b", 1) in emitted
    report = feed.look("views", ["b"])
    assert [row["messages"] for row in report["key"]] == [2, 1]
