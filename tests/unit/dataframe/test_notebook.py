"""The magic ``%%muntin`` of notebooks."""

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
    shown = shell.run_cell_magic("muntin", "", COUNT)
    assert shown.select("page", "n").rows() == [("home", 2)]


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
    shown = shell.run_cell_magic("muntin", "", COUNT.replace("FROM clicks", "FROM Clicks"))
    assert shown["page"].to_list() == ["other"]


def test_a_name_that_is_no_table_is_an_error(shell: Any) -> None:
    shell.user_ns["clicks"] = 3
    with pytest.raises(mt.SqlError, match="isn't a table"):
        shell.run_cell_magic("muntin", "", COUNT)
