"""Any statement is either lowered or refused at a position; no other error is raised."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.model.errors import MuntinError, ProblemsError, SqlError
from muntin.sql.api import compile_pipeline, compile_query
from muntin.sql.dialect import Dialect

pytest.importorskip("sqlglot")

NAMES = st.sampled_from(
    ["k", "ts", "x", "t", "`a b`", "window", "s.f", "t.k", "value", "offset", "emit"]
)
NUMBERS = st.sampled_from(["0", "1", "2.5", "10", "99999999999999999999", "1e3"])
LENGTHS = st.sampled_from(
    [
        "INTERVAL '10' MINUTE",
        "INTERVAL 1 HOUR 30 MINUTES",
        "'10 minutes'",
        "5 SECONDS",
        "3 ROWS",
        "ROWS 2",
        "INTERVAL '1' MONTH",
        "INTERVAL '1:2' HOUR TO MINUTE",
        "'PT1H'",
        "INTERVAL",
        "10",
        "'nonsense'",
        "0 HOURS",
    ]
)
LEAVES = (
    NAMES | NUMBERS | st.sampled_from(["'a'", "NULL", "*", "window_start", "t.window_end", "${x}"])
)


def calls(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    functions = [
        "count",
        "sum",
        "upper",
        "quantile",
        "min_by",
        "row_number",
        "percentile_disc",
        "cast",
    ]
    function_calls = st.tuples(st.sampled_from(functions), st.lists(inner, max_size=3))
    operations = st.tuples(
        inner, st.sampled_from(["+", "=", "AND", "LIKE", "IN", "||", "."]), inner
    )
    return st.one_of(
        function_calls.map(lambda f: f"{f[0]}({', '.join(f[1])})"),
        operations.map(" ".join),
        inner.map("NOT {}".format),
        inner.map("({})".format),
        inner.map("sum({}) OVER (PARTITION BY k ROWS 2 PRECEDING)".format),
        inner.map("max({}) FILTER (WHERE x > 1)".format),
        inner.map("CASE WHEN {} THEN 1 END".format),
        inner.map("CAST({} AS BIGINT)".format),
        inner.map("TUMBLE_START({}, 1 HOUR)".format),
        inner.map("count(DISTINCT {})".format),
        inner.map("(SELECT {})".format),
    )


EXPRESSIONS = st.recursive(LEAVES, calls, max_leaves=6)
CALLS = st.builds(
    "{}({})".format,
    st.sampled_from(["TUMBLE", "HOP", "CUMULATE", "SESSION", "window", "session_window"]),
    st.lists(
        st.one_of(
            LENGTHS,
            NAMES,
            st.sampled_from(
                [
                    "TABLE t",
                    "TABLE t PARTITION BY k",
                    "DESCRIPTOR(ts)",
                    "DESCRIPTOR(a, b)",
                    "SIZE => 1 HOUR",
                    "ZONE => 'Europe/Berlin'",
                    "ORIGIN => 'never'",
                ]
            ),
        ),
        max_size=4,
    ).map(", ".join),
)
SOURCES = st.one_of(
    NAMES,
    CALLS.map("TABLE({})".format),
    CALLS,
    NAMES.map("{} WATERMARK ts DELAY OF 1 MINUTE AS w".format),
    NAMES.map("t JOIN {} OVER (ROWS 3 PRECEDING) ON t.k = s.k".format),
    EXPRESSIONS.map("(SELECT {} AS k, ts FROM t)".format),
)
CLAUSES = st.sampled_from(
    [
        "EARLY EVERY 5 SECONDS",
        "LATE EACH",
        "GRACE 1 HOUR",
        "RETAIN 1 DAY ROWS 5",
        "ON CLOSE",
        "CHANGES",
        "DELTAS",
        "SOON",
        "GRACE 2 ROWS",
        "EARLY EVERY 3 ROWS",
        "EARLY EACH THEN EVERY 1 MINUTE",
    ]
)
EMITS = st.lists(CLAUSES, max_size=3).map(lambda parts: "EMIT " + " ".join(parts) if parts else "")


@st.composite
def selects(draw: st.DrawFn) -> str:
    items = draw(st.lists(EXPRESSIONS, min_size=1, max_size=3))
    items_with_aliases = [
        item + draw(st.sampled_from(["", " AS n", " AS k", " m"])) for item in items
    ]
    where = draw(st.none() | EXPRESSIONS)
    group = draw(st.lists(EXPRESSIONS | CALLS | st.sampled_from(["window_start", "window_end"])))
    having = draw(st.none() | EXPRESSIONS)
    return " ".join(
        [
            "SELECT " + draw(st.sampled_from(["", "DISTINCT "])) + ", ".join(items_with_aliases),
            "FROM " + draw(SOURCES),
            "" if where is None else f"WHERE {where}",
            "" if not group else "GROUP BY " + ", ".join(group),
            "" if having is None else f"HAVING {having}",
            draw(EMITS),
        ]
    )


TABLES = st.sampled_from(
    [
        "CREATE TABLE t (k STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - 1 MINUTE) "
        "WITH (connector = 'parquet', path = '${p}')",
        "CREATE TABLE out WITH (connector = 'duckdb')",
        "CREATE TABLE t (k) WITH (connector = 'csv')",
        "SET checkpoint = 'c'",
        "SET trigger = 'soon'",
        "INSERT INTO out SELECT k, count(*) FROM t GROUP BY k, TUMBLE(ts, 1 HOUR)",
    ]
)
STATEMENTS = st.lists(selects() | TABLES, min_size=1, max_size=3).map(";\n".join)


@given(text=STATEMENTS)
def test_statements_are_lowered_or_refused(text: str) -> None:
    check_lowering(text)


@given(text=STATEMENTS, data=st.data())
def test_damaged_statements_are_refused_too(text: str, data: st.DataObject) -> None:
    tokens = re.findall(r"\w+|\s+|[^\w\s]", text)
    position = data.draw(st.integers(0, len(tokens) - 1))
    count = data.draw(st.integers(0, 3))
    replacement = data.draw(
        st.sampled_from(["", "(", ")", "'", "`", ";", ",", "FROM", "--", "/*", "=>", "☃"])
    )
    check_lowering("".join([*tokens[:position], replacement, *tokens[position + count :]]))


@given(text=st.text(max_size=60))
def test_any_text_is_refused(text: str) -> None:
    check_lowering(text)


WORDS = st.sampled_from(
    sorted({*Dialect.Tokenizer.KEYWORDS, "x", "'s'", "1", "(", ")", ",", "EMIT"})
)


@given(words=st.lists(WORDS, max_size=12))
def test_any_words_are_refused(words: list[str]) -> None:
    check_lowering("SELECT " + " ".join(words))
    check_lowering("SELECT k, count(*) FROM t GROUP BY k, TUMBLE(ts, 1 HOUR) " + " ".join(words))


def check_lowering(text: str) -> None:
    for compile_text in (compile_query, compile_pipeline):
        refusals: list[MuntinError] = []
        try:
            compile_text(text)
        except SqlError as error:
            refusals = [error]
        except ProblemsError as error:
            refusals = [*error.problems]
            assert len(refusals) > 1
        for refusal in refusals:
            assert isinstance(refusal, SqlError)
            assert len(str(refusal).splitlines()) == 3
            assert refusal.problem
            assert refusal.hint
