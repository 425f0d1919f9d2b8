"""Transcripts through Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.spark.door import SparkDoor
from tests.spark.portion import portion
from tests.transcripts.notation import Case
from tests.transcripts.test_transcripts import RIGHT, WRONG, by_name, differences

_PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.fixture(scope="module")
def door(spark: SparkSession) -> Iterator[SparkDoor]:
    """Transcripts are so small that a second shard would only be one more task a batch."""
    before = spark.conf.get(_PARTITIONS)
    spark.conf.set(_PARTITIONS, "1")
    yield SparkDoor(spark)
    spark.conf.set(_PARTITIONS, before)


_IN_EVERY_RUN = {case.name for case in [*RIGHT[::9], *WRONG[::9]]}
_IN_EVERY_RUN |= {
    "quarters that begin each month, early and late",
    "samza, the metadata of a window are its bounds, its start offset and its last offset",
    "then, the first message at once and each minute from then on",
    "then, a session that has grown begins with the first again",
}


@pytest.mark.parametrize("case", portion(RIGHT, _IN_EVERY_RUN), ids=by_name)
def test_transcript(case: Case, door: SparkDoor) -> None:
    assert differences(case, door) == []


@pytest.mark.parametrize("case", portion(WRONG, _IN_EVERY_RUN), ids=by_name)
def test_wrong_transcript_is_found_out(case: Case, door: SparkDoor) -> None:
    assert differences(case, door) != []
