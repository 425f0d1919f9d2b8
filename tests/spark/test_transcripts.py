"""Every transcript through Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.spark.door import SparkDoor
from tests.transcripts.notation import Case
from tests.transcripts.test_transcripts import RIGHT, WRONG, by_name, differences


@pytest.mark.parametrize("case", RIGHT, ids=by_name)
def test_transcript(case: Case, spark: SparkSession) -> None:
    assert differences(case, SparkDoor(spark)) == []


@pytest.mark.parametrize("case", WRONG, ids=by_name)
def test_wrong_transcript_is_found_out(case: Case, spark: SparkSession) -> None:
    assert differences(case, SparkDoor(spark)) != []
