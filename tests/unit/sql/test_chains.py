"""Tests of the lowered forms of queries over queries."""

from __future__ import annotations

import pytest
from tests.unit.sql.twins import get_refusal, lower_join, lower_query

from muntin.model.bounds import Newest, Within
from muntin.model.pipeline import Derived, JoinRelation, WindowRelation, find_tables
from muntin.sql.catalog import find_bound_column
from muntin.sql.select_list import END

WINDOWS = "SELECT k, window_start, window_end, count(*) AS n FROM TABLE(TUMBLE({}, 1 MINUTE)) "
BY = "GROUP BY k, window_start, window_end"
INNER = WINDOWS.format("TABLE Clicks, DESCRIPTOR(ts)") + BY


@pytest.mark.parametrize(
    "text",
    [
        WINDOWS.format(f"({INNER}), DESCRIPTOR(window_end)") + BY,
        WINDOWS.format(f"TABLE ({INNER}), DESCRIPTOR(window_end)") + BY,
        WINDOWS.format(f"DATA => ({INNER}), TIMECOL => DESCRIPTOR(window_end), SIZE => ")
        .replace("=> , ", "=> ") + BY,
        f"WITH v AS ({INNER}) {WINDOWS.format('TABLE v, DESCRIPTOR(window_end)')} {BY}",
        f"CREATE VIEW v AS {INNER}; {WINDOWS.format('TABLE v, DESCRIPTOR(window_end)')} {BY}",
    ],
)  # fmt: skip
def test_windows_over_windows(text):
    query = lower_query(text)
    assert isinstance(query.source, WindowRelation)
    assert query.source.spec.time == "ts"
    assert query.spec.time == "window_end"
    # Rows that windows emit aren't rejected for lying in the future.
    assert (query.source.spec.max_ahead is None, query.spec.max_ahead) == (False, None)
    assert find_tables(query) == {"clicks"}


def test_windows_joined_by_key_and_window():
    views = INNER.replace("Clicks", "Views")
    join = lower_join(
        f"SELECT a.k, a.n, b.n AS seen FROM ({INNER}) a LEFT JOIN (SELECT k, window_start AS s, "
        f"window_end AS e, n FROM ({views}) c WHERE n > 1) b "
        "ON a.k = b.k AND a.window_start = b.s AND a.window_end = b.e"
    )
    assert join.spec.bound == Within(0, 0)
    assert (join.spec.left.time, join.spec.right.time) == ("window_end", "e")
    assert join.spec.right.keys == ("k", "s", "e")
    assert isinstance(join.left, WindowRelation)
    assert isinstance(join.right, Derived)
    assert find_tables(join) == {"clicks", "views"}


def test_windows_over_pairs_of_windows():
    pairs = f"SELECT a.k, a.window_end AS e FROM ({INNER}) a JOIN ({INNER}) b USING (k, window_end)"
    query = lower_query(f"SELECT k, count(*) AS n FROM ({pairs}) GROUP BY k, TUMBLE(e, 1 HOUR)")
    assert isinstance(query.source, JoinRelation)
    assert query.source.spec.bound == Within(0, 0)
    assert find_tables(query) == {"clicks"}


def test_where_the_ends_of_windows_are():
    windows = lower_query(INNER)
    assert find_bound_column(windows, END) == END
    assert find_bound_column(Derived(windows), END) == END
    assert (
        find_bound_column(lower_query("SELECT count(*) AS n FROM t GROUP BY TUMBLE(3 ROWS)"), END)
        is None
    )
    join = lower_join(f"SELECT a.k FROM ({INNER}) a JOIN ({INNER}) b USING (k, window_end)")
    assert find_bound_column(join, END) is None
    assert find_bound_column(Derived(join), END) is None


CHANGES = (
    f"SELECT {{}} FROM ({INNER} EMIT CHANGES) a FULL JOIN ({INNER}) b "
    "{} (k, window_start, window_end){} EMIT CHANGES"
)


def test_each_change_of_windows_that_are_emitted_again():
    for columns in ("*", "k, a.window_start, b.window_end, a.n, b.n AS other"):
        spec = lower_join(CHANGES.format(columns, "USING", "")).spec
        assert (spec.bound, spec.nulls, spec.left.keys) == (Newest(), "reject", ON)
    # Windows that are emitted once give a pair once.
    once = CHANGES.format("*", "USING", "").replace(" EMIT CHANGES) a", ") a")
    assert lower_join(once).spec.bound == Within(0, 0)


ON = ("k", "window_start", "window_end")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            CHANGES.format("*", "USING", " WHERE a.n > 1"),
            "WHERE and EMIT CHANGES can't be combined",
        ),
        (CHANGES.format("k, a.n", "USING", ""), "EMIT CHANGES needs the key window_start"),
        (
            CHANGES.format("a.n + 1 AS k, window_start, window_end", "USING", ""),
            "needs the key k in the output",
        ),
        (
            CHANGES.format("*", "ON", "").replace(
                "(k, window_start, window_end) E",
                "a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end E",
            ),
            "EMIT CHANGES needs the keys of both sides under one name",
        ),
    ],
)
def test_changes_whose_rows_nobody_would_know(text, problem):
    assert problem in get_refusal(text)[0]
