"""Tests of sessions whose gap is a column or an expression of each message."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin as mt

pytestmark = pytest.mark.slow

VISITS = """
SELECT user, timestamp(at) AS at, patience, INTERVAL 1 SECOND * secs AS wait, secs,
    named_struct('wait', patience) AS said
FROM VALUES ('ann', '2026-01-01 09:00:00', '10 seconds', 10),
    ('ann', '2026-01-01 09:00:08', '1 second', 1), ('ann', '2026-01-01 09:00:11', '1 minute', 60),
    ('bob', '2026-01-01 09:00:00', '5 seconds', 5), ('bob', '2026-01-01 09:00:06', 'soon', NULL),
    ('bob', '2026-01-01 09:00:07', '-1 second', -1) AS visits(user, at, patience, secs)
"""


@pytest.fixture(scope="module")
def visits(spark: SparkSession) -> DataFrame:
    return spark.sql(VISITS).cache()


def sessions(visits: DataFrame, by: Column | str) -> mt.WindowedAggregate:
    return mt.windowed(visits, key="user", time="at").session(by=by).agg(n=mt.count())


@pytest.mark.parametrize(
    "by",
    [
        "patience",
        "wait",
        "said.wait",
        lambda: F.col("patience"),
        lambda: F.expr("make_dt_interval(0, 0, 0, secs)"),
        lambda: F.when(F.col("secs") == 60, "1 minute").otherwise(F.col("patience")),
    ],
)
def test_a_gap_is_text_or_an_interval(visits: DataFrame, by: Any) -> None:
    counts = sessions(visits, by if isinstance(by, str) else by())
    rows = counts.results.selectExpr(
        "user", "date_format(window_start, 'mm:ss')", "date_format(window_end, 'mm:ss')", "n"
    )
    assert sorted(tuple(row) for row in rows.collect()) == [
        ("ann", "00:00", "00:10", 2),
        ("ann", "00:11", "01:11", 1),
        ("bob", "00:00", "00:05", 1),
    ]
    rejected = counts.rejected
    assert rejected.columns == [*visits.columns, "reason", "watermark"]
    reasons = {(row.user, row.patience, row.reason) for row in rejected.collect()}
    assert reasons == {("bob", "soon", "malformed"), ("bob", "-1 second", "malformed")}


@pytest.mark.parametrize(
    ("by", "error"),
    [
        ("secs", "a length of time"),
        ("nowhere", "isn't a column"),
        (5, "isn't a column"),
    ],
)
def test_what_is_no_length_is_refused(visits: DataFrame, by: Column | str, error: str) -> None:
    with pytest.raises(mt.OptionError, match=error):
        sessions(visits, by)


def test_a_gap_or_gaps(visits: DataFrame) -> None:
    windowed = mt.windowed(visits, key="user", time="at")
    with pytest.raises(mt.OptionError, match="can't be combined with by="):
        windowed.session("1 minute", by="patience")
    with pytest.raises(mt.OptionError, match="is missing"):
        windowed.session()


def test_explained(visits: DataFrame) -> None:
    text = sessions(visits, "patience").explain()
    assert "session by the gap of each message" in text
    assert "has passed all of its messages' own gaps" in text
    assert "a session ends when the gaps of all of its messages have passed" in text
