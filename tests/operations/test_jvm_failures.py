"""A script whose query fails within the JVM: the cause comes first, and no trace of Java's."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.operations.test_first_lines import put

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WINDOWS = """
import muntin as mt


def start(spark, folder):
    rows = spark.readStream.schema("k string, at timestamp").json(f"{folder}/in")
    rows = rows.selectExpr("cast(k AS int) AS k", "at")
    windows = mt.windowed(rows, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
    return windows.start(checkpoint=f"{folder}/checkpoint", results=mt.to_memory())
"""
SCRIPT = (
    WINDOWS
    + """

start(mt.session(master="local[1]"), {folder!r}).await_end(120)
"""
)
CAUSE = r"\[CAST_INVALID_INPUT\] The value 'key-0' of the type \"STRING\" cannot be cast to"


def test_the_cause_comes_first_and_the_trace_goes_to_the_log_file(tmp_path: Path) -> None:
    put(tmp_path / "in", "1.jsonl", -9, -5)
    script = tmp_path / "file.py"
    script.write_text(SCRIPT.format(folder=str(tmp_path)))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=280, cwd=tmp_path
    )
    assert done.returncode == 1, done.stdout + done.stderr
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "Starting" not in line]
    assert re.search(CAUSE, lines[0]), lines
    assert not [line for line in lines if re.match(r"\s+at \S+\(.*\)|Caused by", line)]
    (file, *_) = re.findall(r"\(details in (\S+)\)", "\n".join(lines))
    trace = Path(file).read_text()
    Path(file).unlink()
    assert re.search(r"\s+at org\.apache\.spark\S+\(.*\)", trace)
