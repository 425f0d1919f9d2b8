"""Tests of SIGTERM in the commit of a local query: one line, and no row lost or doubled."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SCRIPT = """
import sys, time
from pathlib import Path
import muntin as mt
from muntin.hosts.local import log

folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
write = log.write


def write_slowly(descriptor, data):
    half = len(data)
    if (folder / "slow").exists() and b'"progress"' in data:
        half //= 2
        write(descriptor, data[:half])
        (folder / "within").touch()
        time.sleep(seconds)
    write(descriptor, data[half:] if half < len(data) else data)


log.write = write_slowly
clicks = mt.files(f"{folder}/in/*.jsonl", columns="k string, at timestamp")
windows = mt.windowed(clicks, key="k", time="at", max_ahead=None).tumbling("1 minute")
query = windows.early(each=True).agg(n=mt.count()).start(
    checkpoint=folder / "checkpoint", name="views", available_now=not seconds,
    results=mt.to_duckdb(folder / "out.duckdb", "views", history="history"),
)
query.await_end()
"""


def put(folder: Path, number: int) -> None:
    """Write a file with two messages, a minute apart."""
    times = [f"2026-01-01T00:{minute:02}:00Z" for minute in (number, number + 1)]
    path = folder / "in" / f"{number}.jsonl"
    path.write_text("".join(f'{{"k": "a", "at": "{at}"}}\n' for at in times))
    os.utime(path, (time.time() - 60,) * 2)


def wait_for(path: Path, script: subprocess.Popen[str]) -> None:
    while not path.exists():
        assert script.poll() is None
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("seconds", "line"),
    [
        (0.2, "query 'views' has stopped; batch 1 is its last, and"),
        (60.0, "query 'views' was cut off within a batch; before it, batch 0 is its last, and"),
    ],
)
def test_sigterm_within_a_commit(tmp_path: Path, seconds: float, line: str) -> None:
    (tmp_path / "in").mkdir()
    put(tmp_path, 0)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    with subprocess.Popen(
        [*command, str(seconds)], text=True, stderr=subprocess.PIPE, start_new_session=True
    ) as script:
        checkpoint = tmp_path / "checkpoint"
        while not any(b'"progress"' in path.read_bytes() for path in checkpoint.glob("*.log")):
            assert script.poll() is None
            time.sleep(0.01)
        (tmp_path / "slow").touch()
        put(tmp_path, 1)
        wait_for(tmp_path / "within", script)
        script.send_signal(signal.SIGTERM)
        _, errors = script.communicate(timeout=30)
        assert script.returncode == 143
    (tmp_path / "slow").unlink()
    expected = re.escape(f"muntin: SIGTERM: {line} the next start resumes from {checkpoint}")
    assert re.fullmatch(f"{expected}\n", errors)
    put(tmp_path, 2)
    subprocess.run([*command, "0"], check=True, timeout=60)
    with duckdb.connect(str(tmp_path / "out.duckdb")) as database:
        counts = database.execute("SELECT n FROM views ORDER BY window_start").fetchall()
        doubled = database.execute(
            "SELECT * FROM history GROUP BY ALL HAVING count(*) > 1"
        ).fetchall()
    assert counts == [(1,), (2,), (2,), (1,)]
    assert doubled == []
