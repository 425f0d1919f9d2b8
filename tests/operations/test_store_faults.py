"""Parts of a checkpoint that vanish from an object store are named in the first line."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.operations.test_first_lines import put
from tests.services.s3 import S3
from tests.spark.drivers import batches, kill, start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PIPELINE = """
import muntin as mt
from muntin.spark.host.internals import folders

folders._STORE_SECONDS = 0.2


def pipeline(spark, folder):
    rows = spark.readStream.schema("k string, at timestamp").json(folder)
    windows = mt.windowed(rows, key="k", time="at").tumbling("1 minute").early(every="1 second")
    return windows.agg(n=mt.count()).start(
        checkpoint="s3a://bucket/checkpoint", results=mt.to_parquet("s3a://bucket/out")
    )
"""
RESTORE = r"Restore the checkpoint from a copy, or start with a new "


@pytest.fixture
def s3() -> Iterator[S3]:
    server = S3()
    (server.folder / "bucket").mkdir()
    yield server
    server.remove()


def make_command(s3: S3, folder: Path) -> list[str]:
    pipeline = folder / "pipeline.py"
    pipeline.write_text(PIPELINE)
    command = [sys.executable, "-c", "from muntin.cli.app import main; main()", "run"]
    command += [str(pipeline), "--set", f"folder={folder}/in", "--master", "local[1]"]
    for name, value in s3.settings.items():
        command += ["--conf", f"{name.replace('__', '.')}={value}"]
    return command


def run(command: Sequence[str], log: Path, checkpoint: Path, goal: int, deleted: Path) -> list[str]:
    """Run until so many batches are committed, delete a part, and return what was printed."""
    log.unlink(missing_ok=True)
    driver = start(command, log)
    try:
        deadline = time.monotonic() + 200
        while batches(checkpoint, "commits") < goal and driver.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1)  # the files that are watched are looked up
        if driver.poll() is None:
            shutil.rmtree(deleted)
        assert driver.wait(timeout=120) == 1, log.read_text()
    finally:
        kill(driver)
    progress = re.compile(r"\d\d:\d\d:\d\d[+-]\d{4}  |Starting Spark")
    return [line for line in log.read_text().splitlines() if not progress.match(line)]


def test_parts_that_are_deleted_are_named_in_the_first_line(s3: S3, tmp_path: Path) -> None:
    """First while the query runs, then at its next start."""
    put(tmp_path / "in", "1.jsonl", -9, -5)
    checkpoint, log = s3.folder / "bucket" / "checkpoint", tmp_path / "log"
    command = make_command(s3, tmp_path)
    folder = "error s3a://bucket/checkpoint"
    (line,) = run(command, log, checkpoint, 2, checkpoint / "state")
    said = rf"{folder}/state/0/_metadata was deleted while the query ran\. {RESTORE}"
    assert re.match(said, line)
    shutil.rmtree(checkpoint / "state")
    (line,) = run(command, log, checkpoint, 1 << 30, checkpoint)
    said = rf"{folder}/state lacks what batch \d+ wrote: it was deleted\. {RESTORE}"
    assert re.match(said, line)
