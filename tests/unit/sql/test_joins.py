"""Joins: the Samza design's statements word for word, and what can't be joined."""

from __future__ import annotations

import pytest
from tests.unit.sql.twins import joined, refused

from muntin.model.joins import JoinSpec, Side, Within, bound_of
from muntin.model.pipeline import AHEAD, Column
from muntin.model.policies import Each, Every, Firing

ROWS = (
    "SELECT id, value, cost FROM Shipments JOIN Orders OVER (ROWS 3 PRECEDING) "
    "ON Orders.id = Shipments.id"
)
MINUTES = (
    "SELECT id, value, cost FROM Shipments JOIN Orders OVER "
    "(ORDER BY time RANGE '2' min PRECEDING) ON Orders.id = Shipments.id"
)
EACH = Firing(early=Each(), late=Each())


def side(**options) -> Side:
    return Side(("id",), **{"time": "time", "max_ahead": AHEAD, **options})


def test_the_design_s_join_over_time():
    found = joined(MINUTES)
    assert found.spec == JoinSpec(side(), side(), bound_of("2 minutes", None, None))
    assert found.names == ("Shipments", "Orders")
    assert found.columns == tuple(Column(c, c) for c in ("id", "value", "cost"))
    assert found.bare == ("id", "value", "cost")


def test_the_design_s_join_over_rows():
    text = ROWS.replace("Shipments JOIN", "Shipments OFFSET FOR (p, o) JOIN")
    text = text.replace("Orders OVER", "Orders OFFSET FOR (p, o) OVER")
    placed = side(time=None, offset=("p", "o"))
    assert joined(text).spec == JoinSpec(placed, placed, Within(3, 3, "rows"))


def test_the_design_s_join_over_rows_needs_offsets():
    problem, _ = refused(ROWS)
    assert "needs offsets on the left; write OFFSET FOR (partition, offset)" in problem


@pytest.mark.parametrize(
    ("words", "how"),
    [
        ("JOIN", "inner"),
        ("INNER JOIN", "inner"),
        ("LEFT OUTER JOIN", "left"),
        ("RIGHT JOIN", "right"),
        ("FULL OUTER JOIN", "full"),
        ("LEFT SEMI JOIN", "semi"),
        ("ANTI JOIN", "anti"),
    ],
)
def test_kinds(words, how):
    assert joined(MINUTES.replace("JOIN", words)).spec.how == how


def test_both_sides_may_have_windows_and_watermarks():
    found = joined(
        """SELECT a.x + b.x AS s FROM a WATERMARK ts DELAY OF 1 MINUTE
           OVER (ORDER BY ts RANGE 0 SECONDS PRECEDING)
           JOIN b WATERMARK at DELAY OF 5 SECONDS MAX AHEAD ANY
           OVER (ORDER BY at RANGE 10 MINUTES PRECEDING)
           ON a.k = b.key AND b.n = a.m WHERE a.x > b.x
           EMIT EARLY EVERY 1 SECOND GRACE 1 HOUR"""
    )
    said = Firing(Every(1_000_000), Each(), 3_600_000_000, 3_600_000_000)
    left = Side(("k", "m"), "ts", None, said, 60_000_000, AHEAD)
    right = Side(("key", "n"), "at", None, said, 5_000_000, None)
    assert found.spec == JoinSpec(left, right, Within(600_000_000, 0))
    assert found.where == "__muntin_left.x > __muntin_right.x"
    assert found.columns == (Column("s", "__muntin_left.x + __muntin_right.x"),)
    assert found.bare == ()


def test_using_names_columns_of_both_sides():
    text = "SELECT * FROM a JOIN b OVER (ORDER BY ts RANGE 1 HOUR PRECEDING) USING (k, j)"
    found = joined(text)
    assert found.spec.left.keys == found.spec.right.keys == ("k", "j")
    assert found.columns is None


OVER = "OVER (ORDER BY ts RANGE 1 HOUR PRECEDING)"


@pytest.mark.parametrize(
    ("text", "said", "at"),
    [
        ("SELECT a.k FROM a JOIN b ON a.k = b.k", "nothing bounds a pair", None),
        (f"SELECT a.k FROM a JOIN b {OVER} ON a.k > b.k", "one of equal columns", "a.k > b.k"),
        (f"SELECT a.k FROM a JOIN b {OVER} ON k = b.k", "one of equal columns", "k = b.k"),
        (f"SELECT a.k FROM a JOIN b {OVER} ON a.k = a.j", "one of equal columns", "a.k = a.j"),
        ("SELECT a.k FROM a CROSS JOIN b", "needs equal columns", "CROSS"),
        ("SELECT a.k FROM a, b", "needs equal columns", ","),
        ("SELECT a.k FROM a JOIN b", "has no condition", ""),
        (f"SELECT a.k FROM a JOIN a {OVER} ON a.k = a.k", "both sides are called a", "a"),
        (f"SELECT a.k FROM a JOIN b {OVER} ON a.k = b.k GROUP BY a.k", "beside JOIN", None),
        (f"SELECT DISTINCT a.k FROM a JOIN b {OVER} ON a.k = b.k", "beside JOIN", None),
        (f"SELECT a.k, b.k FROM a JOIN b {OVER} ON a.k = b.k", "two columns are called k", "b.k"),
        (
            f"SELECT a.k FROM a JOIN b {OVER} ON a.k = b.k JOIN c {OVER} ON a.k = c.k",
            "three streams",
            None,
        ),
        (
            "SELECT a.k FROM a JOIN b OVER (RANGE 1 HOUR PRECEDING) ON a.k = b.k",
            "needs the column of event times",
            None,
        ),
        (
            f"SELECT a.k FROM a OVER (ROWS 3 PRECEDING) JOIN b {OVER} ON a.k = b.k",
            "one side has ROWS, the other RANGE",
            None,
        ),
        (
            f"SELECT a.k FROM a JOIN b WATERMARK at DELAY OF 1 HOUR {OVER} ON a.k = b.k",
            "the watermark is one of at",
            None,
        ),
        (
            f"SELECT a.k FROM (SELECT k, ts FROM t) AS a JOIN b {OVER} ON a.k = b.k",
            "name it with CREATE VIEW",
            None,
        ),
        (
            f"SELECT a.k FROM a JOIN b {OVER} ON a.k = b.k EMIT ON CLOSE",
            "doesn't wait for windows to close",
            "ON CLOSE",
        ),
        (
            f"SELECT a.k FROM a JOIN b {OVER} ON a.k = b.k EMIT EARLY EVERY 3 ROWS",
            "early isn't for joins",
            "EARLY EVERY 3 ROWS",
        ),
        (
            f"SELECT a.k FROM a JOIN b {OVER} ON a.k = b.k EMIT GRACE 2 HOURS RETAIN 1 HOUR",
            "keep is below the grace 2 hours; keep at least 2 hours",
            "RETAIN 1 HOUR",
        ),
        ("SELECT a.k FROM a OVER (ROWS 3 PRECEDING)", "a table alone has no OVER", None),
    ],
)
def test_refused(text, said, at):
    problem, place = refused(text)
    assert said in problem
    if at is not None:
        assert place == at
