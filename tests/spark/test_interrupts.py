"""Tests that Ctrl-C and SIGTERM end a script that awaits its query, and print where it resumes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SCRIPT = """
import sys
import threading
from pyspark.sql import functions as F
import muntin as mt

spark = mt.session(master="local[2]")
rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
windows = mt.windowed(rows.withColumn("k", F.lit("a")), key="k", time="timestamp")
query = windows.tumbling("2 seconds").agg(n=mt.count()).start(
    checkpoint=sys.argv[1], name="views",
    results=lambda frame, batch: print("batch", batch, flush=True),
)
# Printed while the script waits: Python itself handles earlier signals.
threading.Timer(1.0, print, ["waiting"], {"flush": True}).start()
query.await_end()
"""
UNSHARED = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
RESUMES = "query 'views' has stopped; "


@contextmanager
def start_script(
    command: list[str], checkpoint: Path, word: str
) -> Iterator[subprocess.Popen[str]]:
    """Start the script, and wait until it has printed a line that begins with a word."""
    program = [*command, sys.executable, "-c", SCRIPT, str(checkpoint)]
    errors = checkpoint.with_suffix(".err").open("w")
    pipes = {"stdout": subprocess.PIPE, "stderr": errors}
    with errors, subprocess.Popen(program, text=True, start_new_session=True, **pipes) as script:
        assert script.stdout is not None
        for line in script.stdout:
            if line.startswith(word):
                break
        yield script


def read_errors(checkpoint: Path) -> list[str]:
    """Return the lines of stderr, without those of the JVM's start."""
    lines = checkpoint.with_suffix(".err").read_text().splitlines()
    starting = ("WARN", "log4j", "incubator", "adjust logging", "Setting default")
    return [line for line in lines if not any(word in line for word in starting)]


@pytest.mark.slow
@pytest.mark.parametrize("word", ["waiting", "batch 1"])
def test_ctrl_c_stops_the_query_and_says_where_it_resumes(tmp_path: Path, word: str) -> None:
    """A terminal sends it to all processes of the script."""
    checkpoint = tmp_path / "checkpoint"
    with start_script([], checkpoint, word) as script:
        os.killpg(script.pid, signal.SIGINT)
        assert script.wait(60) == 130
    (line,) = read_errors(checkpoint)
    assert line.startswith(f"muntin: Ctrl-C: {RESUMES}")
    assert line.endswith(f"the next start resumes from {checkpoint}")


@pytest.mark.slow
@pytest.mark.skipif(
    subprocess.run([*UNSHARED, "true"], capture_output=True, check=False).returncode != 0
    if sys.platform == "linux"
    else True,
    reason="no right to make PID namespaces",
)
def test_sigterm_stops_the_query_of_pid_1(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with start_script(UNSHARED, checkpoint, "batch 1") as outer:
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        subprocess.run(["kill", "-TERM", *children], check=True)
        assert outer.wait(60) == 143
    (line,) = read_errors(checkpoint)
    # The batch that its sinks have is committed, so the next start doesn't repeat it.
    last = max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
    assert line.startswith(f"muntin: SIGTERM: {RESUMES}batch {last} is its last, ")
