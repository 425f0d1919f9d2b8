"""A query whose executors get their Python as an archive, as the page on deployment says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import polars as pl
import pytest
from tests.services.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PIPELINE = """
checkpoint = "${folder}/checkpoint"

[tables.clicks]
connector = "json"
path = "${folder}/source"
columns = { page = "string", ts = "timestamp" }
time = "ts"

[tables.views]
connector = "parquet"
path = "${folder}/views"

[queries.views]
from = "clicks"
key = "page"
windows = { tumbling = "1 minute" }
agg = { n = "count(*)" }
into = "views"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an environment, its archive, and a pipeline over one file."""
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with tarfile.open(tmp_path / "env.tar.gz", "w:gz") as archive:
        archive.add(python, "bin/python")
    (tmp_path / "views.toml").write_text(PIPELINE)
    (tmp_path / "source").mkdir()
    lines = [f'{{"page": "{"ab"[n % 2]}", "ts": "2026-01-01T00:00:{n:02}Z"}}' for n in range(10)]
    # Its time closes the windows of the others.
    lines.append('{"page": "c", "ts": "2026-01-01T00:09:00Z"}')
    (tmp_path / "source" / "one.json").write_text("\n".join(lines) + "\n")
    return tmp_path


def run(folder: Path, master: str, *settings: str) -> subprocess.CompletedProcess[str]:
    command = [shutil.which("muntin", path=str(Path(sys.executable).parent)) or "muntin", "run"]
    command += ["views.toml", "--set", f"folder={folder}", "--host", "spark", "--master", master]
    options = os.environ.get("SPARK_SUBMIT_OPTS", "")
    for setting in ("spark.executor.memory=600m", f"spark.executor.extraJavaOptions={options}"):
        command += ["--conf", setting]
    for setting in settings:
        command += ["--conf", setting]
    environment = {**os.environ, "PYSPARK_PYTHON": "./env/bin/python"}
    return subprocess.run(
        [*command, "--until-quiet"], cwd=folder, env=environment, capture_output=True, text=True,
        check=False, timeout=240,
    )  # fmt: skip


def test_executors_run_the_python_of_an_archive(folder: Path) -> None:
    cluster = Cluster(folder, workers=1)
    try:
        refused = run(folder, cluster.master)
        done = run(folder, cluster.master, "spark.archives=env.tar.gz#env")
    finally:
        cluster.remove()
    assert refused.returncode == 1
    assert "./env/bin/python on 127.0.0." in refused.stderr.replace("'", "")
    assert "can't be run. Name a Python that every machine has" in refused.stderr
    assert done.returncode == 0, done.stderr[-3000:]
    # The executors have no such file but that of the archive.
    assert [*folder.glob("work-*/*/*/env/bin/python")]
    counts = pl.read_parquet(folder / "views" / "**" / "*.parquet")
    assert sorted(counts.select("page", "n").rows()) == [("a", 5), ("b", 5)]
