"""Tests of the data about a running query that the page gets."""

from __future__ import annotations

import datetime
import json
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.cli.page import add_query
from muntin.engine.operator import REJECTED
from muntin.hosts.inspect.observed import list_newest, to_json_value
from muntin.serve import Feed as PageFeed
from muntin.sinks.batch import Batch
from muntin.spark.sinks.batch import EmittedRows
from muntin.spark.starting import showing_rejected

pytestmark = pytest.mark.slow


def test_a_query_is_shown_batch_by_batch(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 4), ("b", at(2), 7))
    windows = (
        mt.windowed(feed.stream(spark), key="key", time="at")
        .tumbling("10 seconds")
        .early(each=True)
        .agg(total=mt.sum("value"))
    )
    query = windows.start(checkpoint=str(tmp_path / "checkpoint"))
    page = PageFeed()
    try:
        add_query(page, query)
        assert query.await_idle(120)
        feed.add(("a", at(30), 1), ("b", at(3), 5), ("a", None, 2))
        assert query.await_idle(120)
    finally:
        query.stop()
    (seen,) = json.loads(json.dumps(page.snapshot()))["queries"]
    assert seen["keys"] == ["key"]
    assert seen["rejected"]["null_time"] == 1
    assert [sample["reason"] for sample in seen["samples"] if sample["id"] == 4] == ["null_time"]
    full = [w for w in seen["windows"] if w["emission"] == "full"]
    assert {(w["key"], w["total"]) for w in full} <= {("a", 4), ("b", 7), ("b", 12)}
    last = seen["batches"][-1]
    assert last["numbers"]["seen"] == 5
    assert last["numbers"]["watermark"] == at(30).timestamp() * 1000
    assert last["numbers"]["lag"] > 0


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (datetime.datetime(1970, 1, 1, 0, 0, 1), 1000),
        (float("inf"), "inf"),
        (1.5, 1.5),
        (Decimal("1.10"), "1.10"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        ([1, None], "[1, null]"),
        ([("a", 1)], '[["a", 1]]'),
        (
            {"at": datetime.datetime(2026, 1, 2, 3), "é": [b"\x01"]},
            '{"at": "2026-01-02T03:00:00", "é": ["01"]}',
        ),
        (list(range(10**6)), json.dumps(list(range(1000)))[:1000] + "…"),
        (2**53, 2**53),
        (2**63 - 1, "9223372036854775807"),
        (True, True),
        (b"\x01", "01"),
        ("x" * 2000, "x" * 1000 + "…"),
        (b"\x00" * 2000, "0" * 1000 + "…"),
        (None, None),
    ],
)
def test_values_are_told_as_json_can_hold_them(value: object, shown: object) -> None:
    assert to_json_value(value) == shown
    json.dumps(to_json_value(value))


@pytest.mark.parametrize("shown", [True, False])
def test_rejected_messages_travel_where_somebody_takes_them(
    spark: SparkSession, tmp_path: Path, shown: bool
) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 4), ("a", None, 2))
    windows = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("10 seconds")
    counted = windows.agg(total=mt.sum("value"))
    with showing_rejected() if shown else nullcontext():
        query = counted.start(checkpoint=str(tmp_path / "checkpoint"), results=lambda rows, n: None)
    seen: list[int] = []
    query.watchers.append(
        lambda number, batches: seen.extend(len(b.table()) for b in batches if b.kind == "rejected")
    )
    try:
        assert query.await_idle(120)
    finally:
        query.stop()
    # They are counted in both cases.
    assert query.progress.counts["null_time"] == 1
    assert sum(seen) == shown


def test_times_that_python_cant_hold_are_shown(spark: SparkSession) -> None:
    times = [1_767_225_600_000_000_000, -219_966_000_000_000_000, 0, None]
    table = pa.table({"at": pa.array(times, pa.int64()).cast(pa.timestamp("us", tz="UTC"))})
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, table.schema) as writer:
        writer.write_table(table)
    blob = bytearray(target.getvalue())
    emitted = spark.createDataFrame([(REJECTED, blob)], "kind string, blob binary")
    schema = spark.createDataFrame([], "at timestamp").schema
    batch = Batch(0, REJECTED, table.schema, None, EmittedRows(emitted, REJECTED, schema))
    wanted = [None if time is None else {"at": time // 1000} for time in times]
    assert list_newest(batch, 10) == [row or {"at": None} for row in wanted]
    assert json.dumps(list_newest(batch, 2))


@pytest.mark.parametrize("count", [51, 3000])
def test_the_page_shows_the_windows_that_the_sink_gets(
    spark: SparkSession, tmp_path: Path, count: int
) -> None:
    """They are those of all shards; of too many, the newest."""
    feed = Feed(tmp_path / "source")
    feed.add(*((f"k{n:04}", at(n % 10), n) for n in range(count)), ("end", at(1000), 0))
    stored: list[tuple[str, int]] = []
    query = (
        mt.windowed(feed.stream(spark), key="key", time="at", shards=2)
        .tumbling("1 second")
        .agg(total=mt.sum("value"))
        .start(
            checkpoint=str(tmp_path / "checkpoint"),
            results=lambda frame, _: stored.extend((row.key, row.total) for row in frame.collect()),
        )
    )
    page = PageFeed()
    try:
        add_query(page, query)
        assert query.await_idle(120)
    finally:
        query.stop()
    (seen,) = page.snapshot()["queries"]
    shown = [(row["key"], row["total"]) for row in seen["windows"]]
    assert len(stored) == count
    if count < 500:
        assert sorted(shown) == sorted(stored)
    else:
        assert len(shown) == 500
        assert {*shown} <= {*stored}
        starts = [row["window_start"] for row in seen["windows"]]
        assert starts == sorted(starts)
