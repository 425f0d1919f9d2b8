"""Tests that on both hosts an operator sees which sink is blocked, since when, and until when."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.operations.test_first_lines import COLUMNS, put
from tests.services.postgres import Postgres, rows

import muntin as mt
from muntin.cli.page import add_query
from muntin.dataframe.state import explain_checkpoint, read_checkpoint, report_checkpoint
from muntin.hosts import leases
from muntin.model import patience
from muntin.serve.feed import Feed


def await_true(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return value


@pytest.mark.parametrize("host", ["local", "spark"])
def test_a_frozen_database_is_named_wherever_an_operator_looks(
    host: str,
    request: pytest.FixtureRequest,
    postgres: Postgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(patience, "_POLL_SECONDS", 0.05)
    monkeypatch.setattr(leases, "DURATION", 6.0)
    dsn, folder, checkpoint = postgres.database(), tmp_path / "in", str(tmp_path / "checkpoint")
    put(folder, "1.jsonl", -9, -5)
    spark = request.getfixturevalue("spark") if host == "spark" else None
    clicks: Any = mt.files(f"{folder}/*.jsonl", columns=COLUMNS)
    if spark is not None:
        clicks = spark.readStream.schema(COLUMNS).json(str(folder))
    windows = mt.windowed(clicks, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
    query = windows.start(checkpoint=checkpoint, results=mt.to_postgres(dsn, "views"))
    feed = Feed()
    add_query(feed, query)
    try:
        await_true(lambda: query.progress.batch >= 0 and query.await_idle(60))
        monkeypatch.setattr(patience, "_SILENCE", 0.3)
        monkeypatch.setattr(patience, "_LAST_TIMES", {})
        caplog.clear()
        postgres.freeze()
        put(folder, "2.jsonl", -2)
        reason = await_true(lambda: query.progress.degradation)
        server = rf"PostgreSQL 127\.0\.0\.1:{postgres.port}/test_\d+, table views"
        sink = rf"the sink of results \({server}\)"
        since = r"since \d\d:\d\d:\d\d[+-]\d{4}"
        assert re.fullmatch(rf"waiting for {sink} \({since}\)", reason)
        assert [*query.progress.waiting_for.values()] == [0]
        lease = Path(checkpoint, leases.FILE)
        await_true(lambda: leases.read_waits(lease.read_text()))
        opened = read_checkpoint(checkpoint, spark=spark)
        (first, *_) = explain_checkpoint(opened, ["key-0"], None)
        assert re.fullmatch(rf"waiting    for {sink} \({since}\)", first)
        assert report_checkpoint(opened)["waits"] == reason
        await_true(lambda: feed.snapshot()["queries"][0]["degraded"] == reason)
    finally:
        postgres.thaw()
    try:
        await_true(lambda: query.progress.batch >= 1 and query.progress.degradation is None)
        await_true(lambda: not feed.snapshot()["queries"][0]["degraded"])
    finally:
        query.stop()
    silent, back = (line for line in caplog.messages if "the sink of" in line)
    assert re.fullmatch(rf"{sink} hasn't answered {since}; batch \d waits for it", silent)
    assert re.fullmatch(rf"{sink} answers again, after \d+ s", back)
    assert rows(dsn, "SELECT count(*) FROM views") == [(2,)]
