"""Tests of ``UNION ALL`` of messages in front of windows."""

from __future__ import annotations

import pytest
from tests.unit.sql.twins import get_refusal, lower_query

from muntin.model.pipeline import Column, Derived, TableRelation, Union, find_tables
from muntin.sql.api import compile_query

COUNT = "SELECT k, count(*) AS n FROM ({}) u GROUP BY k, TUMBLE(u.ts, 1 MINUTE)"
TABLE = """CREATE TABLE {} (k STRING, {} TIMESTAMP, WATERMARK FOR {} AS {} - {} SECONDS)
           WITH (connector = 'json', path = 'p'); """


def test_rows_meet_by_their_places():
    query = lower_query(
        COUNT.format("SELECT k, ts FROM a UNION ALL SELECT j, at FROM b WHERE j > 1")
    )
    first = Derived(TableRelation("a"), (Column("k", "k"), Column("ts", "ts")))
    second = Derived(TableRelation("b"), (Column("j", "j"), Column("at", "at")), "j > 1")
    assert query.source == Union((first, second))
    assert find_tables(query.source) == {"a", "b"}


def test_the_watermark_trails_as_far_as_that_of_any():
    tables = TABLE.format("a", "ts", "ts", "ts", 5) + TABLE.format("b", "TS", "TS", "TS", 30)
    text = COUNT.format("SELECT k, ts FROM a UNION ALL SELECT k, TS FROM b")
    query = compile_query(tables + text).lowered.query
    assert (query.spec.time, query.spec.lateness) == ("ts", 30_000_000)


def test_a_view_may_be_united_and_be_a_union():
    inner = "SELECT k, ts FROM a UNION ALL SELECT k, ts FROM v UNION ALL SELECT k, ts FROM c"
    text = f"WITH v AS (SELECT * FROM b), w AS ({inner}) " + COUNT.format("SELECT * FROM w")
    assert find_tables(lower_query(text).source) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        ("SELECT k, at AS ts FROM b", "the time is at here, and ts before"),
        ("SELECT k, ts FROM a OFFSET FOR (p, o)", "several tables may have the same offsets"),
    ],
)
def test_what_is_refused(second, problem):
    tables = TABLE.format("a", "ts", "ts", "ts", 5) + TABLE.format("b", "at", "at", "at", 5)
    text = COUNT.format(f"SELECT k, ts FROM a UNION ALL {second}")
    assert problem in get_refusal(tables + text)[0]
