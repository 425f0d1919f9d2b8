"""Tests of joins: the Samza design's statements word for word, and refused joins."""

from __future__ import annotations

import pytest
from tests.unit.sql.twins import get_refusal, lower_join, lower_query

from muntin.model.bounds import Within, find_bound
from muntin.model.inputs import AHEAD
from muntin.model.joins import JoinSpec, Side
from muntin.model.pipeline import Column, Derived, TableRelation
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


def make_side(**options) -> Side:
    return Side(("id",), **{"time": "time", "max_ahead": AHEAD, **options})


def test_the_design_s_join_over_time():
    join = lower_join(MINUTES)
    assert join.spec == JoinSpec(make_side(), make_side(), find_bound("2 minutes", None, None))
    assert join.names == ("Shipments", "Orders")
    assert join.columns == tuple(Column(c, c) for c in ("id", "value", "cost"))
    assert join.bare == ("id", "value", "cost")


def test_the_design_s_join_over_rows():
    text = ROWS.replace("Shipments JOIN", "Shipments OFFSET FOR (p, o) JOIN")
    text = text.replace("Orders OVER", "Orders OFFSET FOR (p, o) OVER")
    side = make_side(time=None, offset=("p", "o"))
    assert lower_join(text).spec == JoinSpec(side, side, Within(3, 3, "rows"))


def test_the_design_s_join_over_rows_needs_offsets():
    problem, _ = get_refusal(ROWS)
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
    spec = lower_join(MINUTES.replace("JOIN", words)).spec
    assert spec.how == how
    assert spec.nulls == ("reject" if how in ("inner", "semi") else "unmatched")


def test_both_sides_may_have_windows_and_watermarks():
    join = lower_join(
        """SELECT a.x + b.x AS s FROM a WATERMARK ts DELAY OF 1 MINUTE
           OVER (ORDER BY ts RANGE 0 SECONDS PRECEDING)
           JOIN b WATERMARK at DELAY OF 5 SECONDS MAX AHEAD ANY
           OVER (ORDER BY at RANGE 10 MINUTES PRECEDING)
           ON a.k = b.key AND b.n = a.m WHERE a.x > b.x
           EMIT EARLY EVERY 1 SECOND GRACE 1 HOUR"""
    )
    firing = Firing(Every(1_000_000), Each(), 3_600_000_000, 3_600_000_000)
    left = Side(("k", "m"), "ts", firing=firing, lateness=60_000_000, max_ahead=AHEAD)
    right = Side(("key", "n"), "at", firing=firing, lateness=5_000_000)
    assert join.spec == JoinSpec(left, right, Within(600_000_000, 0))
    assert join.where == "__muntin_left.x > __muntin_right.x"
    assert join.columns == (Column("s", "__muntin_left.x + __muntin_right.x"),)
    assert join.bare == ()


def test_using_names_columns_of_both_sides():
    text = "SELECT * FROM a JOIN b OVER (ORDER BY ts RANGE 1 HOUR PRECEDING) USING (k, j)"
    join = lower_join(text)
    assert join.spec.left.keys == join.spec.right.keys == ("k", "j")
    assert join.columns is None


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
    join = lower_join(f"{ON} {near}")
    assert join.spec.bound == bound
    assert (join.spec.left.time, join.spec.right.time) == ("ts", "at")
    assert (join.spec.left.keys, join.where) == (("k",), None)


def test_partners_may_lie_wholly_before_or_after():
    join = lower_join(f"{ON} a.ts > b.at AND a.ts <= b.at + INTERVAL 2 SECOND")
    assert (join.spec.bound, join.where) == (Within(2 * SECOND, -1), None)
    later = "BETWEEN a.ts + INTERVAL 1 SECOND AND a.ts + INTERVAL 2 SECOND"
    join = lower_join(f"SELECT a.k FROM a LEFT JOIN b ON a.k = b.k AND b.at {later}")
    assert (join.spec.bound, join.spec.how) == (Within(-SECOND, 2 * SECOND), "left")


def test_other_conditions_of_an_inner_join_choose_among_its_pairs():
    near = "a.ts BETWEEN b.at - INTERVAL '4' HOUR AND b.at"
    join = lower_join(f"{ON} a.n > b.m AND {near} WHERE a.x = 1 OR b.x = 2")
    assert join.where == (
        "(__muntin_left.n > __muntin_right.m) AND (__muntin_left.x = 1 OR __muntin_right.x = 2)"
    )
    comma_join = lower_join(f"SELECT a.k FROM a, b WHERE a.k = b.k AND {near} AND n > 3")
    assert (comma_join.spec, comma_join.where) == (join.spec, "n > 3")
    assert comma_join.bare == ("n",)


