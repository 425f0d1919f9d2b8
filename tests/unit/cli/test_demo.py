"""The demo from end to end, on some of the flights."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from muntin.cli.app import main; main()", "demo"]


@pytest.mark.spark
@pytest.mark.slow
def test_a_small_demo_is_equal_to_duckdb(tmp_path: Path):
    args = ["--flights", "3000", "--pieces", "4", "--out", str(tmp_path)]
    told = subprocess.run(COMMAND + args, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.count("equal DuckDB's") == 2
    assert "3,000 flights in 4 files" in told.stdout
    assert (tmp_path / "flights.html").stat().st_size > 10_000


@pytest.mark.spark
@pytest.mark.slow
def test_a_small_demo_of_the_weather_is_equal_to_duckdb(tmp_path: Path):
    args = ["weather", "--flights", "3000", "--pieces", "3", "--out", str(tmp_path)]
    told = subprocess.run(COMMAND + args, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "windows by weather equal DuckDB's join" in told.stdout
    assert (tmp_path / "weather.html").stat().st_size > 5_000
