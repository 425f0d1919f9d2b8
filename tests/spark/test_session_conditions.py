"""Tests of sessions with conditions, as SQL, as Columns or as names."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin as mt

pytestmark = pytest.mark.slow

EVENTS = """
SELECT user, timestamp('2026-01-01 09:' || minute || ':00') AS at, kind, kind = 'logout' AS leaves,
    named_struct('page', page) AS seen
FROM VALUES ('ann', '00', 'login', 'a'), ('ann', '04', 'click', 'a'), ('ann', '09', 'logout', 'b'),
    ('ann', '12', 'click', 'b'), ('ann', '20', 'login', 'b'), ('ann', '25', NULL, NULL)
    AS events(user, minute, kind, page)
"""


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return spark.sql(EVENTS).cache()


def rows_of(sessions: mt.WindowedAggregate) -> list[tuple[Any, ...]]:
    columns = ("date_format(window_start, 'mm')", "date_format(window_end, 'mm')", "n")
    return sorted(tuple(row) for row in sessions.results.selectExpr(*columns).collect())


@pytest.mark.parametrize(
    ("make_options", "expected"),
    [
        (lambda: {"end": "KIND = 'logout'"}, [("00", "09", 3), ("12", "55", 3)]),
        (lambda: {"end": "leaves"}, [("00", "09", 3), ("12", "55", 3)]),
        (lambda: {"start": F.col("kind") == "login"}, [("00", "20", 4), ("20", "55", 2)]),
        (lambda: {"same": "seen.page"}, [("00", "09", 2), ("09", "25", 3), ("25", "55", 1)]),
        (lambda: {"same": F.upper("kind"), "longest": "30 minutes", "end": "leaves"},
         [("00", "04", 1), ("04", "09", 1), ("09", "09", 1), ("12", "20", 1), ("20", "25", 1),
          ("25", "55", 1)]),
    ],
)  # fmt: skip
def test_conditions_cut_sessions(events: DataFrame, make_options: Any, expected: Any) -> None:
    windowed = mt.windowed(events, key="user", time="at")
    assert rows_of(windowed.session("30 minutes", **make_options()).agg(n=mt.count())) == expected


def test_messages_between_sessions_are_outside(events: DataFrame) -> None:
    windowed = mt.windowed(events, key="user", time="at")
    conditions = {"start": "kind = 'login'", "end": "kind = 'logout'"}
    visits = windowed.session("30 minutes", **conditions).agg(n=mt.count())
    assert rows_of(visits) == [("00", "09", 3), ("20", "55", 2)]
    rejected = visits.rejected
    assert rejected.columns == [*events.columns, "reason", "watermark"]
    assert [(row.kind, row.seen.page, row.reason) for row in rejected.collect()] == [
        ("click", "b", "outside")
    ]
    sql_visits = mt.sql(
        "SELECT user, window_start, window_end, count(*) AS n FROM TABLE(SESSION(TABLE visitors "
        "PARTITION BY user, DESCRIPTOR(at), INTERVAL '30' MINUTE, START => kind = 'login', "
        "END => kind = 'logout')) GROUP BY user, window_start, window_end",
        visitors=events,
    )
    assert rows_of(sql_visits) == rows_of(visits)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"end": "kind"}, "end='kind' has type string, and a condition is true or false"),
        ({"start": "nowhere = 1"}, "start='nowhere = 1' can't be computed"),
        ({"same": "nowhere"}, "same='nowhere' isn't a column"),
        ({"start": 5}, "start=5 isn't a condition"),
        ({"same": "seen"}, "same='seen' has type Struct"),
    ],
)
def test_what_cannot_be_is_refused(events: DataFrame, options: Any, problem: str) -> None:
    with pytest.raises(mt.OptionError) as refusal:
        mt.windowed(events, key="user", time="at").session("1 hour", **options).agg(n=mt.count())
    assert problem in str(refusal.value)