OVER = "OVER (ORDER BY ts RANGE 1 HOUR PRECEDING)"
APART = "a.ts BETWEEN b.at - INTERVAL '4' HOUR AND b.at"
KEY = "CASE WHEN ({0}) THEN 1 ELSE {1} END"


def test_a_join_without_equal_columns_has_one_key():
    join = lower_join(f"SELECT a.k FROM a JOIN b ON a.n > b.m AND {APART}")
    assert (join.spec.left.keys, join.spec.right.keys) == (("__muntin_on",), ("__muntin_on",))
    assert join.where == "__muntin_left.n > __muntin_right.m"
    for relation, name in ((join.left, "a"), (join.right, "b")):
        assert relation == Derived(
            TableRelation(name), (Column("*", "*"), Column("__muntin_on", "1")), None
        )


def read_condition(relation):
    """Return the additional key of a side, and the filter of its messages."""
    if isinstance(relation, TableRelation):
        return None, None
    keys = [column.text for column in relation.columns or () if column.name == "__muntin_on"]
    return (keys[0] if keys else None), relation.where


@pytest.mark.parametrize(
    ("how", "condition", "left", "right"),
    [
        ("LEFT", "a.x > 1", (KEY.format("`x` > 1", 2), None), ("1", None)),
        ("LEFT", "b.x > 1", (None, None), (None, "(`x` > 1)")),
        ("RIGHT", "a.x > 1", (None, "(`x` > 1)"), (None, None)),
        ("RIGHT", "b.x > 1", ("1", None), (KEY.format("`x` > 1", 3), None)),
        ("LEFT", "a.x > 1 AND b.x > 2", (KEY.format("`x` > 1", 2), None), ("1", "(`x` > 2)")),
        (
            "FULL",
            "NOT (a.x > 1 OR b.x > 2)",
            ("CASE WHEN NOT (`x` > 1) THEN 1 ELSE 2 END", None),
            ("CASE WHEN NOT (`x` > 2) THEN 1 ELSE 3 END", None),
        ),
        ("LEFT SEMI", "a.x > 1 AND b.x > 2", (None, "(`x` > 1)"), (None, "(`x` > 2)")),
        (
            "LEFT ANTI",
            "a.x > 1 AND b.x > 2",
            (KEY.format("`x` > 1", 2), None),
            ("1", "(`x` > 2)"),
        ),
    ],
)
def test_conditions_of_one_side_decide_which_messages_have_a_partner(how, condition, left, right):
    join = lower_join(f"SELECT a.k FROM a {how} JOIN b ON a.k = b.k AND {APART} AND {condition}")
    assert (read_condition(join.left), read_condition(join.right), join.where) == (
        left,
        right,
        None,
    )


def test_distinct_from_lets_null_equal_null_and_in_other_keys_nothing():
    join = lower_join(f"SELECT a.k FROM a LEFT JOIN b ON a.k IS NOT DISTINCT FROM b.k AND {APART}")
    assert (join.spec.left.keys, join.spec.nulls) == (("k",), "group")
    join = lower_join(f"SELECT a.k FROM a JOIN b ON a.k = b.k AND a.j <=> b.j AND {APART}")
    assert (join.spec.left.keys, join.spec.nulls, join.where) == (("k", "j"), "group", None)
    assert read_condition(join.left) == read_condition(join.right) == (None, "(`k` IS NOT NULL)")


def test_a_version_that_fulfils_no_condition_is_null():
    text = "SELECT a.k, b.rate FROM a LEFT JOIN b FOR SYSTEM_TIME AS OF a.ts AS b "
    join = lower_join(f"{text}WATERMARK at DELAY OF 1 HOUR ON a.k = b.k AND b.rate > a.least")
    condition = "(__muntin_right.rate > __muntin_left.least)"
    assert [column.text for column in join.columns] == [
        "__muntin_left.k",
        f"CASE WHEN {condition} THEN __muntin_right.rate END",
    ]


