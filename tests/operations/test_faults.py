"""Tests of faults while ``muntin run`` runs, and of the first line that it prints."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.spark.drivers import batches, kill, members, start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PIPELINE = """
import muntin as mt
from pyspark.sql import functions as F


def check(key):
    import os, pathlib, signal

    if pathlib.Path("{folder}/kill").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return key


def deliver(rows, number):
    from pathlib import Path

    if Path("{folder}/away").exists():
        raise ValueError("the database is away")
    rows.write.mode("append").parquet("{folder}/out")


def pipeline(spark, folder):
    rows = spark.readStream.schema("k string, at timestamp").json(folder + "/source")
    rows = rows.withColumn("k", F.udf(check, "string")("k"))
    windows = mt.windowed(rows, key="k", time="at").tumbling("1 minute").early(every="1 second")
    return windows.agg(n=mt.count()).start(
        checkpoint=folder + "/checkpoint", results=deliver
    )
"""


def kill_source(driver: subprocess.Popen[bytes], folder: Path) -> None:
    (pid,) = members(driver, "python_streaming_source_runner")
    os.kill(pid, signal.SIGKILL)


def kill_java(driver: subprocess.Popen[bytes], folder: Path) -> None:
    pids = members(driver, "org.apache.spark.deploy.SparkSubmit")
    (pid,) = [pid for pid in pids if Path(f"/proc/{pid}/comm").read_text() == "java\n"]
    os.kill(pid, signal.SIGKILL)


def fail_in_the_function(driver: subprocess.Popen[bytes], folder: Path) -> None:
    (folder / "away").touch()
    (folder / "source" / "two.json").write_text('{"k": "b", "at": "2026-01-01T00:00:00Z"}\n')


def kill_worker(driver: subprocess.Popen[bytes], folder: Path) -> None:
    """Have a Python worker killed in the middle of a task, as by the kernel."""
    (folder / "kill").touch()
    (folder / "source" / "two.json").write_text('{"k": "b", "at": "2026-01-01T00:00:00Z"}\n')


def delete_state(driver: subprocess.Popen[bytes], folder: Path) -> None:
    shutil.rmtree(folder / "checkpoint" / "state")
    (folder / "source" / "two.json").write_text('{"k": "b", "at": "2026-01-01T00:00:00Z"}\n')


def delete_checkpoint(driver: subprocess.Popen[bytes], folder: Path) -> None:
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)


FAULTS: dict[str, tuple[Callable[[subprocess.Popen[bytes], Path], None], str]] = {
    "the source process is killed": (
        kill_source,
        r"error the Python source process died \(killed; out of memory\?\)\. Start the query",
    ),
    "the JVM is killed": (kill_java, r"error .*JVM.*"),
    "a function raises": (
        fail_in_the_function,
        r"error ValueError: the database is away \(batch \d+, the sink of results, .*deliver\)",
    ),
    "a Python worker is killed": (
        kill_worker,
        r"error a Python worker on \S+ died \(signal 9; out of memory\?\) after batch \d+\. Bound",
    ),
    "the state is deleted": (
        delete_state,
        r"error files of the checkpoint were deleted or replaced while the query ran\. Restore",
    ),
    "the checkpoint is deleted": (
        delete_checkpoint,
        r"error .*checkpoint (was|were) deleted .*while the query ran",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_first_line_and_the_last_one_are_the_cause(name: str, tmp_path: Path) -> None:
    strike, cause = FAULTS[name]
    source = tmp_path / "source"
    source.mkdir()
    (source / "one.json").write_text('{"k": "a", "at": "2026-01-01T00:00:00Z"}\n')
    pipeline, log = tmp_path / "pipeline.py", tmp_path / "log"
    pipeline.write_text(PIPELINE.replace("{folder}", str(tmp_path)))
    program = "from muntin.cli.app import main; main()"
    command = [sys.executable, "-c", program, "run", str(pipeline), "--set", f"folder={tmp_path}"]
    command += ["--master", "local[1]"]
    driver = start(command, log)
    try:
        deadline = time.monotonic() + 200
        while batches(tmp_path / "checkpoint", "commits") < 1:
            assert driver.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        strike(driver, tmp_path)
        assert driver.wait(timeout=120) == 1, log.read_text()
    finally:
        kill(driver)
    # Lines of progress begin with the time of day.
    progress = re.compile(r"\d\d:\d\d:\d\d[+-]\d{4}  |Starting Spark")
    lines = [line for line in log.read_text().splitlines() if not progress.match(line)]
    assert re.match(cause, lines[0]), log.read_text()
    assert re.match(cause, lines[-1]), log.read_text()
    assert len(lines) == 1
