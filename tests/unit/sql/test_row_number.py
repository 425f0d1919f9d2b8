"""Tests of ``ROW_NUMBER`` over windows, and of its refusals."""

from __future__ import annotations

import pytest
from tests.unit.sql.twins import get_refusal, lower_query

from muntin.model.pipeline import Choice, Column, Ranking, WindowRelation
from muntin.model.policies import Each

CALL = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES))"
NUMBER = "ROW_NUMBER() OVER (PARTITION BY window_start, window_end{more} ORDER BY {by})"
SUMS = f"SELECT seller, window_start, window_end, sum(price) AS total FROM {CALL} GROUP BY ALL"
SUMS = SUMS.replace("GROUP BY ALL", "GROUP BY seller, window_start, window_end")


def number_rows(by: str = "price DESC", more: str = "") -> str:
    return NUMBER.format(by=by, more=more)


def test_the_first_messages_of_each_window() -> None:
    text = f"SELECT * FROM (SELECT *, {number_rows()} AS rn FROM {CALL}) WHERE rn <= 3"
    query = lower_query(text)
    assert query.ranking == Ranking("rn", ("price",), (False,), 3, star=())
    assert (query.keys, str(query.spec.windows)) == ((), "tumbling 10 minutes")
    assert lower_query(f"SELECT *, {number_rows()} AS rn FROM {CALL} QUALIFY rn < 4") == query
    assert lower_query(f"SELECT *, {number_rows()} AS rn FROM {CALL} QUALIFY 4 > rn") == query


def test_the_latest_message_of_each_window_and_key() -> None:
    text = f"SELECT seller, price FROM {CALL} QUALIFY {number_rows('ts DESC', ', seller')} = 1"
    query = lower_query(text)
    assert query.ranking is not None
    assert (query.ranking.by, query.ranking.ascending, query.ranking.most) == (("ts",), (False,), 1)
    assert query.keys == (Column("seller", "`seller`"),)
    columns = Choice((Column("seller", "seller"), Column("price", "price")))
    assert query.ranking.choices == (Choice(None, "`row_number` = 1"), columns)


def test_the_first_of_windows_that_end_together() -> None:
    text = f"SELECT *, {number_rows('total DESC, seller')} AS rn FROM ({SUMS}) QUALIFY rn <= 2"
    query = lower_query(text)
    assert query.ranking == Ranking("rn", ("total", "seller"), (False, True), 2, (), chained=True)
    assert isinstance(query.source, WindowRelation)
    assert (query.spec.time, query.spec.lateness) == ("window_end", -1)


def test_all_rows_of_windows() -> None:
    query = lower_query(f"SELECT * FROM {CALL} WHERE price > 1 EMIT EARLY EACH")
    assert query.ranking == Ranking("row_number", star=())
    assert (query.where, query.spec.firing.early) == ("price > 1", Each())
    assert lower_query(f"SELECT * FROM {CALL[6:-1]} WHERE price > 1 EMIT EARLY EACH") == query


@pytest.mark.parametrize(
    ("text", "problem", "at"),
    [
        (
            f"SELECT * FROM (SELECT *, {number_rows()} AS rn FROM {CALL})",
            "the number of rows has no limit",
            "SELECT *",
        ),
        (
            f"SELECT * FROM (SELECT *, {number_rows()} AS rn FROM {CALL}) WHERE rn > 3",
            "the number of rows has no limit",
            "rn > 3",
        ),
        (
            f"SELECT *, {number_rows()} AS rn FROM {CALL} QUALIFY rn <= 20000",
            "the limit is out of range",
            "20000",
        ),
        (
            "SELECT *, ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY price) AS rn "
            f"FROM {CALL} QUALIFY rn <= 2",
            "aren't numbered by window",
            "ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY price)",
        ),
        (
            "SELECT *, ROW_NUMBER() OVER (PARTITION BY seller ORDER BY price) AS rn "
            "FROM bids QUALIFY rn <= 2",
            "aren't in windows of time",
            "ROW_NUMBER() OVER (PARTITION BY seller ORDER BY price)",
        ),
        (
            f"SELECT *, {number_rows('price DESC NULLS FIRST')} AS rn FROM {CALL} QUALIFY rn <= 2",
            "this order of nulls isn't supported",
            "price",
        ),
        (
            "SELECT * FROM bids MATCH_RECOGNIZE (PARTITION BY seller)",
            "MATCH_RECOGNIZE isn't supported",
            "MATCH_RECOGNIZE",
        ),
        (
            "SELECT RANK() OVER (PARTITION BY window_start, window_end ORDER BY price) AS r "
            f"FROM {CALL} GROUP BY window_start, window_end",
            "rank can't be combined with GROUP BY or DISTINCT",
            "RANK() OVER (PARTITION BY window_start, window_end ORDER BY price)",
        ),
        (f"SELECT price FROM {CALL} QUALIFY price > 3", "QUALIFY needs row_number", "price > 3"),
        (
            f"SELECT *, {number_rows()} AS rn FROM {CALL} QUALIFY rn = 2 EMIT EARLY EACH",
            "may cease to satisfy",
            "rn = 2",
        ),
    ],
)
def test_refusals(text: str, problem: str, at: str) -> None:
    message, marked = get_refusal(text)
    assert problem in message
    assert marked == at
