"""Tests of the windowing application's figures as a query on Spark."""

from __future__ import annotations

import json

import pytest
from examples.windowing.__main__ import main
from pyspark.sql import SparkSession


@pytest.mark.slow
def test_figures_as_of_now(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"ratelimit": 100, "historyseconds": 4, "averages": "1,2", "duration": 15}
    arguments = [f"--{name}={value}" for name, value in options.items()]
    assert main([*arguments, "--host=spark", "--displayinterval=1", "--json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert events[0]["event"] == "maximum"
    last = events[-1] if events[-1]["event"] == "figures" else events[-2]
    # Rows age out: a run of many seconds has those of the last four.
    assert last["rows"] == 400
    assert last["averages"].keys() == {"1 second", "2 seconds", "4 seconds"}


def test_options_of_the_table_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--host=spark", "--inline"]) == 1
    assert "inline=True needs the table of the application" in capsys.readouterr().err
