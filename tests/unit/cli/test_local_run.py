"""Tests of pipelines that run in this process: the inputs choose the host, and need no Spark."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

import muntin as mt
from muntin.cli.app import build
from muntin.cli.pipelines import read_checked_pipeline
from muntin.cli.tokens import read_token
from muntin.hosts.local.pipelines import find_spark_reason
from muntin.model.pipeline import DeclaredTable
from muntin.model.reader_options import translate_options

SQL = """
CREATE TABLE clicks (
    page STRING, ms BIGINT, at TIMESTAMP, seconds AS ms / 1000,
    WATERMARK FOR at AS at - INTERVAL '30' SECOND MAX AHEAD ANY
) WITH (connector = 'json', path = '${data}');
CREATE TABLE views WITH (connector = 'parquet', path = '${out}/views');
CREATE TABLE rejected WITH (connector = 'parquet', path = '${out}/rejected');
SET checkpoint = '${out}/checkpoints';
SET trigger = 'available now';
INSERT INTO views REJECTED INTO rejected
SELECT upper(page) AS shown, count(*) AS n, max(seconds) AS slowest
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '1' MINUTE))
GROUP BY upper(page), window_start, window_end
EMIT EARLY EACH;
"""
TOML = """
checkpoint = "${out}/checkpoints"
trigger = "available now"
[tables.clicks]
connector = "json"
path = "${data}"
columns = { page = "string", ms = "long", at = "timestamp" }
computed = { seconds = "ms / 1000", shown = "upper(page)" }
time = "at"
lateness = "30 seconds"
max_ahead = "any"
[tables.views]
connector = "parquet"
path = "${out}/views"
[tables.rejected]
connector = "parquet"
path = "${out}/rejected"
[queries.views]
from = "clicks"
key = "shown"
nulls = "group"
windows = { tumbling = "1 minute" }
early = { each = true }
agg = { n = "count(*)", slowest = "max(seconds)" }
into = "views"
rejected = "rejected"
"""
WITHOUT_SPARK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from muntin.cli.app import main
main()
"""
ROWS = [
    {"page": "home", "ms": 1500, "at": "2026-01-01T09:00:10Z"},
    {"page": "Home", "ms": 250, "at": "2026-01-01T09:00:20Z"},
    {"page": None, "ms": None, "at": "2026-01-01T09:02:00Z"},
    {"page": "cart", "ms": 10, "at": "late"},
]


def invoke(*args: str) -> Result:
    return CliRunner().invoke(build(), args)


def join_lines(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def write_inputs(tmp_path: Path) -> list[str]:
    data = tmp_path / "in"
    data.mkdir()
    (data / ".a.json").write_text("\n".join(map(json.dumps, ROWS)) + "\n")
    (data / ".a.json").rename(data / "a.json")
    return ["--set", f"data={data}", "--set", f"out={tmp_path}/out"]


@pytest.mark.parametrize(("suffix", "text"), [("sql", SQL), ("toml", TOML)])
def test_an_empty_checkpoint_isnt_the_root(tmp_path: Path, suffix: str, text: str) -> None:
    file = tmp_path / f"views.{suffix}"
    file.write_text(text.replace("${out}/checkpoints", "${folder}"))
    done = invoke("run", str(file), *write_inputs(tmp_path), "--set", "folder=")
    assert done.exit_code
    assert "checkpoint='' is empty; give a folder" in join_lines(done.output)


@pytest.mark.parametrize(("suffix", "text"), [("sql", SQL), ("toml", TOML)])
def test_a_file_runs_where_spark_cant_be_imported(tmp_path: Path, suffix: str, text: str) -> None:
    file = tmp_path / f"views.{suffix}"
    file.write_text(text)
    sets = write_inputs(tmp_path)
    for _ in range(2):  # the second run resumes, and repeats nothing
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_SPARK, "run", str(file), *sets],
            text=True,
            capture_output=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
    assert "views: batch" in done.stdout
    rows = pl.read_parquet(f"{tmp_path}/out/views/*/*.parquet")
    newest = rows.sort("revision").unique(["shown", "window_start"], keep="last").sort("shown")
    assert newest.select("shown", "n", "slowest").rows() == [(None, 1, None), ("HOME", 2, 1.5)]
    rejected = pl.read_parquet(f"{tmp_path}/out/rejected/*/*.parquet")
    assert rejected["reason"].to_list() == ["malformed"]


def test_check_and_explain_say_which_host(tmp_path: Path) -> None:
    file = tmp_path / "views.sql"
    file.write_text(SQL)
    checked = invoke("check", str(file))
    assert checked.exit_code == 0, checked.output
    assert "runs in this process (its inputs need no Spark)" in join_lines(checked.stdout)
    explained = invoke("explain", str(file))
    assert "runs in this process (its inputs need no Spark)" in join_lines(explained.stdout)
    explained = invoke("explain", str(file), "--host", "spark")
    assert "runs on Spark (--host spark)" in join_lines(explained.stdout)
    file.write_text(SQL.replace("'json'", "'orc'"))
    explained = invoke("explain", str(file))
    assert "runs on Spark (table clicks: connector 'orc' needs Spark)" in join_lines(
        explained.stdout
    )


