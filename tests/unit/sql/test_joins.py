"""Joins: the Samza design's statements word for word, and what can't be joined."""

from __future__ import annotations

import pytest
from tests.unit.sql.twins import joined, refused

from muntin.model.inputs import AHEAD
from muntin.model.joins import JoinSpec, Side, Within, bound_of
from muntin.model.pipeline import Column
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
    spec = joined(MINUTES.replace("JOIN", words)).spec
    assert spec.how == how
    assert spec.nulls == ("reject" if how in ("inner", "semi") else "unmatched")


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
    left = Side(("k", "m"), "ts", firing=said, lateness=60_000_000, max_ahead=AHEAD)
    right = Side(("key", "n"), "at", firing=said, lateness=5_000_000)
    assert found.spec == JoinSpec(left, right, Within(600_000_000, 0))
    assert found.where == "__muntin_left.x > __muntin_right.x"
    assert found.columns == (Column("s", "__muntin_left.x + __muntin_right.x"),)
    assert found.bare == ()


def test_using_names_columns_of_both_sides():
    text = "SELECT * FROM a JOIN b OVER (ORDER BY ts RANGE 1 HOUR PRECEDING) USING (k, j)"
    found = joined(text)
    assert found.spec.left.keys == found.spec.right.keys == ("k", "j")
    assert found.columns is None


SECOND = 1_000_000
ON = "SELECT a.k FROM a JOIN b ON a.k = b.k AND"


@pytest.mark.parametrize(
    ("near", "bound"),
    [
        ("a.ts BETWEEN b.at - INTERVAL '4' HOUR AND b.at", Within(0, 4 * 3600 * SECOND)),
        ("b.at BETWEEN a.ts - INTERVAL '1' SECOND AND a.ts + INTERVAL 2 SECOND",
         Within(SECOND, 2 * SECOND)),
        ("a.ts >= b.at - INTERVAL 2 SECOND AND a.ts <= b.at + INTERVAL 1 SECOND",
         Within(SECOND, 2 * SECOND)),
        ("b.at < a.ts + INTERVAL 2 SECOND AND b.at >= a.ts", Within(0, 2 * SECOND - 1)),
        ("(a.ts > b.at - INTERVAL 2 SECOND) AND INTERVAL 1 SECOND + b.at > a.ts",
         Within(SECOND - 1, 2 * SECOND - 1)),
        ("a.ts + INTERVAL 1 SECOND >= b.at "
         "AND b.at + INTERVAL 3 SECOND >= a.ts - INTERVAL 1 SECOND",
         Within(4 * SECOND, SECOND)),
        ("a.ts BETWEEN b.at - INTERVAL 9 SECOND AND b.at AND a.ts >= b.at - INTERVAL 3 SECOND",
         Within(0, 3 * SECOND)),
    ],
)  # fmt: skip
def test_times_that_are_compared_bound_a_pair(near, bound):
    found = joined(f"{ON} {near}")
    assert found.spec.bound == bound
    assert (found.spec.left.time, found.spec.right.time) == ("ts", "at")
    assert (found.spec.left.keys, found.where) == (("k",), None)


def test_partners_may_lie_wholly_before_or_after():
    found = joined(f"{ON} a.ts > b.at AND a.ts <= b.at + INTERVAL 2 SECOND")
    assert (found.spec.bound, found.where) == (Within(2 * SECOND, -1), None)
    later = "BETWEEN a.ts + INTERVAL 1 SECOND AND a.ts + INTERVAL 2 SECOND"
    found = joined(f"SELECT a.k FROM a LEFT JOIN b ON a.k = b.k AND b.at {later}")
    assert (found.spec.bound, found.spec.how) == (Within(-SECOND, 2 * SECOND), "left")