def test_a_window_function_is_a_side():
    function = "TABLE(TUMBLE(TABLE {0}, DESCRIPTOR(ts), INTERVAL '5' MINUTES)) AS {0}"
    same = "a.window_start = b.window_start AND a.window_end = b.window_end"
    text = f"FROM {function.format('a')} JOIN {function.format('b')} ON a.k = b.k AND {same}"
    join = lower_join(f"SELECT a.k, a.window_time {text}")
    assert join == lower_join(
        f"SELECT a.k, a.window_time {text}".replace("TABLE(", "(SELECT * FROM TABLE(").replace(
            "MINUTES)) AS", "MINUTES))) AS"
        )
    )
    assert join.columns[1].text == "(__muntin_left.window_end - INTERVAL '0.001' SECOND)"


@pytest.mark.parametrize(
    ("condition", "before", "after"),
    [
        ("b.ts = a.ts + INTERVAL '1' MINUTE", -60_000_000, 60_000_000),
        ("b.ts + INTERVAL '5' SECOND = a.ts", 5_000_000, -5_000_000),
        ("b.ts BETWEEN a.ts + INTERVAL '-1' MINUTE AND a.ts", 60_000_000, 0),
        ("b.ts BETWEEN a.ts AND a.ts - INTERVAL -1 SECOND", 0, 1_000_000),
    ],
)
def test_a_distance_is_one_length_or_a_negative_one(condition, before, after):
    join = lower_join(f"SELECT a.k AS k, y FROM a JOIN b ON a.k = b.k AND {condition}")
    assert join.spec.bound == Within(before, after)


def test_bounds_in_where_are_those_of_any_inner_join():
    bounds = "b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR AND a.x > b.y"
    in_on = lower_join(f"SELECT a.k AS k, y FROM a JOIN b ON a.k = b.k AND {bounds}")
    crossed = lower_join(f"SELECT a.k AS k, y FROM a CROSS JOIN b WHERE a.k = b.k AND {bounds}")
    using = lower_join(f"SELECT k, y FROM a JOIN b USING (k) WHERE {bounds}")
    assert crossed == in_on
    assert (using.spec, using.where) == (in_on.spec, in_on.where)


@pytest.mark.parametrize(
    ("text", "problem", "at"),
    [
        (
            "SELECT a.k FROM a JOIN b WATERMARK ts DELAY OF 1 HOUR ON a.k = b.k",
            "the join has no bound",
            None,
        ),
        (f"SELECT a.k FROM a JOIN b {OVER} ON k = b.k", "a join compares equal columns", "k = b.k"),
        (
            f"SELECT a.k FROM a JOIN b {OVER} ON a.k = a.j",
            "a join compares equal columns",
            "a.k = a.j",
        ),
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
            "OVER bounds the join already",
            "b.ts < a.ts + INTERVAL 1 HOUR",
        ),
        (
            "SELECT a.k FROM a WATERMARK t DELAY OF 1 HOUR JOIN b ON a.k = b.k "
            "AND b.ts BETWEEN a.ts - INTERVAL 1 HOUR AND a.ts",
            "the watermark of a follows t, and ts is compared; compare a.t",
            None,
        ),
        (
            "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k AND a.n > b.n "
            "AND b.ts BETWEEN a.ts - INTERVAL 1 HOUR AND a.ts",
            "a left join compares both sides only by equal columns and by a bound in time; "
            "compare columns of a or of b alone, or join inner",
            "a.n > b.n",
        ),
        (
            f"{ON} b.ts BETWEEN a.ts - INTERVAL '1' MONTH AND a.ts",
            "month has no fixed length",
            "INTERVAL '1' MONTH",
        ),
        ("SELECT a.k FROM a CROSS JOIN b", "the join has no bound", None),
        ("SELECT a.k FROM a NATURAL JOIN b", "needs equal columns", "NATURAL"),
        ("SELECT a.k FROM a, b", "the join has no bound", None),
        ("SELECT a.k FROM a JOIN b", "has no condition", ""),
        (f"SELECT a.k FROM a JOIN a {OVER} ON a.k = a.k", "both sides are called a", "a"),
        (f"SELECT a.k FROM a JOIN b {OVER} ON a.k = b.k GROUP BY a.k", "needs windows", None),
        (f"SELECT DISTINCT a.k FROM a JOIN b {OVER} ON a.k = b.k", "combined with JOIN", None),
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
            "the watermark follows at",
            None,
        ),
        (
            f"SELECT a.k FROM (SELECT k, ts FROM t) JOIN b {OVER} ON a.k = b.k",
            "this side of the join has no name; write (SELECT ...) AS one",
            "(SELECT k, ts FROM t)",
        ),
        (
            "SELECT a.k FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 HOUR)) "
            "JOIN b WATERMARK ts DELAY OF 1 HOUR ON a.k = b.k",
            "this side of the join has no name; write TABLE(TUMBLE(...)) AS one",
            None,
        ),
        (
            f"SELECT a.k FROM a JOIN b {OVER} ON a.k = b.k EMIT ON CLOSE",
            "this clause doesn't apply to joins",
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
        (
            "SELECT a.k FROM a OVER (ROWS 3 PRECEDING)",
            "a table without an aggregate has no OVER",
            None,
        ),
    ],
)
def test_refused(text, problem, at):
    message, marked = get_refusal(text)
    assert problem in message
    if at is not None:
        assert marked == at


