"""Tests that a query moves between the hosts in both directions without loss or repeats."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.moved_queries import (
    COLUMNS,
    QUERIES,
    Folders,
    Read,
    clock_triggers,
    hopping,
    join,
    read_tables,
    run,
    sessions,
)

import muntin as mt
from muntin import OptionError, SpecChangedError, StateCorruptedError
from muntin.hosts.seed import FACTS, FOLDER
from muntin.sinks.duckdb import DuckDBSink
from muntin.spark import seeding
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.host.internals.checkpoints import find_home


def on_spark(spark: SparkSession, folders: Folders, files: int = 1) -> Read:
    """Read folders on Spark, one file a batch unless another number is given."""
    reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", files)
    return lambda name: reader.parquet(str(folders.root / name))


class PowerCut(DuckDBSink):
    """A sink that simulates a power failure after a batch, which isn't committed."""

    batch = -1

    def write(self, batch: Any) -> None:
        super().write(batch)
        if batch.number == self.batch:
            raise RuntimeError("the power failed")


def run_until_power_cut(query: Any, checkpoint: Path, out: Path, batch: int) -> None:
    """Run a query until the power fails, after the sink has written a batch."""
    sink = PowerCut(out, "results", "history")
    sink.batch = batch
    rejected = mt.to_duckdb(out, "rejected")
    running = query.start(
        checkpoint=str(checkpoint), results=sink, rejected=rejected, available_now=True
    )
    with pytest.raises(Exception, match="the power failed"):
        running.await_end(240)


# Other tests move hopping windows and sessions here.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=pytest.mark.slow if name in ("chain", "join") else pytest.mark.long
        )
        for name in QUERIES
    ],
)
def test_a_query_moves_to_spark_and_back(spark: SparkSession, tmp_path: Path, name: str) -> None:
    folders, query, out = Folders(tmp_path / "in"), QUERIES[name], tmp_path / "out.duckdb"
    steps = [tmp_path / step for step in ("first", "second", "third")]
    folders.add(3)
    run(query(folders.read), steps[0], out)
    assert mt.move(steps[0], steps[1], to="spark") == 2
    folders.add(2)
    on = run(query(on_spark(spark, folders)), steps[1], out)
    assert on.progress.batch == 4
    assert not (steps[1] / FOLDER).exists()
    assert mt.move(steps[1], steps[2], to="local", spark=spark) == 4
    assert mt.open_state(steps[2]).spec.shards == 2
    folders.add(2)
    last = run(query(folders.read), steps[2], out)

    expected = tmp_path / "expected.duckdb"
    whole = run(query(folders.read), tmp_path / "whole", expected)
    assert last.progress.counts == whole.progress.counts
    assert last.progress.adds_up()
    assert last.progress.watermark == whole.progress.watermark
    assert read_tables(out) == read_tables(expected)


