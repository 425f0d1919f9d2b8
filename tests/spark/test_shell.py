"""Tests of the SQL shell over batches and streams."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console
from tests.spark.feed import Feed, at

from muntin.cli.lines import RowFormat
from muntin.cli.shell import Shell
from muntin.model.errors import SqlError

pytestmark = pytest.mark.slow


def test_rows_are_shown(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "messages")
    feed.add(("a", at(1), 4), ("b", at(2), 7))
    feed.add(("a", at(3), 5), ("a", at(40), 1))
    feed.add(("b", at(2), 9))
    shell = Shell(Console(file=io.StringIO(), width=160), spark, until_quiet=True)
    for mode in ("batch", "stream"):
        name = f"messages_{mode}"
        shell.run(
            f"""CREATE TABLE {name} (id BIGINT, key STRING, at TIMESTAMP, value BIGINT,
                    WATERMARK FOR at AS at - 5 SECONDS)
                WITH (connector = 'parquet', path = '{feed.folder}', mode = '{mode}'
                      {", maxFilesPerTrigger = 1" if mode == "stream" else ""});
                SELECT key, sum(value) AS total FROM {name} GROUP BY key, TUMBLE(at, 10 SECONDS);"""
        )
    output = " ".join(shell.console.file.getvalue().split())
    batch, stream = output.split("emission")[1:3]
    assert "a │ 2026-01-01 00:00:00 │ 2026-01-01 00:00:10 │ 9 │ full" in batch
    assert "b │ 2026-01-01 00:00:00 │ 2026-01-01 00:00:10 │ 16 │ full" in batch
    assert "b │ 2026-01-01 00:00:00 │ 2026-01-01 00:00:10 │ 7 │ full" in stream
    assert "00:00:40" not in stream
    assert "rejected: 1 late" in stream


@pytest.mark.parametrize("mode", ["batch", "stream"])
def test_a_value_that_python_cant_hold_ends_no_query(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    far = "timestamp_micros(1767225600000000000)"
    rows = f"SELECT 'a' AS key, {far} AS at UNION ALL SELECT 'b', timestamp'2026-01-01'"
    spark.sql(rows).coalesce(1).write.parquet(f"{tmp_path}/in")
    shell = Shell(Console(file=io.StringIO(), width=160), spark, until_quiet=True)
    shell.run(
        f"""CREATE TABLE far_{mode} (key STRING, at TIMESTAMP,
                WATERMARK FOR at AS at MAX AHEAD ANY)
            WITH (connector = 'parquet', path = '{tmp_path}/in', mode = '{mode}');
            SELECT key, max(at) AS most FROM far_{mode}
            GROUP BY key, TUMBLE(at, 10 SECONDS) EMIT EARLY EACH;"""
    )
    output = " ".join(shell.console.file.getvalue().split())
    assert "57971-02-25 00:00:00" in output
    assert "│ b │ 2026-01-01 00:00:00 │ 2026-01-01 00:00:10 │" in output


LONG = "x" * 300


def rows_of(
    spark: SparkSession, folder: Path, form: RowFormat, mode: str, out: io.StringIO
) -> None:
    feed = Feed(folder)
    feed.add((LONG, at(1), 4), (LONG, at(2), None))
    feed.add(('a, "b"', at(3), 7), (LONG, at(60), 1))
    shell = Shell(Console(file=out, width=100_000), spark, until_quiet=True, form=form)
    shell.run(
        f"""CREATE TABLE m (id BIGINT, key STRING, at TIMESTAMP, value BIGINT)
            WITH (connector = 'parquet', path = '{feed.folder}', mode = '{mode}');
            SELECT key, collect_list(value) AS all, nullif(sum(value), 7) AS total FROM m
            GROUP BY key, TUMBLE(at, 10 SECONDS);"""
    )


@pytest.mark.parametrize("mode", ["batch", "stream"])
def test_lines_hold_all_rows_whole(
    spark: SparkSession, tmp_path: Path, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["key", "window_start", "window_end", "all", "total", "emission", "revision"]
    rows_of(spark, tmp_path / "json", RowFormat.JSON, mode, io.StringIO())
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(list(row) == names for row in objects)
    first = next(row for row in objects if row["key"] == LONG and row["total"] == 4)
    assert (first["all"], first["window_start"]) == ([4], "2026-01-01T00:00:00.000Z")
    assert next(row for row in objects if row["key"] == 'a, "b"')["total"] is None
    rows_of(spark, tmp_path / "csv", RowFormat.CSV, mode, io.StringIO())
    head, *lines = csv.reader(io.StringIO(capsys.readouterr().out))
    assert head == names
    assert len(lines) == len(objects) == (3 if mode == "batch" else 2)
    assert [LONG, "2026-01-01 00:00:00", "2026-01-01 00:00:10", "[4]", "4", "full", "0"] in lines
    assert next(line for line in lines if line[0] == 'a, "b"')[4] == ""
    table = io.StringIO()
    rows_of(spark, tmp_path / "table", RowFormat.TABLE, mode, table)
    assert LONG in table.getvalue()
    assert capsys.readouterr().out == ""


def test_what_spark_refuses_in_an_earlier_view_is_shown_there(spark: SparkSession) -> None:
    shell = Shell(Console(file=io.StringIO(), width=160), spark)
    shell.run("CREATE TABLE m WITH (connector = 'rate');")
    shell.run("CREATE VIEW fine AS SELECT timestamp AS at, value, value % 2 AS key FROM m;")
    shell.run("CREATE VIEW wrong AS\n  SELECT key, at, nope(value) AS w FROM fine;")
    with pytest.raises(SqlError) as raised:
        shell.run("SELECT key, sum(w) AS total FROM wrong GROUP BY key, TUMBLE(at, 10 SECONDS);")
    assert "Cannot resolve routine `nope`" in raised.value.problem
    start, end = raised.value.span
    assert raised.value.text[start:end] == "nope(value)"
    shown = str(raised.value).splitlines()
    assert shown[0].startswith("line 2: ")
    assert shown[2].strip() == "^" * len("nope(value)")
