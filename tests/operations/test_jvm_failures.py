"""Tests that a query which fails in the JVM prints its cause first, however it was started."""

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
PIPELINE = (
    WINDOWS
    + """

def pipeline(spark, folder):
    return start(spark, folder)
"""
)
SCRIPT = (
    WINDOWS
    + """

start(mt.session(master="local[1]"), {folder!r}).await_end(120)
"""
)
STATEMENTS = """
CREATE TABLE clicks (k STRING, at TIMESTAMP(3), WATERMARK FOR at AS at)
WITH (connector = 'json', path = '{folder}/in');
SELECT CAST(k AS INT) AS number, count(*) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at),
INTERVAL '1' MINUTE)) GROUP BY number, window_start, window_end;
"""
MAIN = "from muntin.cli.app import main; main()"
CAUSE = r"\[CAST_INVALID_INPUT\] The value 'key-0' of the type \"STRING\" cannot be cast to"


def make_command(interface: str, folder: Path) -> list[str]:
    file = folder / "file.py"
    if interface == "python":
        file.write_text(SCRIPT.format(folder=str(folder)))
        return [sys.executable, str(file)]
    if interface == "sql":
        statements = STATEMENTS.format(folder=folder)
        return [sys.executable, "-c", MAIN, "sql", "--host", "spark", "-e", statements]
    file.write_text(PIPELINE)
    run = ["run", str(file), "--set", f"folder={folder}", "--master", "local[1]"]
    return [sys.executable, "-c", MAIN, *run]


@pytest.mark.parametrize("interface", ["cli", "python", "sql"])
def test_the_cause_comes_first_and_the_trace_goes_to_the_log_file(
    interface: str, tmp_path: Path
) -> None:
    put(tmp_path / "in", "1.jsonl", -9, -5)
    done = subprocess.run(
        make_command(interface, tmp_path), capture_output=True, text=True, timeout=280, cwd=tmp_path
    )
    assert done.returncode == 1, done.stdout + done.stderr
    # Lines of progress begin with the time of day.
    progress = re.compile(r"\d\d:\d\d:\d\d[+-]\d{4}  |Starting Spark|Reading ")
    output = (done.stdout + done.stderr).splitlines()
    lines = [line for line in output if not progress.match(line)]
    assert re.search(CAUSE, lines[0]), lines
    assert not [line for line in lines if line.startswith("{")]
    assert not [line for line in lines if re.match(r"\s+at \S+\(.*\)|Caused by", line)]
    (file, *_) = re.findall(r"\(details in (\S+)\)", "\n".join(lines))
    trace = Path(file).read_text()
    Path(file).unlink()
    assert re.search(r"\s+at org\.apache\.spark\S+\(.*\)", trace)
