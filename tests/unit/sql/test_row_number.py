"""``ROW_NUMBER`` over windows: what it is lowered to, and what is refused."""

from __future__ import annotations

import pytest
from tests.unit.sql.twins import lowered, refused

from muntin.model.pipeline import Choice, Column, Ranking, WindowRelation
from muntin.model.policies import Each

CALL = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES))"
NUMBER = "ROW_NUMBER() OVER (PARTITION BY window_start, window_end{more} ORDER BY {by})"
SUMS = f"SELECT seller, window_start, window_end, sum(price) AS total FROM {CALL} GROUP BY ALL"
SUMS = SUMS.replace("GROUP BY ALL", "GROUP BY seller, window_start, window_end")


def number(by: str = "price DESC", more: str = "") -> str:
    return NUMBER.format(by=by, more=more)


def test_the_first_messages_of_each_window() -> None:
    text = f"SELECT * FROM (SELECT *, {number()} AS rn FROM {CALL}) WHERE rn <= 3"
    found = lowered(text)
    assert found.ranking == Ranking("rn", ("price",), (False,), 3, star=())
    assert (found.keys, str(found.spec.windows)) == ((), "tumbling 10 minutes")
    assert lowered(f"SELECT *, {number()} AS rn FROM {CALL} QUALIFY rn < 4") == found
    assert lowered(f"SELECT *, {number()} AS rn FROM {CALL} QUALIFY 4 > rn") == found


def test_the_latest_message_of_each_window_and_key() -> None:
    text = f"SELECT seller, price FROM {CALL} QUALIFY {number('ts DESC', ', seller')} = 1"
    found = lowered(text)
    assert found.ranking is not None
    assert (found.ranking.by, found.ranking.ascending, found.ranking.most) == (("ts",), (False,), 1)
    assert found.keys == (Column("seller", "`seller`"),)
    shown = Choice((Column("seller", "seller"), Column("price", "price")))
    assert found.ranking.choices == (Choice(None, "`row_number` = 1"), shown)


def test_the_first_of_windows_that_end_together() -> None:
    text = f"SELECT *, {number('total DESC, seller')} AS rn FROM ({SUMS}) QUALIFY rn <= 2"
    found = lowered(text)
    assert found.ranking == Ranking("rn", ("total", "seller"), (False, True), 2, (), chained=True)
    assert isinstance(found.source, WindowRelation)
    assert (found.spec.time, found.spec.lateness) == ("window_end", -1)


def test_all_rows_of_windows() -> None:
    found = lowered(f"SELECT * FROM {CALL} WHERE price > 1 EMIT EARLY EACH")
    assert found.ranking == Ranking("row_number", star=())
    assert (found.where, found.spec.firing.early) == ("price > 1", Each())
    assert lowered(f"SELECT * FROM {CALL[6:-1]} WHERE price > 1 EMIT EARLY EACH") == found


@pytest.mark.parametrize(
    ("text", "problem", "place"),
    [
        (
            f"SELECT * FROM (SELECT *, {number()} AS rn FROM {CALL})",
            "the number of rows has no limit",
            "SELECT *",
        ),
        (
            f"SELECT * FROM (SELECT *, {number()} AS rn FROM {CALL}) WHERE rn > 3",
            "the number of rows has no limit",
            "rn > 3",
        ),
        (
            f"SELECT *, {number()} AS rn FROM {CALL} QUALIFY rn <= 20000",
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
            f"SELECT *, {number('price DESC NULLS FIRST')} AS rn FROM {CALL} QUALIFY rn <= 2",
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
            f"SELECT *, {number()} AS rn FROM {CALL} QUALIFY rn = 2 EMIT EARLY EACH",
            "may cease to satisfy",
            "rn = 2",
        ),
    ],
)
def test_refusals(text: str, problem: str, place: str) -> None:
    said, shown = refused(text)
    assert problem in said
    assert shown == place
