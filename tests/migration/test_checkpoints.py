"""This build opens, resumes and rescales the checkpoints of earlier builds."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession
from tests.migration.spark_kept import (
    BEFORE,
    FOLDER,
    KINDS,
    SECONDS,
    fetch_state,
    get_archive_path,
    run,
    unpack,
    write_feed,
)

from muntin.dataframe.state import read_checkpoint, report_checkpoint
from muntin.spark.rescale import rescale

ARCHIVES = sorted(FOLDER.glob("*.tar.xz"))


def are_equal(frames: list[pl.DataFrame], expected: list[pl.DataFrame]) -> bool:
    return all(a.equals(b) and len(a) for a, b in zip(frames, expected, strict=True))


def test_the_present_format_is_kept() -> None:
    assert {get_archive_path(kind) for kind in KINDS} <= set(ARCHIVES)


@pytest.mark.slow
@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: path.name.partition(".")[0])
def test_a_query_goes_on(spark: SparkSession, tmp_path: Path, path: Path) -> None:
    kind = path.name.partition("-")[0]
    old = unpack(path, tmp_path / "old")
    assert report_checkpoint(read_checkpoint(old, spark=spark))["batch"] == BEFORE - 1
    state_before = fetch_state(spark, kind, old)

    moved = tmp_path / "moved"
    rescale(spark, str(old), shards=3, to=str(moved))
    assert are_equal(fetch_state(spark, kind, moved), state_before)

    # Agents run on Spark only; the local host computes the other states in a tenth of the time.
    host, fresh = spark if kind == "tables" else None, tmp_path / "alone"
    run(host, kind, write_feed(tmp_path / "whole", 0, BEFORE), fresh)
    if kind != "chain":
        # Windows over windows emit sooner than in the build that wrote the chain.
        assert are_equal(fetch_state(spark, kind, fresh), state_before)
    run(host, kind, write_feed(tmp_path / "whole", BEFORE, len(SECONDS)), fresh)
    expected = fetch_state(spark, kind, fresh)
    source = tmp_path / "old" / "source"
    write_feed(source, 0, BEFORE)
    rest = write_feed(source, BEFORE, len(SECONDS))
    run(spark, kind, rest, old)
    assert are_equal(fetch_state(spark, kind, old), expected)
    run(spark, kind, rest, moved, 3)
    assert are_equal(fetch_state(spark, kind, moved), expected)
