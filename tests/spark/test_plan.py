"""Tests that results without rejected messages are the same, with less data sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.engine.operator import RESULTS
from muntin.spark.host.processor import unpack_rows

pytestmark = pytest.mark.slow


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1), ("b", at(2), 2), (None, at(3), 3), ("a", None, 4), ("a", at(4), 5))
    feed.add(("a", at(25), 5), ("c", at(26), None))
    feed.add(("a", at(4), 7), ("a", at(40), 8))
    return feed


def windows(frame: DataFrame, **options: Any) -> mt.WindowedAggregate:
    plan = mt.windowed(frame, key="key", time="at", **options).tumbling("10 seconds")
    return plan.agg(n=mt.count(), best=mt.arg_max("id", by="value"), twice=mt.sum(F.expr("2 * id")))


def format_plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().optimizedPlan().toString())


def run_stream(frame: DataFrame, folder: Path) -> list[tuple[Any, ...]]:
    """Return the rows of a stream until its input ends."""
    rows: list[tuple[Any, ...]] = []
    writer = frame.writeStream.foreachBatch(
        lambda batch, _: rows.extend(map(tuple, batch.collect()))
    )
    query = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return rows


def test_a_column_that_only_rejected_messages_have_is_not_sent_for_results(
    feed: Feed, spark: SparkSession
) -> None:
    with_note = feed.frame(spark).withColumn("note", F.concat("key", F.lit("!")))
    plan = windows(with_note)
    assert " AS note#" in format_plan(plan.rejected)
    assert " AS note#" not in format_plan(plan.results)
    assert "concat(" not in format_plan(plan.results)
    assert "concat(" in format_plan(windows(with_note, where="note <> 'b!'").results)


@pytest.mark.parametrize(
    "options",
    [
        {"where": "value > 1"},
        {"clock": "seen", "max_ahead": "5 seconds"},
        {"offset": ("part", "id")},
    ],
    ids=str,
)
def test_results_are_the_same_with_less_sent(
    feed: Feed, spark: SparkSession, options: dict[str, Any]
) -> None:
    seen = F.col("at") - F.expr("INTERVAL 1 SECOND") * F.col("value")
    frame = feed.frame(spark).withColumns({"seen": seen, "part": F.lit("one")})
    query = windows(frame, **options)
    whole = unpack_rows(query.plan.output, RESULTS, query.plan.results_schema)
    assert sorted(query.results.collect()) == sorted(whole.collect())
    assert query.results.count() > 2


def test_files_are_read_by_the_workers_for_results_too(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    counted = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("10 seconds")
    query = counted.agg(n=mt.count())
    assert query.plan.columnar
    assert ", content#" in query.results._jdf.queryExecution().analyzed().toString()
    whole = unpack_rows(query.plan.output, RESULTS, query.plan.results_schema)
    results_alone = sorted(run_stream(query.results, tmp_path / "alone"))
    assert results_alone == sorted(run_stream(whole, tmp_path / "whole"))
    assert len(results_alone) == 4


def test_messages_of_which_nothing_is_needed_are_counted(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    pairs = mt.windowed(feed.frame(spark)).tumbling(mt.rows(4)).agg(n=mt.count())
    assert [row.n for row in pairs.results.collect()] == [4, 4, 1]
    counted = mt.windowed(feed.stream(spark)).tumbling(mt.rows(4)).agg(n=mt.count())
    assert [row[2] for row in run_stream(counted.results, tmp_path / "checkpoint")] == [4, 4]
