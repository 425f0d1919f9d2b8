"""A checkpoint that an earlier build wrote is opened, gone on from and rescaled by this one."""

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
    archive,
    fed,
    held,
    run,
    unpacked,
)

from muntin.dataframe.state import read_checkpoint, report_checkpoint
from muntin.spark.rescale import rescale

KEPT = sorted(FOLDER.glob("*.tar.xz"))


def same(one: list[pl.DataFrame], other: list[pl.DataFrame]) -> bool:
    return all(a.equals(b) and len(a) for a, b in zip(one, other, strict=True))


def test_the_present_format_is_kept() -> None:
    assert {archive(kind) for kind in KINDS} <= set(KEPT)


@pytest.mark.slow
@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name.partition(".")[0])
def test_a_query_goes_on(spark: SparkSession, tmp_path: Path, path: Path) -> None:
    kind = path.name.partition("-")[0]
    old = unpacked(path, tmp_path / "old")
    assert report_checkpoint(read_checkpoint(old, spark=spark))["batch"] == BEFORE - 1
    opened = held(spark, kind, old)

    moved = tmp_path / "moved"
    rescale(spark, str(old), shards=3, to=str(moved))
    assert same(held(spark, kind, moved), opened)

    alone = tmp_path / "alone"
    run(spark, kind, fed(tmp_path / "whole", 0, len(SECONDS)), alone)
    if kind != "chain":
        # Windows over windows emit sooner than in the build that wrote the chain.
        assert same(held(spark, kind, alone, batch=BEFORE - 1), opened)
    wanted = held(spark, kind, alone)
    source = tmp_path / "old" / "source"
    fed(source, 0, BEFORE)
    rest = fed(source, BEFORE, len(SECONDS))
    run(spark, kind, rest, old)
    assert same(held(spark, kind, old), wanted)
    run(spark, kind, rest, moved, 3)
    assert same(held(spark, kind, moved), wanted)
