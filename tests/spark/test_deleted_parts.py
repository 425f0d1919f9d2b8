"""Tests that a deleted part of a checkpoint is named, and never read as an empty state."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.operations.test_first_lines import COLUMNS, put

import muntin as mt
from muntin.spark.query import WindowedQuery

DELETED = (
    r"^\S*checkpoint/{part} lacks what batch 1 wrote: it was deleted\. Restore the checkpoint from "
    "a copy, or start with a new folder and new tables$"
)


def run(spark: SparkSession, folder: Path) -> WindowedQuery:
    clicks = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).json(f"{folder}/in")
    windows = mt.windowed(clicks, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
    query = windows.start(
        checkpoint=f"{folder}/checkpoint", results=mt.to_memory(), available_now=True
    )
    query.await_end(120)
    return query


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a query's folder after two batches."""
    folder = tmp_path_factory.mktemp("whole")
    for number, minutes in enumerate((-9, -5)):
        put(folder / "in", f"{number}.jsonl", minutes)
    run(spark, folder)
    shutil.copytree(folder / "checkpoint", folder / "copy")
    return folder


@pytest.fixture
def folder(whole: Path) -> Path:
    """Return the same folder with its first checkpoint, since Spark's logs have absolute paths."""
    shutil.rmtree(whole / "checkpoint", ignore_errors=True)
    shutil.copytree(whole / "copy", whole / "checkpoint")
    return whole


@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize("part", ["offsets", "metadata", "state", "state/0/_metadata", "sources"])
def test_a_part_that_was_deleted_is_named(
    spark: SparkSession, folder: Path, part: str, record: bool
) -> None:
    path = folder / "checkpoint" / part
    path.unlink() if path.is_file() else shutil.rmtree(path)
    if not record:
        (folder / "checkpoint" / "record.json").unlink()
    with pytest.raises(mt.StateCorruptedError, match=DELETED.replace("{part}", part)):
        run(spark, folder)


def test_commits_that_were_deleted_are_missed_by_the_record(
    spark: SparkSession, folder: Path
) -> None:
    shutil.rmtree(folder / "checkpoint" / "commits")
    with pytest.raises(mt.StateCorruptedError, match=r"checkpoint/commits lacks what batch 0"):
        run(spark, folder)


@pytest.mark.parametrize("pattern", ["state/0/0/*.changelog", "state/0/0"])
def test_files_of_the_state_that_were_deleted_are_named(
    spark: SparkSession, folder: Path, pattern: str
) -> None:
    paths = [*(folder / "checkpoint").glob(pattern)]
    assert paths
    for path in paths:
        path.unlink() if path.is_file() else shutil.rmtree(path)
    put(folder / "in", "late.jsonl", -1)
    try:
        with pytest.raises(mt.StateCorruptedError) as caught:
            run(spark, folder)
    finally:
        (folder / "in" / "late.jsonl").unlink()
    assert re.match(r"the state can't be read: .*checkpoint/state/0/0", str(caught.value))


def test_a_whole_one_goes_on(spark: SparkSession, folder: Path) -> None:
    query = run(spark, folder)
    assert (query.progress.batch, query.progress.counts["seen"]) == (1, 2)
