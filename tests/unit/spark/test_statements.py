"""Tests of the place that is marked for mistakes which aren't of the grammar."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import muntin as mt
from muntin.model.errors import OptionError, SqlError
from muntin.spark import statements
from muntin.sql import api

STATEMENT = """SELECT k, SUM(v) AS `x`, MAX(v) AS `x=y`, window_start, window_end
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '1' MINUTE))
GROUP BY k, window_start, window_end"""


@pytest.mark.parametrize(
    ("value", "marked"),
    [
        ("x=sum(v)", "SUM(v)"),
        ("x=y=max(v)", "MAX(v)"),
        ("x=y", "MAX(v)"),
        ("x", "SUM(v)"),
    ],
)
def test_an_aggregate_is_found_by_its_whole_name(
    monkeypatch: pytest.MonkeyPatch, value: str, marked: str
) -> None:
    def refuse(*_: Any) -> None:
        raise OptionError("agg", value, "can't be", "give another")

    monkeypatch.setattr(statements, "bind", refuse)
    with pytest.raises(SqlError) as refusal:
        statements.bind_statement(None, api.compile_query(STATEMENT), {})
    start, end = refusal.value.span
    assert STATEMENT[start:end].startswith(marked)


def test_a_statement_without_its_tables_is_refused_with_the_way() -> None:
    with pytest.raises(
        SqlError, match=r"'clicks' isn't a table; .* mt\.sql\(statement, clicks="
    ) as error:
        mt.sql(STATEMENT)
    assert error.value.span[0] > 0
    with pytest.raises(OptionError, match=r"is a second statement; write mt\.sql\(statement, "):
        mt.sql(STATEMENT, STATEMENT)


def test_inputs_of_several_hosts_are_refused() -> None:
    with pytest.raises(OptionError, match=r"host='spark' can't read inputs of the local host"):
        mt.sql(STATEMENT, clicks=pl.DataFrame({"k": [1]}), host="spark")
    with pytest.raises(OptionError, match="clicks on local, the session on spark' are read on se"):
        mt.sql(object(), STATEMENT, clicks=pl.DataFrame({"k": [1]}))  # type: ignore[arg-type]


def test_explain_is_refused_where_a_query_is_asked() -> None:
    with pytest.raises(SqlError, match=r"returns a query, not a text; leave EXPLAIN out") as error:
        mt.sql({}, f"-- explain it\nEXPLAIN {STATEMENT}")
    assert error.value.span == (14, 21)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[UNRESOLVED] no column x; SQLSTATE: 42703\nand more",
            "[UNRESOLVED] no column x; SQLSTATE: 42703",
        ),
        (
            "[PYTHON_DATA_SOURCE_ERROR] Failed to create: Traceback (most recent call last):\n"
            '  File "worker.py", line 1, in main\n    raise ValueError("inner")\n'
            "ValueError: inner\n\nDuring handling of the above exception, another one:\n\n"
            '  File "x.py", line 2, in f\n'
            "muntin.model.errors.MissingExtraError: a query on Spark needs an extra\n"
            "SQLSTATE: 38000",
            "a query on Spark needs an extra",
        ),
        (
            "Failed: Traceback (most recent call last):",
            "Failed: Traceback (most recent call last):",
        ),
    ],
)
def test_the_first_line_of_an_error_is_its_cause(text: str, line: str) -> None:
    assert statements.get_first_line(RuntimeError(text)) == line
