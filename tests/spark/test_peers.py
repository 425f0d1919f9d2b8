"""Tests of cases from peers' test suites whose expressions Spark computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession
from tests.unit.sql.test_peers_suites import read_suites, render_cell

import muntin as mt

pytestmark = pytest.mark.slow

ON_SPARK = {
    "flink: rows of tumbling, with a negative offset",
    "flink: full join of windows, keys that may be NULL",
    "flink: rows of windows without a partner",
    "flink: full interval join with conditions of both sides",
    "flink: left temporal join with a condition over both",
    "flink: interval join without equal columns",
}


def choose_cases() -> Iterator[Any]:
    return (case for case in read_suites() if case.id in ON_SPARK)


def test_the_cases_are_in_the_suites() -> None:
    assert {case.id for case in choose_cases()} == ON_SPARK


@pytest.mark.parametrize(("case", "tables"), list(choose_cases()))
def test_case(spark: SparkSession, case: dict[str, Any], tables: dict[str, pl.DataFrame]) -> None:
    frames = {
        name: spark.createDataFrame(frame.to_arrow()).coalesce(1) for name, frame in tables.items()
    }
    results = mt.sql(spark, case["sql"], **frames).results.select(*case["shows"].split())
    rows = [" ".join(map(render_cell, row)) for row in results.collect()]
    assert sorted(rows) == sorted(case["rows"])