def test_equal_times_bound_a_pair_by_themselves():
    watermark = "WATERMARK {} DELAY OF 1 SECOND"
    sides = f"a {watermark.format('ts')} JOIN b {watermark.format('at')}"
    join = lower_join(f"SELECT a.k FROM {sides} ON a.k = b.k AND a.ts = b.at")
    assert join.spec.bound == Within(0, 0)
    assert (join.spec.left.time, join.spec.right.time) == ("ts", "at")


SOLD = """
    SELECT {key}, window_start AS starttime, window_end AS endtime
    FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(at), INTERVAL '10' SECOND))
    GROUP BY {key}, window_start, window_end
"""


def test_windows_are_paired_by_their_bounds_under_other_names():
    """Nexmark's query 8, as Flink prints it."""
    people, sales = (
        SOLD.format(key=k, table=t) for k, t in (("id", "people"), ("seller", "sales"))
    )
    join = lower_join(
        f"SELECT P.id, P.starttime FROM ({people}) P JOIN ({sales}) A "
        "ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime"
    )
    bounds = ("window_start", "window_end")
    assert join.spec.left.keys == ("id", *bounds)
    assert join.spec.right.keys == ("seller", *bounds)
    assert (join.spec.bound, join.spec.left.time) == (Within(0, 0), "window_end")


HIGHEST = """
    SELECT max(price) AS top, window_end AS at
    FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end
"""
NEAR = "B.at BETWEEN M.at - INTERVAL '10' SECOND AND M.at"


def test_where_bounds_an_inner_join_in_time_as_on_does():
    """Nexmark's query 7, as Flink prints it."""
    from_ = f"SELECT B.bidder, B.price FROM bids B JOIN ({HIGHEST}) M ON B.price = M.top"
    from_where, from_on = lower_join(f"{from_} WHERE {NEAR}"), lower_join(f"{from_} AND {NEAR}")
    assert from_where == from_on
    assert from_where.spec.bound == Within(0, 10_000_000)
    assert (from_where.spec.left.time, from_where.spec.right.time) == ("at", "window_end")


def test_where_chooses_among_the_pairs_of_an_outer_join():
    text = (
        "SELECT * FROM a WATERMARK at DELAY OF 1 MINUTE LEFT JOIN b WATERMARK at DELAY OF "
        "1 MINUTE ON a.id = b.id WHERE a.at BETWEEN b.at - INTERVAL '1' HOUR AND b.at"
    )
    assert get_refusal(text)[0].startswith("line 1: the join has no bound in time or rows")


@pytest.mark.parametrize(
    ("precision", "function"), [("3", "timestamp_millis"), ("0", "timestamp_seconds")]
)
def test_numbers_since_1970_have_the_unit_that_flink_says(precision, function):
    call = f"max(TO_TIMESTAMP_LTZ(t.ms + 1, {precision})) AS at"
    text = f"SELECT id, {call} FROM t GROUP BY id, TUMBLE(ts, 1 HOUR)"
    (aggregate,) = lower_query(text).spec.aggregates.values()
    assert str(aggregate.column) == f"{function}(`ms` + 1)"


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("TO_TIMESTAMP_LTZ(1700000000000)", "this number has no unit"),
        ("TO_TIMESTAMP_LTZ(ms, 6)", "TO_TIMESTAMP_LTZ has no precision 6"),
    ],
)
def test_numbers_without_a_unit_are_refused(call, problem):
    message, at = get_refusal(
        f"SELECT id, max({call}) AS at FROM t GROUP BY id, TUMBLE(ts, 1 HOUR)"
    )
    assert (problem in message, at) == (True, call)
