"""Tests of the SQL shell without Spark."""

from __future__ import annotations

import io
import sys

import polars as pl
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from rich.console import Console
from typer.testing import CliRunner

import muntin as mt
from muntin.cli.app import build
from muntin.cli.lines import RowFormat
from muntin.cli.prompt import SqlCompleter, is_complete
from muntin.cli.rows import ROW_LIMIT, LiveRows
from muntin.cli.shell import Shell, converse

TABLE = """CREATE TABLE clicks (page STRING, `user name` STRING, ts TIMESTAMP, day AS date(ts),
    WATERMARK FOR ts AS ts - 1 MINUTE) WITH (connector = 'json', path = 'a;b');"""
WINDOW = ("k", "window_start", "window_end")
QUERY = "SELECT page, count(*) AS n FROM clicks GROUP BY page, TUMBLE(ts, 1 HOUR);"


def make_shell() -> Shell:
    return Shell(Console(file=io.StringIO(), width=160))


def read_output(shell: Shell) -> str:
    return " ".join(shell.console.file.getvalue().split())


def test_statements_define_for_those_after_them():
    sql_shell = make_shell()
    sql_shell.run(TABLE + "CREATE VIEW home AS SELECT * FROM clicks WHERE page = ';'; tables;")
    sql_shell.run("EXPLAIN " + QUERY.replace("clicks", "home"))
    output = read_output(sql_shell)
    assert "clicks home" in output
    assert "tumbling 1 hour, by page on ts" in output
    assert "reads clicks (json at a;b), chosen and computed row by row" in output


def test_tables_are_listed_and_described():
    sql_shell = make_shell()
    table = TABLE.replace("page STRING", "page STRING, amount DECIMAL(10, 2), twice AS amount * 2")
    sql_shell.run(f"{table} SHOW TABLES; DESCRIBE `Clicks`;")
    assert read_output(sql_shell).startswith("clicks page STRING amount DECIMAL(10, 2)")
    assert "twice AS amount * 2" in read_output(sql_shell)
    with pytest.raises(mt.OptionError, match="DESCRIBE='orders' isn't a table of CREATE TABLE"):
        sql_shell.run("DESC orders;")


def test_a_mistake_leaves_what_was_defined():
    sql_shell = make_shell()
    sql_shell.run(TABLE)
    with pytest.raises(mt.SqlError, match="clicks exists already"):
        sql_shell.run(TABLE)
    with pytest.raises(mt.SqlError, match="INSERT INTO starts a query"):
        sql_shell.run("INSERT INTO clicks " + QUERY)
    with pytest.raises(mt.SqlError, match="doesn't end"):
        sql_shell.run("SELECT 'abc")
    assert sql_shell.names == ["clicks"]
    assert sql_shell.columns == ["page", "user name", "ts", "day"]


def test_a_view_is_defined_anew():
    sql_shell = make_shell()
    sql_shell.run(TABLE + "CREATE VIEW home AS SELECT * FROM clicks WHERE page = 'home';")
    sql_shell.run("CREATE OR REPLACE VIEW home AS SELECT * FROM clicks WHERE page = 'start';")
    assert sql_shell.names == ["clicks", "home"]
    assert sql_shell.definitions.catalog.views["home"].relation.where == "page = 'start'"


def test_statements_come_from_the_command_line_and_from_the_standard_input():
    for args, text in (["-e", TABLE + "EXPLAIN " + QUERY], None), ([], TABLE + "EXPLAIN " + QUERY):
        emitted = CliRunner().invoke(build(), ["sql", *args], input=text)
        assert emitted.exit_code == 0, emitted.output
        assert "tumbling 1 hour, by page on ts" in emitted.stdout
    emitted = CliRunner().invoke(build(), ["sql", "-e", "SELEC 1"])
    assert emitted.exit_code == 1
    assert "'SELEC' doesn't begin a statement" in emitted.stderr
    assert "^^^^^" in emitted.stderr


@pytest.mark.parametrize(
    ("text", "whole"),
    [("SELECT 1", False), ("SELECT 1;", True), ("exit", True), ("", True), ("a;\n b", False)],
)
def test_enter_ends_a_statement_after_its_semicolon(text, whole):
    assert is_complete(text) is whole


def test_a_mistake_ends_a_statement_and_not_the_conversation(monkeypatch):
    typed = iter(["SELEC 1;", KeyboardInterrupt(), TABLE, "tables", "exit", "never read"])

    def ask() -> str:
        line = next(typed)
        if isinstance(line, BaseException):
            raise line
        return line

    monkeypatch.setattr("muntin.cli.prompt.make_prompt", lambda make_shell: ask)
    sql_shell = make_shell()
    converse(sql_shell)
    output = read_output(sql_shell)
    assert "error line 1: 'SELEC' doesn't begin a statement" in output
    assert output.endswith("clicks")
    assert next(typed) == "never read"


def test_without_its_extra_the_prompt_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    monkeypatch.delitem(sys.modules, "muntin.cli.prompt")
    with pytest.raises(mt.MissingExtraError, match=r"pip install 'muntin\[shell\]'"):
        converse(make_shell())


def test_words_and_names_are_completed():
    completer = SqlCompleter(lambda: ["clicks", "counted_at"])

    def complete(text: str) -> set[str]:
        completions = completer.get_completions(Document(text), CompleteEvent())
        return {completion.text for completion in completions}

    assert {"clicks"} <= complete("SELECT cl")
    assert {"count(", "count_if(", "counted_at"} <= complete("SELECT cou")
    assert "TUMBLE(" in complete("SELECT x FROM TABLE(tum")
    assert complete("SELECT ") == set()


