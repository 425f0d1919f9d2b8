"""Tests of queries around windows, and of their refusals."""

from __future__ import annotations

import pytest
from tests.unit.sql.twins import get_refusal, lower_query

from muntin.model.pipeline import Choice, Column

HOUR = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 HOUR))"
BY = "GROUP BY k, window_start, window_end"
INNER = f"SELECT k, count(*) AS n, max(v) - min(v) AS width FROM {HOUR} {BY}"
PLAIN = f"SELECT k, count(*) AS n FROM {HOUR} {BY}"


def read_columns(text: str) -> dict[str, str]:
    columns = lower_query(text).columns
    assert columns is not None
    return {column.name: column.text for column in columns}


def test_columns_are_those_that_windows_emit():
    assert read_columns(f"SELECT w.n * width AS area, window_end AS until FROM ({INNER}) w") == {
        "k": "`k`",
        "window_start": "`window_start`",
        "window_end": "`window_end`",
        "area": "`n` * (`__muntin_a1` - `__muntin_a2`)",
        "until": "`window_end`",
        "emission": "emission",
        "revision": "revision",
    }


def test_a_condition_holds_of_firings():
    inner = f"{PLAIN} HAVING count(*) < 9 EMIT EARLY EACH"
    query = lower_query(f"SELECT * FROM ({inner}) WHERE n > 3 AND k <> 'a'")
    assert query.having == "(`n` < 9) AND (`n` > 3 AND `k` <> 'a')"
    assert query.spec == lower_query(inner).spec
    assert [column.name for column in query.columns or ()] == [
        "k", "window_start", "window_end", "n", "emission", "revision",
    ]  # fmt: skip


def test_views_name_their_columns():
    view = f"CREATE VIEW w (page, views, spread) AS {INNER}; SELECT page, views FROM w"
    assert list(read_columns(view)) == [
        "page", "window_start", "window_end", "views", "emission", "revision",
    ]  # fmt: skip
    within = f"WITH w (page, views, spread) AS ({INNER}) SELECT page, views FROM w"
    assert read_columns(within) == read_columns(view)


def test_rows_of_windows():
    query = lower_query(f"SELECT k FROM (SELECT * FROM {HOUR}) WHERE v > 3")
    assert query.ranking is not None
    assert query.ranking.choices == (
        Choice(None, "v > 3"),
        Choice((Column("k", "k"),)),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"SELECT other FROM ({PLAIN})", "the inner query has no such column"),
        (f"SELECT n AS k FROM ({PLAIN})", "k is a column of the output already"),
        (f"SELECT n, n FROM ({PLAIN})", "n is a column of the output already"),
        (f"SELECT n FROM ({PLAIN}) EMIT CHANGES", "rows without windows have no trigger"),
        (f"SELECT sum(n) FROM ({PLAIN})", "so this needs windows"),
        (f"CREATE VIEW w (a, b) AS {INNER}; SELECT a FROM w", "aren't those of the query's"),
        (
            f"SELECT k FROM (SELECT * FROM {HOUR} EMIT EARLY EACH) WHERE v > 3",
            "an emitted row may cease to satisfy",
        ),
    ],
)
def test_what_is_refused(text, problem):
    assert problem in get_refusal(text)[0]
