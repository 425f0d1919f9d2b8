"""Tests of the demo from end to end, on some of the flights."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from click.testing import Result
from examples.flights.__main__ import demo, empty_folder
from typer.testing import CliRunner

COMMAND = [sys.executable, "-m", "examples.flights"]


def unwrap(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


def run(*args: str) -> Result:
    app = typer.Typer()
    app.command()(demo)
    return CliRunner().invoke(app, args)


@pytest.mark.spark
@pytest.mark.slow
def test_a_small_demo_is_equal_to_duckdb(tmp_path: Path):
    args = ["--flights", "3000", "--pieces", "3", "--out", str(tmp_path)]
    emitted = subprocess.run(COMMAND + args, capture_output=True, text=True, check=False)
    assert emitted.returncode == 0, emitted.stdout + emitted.stderr
    assert emitted.stdout.count("equal DuckDB's") == 2
    assert "3,000 flights in 3 files" in emitted.stdout
    assert (tmp_path / "flights.html").stat().st_size > 10_000


@pytest.mark.spark
@pytest.mark.long
def test_a_small_demo_of_the_weather_is_equal_to_duckdb(tmp_path: Path):
    args = ["weather", "--flights", "3000", "--pieces", "3", "--out", str(tmp_path)]
    emitted = subprocess.run(COMMAND + args, capture_output=True, text=True, check=False)
    assert emitted.returncode == 0, emitted.stdout + emitted.stderr
    assert "windows by weather equal DuckDB's join" in emitted.stdout
    assert (tmp_path / "weather.html").stat().st_size > 5_000


def test_a_folder_that_no_demo_has_written_is_left_alone(tmp_path: Path):
    foreign_file = tmp_path / "checkpoints" / "offsets"
    foreign_file.parent.mkdir()
    foreign_file.write_text("7")
    emitted = run("--out", str(tmp_path))
    assert emitted.exit_code == 2
    assert "has files that no demo has written. Name a folder that is new" in unwrap(emitted.stderr)
    assert foreign_file.read_text() == "7"
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]


def test_a_file_is_no_folder_for_the_demo(tmp_path: Path):
    path = tmp_path / "out"
    path.write_text("mine")
    emitted = run("--out", str(path))
    assert "isn't a folder. Name a folder." in unwrap(emitted.stderr)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("exists", [True, False])
def test_a_demo_removes_what_the_one_before_left_and_nothing_else(tmp_path: Path, exists: bool):
    out = tmp_path / "out"
    if exists:
        out.mkdir()
    empty_folder(out)
    for name in ("checkpoints", "both"):
        (out / name).mkdir()
        (out / name / "part").write_text("old")
    for name in ("flights.html", "notes.txt"):
        (out / name).write_text("old")
    empty_folder(out)
    assert {path.name for path in out.iterdir()} == {".muntin-demo", "notes.txt"}
