"""Tests of transcripts on Spark, several of them in one query."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.spark.groups import group_cases
from tests.spark.runner import SparkRunner
from tests.transcripts.notation import Case
from tests.transcripts.test_transcripts import RIGHT, WRONG, compare_output

_PARTITIONS = "spark.sql.shuffle.partitions"
_IN_EVERY_RUN = {case.name for case in [*RIGHT[::45], *WRONG[::15]]}
_IN_EVERY_RUN |= {
    "quarters that begin each month, early and late",
    "samza, the metadata of a window are its bounds, its start offset and its last offset",
    "then, the first message at once and each minute from then on",
    "trailing, messages come and fall out of each look-back at its own time",
    "then, a session that has grown begins with the first again",
    "cuts, from one event to another",
    "cuts, a late end splits a session that has emitted",
}


@pytest.fixture(scope="module")
def runner(spark: SparkSession) -> Iterator[SparkRunner]:
    """Transcripts are so small that a second shard would only be one more task a batch."""
    before = spark.conf.get(_PARTITIONS)
    spark.conf.set(_PARTITIONS, "1")
    yield SparkRunner(spark)
    spark.conf.set(_PARTITIONS, before)


@pytest.mark.parametrize("cases", group_cases(RIGHT, _IN_EVERY_RUN))
def test_transcripts(cases: list[Case], runner: SparkRunner) -> None:
    differences = _find_differences(cases, runner)
    assert {name: texts for name, texts in differences.items() if texts} == {}


@pytest.mark.parametrize("cases", group_cases(WRONG, _IN_EVERY_RUN))
def test_wrong_transcripts_differ(cases: list[Case], runner: SparkRunner) -> None:
    differences = _find_differences(cases, runner)
    assert [name for name, texts in differences.items() if not texts] == []


def _find_differences(cases: list[Case], runner: SparkRunner) -> dict[str, list[str]]:
    """Return the differences of each case from its transcript, by the name of the case."""
    outputs = runner.run_all([(case.spec, case.steps) for case in cases])
    return {
        case.name: compare_output(case, steps, runner)
        for case, steps in zip(cases, outputs, strict=True)
    }