def make_row(key: str, start: int, n: int | None, revision: int, emission: str = "early"):
    return {
        "k": key,
        "window_start": start,
        "window_end": start + 10,
        "n": n,
        "emission": emission,
        "revision": revision,
    }


def test_of_a_window_its_greatest_revision_is_shown():
    rows = LiveRows(["k", "n"])
    rows.take(
        [
            make_row("a", 0, 1, 0),
            make_row("a", 0, 3, 2),
            make_row("a", 0, 2, 1),
            make_row("b", 0, 1, 0),
        ],
        WINDOW,
    )
    assert [(r["k"], r["n"]) for r in rows.rows] == [("a", 3), ("b", 1)]
    rows.take([make_row("a", 0, None, 3, "retract"), make_row("b", 10, 4, 0)], WINDOW)
    assert [(r["k"], r["n"]) for r in rows.rows] == [("b", 1), ("b", 4)]


def test_pairs_have_no_versions_and_old_rows_leave_the_table():
    rows = LiveRows(["x"], most=2, limit=3)
    rows.take([{"x": 1}, {"x": 1}, {"x": None}, {"x": 2.5}], None)
    assert [make_row["x"] for make_row in rows.rows] == [1, None, 2.5]
    table = rows.table()
    assert table.row_count == 2
    assert table.caption == "… and 2 before"
    assert [cell.plain for cell in table.columns[0].cells] == ["", "2.5"]


def test_the_oldest_windows_are_counted_and_not_kept():
    rows = LiveRows(["k", "n"], most=5)
    rows.take([make_row("a", start, 1, 0) for start in range(ROW_LIMIT + 7)], WINDOW)
    rows.take([make_row("a", ROW_LIMIT + 6, 2, 1)], WINDOW)
    assert len(rows.rows) == ROW_LIMIT
    assert rows.rows[0]["window_start"] == 7
    assert rows.table().caption == f"… and {ROW_LIMIT + 2:,} before"


def test_data_is_shown_as_it_is_and_not_as_markup():
    rows = LiveRows(["k", "[bold]n"])
    rows.take([make_row("[/home]", 0, 1, 0), make_row("[red]a", 0, 1, 0)], WINDOW)
    sql_shell = make_shell()
    sql_shell.console.print(rows.table())
    output = read_output(sql_shell)
    assert "[/home]" in output
    assert "[red]a" in output
    assert "[bold]n" in output


def test_a_select_over_files_runs_here(tmp_path, capsys):
    (tmp_path / "clicks.csv").write_text(
        "page,ts,tags\nhome,2026-01-01 09:00:10.5,x\n"
        "home,2026-01-01 09:30:00,y\ncart,2026-01-01 10:05:00,z\ncart,soon,z\n"
    )
    table = f"""CREATE TABLE clicks (page STRING, ts TIMESTAMP, tags STRING)
        WITH (connector = 'csv', header = 'true', path = '{tmp_path}/clicks.csv', mode = '%s');"""
    query = """SELECT page, count(*) AS n, min(ts) AS first, collect_list(tags) AS tags
        FROM clicks GROUP BY page, TUMBLE(ts, 1 HOUR);"""
    batch_shell = make_shell()
    batch_shell.run(table % "batch" + query)
    output = read_output(batch_shell)
    assert "home │ 2026-01-01 09:00:00 │ 2026-01-01 10:00:00 │ 2" in output
    assert "cart │ 2026-01-01 10:00:00 │ 2026-01-01 11:00:00 │ 1" in output
    assert output.endswith("rejected: 1 malformed")
    stream_shell = Shell(Console(file=io.StringIO()), until_quiet=True, form=RowFormat.CSV)
    stream_shell.run(table % "stream" + query)
    assert capsys.readouterr().out.splitlines() == [
        "page,window_start,window_end,n,first,tags,emission,revision",
        "home,2026-01-01 09:00:00,2026-01-01 10:00:00,2,2026-01-01 09:00:10.5,"
        '"[""x"",""y""]",full,0',
    ]


def test_a_host_that_cant_read_a_table_is_refused():
    sql_shell = Shell(Console(file=io.StringIO()), host="local")
    sql_shell.run("CREATE TABLE m (at TIMESTAMP) WITH (connector = 'orc', path = 'in');")
    with pytest.raises(mt.SqlError, match="connector 'orc' needs Spark"):
        sql_shell.run("SELECT count(*) AS n FROM m GROUP BY TUMBLE(at, 1 HOUR);")


def test_each_of_the_first_rows_of_a_window_is_shown():
    orders = pl.DataFrame(
        {"shop": ["a", "b", "c"], "at": ["2026-01-01 09:00:00"] * 3, "price": [3, 9, 5]}
    )
    totals = mt.windowed(orders, key="shop", time="at").tumbling("1 hour")
    best = totals.agg(total=mt.sum("price")).top(2, by="total")
    rows = LiveRows(["rank", "shop"])
    query = best.start(checkpoint=None, results=rows)
    assert query.await_end(60)
    assert [(make_row["rank"], make_row["shop"]) for make_row in rows.rows] == [(1, "b"), (2, "c")]


def test_a_query_that_runs_here_is_explained_so():
    sql_shell = make_shell()
    sql_shell.run(TABLE.replace(", day AS date(ts)", "") + "EXPLAIN " + QUERY)
    assert "in this process, without Spark" in read_output(sql_shell)
