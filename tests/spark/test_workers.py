"""Workers that lack what a query needs are found before its first batch."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.spark.host import workers
from muntin.spark.host.workers import check_workers


def bare_python(folder: Path) -> str:
    """The same Python without what is installed beside it."""
    script = folder / "python"
    base = Path(sys.base_prefix) / "bin" / "python3"
    script.write_text(f'#!/bin/sh\nexec {base} -s "$@"\n')
    script.chmod(0o755)
    return str(script)


def test_a_python_without_muntin_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", bare_python(tmp_path))
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1))
    windows = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("10 seconds")
    with pytest.raises(mt.SettingError) as caught:
        windows.agg(n=mt.count()).start(checkpoint=f"{tmp_path}/checkpoint")
    said = str(caught.value)
    assert said.startswith("the workers run ")
    assert f"os.environ['PYSPARK_PYTHON'] = {sys.executable!r}" in said
    assert not (tmp_path / "checkpoint").exists()


def test_they_are_asked_once_a_session(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_is_installed", lambda: False)
    monkeypatch.setattr(workers, "_ASKED", set())
    check_workers(spark)
    monkeypatch.setattr(workers, "_look", None)
    check_workers(spark)


def test_this_process_own_python_isnt_asked(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_ASKED", set())
    monkeypatch.setattr(workers, "_look", None)
    check_workers(spark)


def test_a_session_that_runs_by_another_python_gets_ours(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")
    mt.session(master="local[2]")
    assert spark.sparkContext.pythonExec == sys.executable
