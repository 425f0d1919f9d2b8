"""The windowing application on Spark: random tuples, rows of one's own, and a repeated batch."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import muntin as mt
from muntin.apps.windowing import Deletion, Monitor, Options, TableProgress, delete
from muntin.apps.windowing import random_tuples as windowing_source
from muntin.apps.windowing.division import DIVISIONS
from muntin.apps.windowing.query import TableQuery, start
from muntin.apps.windowing.random_tuples import RandomTupleReader, advance_offset
from muntin.spark.rescale import rescale

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def by_shard(progress: list[TableProgress]) -> list[TableProgress]:
    return sorted(progress, key=lambda emitted: emitted.shard)


class Runs:
    """Starts a query over one checkpoint, again and again."""

    def __init__(self, spark: SparkSession, folder: Path, options: Options) -> None:
        self.spark = spark
        self.folder = folder
        self.options = options
        self.checkpoint = folder / "checkpoint"
        self.emitted: dict[int, list[TableProgress]] = {}

    def add(self, *rows: tuple[int, int, float]) -> None:
        (self.folder / "rows").mkdir(exist_ok=True)
        table = pa.table(
            {
                "uuid": [str(uuid.UUID(int=i)) for i, _, _ in rows],
                "val": [value for _, value, _ in rows],
                "update_ts": pa.array(
                    [BEGIN + timedelta(seconds=second) for *_, second in rows],
                    pa.timestamp("us", tz="UTC"),
                ),
            }
        )
        pq.write_table(table, self.folder / "rows" / f"{len(rows)}-{uuid.uuid4()}.parquet")

    def start(self, *, available_now: bool) -> TableQuery:
        stream = self.spark.readStream.schema("uuid string, val bigint, update_ts timestamp")
        rows = stream.parquet(str(self.folder / "rows"))
        return start(
            self.spark,
            self.options,
            lambda batch, progress, _: self.emitted.__setitem__(batch, progress),
            str(self.checkpoint),
            rows,
            available_now=available_now,
        )

    def run(self) -> list[TableProgress]:
        assert self.start(available_now=True).await_end(240)
        return self.emitted[max(self.emitted)]

    def uncommit(self) -> int:
        """As if the process had died before Spark knew that the last batch was done."""
        last = max(self.emitted)
        for left in (self.checkpoint / "commits").iterdir():
            if left.name.lstrip(".").startswith(str(last)):
                left.unlink()
        self.emitted.clear()
        return last


@pytest.mark.slow
def test_rows_of_ones_own_and_a_batch_that_is_repeated(spark: SparkSession, tmp_path: Path) -> None:
    options = Options(maxrows=5, historyseconds=10, clock="event", shards=2, deletechunksize=2)
    runs = Runs(spark, tmp_path, options)
    runs.add(*((number, number, number * 0.5) for number in range(8)))
    first = runs.run()
    assert sum(emitted.rows for emitted in first) == 5
    assert sum(emitted.deleted for emitted in first) == 3
    runs.add((8, 50, 12.0), (9, -1, 2.0))
    second = runs.run()
    assert sum(emitted.rows for emitted in second) == 4
    assert max(emitted.greatest for emitted in second if emitted.greatest is not None) == 50
    assert [sum(emitted.totals[i] for emitted in second) for i in (0, 1)] == [10, 6]

    last = runs.uncommit()
    runs.run()
    assert by_shard(runs.emitted[last]) == by_shard(second)

    to = str(tmp_path / "three")
    rescale(spark, str(runs.checkpoint), shards=3, to=to, batch=last, more=DIVISIONS)
    runs.checkpoint, runs.options = tmp_path / "three", replace(options, shards=3)
    runs.add((10, 7, 12.5), (11, 8, 12.6))
    third = runs.run()
    assert [one.shard for one in by_shard(third)] == [0, 1, 2]
    assert sum(emitted.rows for emitted in third) == 5
    assert [sum(emitted.totals[i] for emitted in third) for i in (0, 1)] == [12, 7]


@pytest.mark.slow
def test_calls_from_outside_delete_once_and_shards_change_while_it_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    options = Options(historyseconds=0, deletes=str(calls), clock="event", shards=2)
    runs = Runs(spark, tmp_path, options)
    runs.add(*((number, number, number * 0.5) for number in range(8)))
    assert sum(emitted.rows for emitted in runs.run()) == 8
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(delete, calls, before=BEGIN + timedelta(seconds=2.5), patience=120)
        while not (left := list(calls.glob("*.json"))):
            time.sleep(0.05)
        call = left[0].read_text()
        second = runs.run()
        assert done.result() == Deletion(5, 0)
    assert sum(emitted.rows for emitted in second) == 3

    last = runs.uncommit()
    left[0].write_text(call)
    runs.run()
    assert by_shard(runs.emitted[last]) == by_shard(second)
    with pytest.raises(mt.SpecChangedError, match="give deletes if it was begun with deletes"):
        start(spark, replace(options, deletes=None, maxrows=9), print, str(runs.checkpoint))

    query = runs.start(available_now=False)
    try:
        query.rescale(3)
        runs.add((8, 3, 9.0))
        while sum(one.totals[0] for one in runs.emitted[max(runs.emitted)]) < 9:
            assert not query.await_end(0.2)
        assert delete(calls, shardrows=0, patience=120) == Deletion(4, 0)
    finally:
        query.stop()
    newest = by_shard(runs.emitted[max(runs.emitted)])
    assert [(one.shard, one.rows) for one in newest] == [(0, 0), (1, 0), (2, 0)]
    assert [sum(one.totals[i] for one in newest) for i in (0, 1)] == [9, 9]


def test_random_tuples_are_inserted_and_deleted(spark: SparkSession, tmp_path: Path) -> None:
    options = Options(ratelimit=50_000, historyseconds=0.5, maxrows=20_000)
    monitor = Monitor(options)
    query = start(spark, options, lambda *emitted: monitor.add_batch(*emitted), str(tmp_path))
    try:
        while len(monitor.moments) < 4 and not query.await_end(0.2):
            pass
    finally:
        query.stop()
    summary = monitor.summary(0.0)
    assert summary.adds_up
    assert summary.inserted > 0
    assert summary.most_rows <= 20_000
    assert summary.deleted > 0
    assert query.progress.counts["seen"] == summary.inserted


def test_a_source_without_a_column_is_refused(spark: SparkSession) -> None:
    frame = spark.readStream.format("rate").load()
    with pytest.raises(mt.OptionError, match="has no uuid; give a source with uuid, val and"):
        start(spark, Options(), lambda *_: None, "nowhere", frame)


def test_the_rate_limit_holds_whatever_the_batches() -> None:
    for rate in (1, 7, 15_000, 300_000):
        place = {"rows": 0, "due": 0, "clock": 0}
        for now in (100, 40_000, 1_000_000, 1_000_001, 3_000_000):
            before, place = place, advance_offset(place, now, rate)
            assert place["rows"] <= rate * now / 1_000_000
            assert place["due"] >= before["due"]
        # A batch may lose less than the tuple of a microsecond, never win one.
        assert 3 * rate - 5 <= place["rows"] <= 3 * rate
        parts = [p.value for p in RandomTupleReader(rate, 3).partitions(before, place)]
        assert sum(part.end - part.first for part in parts) == place["rows"] - before["rows"]
        assert {part.whole for part in parts} == {place["rows"]}


def test_a_standstill_is_not_made_up_for_at_once() -> None:
    place = advance_offset({"rows": 10, "due": 0, "clock": 0}, 3_600_000_000, 100)
    assert place == {"rows": 510, "due": 3_600_000_000, "clock": 3_600_000}


def test_the_first_batch_is_not_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0, 10_000_000, 40_000_000, 50_000_000])
    monkeypatch.setattr(windowing_source, "_read_clock", lambda: next(now))
    reader = RandomTupleReader(100, 2)
    places = [reader.initialOffset()]
    for _ in range(3):
        places.append(reader.latestOffset(places[-1]))
    assert [place["rows"] for place in places] == [0, 50, 100, 600]
