"""Tests that the page on SQL's clauses and functions is true of both hosts."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pytest
from tests.docs.functions import CLAUSES, PAGE, Clause, render_page

import muntin as mt
from muntin.sql import api
from muntin.sql.foreign_functions import REPLACEMENTS

TIMES = [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in (1, 2, 30)]
FRAME = pl.DataFrame({"k": ["a", "a", "b"], "v": [1, 2, 3], "ts": TIMES})


def test_the_page_is_written_anew() -> None:
    """``python -m tests.docs.functions`` writes it."""
    assert PAGE.read_text() == render_page()


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.name)
def test_a_clause_is_run_by_the_hosts_that_the_page_says(clause: Clause) -> None:
    assert api.compile_query(clause.sample).lowered.query
    if clause.local:
        assert len(mt.sql(clause.sample, t=FRAME).results) > 0
    else:
        with pytest.raises(mt.SqlError, match="Spark"):
            mt.sql(clause.sample, t=FRAME)


@pytest.mark.parametrize("name", REPLACEMENTS)
def test_a_function_of_another_engine_is_refused_with_what_to_write(name: str) -> None:
    text = f"SELECT k, max({name}(k)) AS m FROM t GROUP BY k, TUMBLE(ts, INTERVAL '1' MINUTE)"
    with pytest.raises(mt.SqlError, match=f"(?s){name.lower()} isn't a function here; write "):
        mt.sql(text, t=FRAME)


def test_an_extraction_is_never_null() -> None:
    condition = "regexp_extract(k, 'a') IS NOT NULL"
    text = f"SELECT count(*) AS n FROM t WHERE {condition} GROUP BY TUMBLE(ts, 1 HOUR)"
    with pytest.raises(mt.SqlError, match="is '' and not NULL where nothing matches"):
        mt.sql(text, t=FRAME)


@pytest.mark.parametrize(
    ("key", "window"),
    [
        ("DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm')", "INTERVAL '1' MINUTE"),
        ("date_trunc('HOUR', ts)", "INTERVAL '1' HOUR"),
        ("to_date(ts)", "INTERVAL '1' DAY"),
        ("CAST(ts AS DATE)", "INTERVAL '1' DAY"),
        ("DATE_FORMAT(ts, 'yyyy-MM')", "1 MONTH"),
    ],
)
def test_a_rounded_time_is_refused_with_its_window(key: str, window: str) -> None:
    with pytest.raises(mt.SqlError) as caught:
        mt.sql(f"SELECT {key} AS at, count(*) AS n FROM t GROUP BY {key}", t=FRAME)
    assert f"group by TUMBLE(ts, {window})" in str(caught.value)
    assert api.compile_query(f"SELECT count(*) AS n FROM t GROUP BY TUMBLE(ts, {window})")