def test_declared_types_of_a_sink_are_those_of_the_query(tmp_path: Path) -> None:
    file, sets = tmp_path / "views.sql", write_inputs(tmp_path)
    declared = "shown STRING, n {}, slowest DOUBLE, window_start TIMESTAMP"
    for kind in ("BIGINT", "INT"):
        columns = f"views ({declared.format(kind)}) WITH"
        file.write_text(SQL.replace("views WITH", columns))
        checked = invoke("check", str(file), *sets)
        assert checked.exit_code == 0, checked.output
    file.write_text(SQL.replace("views WITH", f"views ({declared.format('STRING')}) WITH"))
    for command in ("check", "run"):
        result = invoke(command, str(file), *sets)
        assert result.exit_code == 1
        problem = (
            "n='STRING' isn't what the query inserts, which is BIGINT; write CAST(… AS STRING)"
        )
        assert problem in join_lines(result.stderr), result.stderr


def test_an_expression_of_sparks_is_named_at_its_place(tmp_path: Path) -> None:
    file = tmp_path / "views.sql"
    file.write_text(SQL.replace("upper(page)", "soundex(page)"))
    sets = write_inputs(tmp_path)
    for command in ("check", "run"):
        result = invoke(command, str(file), *sets)
        assert result.exit_code == 1
        problem = "line 13: has soundex(), which needs Spark"
        assert problem in join_lines(result.stderr), result.stderr
        assert "--host spark" in join_lines(result.stderr)
        assert "Starting Spark" not in result.output
    toml = tmp_path / "views.toml"
    toml.write_text(TOML.replace("upper(page)", "soundex(page)"))
    result = invoke("check", str(toml))
    assert "soundex(page)' has soundex(), which needs Spark" in join_lines(result.stderr)


def refuse_run(folder: Path, options: list[str]) -> str:
    """Run a pipeline with options that are refused, and return the error."""
    file = folder / "views.sql"
    file.write_text(SQL)
    ran = invoke("run", str(file), *write_inputs(folder), *options)
    assert ran.exit_code == 1
    return join_lines(ran.stderr)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--master", "local[2]"], "--master='local[2]' is for Spark, and this runs without it"),
        (["--conf", "spark.a=1"], "--conf='spark.a' is for Spark"),
        (["--verbose"], "--verbose=True is for Spark"),
    ],
)
def test_options_of_spark_are_refused(tmp_path: Path, options: list[str], problem: str) -> None:
    refusal = refuse_run(tmp_path, options)
    assert problem in refusal
    assert "add --host spark" in refusal


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--metrics", "0.0.0.0:0"], "lets others look without a token"),
        (["--metrics", "db7"], "--metrics='db7' has no port; give a port, as 9464"),
        (["--metrics", "127.0.0.1:99999"], "has no port"),
        (["--metrics", "0", "--token-file", "absent"], "can't be read: No such file"),
        (["--token-file", "absent"], "is for --metrics and --page; add --metrics PORT"),
    ],
)
def test_metrics_for_nobody_are_refused(tmp_path: Path, options: list[str], problem: str) -> None:
    assert problem in refuse_run(tmp_path, options)


