"""Figures for Prometheus, of a query that has run."""

from __future__ import annotations

import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession
from tests.spark.feed import Feed, at

import muntin as mt


def asked(url: str, token: str | None = None) -> dict[tuple[str, ...], float]:
    """Samples by their name, the query, and the values of other labels."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    found = {}
    for sample in (sample for family in families for sample in family.samples):
        others = [value for name, value in sample.labels.items() if name != "query"]
        found[sample.name, sample.labels["query"], *others] = sample.value
    return found


def test_what_a_query_has_done(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1), ("b", at(2), 2), (None, at(3), 3))
    windows = mt.windowed(feed.stream(spark), key="key", time="at", where="value < 9")
    query = windows.tumbling("10 seconds").early(each=True).agg(n=mt.count()).start(
        checkpoint=f"{tmp_path}/checkpoint", name="views",
        results=mt.to_duckdb(f"{tmp_path}/out.duckdb", "t"),
    )  # fmt: skip
    figures = mt.metrics(query, port=0, token="sesame")
    try:
        feed.add(("a", at(25), 1), ("a", at(4), 9), ("a", at(5), 2))
        feed.add(("a", at(1), 1), ("a", at(26), 1))
        assert query.await_quiet(timeout=240)
        deadline = time.monotonic() + 60
        while ("muntin_state_bytes", "views") not in (told := asked(figures.url, "sesame")):
            assert time.monotonic() < deadline, "Spark tells of no batch"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            asked(figures.url)
        assert told["muntin_running", "views"] == 1
    finally:
        query.stop()
        figures.close()
    fates = {fate: told["muntin_messages_total", "views", fate] for fate in ("seen", "counted")}
    assert fates == {"seen": 8, "counted": 5}
    assert told["muntin_messages_total", "views", "filtered"] == 1
    assert told["muntin_rejected_total", "views", "null_key"] == 1
    assert told["muntin_rejected_total", "views", "late"] == 1
    assert told["muntin_fired_total", "views", "full"] == 2
    assert told["muntin_watermark_seconds", "views"] == at(26).timestamp()
    assert told["muntin_watermark_lag_seconds", "views"] > 0
    assert told["muntin_adds_up", "views"] == 1
    assert told["muntin_state_rows", "views"] > 0
    assert told["muntin_batch_seconds_total", "views", "addBatch"] > 0
    with pytest.raises(urllib.error.URLError):
        asked(figures.url, "sesame")


def test_what_cant_be_served_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(mt.OptionError, match=r"give what \.start\(\) returned"):
        mt.metrics()
    with pytest.raises(mt.OptionError, match="lets others read the figures; give a token"):
        mt.metrics(mt.WindowedQuery(), address="0.0.0.0")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(mt.MissingExtraError, match=r"pip install 'muntin\[metrics\]'"):
        mt.metrics(mt.WindowedQuery())
