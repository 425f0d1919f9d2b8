"""Tests that every part of an expression reaches Spark whole, as it was written."""

from __future__ import annotations

import pytest
from sqlglot import exp
from tests.unit.sql.twins import get_refusal, lower_query

from muntin.model import aggregates as agg
from muntin.model.pipeline import Column, Expression
from muntin.sql.api import compile_aggregate
from muntin.sql.dialect import parse_statements
from muntin.sql.expressions import Scope, walk

BOUNDS = "window_start, window_end"
HOUR = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 HOUR))"


def lower_aggregate(text: str) -> agg.Aggregate:
    """Return the lowered form of an aggregate, the only one of its query."""
    query = lower_query(f"SELECT k, {text} AS a FROM {HOUR} GROUP BY k, {BOUNDS}")
    return next(iter(query.spec.aggregates.values()))


AGGREGATES = [
    ("SUM(-v)", agg.sum(Expression("-v"))),
    ("SUM(+v)", agg.sum("v")),
    ("SUM(- -v)", agg.sum(Expression("- -v"))),
    ("SUM((v))", agg.sum(Expression("(v)"))),
    ("SUM(v * (1 - w))", agg.sum(Expression("v * (1 - w)"))),
    ("SUM((1 - w) * v)", agg.sum(Expression("(1 - w) * v"))),
    ("SUM(ar[0])", agg.sum(Expression("ar[0]"))),
    ("SUM(ar[0][1])", agg.sum(Expression("ar[0][1]"))),
    ("SUM(array(v, w)[0])", agg.sum(Expression("array(v, w)[0]"))),
    ("SUM(st.f)", agg.sum(Expression("st.f"))),
    ("SUM(t.st.f)", agg.sum(Expression("`st`.`f`"))),
    ("SUM(m['k'].f)", agg.sum(Expression("m['k'].f"))),
    ("SUM(v::double)", agg.sum(Expression("v::double"))),
    ("SUM(CAST(v AS DOUBLE))", agg.sum(Expression("CAST(v AS DOUBLE)"))),
    ("SUM(CASE WHEN b THEN 1 END)", agg.sum(Expression("CASE WHEN b THEN 1 END"))),
    ("SUM(v /* a comment */ + 1)", agg.sum(Expression("v /* a comment */ + 1"))),
    ("SUM(\n v +\n 1 )", agg.sum(Expression("v +\n 1"))),
    ("SUM(1)", agg.sum(Expression("1"))),
    ("MAX('it''s')", agg.max(Expression("'it''s'"))),
    (r"MAX('\d')", agg.max(Expression(r"'\d'"))),
    (r"MAX(r'\d')", agg.max(Expression(r"r'\d'"))),
    ("MAX(DATE '2026-01-01')", agg.max(Expression("DATE '2026-01-01'"))),
    ("MAX(ts - INTERVAL 1 DAY)", agg.max(Expression("ts - INTERVAL 1 DAY"))),
    ("MAX(s || 'x')", agg.max(Expression("s || 'x'"))),
    ("MIN(NULL)", agg.min(Expression("NULL"))),
    ("MAX_BY(-v, -w)", agg.arg_max(Expression("-v"), Expression("-w"))),
    ("COUNT(NOT b)", agg.count(Expression("NOT b"))),
    ("COUNT_IF(NOT b)", agg.count_if(Expression("NOT b"))),
    ("COUNT_IF(b = false)", agg.count_if(Expression("b = false"))),
    ("COUNT_IF(b IS NOT NULL)", agg.count_if(Expression("b IS NOT NULL"))),
    ("COUNT_IF(b AND NOT c)", agg.count_if(Expression("b AND NOT c"))),
    (
        "COUNT_IF(s LIKE ANY ('a%', 'b%'))",
        agg.count_if(Expression("s LIKE ANY ('a%', 'b%')")),
    ),
    ("COUNT_IF(true)", agg.count_if(Expression("true"))),
    ("COUNT_IF(v BETWEEN 1 AND (2))", agg.count_if(Expression("v BETWEEN 1 AND (2)"))),
    ("COUNT_IF(s LIKE 'a%' ESCAPE '!')", agg.count_if(Expression("s LIKE 'a%' ESCAPE '!'"))),
    ("COUNT_IF(exists(ar, x -> x > 1))", agg.count_if(Expression("exists(ar, x -> x > 1)"))),
    ("COUNT(*) FILTER (WHERE b IS NULL)", agg.count_if(Expression("b IS NULL"))),
    ("COUNT(*) FILTER (WHERE NOT (v > 2))", agg.count_if(Expression("NOT (v > 2)"))),
    (
        "SUM(-v) FILTER (WHERE s IN ('x', 'y'))",
        agg.sum(Expression("CASE WHEN s IN ('x', 'y') THEN -v END")),
    ),
    ("QUANTILE(-v, 0.5)", agg.quantile(Expression("-v"), 0.5)),
    ("PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY -v)", agg.exact_quantile(Expression("-v"), 0.5)),
]