def test_other_conditions_of_an_inner_join_choose_among_its_pairs():
    near = "a.ts BETWEEN b.at - INTERVAL '4' HOUR AND b.at"
    found = joined(f"{ON} a.n > b.m AND {near} WHERE a.x = 1 OR b.x = 2")
    assert found.where == (
        "(__muntin_left.n > __muntin_right.m) AND (__muntin_left.x = 1 OR __muntin_right.x = 2)"
    )
    listed = joined(f"SELECT a.k FROM a, b WHERE a.k = b.k AND {near} AND n > 3")
    assert (listed.spec, listed.where) == (found.spec, "n > 3")
    assert listed.bare == ("n",)


OVER = "OVER (ORDER BY ts RANGE 1 HOUR PRECEDING)"


@pytest.mark.parametrize(
    ("text", "said", "at"),
    [
        ("SELECT a.k FROM a JOIN b ON a.k = b.k", "nothing bounds a pair", None),
        (f"SELECT a.k FROM a JOIN b {OVER} ON a.k > b.k", "one of equal columns", "a.k > b.k"),
        (f"SELECT a.k FROM a JOIN b {OVER} ON k = b.k", "one of equal columns", "k = b.k"),
        (f"SELECT a.k FROM a JOIN b {OVER} ON a.k = a.j", "one of equal columns", "a.k = a.j"),
        (
            f"{ON} a.ts >= b.ts - INTERVAL '1' HOUR",
            "on one side only; write AND a.ts BETWEEN",
            "a.ts >= b.ts - INTERVAL '1' HOUR",
        ),
        (
            f"{ON} a.ts BETWEEN b.ts + INTERVAL 2 HOUR AND b.ts + INTERVAL 1 HOUR",
            "no time lies between these bounds",
            None,
        ),
        (
            f"{ON} a.ts < b.ts + INTERVAL 1 HOUR AND a.at >= b.ts - INTERVAL 1 HOUR",
            "ts and at of one side are both compared",
            "a.at >= b.ts - INTERVAL 1 HOUR",
        ),
        (
            f"SELECT a.k FROM a JOIN b {OVER} ON a.k = b.k AND b.ts < a.ts + INTERVAL 1 HOUR "
            "AND b.ts >= a.ts",
            "OVER bounds a pair already",
            "b.ts < a.ts + INTERVAL 1 HOUR",
        ),
        (
            "SELECT a.k FROM a WATERMARK t DELAY OF 1 HOUR JOIN b ON a.k = b.k "
            "AND b.ts BETWEEN a.ts - INTERVAL 1 HOUR AND a.ts",
            "the watermark of a is one of t, and ts is compared; compare a.t",
            None,
        ),
        (
            "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k AND a.n > b.n "
            "AND b.ts BETWEEN a.ts - INTERVAL 1 HOUR AND a.ts",
            "one of equal columns",
            "a.n > b.n",
        ),
        (
            f"{ON} b.ts BETWEEN a.ts - INTERVAL '1' MONTH AND a.ts",
            "month has no fixed length",
            "INTERVAL '1' MONTH",
        ),
        ("SELECT a.k FROM a CROSS JOIN b", "needs equal columns", "CROSS"),
        ("SELECT a.k FROM a, b", "nothing bounds a pair", None),
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
            f"SELECT a.k FROM (SELECT k, ts FROM t) JOIN b {OVER} ON a.k = b.k",
            "this side of the join has no name; write (SELECT ...) AS one",
            "(SELECT k, ts FROM t)",
        ),
        (
            "SELECT a.k FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 HOUR)) a "
            "JOIN b WATERMARK ts DELAY OF 1 HOUR ON a.k = b.k",
            "group by its windows in a query in parentheses",
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


def test_equal_times_bound_a_pair_by_themselves():
    marks = "WATERMARK {} DELAY OF 1 SECOND"
    sides = f"a {marks.format('ts')} JOIN b {marks.format('at')}"
    found = joined(f"SELECT a.k FROM {sides} ON a.k = b.k AND a.ts = b.at")
    assert found.spec.bound == Within(0, 0)
    assert (found.spec.left.time, found.spec.right.time) == ("ts", "at")
