"""Tests of executors that get their Python as an archive, as the page on deployment describes."""

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

SCRIPT = """
import muntin as mt

spark = mt.session()
clicks = spark.readStream.schema("page string, ts timestamp").json("source")
views = mt.windowed(clicks, key="page", time="ts").tumbling("1 minute").agg(n=mt.count())
query = views.start(checkpoint="checkpoint", results=mt.to_parquet("views"), available_now=True)
query.await_end()
print(spark.sparkContext.master)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a folder with an environment, its archive, and a pipeline over one file."""
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with tarfile.open(tmp_path / "env.tar.gz", "w:gz") as archive:
        archive.add(python, "bin/python")
    (tmp_path / "views.toml").write_text(PIPELINE)
    (tmp_path / "source").mkdir()
    lines = [f'{{"page": "{"ab"[n % 2]}", "ts": "2026-01-01T00:00:{n:02}Z"}}' for n in range(10)]
    # The time of this message closes the windows of the others.
    lines.append('{"page": "c", "ts": "2026-01-01T00:09:00Z"}')
    (tmp_path / "source" / "one.json").write_text("\n".join(lines) + "\n")
    return tmp_path


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the environment, whose Python the executors use."""
    full_command = [str(Path(sys.executable).with_name(command[0])), *command[1:]]
    environment = {**os.environ, "PYSPARK_PYTHON": "./env/bin/python"}
    return subprocess.run(
        full_command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def list_options(master: str, *more: str) -> list[str]:
    options = os.environ.get("SPARK_SUBMIT_OPTS", "")
    settings = ("spark.executor.memory=600m", f"spark.executor.extraJavaOptions={options}", *more)
    return ["--master", master, *(part for setting in settings for part in ("--conf", setting))]


def run_pipeline(folder: Path, master: str, *more: str) -> subprocess.CompletedProcess[str]:
    options = ["--host", "spark", *list_options(master, *more), "--until-quiet"]
    return run(folder, "muntin", "run", "views.toml", "--set", f"folder={folder}", *options)


def read_counts(folder: Path) -> list[tuple[object, ...]]:
    counts = pl.read_parquet(folder / "views" / "**" / "*.parquet")
    return sorted(counts.select("page", "n").rows())


def test_executors_run_the_python_of_an_archive(folder: Path) -> None:
    (folder / "script.py").write_text(SCRIPT)
    cluster = Cluster(folder, workers=1)
    try:
        done = run_pipeline(folder, cluster.master, "spark.archives=env.tar.gz#env")
        counts = read_counts(folder)
        for name in ("checkpoint", "views"):
            shutil.rmtree(folder / name)
        options = [*list_options(cluster.master), "--archives", "env.tar.gz#env"]
        submitted = run(folder, "spark-submit", *options, "script.py")
    finally:
        cluster.remove()
    assert done.returncode == 0, done.stderr[-3000:]
    # The executors have such a file only from the archive.
    assert [*folder.glob("work-*/*/*/env/bin/python")]
    assert counts == [("a", 5), ("b", 5)]
    # The script names no cluster, and its paths are relative to the driver's folder.
    assert submitted.returncode == 0, submitted.stderr[-3000:]
    assert submitted.stdout.split()[-1] == cluster.master
    assert read_counts(folder) == [("a", 5), ("b", 5)]
