"""Every transcript through Spark: some in every run, the rest with the slow tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.door import SparkDoor
from tests.transcripts.notation import Case
from tests.transcripts.test_transcripts import RIGHT, WRONG, by_name, differences

_ONE_IN = 9
_PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.fixture(scope="module")
def door(spark: SparkSession) -> Iterator[SparkDoor]:
    """Transcripts are so small that a second shard would only be one more task a batch."""
    before = spark.conf.get(_PARTITIONS)
    spark.conf.set(_PARTITIONS, "1")
    yield SparkDoor(spark)
    spark.conf.set(_PARTITIONS, before)


def some_slow(cases: list[Case]) -> list[Any]:
    """The cases, all but one in a few of them marked slow: each is a streaming query."""
    slow = pytest.mark.slow
    return [pytest.param(c, marks=[slow] if n % _ONE_IN else []) for n, c in enumerate(cases)]


@pytest.mark.parametrize("case", some_slow(RIGHT), ids=by_name)
def test_transcript(case: Case, door: SparkDoor) -> None:
    assert differences(case, door) == []


@pytest.mark.parametrize("case", some_slow(WRONG), ids=by_name)
def test_wrong_transcript_is_found_out(case: Case, door: SparkDoor) -> None:
    assert differences(case, door) != []
