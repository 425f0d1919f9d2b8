"""Tests of the report of ``muntin inspect`` about a checkpoint."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.cli.inspect import show
from muntin.dataframe.state import read_checkpoint, report_checkpoint
from muntin.hosts.inspect.report import StateReport


@pytest.mark.slow
def test_times_that_python_cant_hold(spark: SparkSession, tmp_path: Path) -> None:
    text = "SELECT 'a' AS key, timestamp_micros(1767225600000000000 + {}) AS at"
    spark.sql(text.format("1000000 * id") + " FROM range(25)").write.parquet(f"{tmp_path}/in")
    stream = spark.readStream.schema("key string, at timestamp").parquet(f"{tmp_path}/in")
    windowed = mt.windowed(stream, key="key", time="at", max_ahead=None).tumbling("10 seconds")
    side = mt.windowed(stream, time="at", max_ahead=None)
    queries = [windowed.agg(n=mt.count()), mt.join(side, side, on="key", within="10 seconds")]
    reports = []
    for number, query in enumerate(queries):
        folder = f"{tmp_path}/{number}"
        assert query.start(checkpoint=folder, available_now=True).await_end(120)
        reports.append(report_checkpoint(read_checkpoint(folder, spark=spark), ["a"]))
    windows, messages = (report["key"] for report in reports)
    assert windows[-1]["window_start"].startswith("57971-02-25 00:00:20")
    assert messages[-1]["at"].startswith("57971-02-25 00:00:24")
    assert print_report(reports[0])
    last = datetime.max.replace(tzinfo=UTC)
    assert mt.open_state(f"{tmp_path}/0").watermark == last
    assert mt.open_state(f"{tmp_path}/1").watermarks == {"left": last, "right": last}


def print_report(report: StateReport) -> str:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    show(report, console)
    return console.export_text()


def test_windows(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "messages")
    feed.add(("a", at(1), 1), ("a", at(4), 1), ("b", at(8), 1))
    feed.add(("b", at(100), 1), ("a", at(2), 1), ("a", at(91), 1))
    windows = mt.windowed(feed.stream(spark), key="key", time="at", lateness="20 seconds")
    windows = windows.tumbling("10 seconds").late(grace="3 minutes").keep("5 minutes")
    checkpoint = str(tmp_path / "checkpoint")
    query = windows.agg(n=mt.count(), own=mt.apply(len, "value")).start(
        checkpoint=checkpoint, available_now=True
    )
    assert query.await_end(120)

    report = report_checkpoint(read_checkpoint(checkpoint, spark=spark), ["a"])
    assert json.loads(json.dumps(report)) == report
    assert (report["batch"], report["kept"], report["kind"]) == (1, [0, 1], "windows")
    assert report["watermark"] == "2026-01-01 00:01:20"
    assert report["spec"]["windows"].startswith("tumbling 10 seconds")
    cells = report["tables"][0]
    assert (cells["table"], cells["rows"]) == ("cells", 5)
    assert (cells["oldest"], cells["newest"]) == ("2026-01-01 00:00:00", "2026-01-01 00:01:40")
    assert report["windows"]["newest"] == ["2026-01-01 00:01:40", "2026-01-01 00:01:50"]
    assert sum(shard["bytes"] for shard in report["shards"]) >= cells["bytes"] > 0
    assert query.progress.shards.keys() == {shard["shard"] for shard in report["shards"]}
    for shard in report["shards"]:
        assert query.progress.shards[shard["shard"]]["state_bytes"] == shard["bytes"]
    assert [(row["messages"], row["stage"]) for row in report["key"]] == [
        (3, "past"),
        (1, "current"),
    ]
    text = print_report(report)
    assert "batches 0 to 1 can be read" in text
    assert "tumbling 10 seconds" in text
    assert "2026-01-01 00:01:40 to 2026-01-01 00:01:50" in text
    with pytest.raises(mt.OptionError, match="isn't 1 values; give --key once for each of key"):
        report_checkpoint(read_checkpoint(checkpoint, spark=spark), ["a", "b"])
