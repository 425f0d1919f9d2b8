"""Transcripts of joins through Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.spark.join_door import SparkJoinDoor
from tests.spark.portion import portion
from tests.transcripts.join_notation import JoinCase
from tests.transcripts.test_joins import RIGHT, WRONG, by_name, differences

_PARTITIONS = "spark.sql.shuffle.partitions"
# Each is a query of its own: the clocks, rejected messages of both sides, and batch frames.
_IN_EVERY_RUN = {
    "samza, shipments and the orders of the two minutes before them, each minute",
    "messages that can't be taken are handed back, of both sides",
    "all at once",
}
# Spark doesn't tell the watermark of a side.
SHOWN_WRONG = [case for case in WRONG if case.name != "wrong, a watermark"]


@pytest.fixture(scope="module")
def door(spark: SparkSession) -> Iterator[SparkJoinDoor]:
    """Transcripts are so small that a second shard would only be one more task a batch."""
    before = spark.conf.get(_PARTITIONS)
    spark.conf.set(_PARTITIONS, "1")
    yield SparkJoinDoor(spark)
    spark.conf.set(_PARTITIONS, before)


@pytest.mark.parametrize("case", portion(RIGHT, _IN_EVERY_RUN), ids=by_name)
def test_transcript(case: JoinCase, door: SparkJoinDoor) -> None:
    assert differences(case, door) == []


@pytest.mark.parametrize(
    "case",
    portion([c for c in WRONG if c.name != "wrong, a watermark"], _IN_EVERY_RUN),
    ids=by_name,
)
def test_wrong_transcript_is_found_out(case: JoinCase, door: SparkJoinDoor) -> None:
    assert differences(case, door) != []


def test_those_of_every_run_exist() -> None:
    assert {case.name for case in [*RIGHT, *WRONG]} >= _IN_EVERY_RUN
