"""Tests of the command line's arguments, and of its errors."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from muntin.cli import app
from muntin.cli.app import build

NONE = "import sys; sys.modules['{name}'] = None; from muntin.cli.app import main; main()"


def invoke(*args: str):
    return CliRunner().invoke(build(), list(args))


def join_lines(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str) -> str:
        path = tmp_path / "mine.py"
        path.write_text(text)
        return str(path)

    return write


def test_help_names_the_commands():
    emitted = invoke("--help")
    assert emitted.exit_code == 0
    for command in ("run", "explain", "schema"):
        assert command in emitted.stdout


@pytest.mark.parametrize("command", [(), ("run",), ("sql",)])
def test_help_shows_no_type_beside_flags(command: tuple[str, ...]):
    emitted = invoke(*command, "--help").stdout
    assert "--help" in emitted
    assert "bool" not in emitted


def test_the_help_of_each_command_ends_with_an_example():
    for name in ("run", "check", "explain", "inspect", "move", "sql", "why"):
        assert f"Example: muntin {name} " in invoke(name, "--help").stdout


def test_the_version_is_that_of_the_package():
    result = invoke("--version")
    assert (result.exit_code, result.stdout) == (0, f"muntin {version('muntin')}\n")
    assert "Event-time windows for streams" in invoke("--help").stdout


@pytest.mark.parametrize("name", ["typer", "rich"])
def test_a_missing_extra_is_named(name: str):
    command = [sys.executable, "-c", NONE.format(name=name)]
    emitted = subprocess.run(command, capture_output=True, text=True, check=False)
    assert emitted.returncode == 1
    assert emitted.stderr.strip() == "the command muntin needs an extra: pip install 'muntin[cli]'"


def test_main_is_the_entry_point():
    assert callable(app.main)


@pytest.mark.parametrize(
    ("text", "args", "problem"),
    [
        ("x = 1", [], "has no function pipeline; write def pipeline(spark)"),
        ("pipeline = 3", [], "has no function pipeline"),
        ("def pipeline(spark): ...", ["--set", "out"], "--set='out' isn't name=value"),
        ("def pipeline(spark): ...", ["--set", "a b=1"], "isn't name=value"),
        ("def pipeline(spark): ...", ["--set", "out=1"], "it is pipeline(spark)"),
        ("def pipeline(spark, out): ...", [], "it is pipeline(spark, out)"),
    ],
)
def test_what_cannot_work_is_refused_before_spark_starts(file, text, args, problem):
    emitted = invoke("run", file(text), *args)
    assert emitted.exit_code == 1
    assert problem in join_lines(emitted.stderr)
    assert "Traceback" not in emitted.output
    assert "Starting Spark" not in emitted.output


def test_a_missing_file_is_named():
    emitted = invoke("run", "nowhere.py")
    assert emitted.exit_code == 1
    assert "PIPELINE='nowhere.py' isn't a file; give the path" in join_lines(emitted.stderr)


ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("suffix", ["sql", "toml"])
def test_a_file_is_explained_as_it_stands(suffix):
    emitted = invoke("explain", str(ROOT / f"examples/flights/pipeline.{suffix}"), "--rate", "100")
    assert emitted.exit_code == 0
    output = join_lines(emitted.stdout)
    assert "hopping 1 hour by 5 minutes, by origin on scheduled" in output
    assert "for 100 messages a second of 1,000 keys about" in output
    assert "(duckdb at ${out}/flights.duckdb)" in output


@pytest.mark.parametrize(
    ("text", "args", "problem"),
    [
        ("SELECT k FROM t", [], "line 1: this query's rows are written nowhere"),
        ("SELECT k FROM t", ["--set", "x=1"], "it has no placeholders"),
        ("SELECT '${x}' FROM t", [], "lacks x; give --set x=..."),
        ("INSERT INTO o SELECT", [], "line 1: the end isn't a column"),
    ],
)
def test_sql_is_refused_at_its_place_before_spark_starts(tmp_path, text, args, problem):
    path = tmp_path / "mine.sql"
    path.write_text(text)
    emitted = invoke("run", str(path), *args)
    assert emitted.exit_code == 1
    assert problem in join_lines(emitted.stderr)
    assert "Starting Spark" not in emitted.output


def test_the_schema_is_printed():
    emitted = invoke("schema")
    assert json.loads(emitted.stdout)["title"] == "muntin pipeline"


def test_the_demo_refuses_no_flights():
    assert invoke("demo", "--flights", "0").exit_code == 2
