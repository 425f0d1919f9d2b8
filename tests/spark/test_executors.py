"""Tests that workers without the query's requirements are refused before its first batch."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.spark.host import executors
from muntin.spark.host.executors import Answer, Executors, check_folder
from muntin.spark.host.internals import executors as listing


def write_bare_python(folder: Path) -> str:
    """Return a script that runs the same Python without its installed packages."""
    script = folder / "python"
    base = Path(sys.base_prefix) / "bin" / "python3"
    script.write_text(f'#!/bin/sh\nexec {base} -s "$@"\n')
    script.chmod(0o755)
    return str(script)


def get_refusal(spark: SparkSession, folder: Path) -> str:
    """Start a query, and return the error with which it is refused."""
    feed = Feed(folder / "source")
    feed.add(("a", at(1), 1))
    windows = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("10 seconds")
    with pytest.raises(mt.SettingError) as caught:
        windows.agg(n=mt.count()).start(checkpoint=f"{folder}/checkpoint")
    assert not (folder / "checkpoint").exists()
    return str(caught.value)


def test_a_python_without_muntin_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = write_bare_python(tmp_path)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", python)
    error = get_refusal(spark, tmp_path)
    assert error.startswith(f"PYSPARK_PYTHON={python!r} lacks ")
    assert f"os.environ['PYSPARK_PYTHON'] = {sys.executable!r}" in error


def test_a_program_that_isnt_there_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "./env/bin/python")
    error = get_refusal(spark, tmp_path)
    assert error.startswith("PYSPARK_PYTHON='./env/bin/python' can't be run. ")


def test_another_python_is_refused_with_both_versions(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "_is_installed", lambda: False)
    monkeypatch.setattr(executors, "_ASKED", set())
    # Spark compares this with the version of the worker.
    monkeypatch.setattr(spark.sparkContext, "pythonVer", "3.9")
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f" is Python {ours}, and the driver has {ours}. " in get_refusal(spark, tmp_path)


def test_they_are_asked_once_a_session(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "_is_installed", lambda: False)
    monkeypatch.setattr(executors, "_ASKED", set())
    Executors(spark).check()
    monkeypatch.setattr(executors, "_look", None)
    Executors(spark).check()


def test_this_process_own_python_isnt_asked(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "_ASKED", set())
    monkeypatch.setattr(executors, "_look", None)
    Executors(spark).check()


def test_a_session_that_runs_by_another_python_gets_ours(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")
    mt.session(master="local[2]")
    assert spark.sparkContext.pythonExec == sys.executable


def test_a_secret_that_workers_cant_look_up_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The JVM, whose environment the workers have, runs already.
    monkeypatch.setenv("MUNTIN_LATE", "sesame")
    lacking = ["${env:MUNTIN_LATE}", f"${{file:{tmp_path}/absent}}"]
    (tmp_path / "present").touch()
    available = ["${env:PATH}", f"${{file:{tmp_path}/present}}"]
    Executors(spark, references=available).check()
    with pytest.raises(mt.SettingError) as caught:
        Executors(spark, references=[*lacking, *available]).check()
    assert str(caught.value).startswith(f"{', '.join(lacking)} of the workers has no value. Set ")


class Clock:
    """A clock that moves in sleeps alone."""

    now = 1000.0

    def time(self) -> float:
        return self.now

    monotonic = time

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(
    ("joins", "most_seconds"),
    [
        ((0.5, 1.2), 3),
        ((6.0, 8.5), 14),  # a loaded machine
        ((50.0, 55.0), 66),  # none had a core for the query at first
        ((-100.0, -99.0), 0),  # another query of the session has waited for them
    ],
)
def test_executors_that_join_seconds_apart_are_counted_together(
    monkeypatch: pytest.MonkeyPatch, joins: tuple[float, ...], most_seconds: float
) -> None:
    clock = Clock()
    begin = clock.now
    monkeypatch.setattr(listing, "time", clock)
    all_of_them = [listing.Executor(str(at), "h", 2, begin + at) for at in joins]
    monkeypatch.setattr(
        listing,
        "list_executors",
        lambda _: [executor for executor in all_of_them if executor.joined <= clock.now],
    )
    start = 1000 * (begin + min(0.0, *joins) * 2)
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(startTime=start, master="spark://h"))
    assert listing.await_cores(spark) == 4
    assert clock.now - begin <= most_seconds


def test_a_shared_folder_that_executors_cant_write_is_refused_with_the_reason() -> None:
    # It exists, and nobody can write files to it.
    unread, written, refused = executors._look_at_folders(["/proc/version"])
    answer = Answer(0, "python", {}, "", [], unread, written, refused)
    with pytest.raises(mt.SettingError) as caught:
        check_folder("/proc", answer, "worker-3")
    assert str(caught.value).startswith("/proc on worker-3 can't be written: ")
    assert "isn't the driver's folder" not in str(caught.value)