@pytest.mark.parametrize(("text", "expected"), AGGREGATES, ids=[text for text, _ in AGGREGATES])
def test_aggregates_take_all_of_their_arguments(text: str, expected: agg.Aggregate) -> None:
    assert lower_aggregate(text) == expected
    if "t.st" not in text:
        # Pipelines in TOML compile aggregates by themselves.
        assert compile_aggregate(text) == expected


def test_aggregates_per_row_take_all_of_their_arguments() -> None:
    over = "OVER (PARTITION BY k ROWS 2 PRECEDING)"
    query = lower_query(f"SELECT k, SUM(-u) {over} AS a, -SUM(-u) {over} AS b FROM t")
    assert next(iter(query.spec.aggregates.values())) == agg.sum(Expression("-u"))
    assert query.columns is not None
    assert query.columns[-3] == Column("b", "-`a`")


def test_conditions_and_columns_are_whole() -> None:
    query = lower_query(
        "SELECT -k, NOT (max(v) IS NULL) AS m, sum(t.v) AS n FROM t "
        "WHERE NOT (t.v > 2) AND b IS NOT NULL "
        "GROUP BY -t.k, window(ts, '1 hour') HAVING NOT (sum(v) IN (1, (2))) OR -k IS NULL"
    )
    assert query.keys == (Column("-`k`", "-`k`"),)
    assert query.where == "NOT (`v` > 2) AND b IS NOT NULL"
    assert query.having == "NOT (`n` IN (1, (2))) OR `-``k``` IS NULL"


@pytest.mark.parametrize(
    ("key", "item"),
    [
        ("a | b", "a | b & c"),
        ("v BETWEEN false AND true", "b = v BETWEEN false AND true"),
        ("v NOT BETWEEN false AND true", "b = v NOT BETWEEN false AND true"),
        ("v IN (true, false)", "b = v IN (true, false)"),
        ("v IN (1)", "b <> v NOT IN (1)"),
        ("b + c", "a || b + c"),
        ("b < c", "a = b < c"),
        ("m.Key", "m.KEY"),
        ("'it''s' || s", "'it' 's' || s"),
        (r"'\d' || s", "'d' || s"),
    ],
)
def test_a_key_is_found_only_where_it_surely_is(key: str, item: str) -> None:
    problem, _ = get_refusal(f"SELECT {item} AS x FROM t GROUP BY {key}, window(ts, '1 hour')")
    assert "isn't one value in a group" in problem


@pytest.mark.parametrize(
    ("key", "item", "text"),
    [
        ("a | b", "(a | b) & 1", "`a | b` & 1"),
        ("a + b", "a + b > 2", "`a + b` > 2"),
        ("v % 3", "NOT v % 3 = 1", "NOT `v % 3` = 1"),
        ("b IS NULL", "NOT (b IS NULL)", "NOT `b IS NULL`"),
        ("ar[0]", "ar [ 0 ] * 2", "`ar[0]` * 2"),
        ("upper(k)", "UPPER(t.k) || 'x'", "`upper(k)` || 'x'"),
        ("(k)", "t.k || 'x'", "`k` || 'x'"),
        ("((upper(k)))", "upper(k) || (k)", "`upper(k)` || `k`"),
    ],
)
def test_keys_are_found_within_other_expressions(key: str, item: str, text: str) -> None:
    query = lower_query(f"SELECT {item} AS x FROM t GROUP BY {key}, k, window(ts, '1 hour')")
    assert query.columns is not None
    assert text in [column.text for column in query.columns]


@pytest.mark.parametrize(
    ("key", "item", "marked"),
    [
        ("b IS FALSE", "b IS NOT FALSE", "b IS NOT FALSE"),
        ("b IS NULL", "b IS NOT NULL", "b IS NOT NULL"),
        ("v BETWEEN 1 AND 2", "v NOT BETWEEN 1 AND 2", "v NOT BETWEEN 1 AND 2"),
        ("v IN (1)", "v NOT IN (1)", "v NOT IN (1)"),
        ("v IN (1)", "(v NOT IN (1 )) IS NULL", "v NOT IN (1 )"),
        ("v IN (1)", "v NOT IN (1) = b", "v NOT IN (1) = b"),
        ("v IN (1)", "v NOT IN (1) IS NULL", "v NOT IN (1) IS NULL"),
        ("v IS TRUE", "k || (v IS NOT TRUE)", "v IS NOT TRUE"),
        ("v RLIKE 'x'", "upper(k) = k AND v NOT RLIKE 'x'", "v NOT RLIKE 'x'"),
    ],
)
def test_a_key_within_its_own_negation_is_not_taken_for_it(
    key: str, item: str, marked: str
) -> None:
    text = f"SELECT {item} AS x FROM t GROUP BY {key}, k, b, window(ts, '1 hour')"
    problem, text_at_caret = get_refusal(text)
    assert "can't be separated" in problem
    assert text_at_caret == marked


def test_what_isnt_the_same_by_itself_is_refused() -> None:
    [node], cursor = parse_statements("a NOT IN (1)", lambda c: c.parse_scalar("x"))
    inner = next(part for part in walk(node) if isinstance(part, exp.In))
    assert Scope(cursor).locate_separable(node) == (0, 12)
    with pytest.raises(Exception, match="can't be separated"):
        Scope(cursor).render(inner)
