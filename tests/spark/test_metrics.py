"""Tests of the metrics for Prometheus of a query that has run."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.hosts.inspect.metrics import Metrics
from muntin.hosts.progress import Progress
from muntin.query import Query
from muntin.spark.query import SparkBatchTimes
from muntin.web import server
from muntin.web.server import create_protocol


def fetch_samples(url: str, token: str | None = None) -> dict[tuple[str, ...], float]:
    """Fetch samples, by their name, the query, and the values of other labels."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    values_by_labels = {}
    for sample in (sample for family in families for sample in family.samples):
        others = [value for name, value in sample.labels.items() if name != "query"]
        values_by_labels[sample.name, sample.labels["query"], *others] = sample.value
    return values_by_labels


@F.udf(LongType())
def wait(value: int) -> int:
    time.sleep(0.05)
    return value


def test_what_a_query_has_done(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1), ("b", at(2), 2), (None, at(3), 3))
    rows = feed.stream(spark).withColumn("value", wait("value"))
    windows = mt.windowed(rows, key="key", time="at", where="value < 9")
    query = windows.tumbling("10 seconds").early(each=True).agg(n=mt.count()).start(
        checkpoint=f"{tmp_path}/checkpoint", name="views",
        results=mt.to_duckdb(f"{tmp_path}/out.duckdb", "t"),
    )  # fmt: skip
    # The functions that get batches leave another session active, that of the batches.
    monkeypatch.setattr(SparkSession, "getActiveSession", spark.newSession)
    progress = mt.metrics(query, port=0, token="sesame")
    monkeypatch.undo()
    try:
        feed.add(("a", at(25), 1), ("a", at(4), 9), ("a", at(5), 2))
        feed.add(("a", at(1), 1), ("a", at(26), 1))
        assert query.await_idle(timeout=240)
        deadline = time.monotonic() + 60
        while ("muntin_state_bytes", "views") not in (
            emitted := fetch_samples(progress.url, "sesame")
        ):
            assert time.monotonic() < deadline, "Spark tells of no batch"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            fetch_samples(progress.url)
        assert emitted["muntin_running", "views"] == 1
    finally:
        query.stop()
        progress.close()
    messages = {
        outcome: emitted["muntin_messages_total", "views", outcome]
        for outcome in ("seen", "counted")
    }
    assert messages == {"seen": 8, "counted": 5}
    assert emitted["muntin_messages_total", "views", "filtered"] == 1
    assert emitted["muntin_rejected_total", "views", "null_key"] == 1
    assert emitted["muntin_rejected_total", "views", "late"] == 1
    assert emitted["muntin_fired_total", "views", "full"] == 2
    assert emitted["muntin_watermark_seconds", "views"] == at(26).timestamp()
    assert emitted["muntin_watermark_lag_seconds", "views"] > 0
    assert emitted["muntin_adds_up", "views"] == 1
    assert emitted["muntin_unwritable", "views"] == emitted["muntin_watcher_failures", "views"] == 0
    assert emitted["muntin_state_rows", "views"] > 0
    # A lower bound is exact: an expression that sleeps can't take less.
    assert emitted["muntin_batch_seconds_total", "views", "step"] >= 0.05
    with pytest.raises(urllib.error.URLError):
        fetch_samples(progress.url, "sesame")


def test_what_cant_be_served_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(mt.OptionError, match=r"give queries that \.start\(\) returned"):
        mt.metrics()
    with pytest.raises(mt.OptionError, match="lets others read the figures; give a token"):
        mt.metrics(mt.WindowedQuery(), address="0.0.0.0")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(mt.MissingExtraError, match=r"pip install 'muntin\[metrics\]'"):
        mt.metrics(mt.WindowedQuery())


class Session:
    """The listeners of a Spark session."""

    def __init__(self) -> None:
        self.streams = self
        self.listeners: list[Any] = []

    def addListener(self, listener: Any) -> None:  # noqa: N802
        self.listeners.append(listener)

    def removeListener(self, listener: Any) -> None:  # noqa: N802
        self.listeners.remove(listener)


def _query(session: Any) -> Any:
    query = Mock(spec=Query, progress=Progress(), label="views", is_active=True, spark=session)
    query.watcher_failures = query.watcher_skipped = 0
    query.time_batches.side_effect = lambda: SparkBatchTimes(query)
    return query


@contextlib.contextmanager
def serve_metrics(address: str) -> Iterator[Metrics]:
    session: Any = Session()
    progress = Metrics((_query(session),))
    progress.serve(0, address, None)
    assert len(session.listeners) == 1
    try:
        yield progress
    finally:
        closing = threading.Thread(target=progress.close, daemon=True)
        closing.start()
        closing.join(timeout=10)
        assert not closing.is_alive()
    progress.close()
    assert session.listeners == []


def open_connection(progress: Metrics) -> socket.socket:
    """Open a connection over which no request is sent."""
    port = int(progress.url.rpartition(":")[2].partition("/")[0])
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def test_whoever_asks_nothing_holds_up_nobody() -> None:
    with serve_metrics("127.0.0.1") as progress, open_connection(progress):
        with urllib.request.urlopen(progress.url, timeout=5) as answer:
            assert b"muntin_messages" in answer.read()
        with open_connection(progress), urllib.request.urlopen(progress.url, timeout=5) as answer:
            assert answer.status == 200


def test_whoever_asks_nothing_is_sent_away(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "create_protocol", partial(create_protocol, 0.2))
    with serve_metrics("127.0.0.1") as progress, open_connection(progress) as idle:
        assert idle.recv(1) == b""
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("address", ["::1", "127.0.0.2", "localhost"])
def test_every_name_of_the_loopback(address: str) -> None:
    try:
        serving = serve_metrics(address)
        with serving as progress, urllib.request.urlopen(progress.url, timeout=5) as answer:
            assert answer.status == 200
    except mt.OptionError as error:
        if "Cannot assign requested address" in str(error):
            pytest.skip(f"this machine has no {address}")
        raise


def test_a_port_that_is_taken_is_named_and_leaves_nothing_behind() -> None:
    session: Any = Session()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(mt.OptionError, match=f"port={port} can't be listened on at 127.0.0.1"):
            Metrics((_query(session),)).serve(port, "127.0.0.1", None)
    assert session.listeners == []
