"""Tests that statements without windows emit each row once, in order of arrival."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import muntin as mt
from muntin import testing
from muntin.pipelines.checks import check_pipeline
from muntin.sql.api import compile_pipeline

CLICKS = pl.DataFrame({"page": ["home", "cart", "home"], "ms": [120, 340, None]})
IN = "CREATE TABLE clicks (page STRING, ms BIGINT) WITH (connector = 'json', path = 'in');"


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("SELECT page, ms * 2 AS two FROM clicks WHERE ms > 200", [("cart", 680)]),
        ("SELECT * FROM clicks", CLICKS.rows()),
        ("SELECT * FROM clicks EMIT CHANGES", CLICKS.rows()),
        ("SELECT ms FROM clicks ORDER BY ms DESC LIMIT 1", [(340,)]),
        (
            "SELECT page, ms FROM clicks WHERE ms > 200 UNION ALL SELECT upper(page), ms * 2 "
            "FROM clicks ORDER BY ms DESC NULLS LAST LIMIT 3",
            [("CART", 680), ("cart", 340), ("HOME", 240)],
        ),
        ("WITH v AS (SELECT ms FROM clicks) SELECT ms FROM v WHERE ms IN (120, 5)", [(120,)]),
        ("SELECT ms AS emission, page AS window_start FROM clicks WHERE ms = 120", [(120, "home")]),
    ],
)
def test_rows_have_only_the_selected_columns(
    statement: str, rows: list[tuple[object, ...]]
) -> None:
    assert mt.sql(statement, clicks=CLICKS).results.rows() == rows


def test_a_restarted_stream_appends_each_row_once(tmp_path: Path) -> None:
    """The query is started four times; there is no new row for the third start."""
    (tmp_path / "in").mkdir()
    statement = "SELECT ms FROM clicks WHERE page = 'home'"
    for number in (0, 1, None, 2):
        if number is not None:
            rows = pl.DataFrame({"page": ["home", "cart"], "ms": [number, 9]})
            rows.write_ndjson(tmp_path / "in" / f"{number}.json")
        source = mt.files(str(tmp_path / "in" / "*.json"), columns="page string, ms long")
        query = mt.sql(statement, clicks=source).start(
            checkpoint=tmp_path / "checkpoint",
            results=mt.to_parquet(tmp_path / "out"),
            available_now=True,
        )
        assert query.await_end(60)
    written = pl.read_parquet(tmp_path / "out" / "*" / "*.parquet")
    assert sorted(written["ms"]) == [0, 1, 2]


@pytest.mark.parametrize("where", ["", "WHERE page = 'home'", "WHERE ms > 0"])
def test_a_star_shows_the_declared_columns_and_bad_messages_are_rejected(
    tmp_path: Path, where: str
) -> None:
    rows = '{"page": "home", "ms": 1, "x": 0}\n{"page": "cart", "ms": []}\n'
    (tmp_path / "a.json").write_text(rows)
    query = mt.sql(
        f"""CREATE TABLE clicks (page STRING, ms BIGINT, two AS ms * 2)
        WITH (connector = 'json', path = '{tmp_path}/*.json', mode = 'batch');
        SELECT * FROM clicks {where}"""
    )
    assert query.results.columns == ["page", "ms", "two"]
    assert query.results.rows() == [("home", 1, 2)]
    assert query.rejected["reason"].to_list() == ["malformed"]


def test_windows_read_the_rows() -> None:
    filtered_clicks = mt.sql("SELECT page, ms FROM clicks WHERE ms IS NOT NULL", clicks=CLICKS)
    pairs = mt.windowed(filtered_clicks).tumbling(mt.rows(2)).agg(total=mt.sum("ms"))
    assert pairs.results["total"].to_list() == [460]


def test_the_test_kit_runs_such_a_query() -> None:
    query = mt.sql("SELECT ms FROM clicks WHERE page = 'home'", clicks=CLICKS)
    outcome = testing.run(query, [[{"page": "home", "ms": 1}], [{"page": "cart", "ms": 2}]])
    assert outcome.emissions.select("batch", "ms").rows() == [(0, 1)]


def test_such_a_query_is_explained() -> None:
    rows = mt.sql("SELECT page FROM clicks", clicks=CLICKS)
    assert "none: each message is a row" in repr(rows)
    assert "state     1 shard; the number of messages" in rows.explain()
    with pytest.raises(mt.OptionError, match=r"full=.*give the query itself"):
        _ = rows.full


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ("page STRING, ms BIGINT", None),
        ("page STRING", "differs from the columns that the query inserts"),
        ("page STRING, ms BIGINT, PRIMARY KEY (page) NOT ENFORCED", "are appended, each once"),
    ],
)
def test_a_sink_declares_the_selected_columns(columns: str, problem: str | None) -> None:
    pipeline = compile_pipeline(
        f"{IN} CREATE TABLE out ({columns}) WITH (connector = 'duckdb', path = 'o', table = 'o');"
        "INSERT INTO out SELECT page, ms FROM clicks WHERE ms > 1"
    )
    problems = check_pipeline(pipeline, lambda table: None).problems
    assert (problems == []) if problem is None else (problem in str(problems[0]))


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT page FROM clicks UNION ALL SELECT name FROM names", [("cart",), ("home",)]),
        (
            "WITH v AS (SELECT page FROM clicks WHERE page IN (SELECT name FROM names)) "
            "SELECT page FROM v",
            [],
        ),
        (
            "WITH v AS (SELECT c.page, n.name FROM clicks c JOIN names n ON c.page = n.name), "
            "w AS (SELECT name FROM v) SELECT * FROM w",
            [],
        ),
    ],
)
def test_a_bad_message_passes_unions_and_lookups_and_is_rejected(
    tmp_path: Path, query: str, rows: list[tuple[object, ...]]
) -> None:
    (tmp_path / "a.json").write_text('{"page": "home", "ms": 1}\n{"page": "bag", "ms": []}\n')
    results = mt.sql(
        f"""CREATE TABLE clicks (page STRING, ms BIGINT)
        WITH (connector = 'json', path = '{tmp_path}/*.json', mode = 'batch'); {query}""",
        names=pl.DataFrame({"name": ["cart"]}),
    )
    assert sorted(results.results.rows()) == rows
    assert results.rejected["reason"].to_list() == ["malformed"]
    assert results.rejected["malformed"].to_list() == [b'{"page": "bag", "ms": []}']