@pytest.mark.slow
def test_a_batch_that_was_begun_is_repeated_on_the_other_host(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The sink has it already; with more input, a session might begin elsewhere."""
    folders, out = Folders(tmp_path / "in"), tmp_path / "out.duckdb"
    steps = [tmp_path / step for step in ("first", "second", "third")]
    folders.add(3)
    run_until_power_cut(sessions(folders.read), steps[0], out, batch=2)
    assert mt.move(steps[0], steps[1], to="spark") == 1
    folders.add(2)
    run_until_power_cut(sessions(on_spark(spark, folders)), steps[1], out, batch=4)
    assert mt.move(steps[1], steps[2], to="local", spark=spark) == 3
    folders.add(1)
    last = run(sessions(folders.read), steps[2], out)
    expected = tmp_path / "expected.duckdb"
    whole = run(sessions(folders.read), tmp_path / "whole", expected)
    assert last.progress.batch == whole.progress.batch == 5
    assert read_tables(out) == read_tables(expected)


@pytest.mark.slow
def test_a_policy_by_the_clock_continues_on_the_other_host(
    spark: SparkSession, tmp_path: Path
) -> None:
    folders, out = Folders(tmp_path / "in"), tmp_path / "out.duckdb"
    steps = [tmp_path / step for step in ("first", "second", "third")]
    folders.add(2)
    run(clock_triggers(folders.read), steps[0], out)
    mt.move(steps[0], steps[1], to="spark")
    folders.add(1)
    run(clock_triggers(on_spark(spark, folders)), steps[1], out)
    mt.move(steps[1], steps[2], to="local", spark=spark)
    folders.add(1)
    last = run(clock_triggers(folders.read), steps[2], out)
    expected = tmp_path / "expected.duckdb"
    whole = run(clock_triggers(folders.read), tmp_path / "whole", expected)
    assert last.progress.counts == whole.progress.counts
    key, count = slice(0, 3), 3
    final = [{row[key]: row[count] for row in read_tables(o)["results"]} for o in (out, expected)]
    assert final[0] == final[1]
    revisions = [(*row[key], row[5]) for row in read_tables(out)["history"]]
    assert len({*revisions}) == len(revisions)


MOMENTS = {
    "load": "muntin.spark.rescale._run_load",
    "begin_at": "muntin.spark.seeding.begin_at",
    "record": "muntin.spark.seeding.ProgressRecord.write",
    "before": "muntin.spark.seeding.replace_home",
    "after": "muntin.spark.seeding.replace_home",
}


@pytest.mark.slow
def test_a_first_start_on_spark_may_fail_at_any_moment(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start gets one step further than the one before, with the files that that one left."""
    folders, out = Folders(tmp_path / "in"), tmp_path / "out.duckdb"
    folders.add(2)
    run(hopping(folders.read), tmp_path / "old", out)
    new = tmp_path / "new"
    mt.move(tmp_path / "old", new, to="spark")
    folders.add(1)

    replace_home: Any = seeding.replace_home
    for moment, function in MOMENTS.items():

        def fail(*arguments: object, moment: str = moment, **options: object) -> None:
            if moment == "after":
                replace_home(*arguments)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(function, fail)
            with pytest.raises(KeyboardInterrupt):
                run(hopping(on_spark(spark, folders)), new, out)
        assert (new / FOLDER / FACTS).exists()
    run(hopping(on_spark(spark, folders)), new, out)
    assert not (new / FOLDER).exists()
    assert Path(find_home(spark, str(new))).name == "1"
    run(hopping(folders.read), tmp_path / "whole", tmp_path / "expected.duckdb")
    assert read_tables(out) == read_tables(tmp_path / "expected.duckdb")


def test_queries_that_differ_are_refused_and_the_seed_stays(
    spark: SparkSession, tmp_path: Path
) -> None:
    folders, new = Folders(tmp_path / "in"), tmp_path / "new"
    folders.add(1)
    run(hopping(folders.read), tmp_path / "old", tmp_path / "out.duckdb")
    mt.move(tmp_path / "old", new, to="spark")
    rates = spark.readStream.format("rate").load()
    rated = rates.selectExpr("timestamp AS at", "value", "'a' AS key", "value AS id")
    two_sources = rated.union(on_spark(spark, folders)("left").select(*rated.columns))
    refused_queries = (
        (sessions(on_spark(spark, folders)), SpecChangedError, "written by another spec"),
        (join(on_spark(spark, folders)), SpecChangedError, "kind: was windows, is join"),
        (hopping(lambda name: rated), OptionError, "source='.*' can't continue"),
        (
            hopping(lambda name: two_sources),
            SpecChangedError,
            "reads 1 sources, and this query reads 2",
        ),
    )
    for refused_query, error, words in refused_queries:
        with pytest.raises(error, match=words):
            refused_query.start(checkpoint=str(new))
    facts = new / FOLDER / FACTS
    text = facts.read_text()
    facts.write_text(json.dumps({**json.loads(text), "format": 9}))
    with pytest.raises(StateCorruptedError, match="has format 9, this muntin reads format 1"):
        hopping(on_spark(spark, folders)).start(checkpoint=str(new))
    facts.unlink()
    with pytest.raises(StateCorruptedError, match="has no seed"):
        hopping(on_spark(spark, folders)).start(checkpoint=str(new))
    with pytest.raises(OptionError, match="was moved to Spark and not started there"):
        mt.move(new, tmp_path / "newer", to="local", spark=spark)
    facts.write_text(text)
    run(hopping(on_spark(spark, folders)), new, tmp_path / "out.duckdb")


def test_what_the_local_host_lacks_stays_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    rates = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    query = mt.windowed(rates, time="timestamp").tumbling("1 second").agg(n=mt.count())
    running = query.start(checkpoint=str(tmp_path / "old"), results=lambda rows, number: None)
    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "old" / "commits" / "2").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with pytest.raises(OptionError, match="is in use by a query of process"):
            mt.move(tmp_path / "old", tmp_path / "new", to="local", spark=spark)
    finally:
        running.stop()
    with pytest.raises(OptionError, match="reads a source that the local host doesn't have"):
        mt.move(tmp_path / "old", tmp_path / "new", to="local", spark=spark)
    assert not (tmp_path / "new").exists()
    assert Checkpoint(spark, str(tmp_path / "old")).newest >= 0
