"""Transcripts of joins through Spark, some of them in one query."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.spark.groups import group_cases
from tests.spark.join_runner import SparkJoinRunner
from tests.transcripts.join_notation import JoinCase
from tests.transcripts.test_joins import RIGHT, WRONG, compare_output

import muntin as mt

_PARTITIONS = "spark.sql.shuffle.partitions"
# The clocks, rejected messages of both sides, the ends of distances, and batch frames.
_IN_EVERY_RUN = {
    "samza, shipments and the orders of the two minutes before them, each minute",
    "messages that can't be taken are handed back, of both sides",
    "partners at either end of the distance are pairs, in one batch and with the state",
    "all at once",
}
# The clock that the messages carry is a value, so that no row consists of NULLs alone.
_CASES = [case for case in RIGHT if case.name != "a row of NULLs deletes the row of its key"]
# Spark doesn't tell the watermark of a side.
_WRONG = [case for case in WRONG if case.name != "wrong, a watermark"]


@pytest.fixture(scope="module")
def runner(spark: SparkSession) -> Iterator[SparkJoinRunner]:
    """Transcripts are so small that a second shard would only be one more task a batch."""
    before = spark.conf.get(_PARTITIONS)
    spark.conf.set(_PARTITIONS, "1")
    yield SparkJoinRunner(spark)
    spark.conf.set(_PARTITIONS, before)


@pytest.mark.parametrize("cases", group_cases(_CASES, _IN_EVERY_RUN))
def test_transcripts(cases: list[JoinCase], runner: SparkJoinRunner) -> None:
    differences = _find_differences(cases, runner)
    assert {name: texts for name, texts in differences.items() if texts} == {}


@pytest.mark.parametrize("cases", group_cases(_WRONG, _IN_EVERY_RUN))
def test_wrong_transcripts_differ(cases: list[JoinCase], runner: SparkJoinRunner) -> None:
    differences = _find_differences(cases, runner)
    assert [name for name, texts in differences.items() if not texts] == []


def test_those_of_every_run_exist() -> None:
    assert {case.name for case in [*RIGHT, *WRONG]} >= _IN_EVERY_RUN


def test_a_row_of_nulls_deletes_the_row_of_its_key(spark: SparkSession) -> None:
    clicks = spark.createDataFrame([("a", 5), ("b", 5)], "key string, at long")
    users = spark.createDataFrame(
        [("a", 1, "free"), ("b", 2, "pro"), ("a", 3, None)], "key string, at long, plan string"
    ).coalesce(1)
    left, right = (
        mt.windowed(frame.selectExpr("*", "timestamp_micros(at) time").drop("at"), time="time")
        for frame in (clicks, users)
    )
    pairs = mt.join(left, right, on="key", newest=True, how="left")
    rows = [tuple(row) for row in pairs.results.select("key", "plan").collect()]
    assert sorted(rows) == [("a", None), ("b", "pro")]


def _find_differences(cases: list[JoinCase], runner: SparkJoinRunner) -> dict[str, list[str]]:
    """Return the differences of each case from its transcript, by the name of the case."""
    outputs = runner.run_all([(case.spec, case.types, case.steps) for case in cases])
    return {
        case.name: compare_output(case, steps, runner)
        for case, steps in zip(cases, outputs, strict=True)
    }
