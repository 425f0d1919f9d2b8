"""Tests of ``GROUPING SETS``, ``ROLLUP`` and ``CUBE``, and of their refusals."""

from __future__ import annotations

import pytest
from tests.unit.sql.twins import get_refusal, lower_query, sentence

import muntin as mt

HOUR = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
AB = sentence(key=["a", "b"], time="ts")


def write_query(group: str, columns: str = "a, b") -> str:
    return f"SELECT {columns}, count(*) AS n FROM {HOUR} GROUP BY {group}"


@pytest.mark.parametrize(
    ("group", "twin"),
    [
        ("window_start, window_end, ROLLUP (a, b)", AB.sets("rollup")),
        ("window_start, window_end, CUBE (a, b)", AB.sets("cube")),
        ("ROLLUP (1, b), window_start, window_end", AB.sets("rollup")),
        ("window_start, window_end, GROUPING SETS ((a, b), (a), ())", AB.sets("rollup")),
        ("window_start, window_end, GROUPING SETS ((a, b), a)", AB.sets(["a", "b"], ["a"])),
        ("window_start, window_end, GROUPING SETS (a, b)", AB.sets(["a"], ["b"])),
        ("window_start, window_end, GROUPING SETS (ROLLUP (a, b))", AB.sets("rollup")),
        ("window_start, window_end, ROLLUP ((a, b))", AB.sets(["a", "b"], [])),
        ("window_start, window_end, a, ROLLUP (b)", AB.sets(["a", "b"], ["a"])),
        ("window_start, window_end, ROLLUP (a), ROLLUP (b)",
         AB.sets(["a", "b"], ["a"], ["b"], [])),
        ("GROUPING SETS ((window_start, window_end, a), (b, window_end, window_start))",
         AB.sets(["a"], ["b"])),
    ],
)  # fmt: skip
def test_sets(group, twin):
    assert lower_query(write_query(group)).spec == twin.tumbling("1 hour").spec(n=mt.count())


def test_one_set_of_all_columns_is_none():
    query = lower_query(
        write_query("window_start, window_end, GROUPING SETS ((a, b))", "GROUPING(a)")
    )
    assert query.spec == AB.tumbling("1 hour").spec(n=mt.count())
    assert query.columns is not None
    assert {column.name: column.text for column in query.columns}["grouping(a)"] == "0L"


def test_which_columns_are_not_in_the_set():
    columns = (
        "GROUPING(b) AS g, GROUPING_ID(b, a) AS back, GROUPING_ID(a, b) AS both, grouping_id()"
    )
    query = lower_query(write_query("window_start, window_end, CUBE (a, b)", columns))
    assert query.columns is not None
    texts = {column.name: column.text for column in query.columns}
    assert list(texts)[:5] == ["a", "b", "grouping_id", "window_start", "window_end"]
    assert texts["g"] == "(shiftright(grouping_id, 0) % 2 * 1)"
    assert (
        texts["back"] == "(shiftright(grouping_id, 1) % 2 * 1 + shiftright(grouping_id, 0) % 2 * 2)"
    )
    assert texts["both"] == "grouping_id"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (write_query("ROLLUP (window_start, window_end, a, b)"), "a grouping set lacks the bounds"),
        (write_query("window_start, window_end, GROUPING SETS ((a, b), (b, a))"), "are the same"),
        (write_query("window_start, window_end, a, CUBE (a, b)"), "are the same"),
        (write_query("window_start, window_end, CUBE (a, b, c, d, e, f, g)"), "too many"),
        (
            write_query("window_start, window_end, a, b", "GROUPING(a)"),
            "there are no grouping sets",
        ),
        (
            write_query("window_start, window_end, ROLLUP (a, b)", "GROUPING(c)"),
            "isn't a key of the grouping sets",
        ),
        (
            "SELECT a, count(*) FROM t GROUP BY SESSION(ts, 1 HOUR), ROLLUP (a)",
            "are others for each set of keys",
        ),
        (
            "SELECT grouping_id, count(*) FROM t GROUP BY TUMBLE(ts, 1 HOUR), ROLLUP (grouping_id)",
            "grouping_id is a column of the output already",
        ),
    ],
)
def test_what_is_refused(text, problem):
    assert problem in get_refusal(text)[0]
