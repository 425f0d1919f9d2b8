"""SQL text that the local host takes means what Spark makes of it, over the same rows."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

from muntin.hosts.local.expressions import FUNCTIONS, sql_expression

_ROWS: list[tuple[int | None, float | None, str | None, bool | None]] = [
    (1, 1.5, "ab", True),
    (-2, math.nan, "AB ", False),
    (0, -0.0, " b%", None),
    (None, None, None, True),
    (3, math.inf, "", False),
    (2, 0.0, "a_b", None),
]
_SCHEMA = {"n": pl.Int64(), "x": pl.Float64(), "s": pl.String(), "b": pl.Boolean()}
TEXTS = [
    "n > 1",
    "N <= 2 AND n <> 0",
    "n = 1 OR b",
    "NOT b",
    "NOT (n > 0 AND b)",
    "b OR n IS NULL",
    "n IS NOT NULL AND s IS NULL",
    "n IN (1, 2)",
    "n NOT IN (1, 2)",
    "n BETWEEN 0 AND 2",
    "n NOT BETWEEN 0 AND 2",
    "x > 1",
    "x = 0",
    "x <> 0",
    "x >= 1.5 OR x < -1",
    "s = 'ab'",
    "s < 'b'",
    "s LIKE 'a%'",
    "s LIKE '%b_'",
    "s NOT LIKE '%b%'",
    "s IN ('ab', '')",
    "n + 1 > 2",
    "n * 2 - 1",
    "- n",
    "x * 2 + n",
    "abs(n)",
    "abs(x) > 1",
    "coalesce(n, 7)",
    "coalesce(s, 'none')",
    "lower(s)",
    "upper(s)",
    "ltrim(s)",
    "rtrim(s)",
    "CASE WHEN n > 1 THEN 'many' WHEN n = 1 THEN 'one' ELSE s END",
    "CASE WHEN b THEN n END",
    "`n` >= 1 AND TRUE",
]


def _plain(value: Any) -> Any:
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def test_sql_text_means_the_same(spark: SparkSession) -> None:
    frame = pl.DataFrame(_ROWS, schema=_SCHEMA, orient="row")
    on_spark = spark.createDataFrame(_ROWS, "n long, x double, s string, b boolean").coalesce(1)
    rows = on_spark.selectExpr(*(f"{text} AS c{i}" for i, text in enumerate(TEXTS))).collect()
    schema = frame.schema
    for number, text in enumerate(TEXTS):
        found = frame.select(sql_expression(schema, "where", text)).to_series().to_list()
        expected = [row[number] for row in rows]
        assert [*map(_plain, found)] == [*map(_plain, expected)], text


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_each_function_is_tried(name: str) -> None:
    assert any(text.startswith(f"{name}(") for text in TEXTS)
