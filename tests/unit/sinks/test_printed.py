"""Tests of results on the standard output."""

from __future__ import annotations

from datetime import datetime

import polars as pl
import pytest

import muntin as mt
from muntin.model.pipeline import DeclaredTable
from muntin.sinks.declared import Surroundings, make_sink
from muntin.sinks.printed import PrintSink

CLICKS = pl.DataFrame(
    {
        "page": ["home", "h\x1b[31m", None],
        "at": ["2026-01-01 09:00:10", "2026-01-01 09:00:20", None],
    }
)


def test_each_batch_with_rows_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    views = mt.windowed(CLICKS, key="page", time="at").tumbling("1 minute").agg(n=mt.count())
    query = views.start(checkpoint=None, results=mt.to_print(), rejected=mt.to_print(rows=1))
    assert query.await_end(60)
    output = capsys.readouterr().out
    assert "batch 0, results: 2 rows" in output
    assert "│ home" in output
    assert "batch 0, rejected: 1 row\n" in output
    assert "null_time" in output
    assert "\x1b" not in output
    assert "h\\x1b[31m" in output


def test_a_large_batch_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    minutes = [datetime(2026, 1, 1, 9, minute) for minute in range(60)]
    query = (
        mt.windowed(pl.DataFrame({"at": minutes}), time="at")
        .tumbling("1 minute")
        .agg(n=mt.count())
        .start(checkpoint=None, results=mt.to_print(rows=4))
    )
    assert query.await_end(60)
    output = capsys.readouterr().out
    assert "batch 0, results: 60 rows" in output
    assert output.count("full") == 4


def test_a_table_of_sql_is_printed() -> None:
    printed = make_sink(DeclaredTable("out", "print", options={"rows": "3"}), Surroundings())
    assert isinstance(printed, PrintSink)
    assert printed.rows == 3