def test_a_file_without_a_token_is_named(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for content, problem in ((b"\xff", "can't be read: "), (b"a b", "holds no token")):
        file.write_bytes(content)
        with pytest.raises(mt.OptionError, match=problem):
            read_token(None, file)


def test_metrics_of_local_queries_are_served(tmp_path: Path) -> None:
    file = tmp_path / "views.sql"
    file.write_text(SQL)
    inputs = write_inputs(tmp_path)
    ran = invoke("run", str(file), *inputs, "--metrics", "0")
    assert ran.exit_code == 0, ran.output
    assert "Figures at http://127.0.0.1:" in ran.stdout
    token = tmp_path / "token"
    token.write_text("sesame\n")
    token.chmod(0o644)
    ran = invoke("run", str(file), *inputs, "--metrics", "0.0.0.0:0", "--token-file", str(token))
    assert "Figures at http://0.0.0.0:" in ran.stdout
    assert "sesame" not in ran.output
    assert f"--token-file {token} can be read by every user" in ran.stderr
    token.chmod(0o600)
    ran = invoke("run", str(file), *inputs, "--metrics", "0.0.0.0:0", "--token-file", str(token))
    assert "can be read" not in ran.stderr
    query = (
        mt.windowed(mt.ticks(100), key="value", time="timestamp")
        .tumbling("1 s")
        .agg(n=mt.count())
        .start(checkpoint=None, name="ticks", available_now=True)
    )
    assert query.await_end(30)
    figures = mt.metrics(query, port=0)
    try:
        with urllib.request.urlopen(figures.url, timeout=30) as answer:
            text = answer.read().decode()
    finally:
        figures.close()
    assert 'muntin_messages_total{fate="seen",query="ticks"} 1.0' in text
    assert 'muntin_running{query="ticks"} 0.0' in text


def test_a_page_of_local_queries_is_served_with_the_figures(tmp_path: Path) -> None:
    file = tmp_path / "views.sql"
    file.write_text(SQL)
    inputs = write_inputs(tmp_path)
    ran = invoke("run", str(file), *inputs, "--page", "0", "--metrics", "0")
    assert ran.exit_code == 0, ran.output
    assert "page     http://127.0.0.1:" in ran.stdout
    assert "Figures at http://127.0.0.1:" in ran.stdout
    token = tmp_path / "token"
    token.write_text("sesame\n")
    ran = invoke("run", str(file), *inputs, "--page", "0.0.0.0:0", "--token-file", str(token))
    assert re.search(r"page     http://\S+:\d+/\?token=…", ran.stdout)
    assert "sesame" not in ran.output
    ran = invoke("run", str(file), *inputs, "--page", "0.0.0.0:0")
    assert "--page='0.0.0.0:0' lets others look without a token" in ran.output


def test_the_host_that_was_asked_for_must_be_able_to(tmp_path: Path) -> None:
    file = tmp_path / "views.sql"
    file.write_text(SQL.replace("'json'", "'orc'"))
    result = invoke("check", str(file), "--host", "local")
    assert "--host='local' can't run this: table clicks: connector 'orc'" in join_lines(
        result.stderr
    )
    script = tmp_path / "mine.py"
    script.write_text("def pipeline(spark): ...")
    result = invoke("run", str(script), "--host", "local")
    assert "--host='local' isn't for a pipeline in Python" in join_lines(result.stderr)


@pytest.mark.parametrize(
    ("wrong", "right", "reason"),
    [
        ("'json'", "'json'", None),
        ("'json', path = '${data}'", "'rate'", None),
        ("'json', path = '${data}'", "'kafka', topic = 'a', 'bootstrap.servers' = 'h:1'", None),
        ("'json'", "'filesystem', format = 'parquet'", None),
        ("'json'", "'filesystem', format = 'orc'", "connector 'orc' needs Spark"),
        ("path = '${data}'", "path = 's3a://lake/in'", "in an object store"),
        ("path = '${data}'", "path = '${data}', mode = 'batch'", None),
        (
            "'json', path = '${data}'",
            "'kafka', topic = 'a', 'bootstrap.servers' = 'h:1', mode = 'batch'",
            "mode 'batch' of 'kafka' needs Spark",
        ),
        ("'${out}/checkpoints'", "'s3a://lake/out'", "a checkpoint in an object store"),
    ],
)
def test_the_inputs_choose_the_host(
    tmp_path: Path, wrong: str, right: str, reason: str | None
) -> None:
    file = tmp_path / "views.sql"
    file.write_text(SQL.replace(wrong, right))
    pipeline, _ = read_checked_pipeline(file, {}, whole=False)
    spark_reason = find_spark_reason(pipeline, {})
    assert (spark_reason is None) if reason is None else (spark_reason and reason in spark_reason)


def test_options_with_a_meaning_on_spark_alone_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "views.sql"
    file.write_text(SQL.replace("path = '${data}'", "path = '${data}', multiLine = 'true'"))
    result = invoke("check", str(file))
    assert "multiLine='true' has a meaning on Spark alone" in join_lines(result.stderr)
    assert "--host spark" in join_lines(result.stderr)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "path = '${data}'",
            "path = '${data}', recursiveFileLookup = 'false'",
            "recursiveFileLookup='false' isn't possible: all folders below are read",
        ),
        ("${out}/checkpoints", "${out}/views/checkpoints", "which holds the rows of an output"),
        ("${out}/rejected", "${out}/views/rejected", "of which one is within the other"),
        (
            "EMIT EARLY EACH;",
            "EMIT EARLY EACH; CREATE TABLE b WITH (connector = 'parquet', path = '${out}/views/'); "
            "INSERT INTO b SELECT page FROM clicks;",
            "of query b overlaps with the folder of query views",
        ),
    ],
)
def test_what_would_be_ignored_or_overwritten_is_refused(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    file = tmp_path / "views.sql"
    file.write_text(SQL.replace(old, new))
    values = ("--set", f"data={tmp_path}/in", "--set", f"out={tmp_path}/out")
    for command in ("check", "run"):
        result = invoke(command, str(file), *values)
        assert result.exit_code == 1
        assert problem in join_lines(result.output), command


def test_paths_of_tables_begin_with_the_users_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    table = DeclaredTable("t", "csv", options={"PATH": "~/in", "sep": "~"})
    assert translate_options(table)[1] == {"PATH": f"{tmp_path}/in", "sep": "~"}
