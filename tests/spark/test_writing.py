"""Tests that Spark caches a batch only if its rows don't come with its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.spark import writing
from muntin.spark.query import WindowedQuery

MANY = 5


def fill(feed: Feed) -> None:
    for number in range(8):
        keys = 400 if number == MANY else 3
        rows = [(f"key {k}", at(10 * number + k % 10), k) for k in range(keys)]
        feed.add(*rows, (None, at(10 * number), 0))


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """Record the batches that are fetched, and whether Spark has cached them."""
    recorded, fetch_batch = [], writing.fetch_batch

    def spy(number: int, emitted: DataFrame, *arguments: Any, **options: Any) -> Any:
        recorded.append((number, emitted.storageLevel != StorageLevel.NONE))
        return fetch_batch(number, emitted, *arguments, **options)

    monkeypatch.setattr(writing, "fetch_batch", spy)
    monkeypatch.setattr(writing, "_IN_A_ROW", 2)
    monkeypatch.setattr(writing, "_FEW", 6000)
    return recorded


def run(stream: DataFrame, folder: Path, results: list[Any], rejected: list[Any]) -> WindowedQuery:
    windows = mt.windowed(stream, key="key", time="at").tumbling("10 seconds").early(each=True)
    query = windows.agg(n=mt.count(), total=mt.sum("value"), most=mt.max("value")).start(
        checkpoint=str(folder / "checkpoint"),
        results=lambda frame, number: results.extend(frame.collect()),
        rejected=lambda frame, number: rejected.extend(frame.collect()),
        available_now=True,
    )
    assert query.await_end(timeout=200)
    return query


@pytest.mark.slow
def test_a_batch_of_many_rows_after_small_ones_is_kept(
    spark: SparkSession, tmp_path: Path, fetches: list[tuple[int, bool]]
) -> None:
    feed, results, rejected = Feed(tmp_path / "in"), [], []
    fill(feed)
    query = run(feed.stream(spark), tmp_path, results, rejected)
    early = [r for r in results if r.emission == "early"]
    rows = [(r.key, round(r.window_start.timestamp() * 1e6), r.n, r.total, r.most) for r in early]
    # Each window's messages are in one batch, so it emits early once.
    expected = feed.windows(10, 10, but=[i for i in range(feed.ids) if i in nulls(feed)])
    assert sorted(rows) == expected
    assert len(rejected) == 8
    assert query.progress.adds_up()
    assert query.progress.counts["counted"] == 7 * 3 + 400
    before = [fetch for fetch in fetches if fetch[0] < MANY]
    assert before == [(0, True), (1, True), (2, False), (3, False), (4, False)]
    assert [cached for n, cached in fetches if n == MANY] == [False, True]
    assert all(cached for n, cached in fetches if n > MANY)


def nulls(feed: Feed) -> set[int]:
    """Return the numbers of the messages without a key."""
    ends, numbers = 0, set()
    for number in range(8):
        ends += (400 if number == MANY else 3) + 1
        numbers.add(ends - 1)
    return numbers
