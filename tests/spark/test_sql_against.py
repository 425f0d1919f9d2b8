"""Tests that muntin and Spark SQL give the same rows for random statements."""

from __future__ import annotations

import time

import pytest
from pyspark.sql import SparkSession
from tests.spark.sql_against import Against, search


@pytest.mark.slow
def test_statements_of_a_few_seeds(spark: SparkSession) -> None:
    against = Against(spark)
    search(against, [1], columns=16)
    assert not against.differences, "\n".join(against.differences)
    assert against.counts["same"] > 8, against.counts


@pytest.mark.long
def test_statements_of_many_seeds(spark: SparkSession) -> None:
    against, end, seed = Against(spark), time.monotonic() + 150, 1000
    while time.monotonic() < end:
        search(against, [seed])
        seed += 1
    assert not against.differences, "\n".join(against.differences)
    assert against.counts["same"] > 5 * against.counts["refused"], against.counts
