"""Tests of explaining queries without starting them: pipelines in Python, and plans."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.spark.explain import collect_plans, explain_spark_plan


def test_queries_are_noted_and_not_started(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "messages")
    feed.add(("a", at(1), 1))
    windows = mt.windowed(feed.stream(spark), key="key", time="at", clock="at", lateness="1 minute")
    counts = windows.tumbling("1 minute").agg(n=mt.count())
    with collect_plans() as plans:
        counts.start(name="counts", checkpoint=str(tmp_path / "checkpoint"))
    assert [name for name, _ in plans] == ["counts"]
    assert not (tmp_path / "checkpoint").exists()
    assert not spark.streams.active
    explanation = explain_spark_plan(plans[0][1])
    assert "at is never late (it is the arrival time)" in " ".join(explanation.split())
    assert "tumbling 1 minute, by key on at" in counts.explain(rate=100)
    assert "for 100 messages a second of 10 keys" in " ".join(
        counts.explain(rate=100, keys=10).split()
    )


def test_a_query_shows_what_it_is(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "messages")
    feed.add(("a", at(1), 1))
    windows = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("1 minute")
    shown = repr(windows.agg(n=mt.count()))
    assert shown.startswith("windows   tumbling 1 minute, by key on at\n")
    columns = "key string, window_start timestamp, window_end timestamp, n bigint, emission string,"
    assert f"columns   {columns}" in shown
    statement = "SELECT key, count(*) * 2 AS twice FROM m GROUP BY key, TUMBLE(at, 1 MINUTE)"
    query = mt.sql(spark, statement, m=feed.stream(spark))
    assert "<td>twice</td><td>bigint</td>" in query._repr_html_()
    for where, text in (("value > 2", "value > 2"), (F.col("value") > 2, "(value > 2)")):
        windows = mt.windowed(feed.stream(spark), key="key", time="at", where=where)
        described = windows.tumbling("1 minute").agg(n=mt.count()).explain()
        assert f"takes     messages for which {text};" in described


def test_a_running_query_shows_how_far_it_is(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "messages")
    feed.add(("a", at(1), 1), ("a", at(70), 1), (None, at(70), 1))
    windows = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("1 minute")
    query = windows.agg(n=mt.count()).start(checkpoint=f"{tmp_path}/check<1>", name="a & b")
    assert query.await_idle(120)
    shown = query._repr_html_()
    query.stop()
    assert "<b>a &amp; b</b> runs" in shown
    assert f"checkpoint {tmp_path}/check&lt;1&gt;" in shown
    for name, value in (("batch", 0), ("seen", 3), ("null_key", 1), ("full firings", 1)):
        assert f"<td>{name}</td><td>{value}</td>" in shown
    assert "has ended" in query._repr_html_()
