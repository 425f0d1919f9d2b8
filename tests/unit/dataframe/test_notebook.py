"""Tests of the magic ``%%muntin`` of notebooks."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from IPython.core.interactiveshell import InteractiveShell

import muntin as mt

COUNT = "SELECT page, count(*) AS n FROM clicks GROUP BY page, TUMBLE(at, INTERVAL 1 MINUTE)"


@pytest.fixture
def shell() -> Any:
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "muntin")
    shell.user_ns["clicks"] = pl.DataFrame(
        {"page": ["home", "home"], "at": ["2026-01-01 09:00:10", "2026-01-01 09:00:40"]}
    )
    return shell


def test_a_statement_reads_frames_by_their_names(shell: Any) -> None:
    results = shell.run_cell_magic("muntin", "", COUNT)
    assert results.select("page", "n").rows() == [("home", 2)]


def test_the_query_gets_a_name(shell: Any) -> None:
    shell.run_cell_magic("muntin", "views", COUNT)
    assert shell.user_ns["views"].results["n"].to_list() == [2]
    with pytest.raises(mt.OptionError, match="isn't a name"):
        shell.run_cell_magic("muntin", "SELECT 1", COUNT)


def test_over_a_stream_it_is_the_query(shell: Any) -> None:
    shell.user_ns["clicks"] = mt.ticks(10)
    statement = "SELECT count(*) AS n FROM clicks GROUP BY TUMBLE(timestamp, INTERVAL 1 MINUTE)"
    query = shell.run_cell_magic("muntin", "", statement)
    assert "tumbling 1 minute" in query.explain()


def test_of_names_that_differ_in_case_the_spelled_one_is_read(shell: Any) -> None:
    shell.user_ns["Clicks"] = shell.user_ns["clicks"].with_columns(page=pl.lit("other"))
    assert shell.run_cell_magic("muntin", "", COUNT)["page"].to_list() == ["home"]
    results = shell.run_cell_magic("muntin", "", COUNT.replace("FROM clicks", "FROM Clicks"))
    assert results["page"].to_list() == ["other"]


def test_a_name_that_is_no_table_is_an_error(shell: Any) -> None:
    shell.user_ns["clicks"] = 3
    with pytest.raises(mt.SqlError, match="isn't a table; assign a frame or a source to"):
        shell.run_cell_magic("muntin", "", COUNT)
    shell.user_ns |= {"orders": mt.ticks(1), "click": pl.DataFrame({"page": ["home"]})}
    with pytest.raises(mt.SqlError, match="the tables of this notebook are orders, click"):
        shell.run_cell_magic("muntin", "", COUNT)


def test_a_mistake_shows_the_cell_and_not_our_code(shell: Any, capsys: Any) -> None:
    shell.run_cell(f"%%muntin\n{COUNT.replace('TUMBLE', 'TUMBEL')}")
    output = capsys.readouterr()
    assert "TUMBEL" in f"{output.out}{output.err}"
    assert "dataframe/notebook.py" not in f"{output.out}{output.err}"


def test_explain_prints_what_a_query_would_do(shell: Any, capsys: Any) -> None:
    assert shell.run_cell_magic("muntin", "", f"EXPLAIN {COUNT}") is None
    assert "tumbling 1 minute, by page on at" in capsys.readouterr().out


def test_completion_lists_what_is_for_users(shell: Any) -> None:
    shell.run_cell_magic("muntin", "views", COUNT)
    views = shell.user_ns["views"]
    query = views.start(checkpoint=None)
    query.await_end()
    windows = mt.windowed(shell.user_ns["clicks"], key="page", time="at")
    names = [{name for name in dir(value) if not name.startswith("_")} for value in (views, query)]
    assert names[0] == {"results", "rejected", "start", "explain", "full", "top"}
    assert {"await_end", "stop", "frame"} <= names[1]
    assert not {"show", "stop_for_exit", "outputs", "query"} & names[1]
    assert {"tumbling", "session"} <= {*dir(windows)}
    assert "spec" not in dir(windows)
