"""Transcripts of joins through Spark: a few in every run, the rest with the slow tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.join_door import SparkJoinDoor
from tests.transcripts.join_notation import JoinCase
from tests.transcripts.test_joins import RIGHT, WRONG, by_name, differences

_PARTITIONS = "spark.sql.shuffle.partitions"
# Each is a query of its own: the clocks, rejected messages of both sides, and batch frames.
_IN_EVERY_RUN = {
    "samza, shipments and the orders of the two minutes before them, each minute",
    "messages that can't be taken are handed back, of both sides",
    "all at once",
}


@pytest.fixture(scope="module")
def door(spark: SparkSession) -> Iterator[SparkJoinDoor]:
    """Transcripts are so small that a second shard would only be one more task a batch."""
    before = spark.conf.get(_PARTITIONS)
    spark.conf.set(_PARTITIONS, "1")
    yield SparkJoinDoor(spark)
    spark.conf.set(_PARTITIONS, before)


def some_slow(cases: list[JoinCase]) -> list[Any]:
    return [
        pytest.param(case, marks=[] if case.name in _IN_EVERY_RUN else [pytest.mark.slow])
        for case in cases
    ]


@pytest.mark.parametrize("case", some_slow(RIGHT), ids=by_name)
def test_transcript(case: JoinCase, door: SparkJoinDoor) -> None:
    assert differences(case, door) == []


@pytest.mark.parametrize(
    "case", some_slow([c for c in WRONG if c.name != "wrong, a watermark"]), ids=by_name
)
def test_wrong_transcript_is_found_out(case: JoinCase, door: SparkJoinDoor) -> None:
    assert differences(case, door) != []


def test_those_of_every_run_exist() -> None:
    assert {case.name for case in [*RIGHT, *WRONG]} >= _IN_EVERY_RUN
