"""Results alone need less than results with rejected messages, and are the same."""

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


def optimized(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().optimizedPlan().toString())


def emitted(frame: DataFrame, folder: Path) -> list[tuple[Any, ...]]:
    """What a stream tells until its input ends."""
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
    noted = feed.frame(spark).withColumn("note", F.concat("key", F.lit("!")))
    plan = windows(noted)
    assert " AS note#" in optimized(plan.rejected)
    assert " AS note#" not in optimized(plan.results)
    assert "concat(" not in optimized(plan.results)
    assert "concat(" in optimized(windows(noted, where="note <> 'b!'").results)


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
    made = windows(frame, **options)
    whole = unpack_rows(made.plan.output, RESULTS, made.plan.results_schema)
    assert sorted(made.results.collect()) == sorted(whole.collect())
    assert made.results.count() > 2


def test_files_are_read_by_the_workers_for_results_too(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    counted = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("10 seconds")
    made = counted.agg(n=mt.count())
    assert made.plan.columnar
    assert ", content#" in made.results._jdf.queryExecution().analyzed().toString()
    whole = unpack_rows(made.plan.output, RESULTS, made.plan.results_schema)
    alone = sorted(emitted(made.results, tmp_path / "alone"))
    assert alone == sorted(emitted(whole, tmp_path / "whole"))
    assert len(alone) == 4


def test_messages_of_which_nothing_is_needed_are_counted(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    pairs = mt.windowed(feed.frame(spark)).tumbling(mt.rows(4)).agg(n=mt.count())
    assert [row.n for row in pairs.results.collect()] == [4, 4, 1]
    counted = mt.windowed(feed.stream(spark)).tumbling(mt.rows(4)).agg(n=mt.count())
    assert [row[2] for row in emitted(counted.results, tmp_path / "checkpoint")] == [4, 4]
