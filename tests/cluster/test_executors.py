"""Executors are asked before the first batch of a query."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

# Every process has a folder of its own under this path, as machines have on their own disks.
UNSHARED = "/proc/self/cwd/checkpoint"
SCRIPT = """
import sys
import muntin as mt

spark = mt.session(master="local-cluster[2,1,1024]", spark__sql__shuffle__partitions="2")
rows = spark.readStream.schema("k string, at timestamp").json(sys.argv[1])
windows = mt.windowed(rows, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
sink = mt.to_parquet(sys.argv[3])
try:
    query = windows.start(checkpoint=sys.argv[2], results=sink, available_now=True)
    query.await_end()
    print("RAN", query.progress.counts)
except mt.MuntinError as error:
    print("REFUSED", type(error).__name__, error)
"""


@pytest.mark.parametrize("unshared", [None, "checkpoint", "sink"])
def test_a_folder_that_executors_dont_share_is_refused(
    tmp_path: Path, unshared: str | None
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "one.json").write_text('{"k": "a", "at": "2026-01-01T00:00:00Z"}\n')
    folders = [
        UNSHARED if unshared == name else str(tmp_path / name) for name in ("checkpoint", "sink")
    ]
    command = [sys.executable, "-c", SCRIPT, str(source), *folders]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=500)
    (line,) = run.stdout.splitlines()[-1:]
    if unshared is None:
        assert line == "RAN {'seen': 1, 'counted': 1}", run.stderr[-2000:]
        assert [*tmp_path.rglob(".muntin-*")] == []
    else:
        assert line.startswith(f"REFUSED SettingError {UNSHARED} on "), line + run.stderr[-2000:]
