"""Tests that bad input is rejected and counted, and that the stream continues."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.feed import MESSAGE, Feed, at, rows

import muntin as mt
from muntin.model.axis import SECOND, parse_time

pytestmark = pytest.mark.slow


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Any:
    """Return a function that streams a feed through tumbling windows into DuckDB."""

    def run(feed: Feed, size: str = "10 seconds", **options: Any) -> mt.WindowedQuery:
        query = (
            mt.windowed(feed.stream(spark), key="key", time="at", **options)
            .tumbling(size)
            .early(each=True)
            .agg(n=mt.count(), total=mt.sum("value"), least=mt.min("value"), most=mt.max("value"))
            .start(
                checkpoint=f"{tmp_path}/checkpoint",
                results=mt.to_duckdb(f"{tmp_path}/out.duckdb", "windows"),
                rejected=mt.to_duckdb(f"{tmp_path}/out.duckdb", "rejected"),
                available_now=True,
            )
        )
        assert query.await_end(timeout=240)
        assert query.progress.adds_up()
        return query

    return run


def read_windows(folder: Path) -> list[tuple[Any, ...]]:
    query = "SELECT key, epoch_us(window_start), n, total FROM windows ORDER BY ALL"
    return rows(folder / "out.duckdb", query)


def read_rejected(folder: Path) -> dict[int, str]:
    return dict(rows(folder / "out.duckdb", "SELECT id, reason FROM rejected ORDER BY id"))


@pytest.mark.slow
def test_times_as_text(run: Any, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source", MESSAGE.set(2, pa.field("at", pa.string())))
    feed.add(("a", "2026-01-01 00:00:01", 1), ("a", "yesterday", 2), ("a", "", 3), ("a", None, 4))
    feed.add(("a", "2026-01-01T00:00:05Z", 5), (None, "2026-01-01 00:00:05", 6), (None, "x", 7))
    feed.add()
    feed.add(("a", "2026-13-45", 8), ("b", "2026-01-01 00:00:15.5", None))
    query = run(feed)

    reasons = ["malformed", "malformed", "null_time", "null_key", "malformed", "malformed"]
    assert read_rejected(tmp_path) == dict(zip([1, 2, 3, 5, 6, 7], reasons, strict=True))
    assert read_windows(tmp_path) == [("a", micros(0), 2, 6), ("b", micros(10), 1, None)]
    counts = {"seen": 9, "counted": 3, "malformed": 4, "null_time": 1, "null_key": 1}
    assert query.progress.counts == counts


def test_the_far_future_moves_no_watermark(run: Any, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1), ("a", at(1).replace(year=2999), 2))
    feed.add(("a", at(3), 3), ("a", at(1).replace(year=9999), 4))
    query = run(feed)
    assert read_rejected(tmp_path) == {1: "future", 3: "future"}
    assert read_windows(tmp_path) == [("a", micros(0), 2, 4)]
    assert query.progress.watermark_micros == micros(3)


def test_times_centuries_away(run: Any, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source", MESSAGE.set(2, pa.field("at", pa.timestamp("us"))))
    texts = ["0001-01-01T00:00:03", "1582-10-10T12:00:00", "1969-12-31T23:59:59.999999"]
    texts += ["2026-01-01T00:00:00", "9999-12-31T23:59:58", "2026-01-01T00:00:01"]
    values = [parse_time("time", text) for text in texts]
    for number, value in enumerate(values):
        table = {"id": [number], "key": ["a"], "at": [value], "value": [number]}
        feed.add_table(pa.table(table).cast(feed.schema))
    query = run(feed, max_ahead=None)
    starts = [value // (10 * SECOND) * 10 * SECOND for value in values[:-1]]
    assert read_windows(tmp_path) == [("a", start, 1, n) for n, start in enumerate(starts)]
    assert read_rejected(tmp_path) == {5: "late"}
    assert query.progress.watermark_micros == values[-2]


def test_sums_beyond_64_bits(run: Any, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 2**62), ("b", at(1), 2**62), ("b", at(2), 2**62 - 1))
    feed.add(("a", at(2), 2**62), ("c", at(3), -(2**63)), ("d", at(3), 1))
    query = run(feed)
    assert read_windows(tmp_path) == [
        ("a", micros(0), 2, None),
        ("b", micros(0), 2, 2**63 - 1),
        ("c", micros(0), 1, -(2**63)),
        ("d", micros(0), 1, 1),
    ]
    overflow = 'SELECT key, epoch_us("at"), reason FROM rejected'
    assert rows(tmp_path / "out.duckdb", overflow) == [("a", micros(0), "overflow")]
    assert query.progress.counts == {"seen": 6, "counted": 6}


def test_not_a_number(run: Any, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source", MESSAGE.set(3, pa.field("value", pa.float64())))
    feed.add(("a", at(1), 1.0), ("a", at(2), math.nan), ("b", at(2), math.inf))
    feed.add(("b", at(3), -math.inf), ("c", at(3), math.nan), ("c", at(4), None))
    run(feed)
    query = "SELECT key, n, total, least, most FROM windows ORDER BY key"
    assert repr(rows(tmp_path / "out.duckdb", query)) == repr(
        [
            ("a", 2, math.nan, 1.0, math.nan),
            ("b", 2, math.nan, -math.inf, math.inf),
            ("c", 2, math.nan, math.nan, math.nan),
        ]
    )


def test_a_filter_counts_what_it_leaves_out(run: Any, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    feed.add()
    feed.add(("a", at(1), 1), ("a", at(2), -1), ("a", at(3), None), (None, at(50), -1))
    feed.add(("a", at(40), -1))
    query = run(feed, where="value > 0")
    assert read_windows(tmp_path) == [("a", micros(0), 1, 1)]
    assert query.progress.counts == {"seen": 5, "counted": 1, "filtered": 4}
    assert query.progress.watermark_micros == micros(50)


def test_nothing_at_all(run: Any, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    feed.add()
    assert run(feed).progress.counts.get("seen", 0) == 0


def micros(seconds: float) -> int:
    return round(at(seconds).timestamp() * SECOND)
