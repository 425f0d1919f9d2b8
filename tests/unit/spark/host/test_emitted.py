"""Tests of a shard's outputs as the rows that reach the JVM."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructType

from muntin.engine.operator import RESULTS
from muntin.spark.host import processor
from muntin.spark.host.processor import ShardSteps, unpack_blobs

SCHEMA = StructType().add("k", LongType()).add("page", StringType())


@pytest.mark.parametrize("rows", [1, 100, 101, 350])
def test_rows_come_back_and_are_compressed_where_there_are_many(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "_ROWS_A_BLOB", 100)
    frame = pl.DataFrame({"k": range(rows), "page": ["home"] * rows})
    stage: Any = SimpleNamespace(schemas={RESULTS: SCHEMA}, beside=None)
    steps = ShardSteps(stage, final=False)
    blobs = [row.blob for row in steps._rows({RESULTS: frame})]
    assert len(blobs) == -(-rows // 100)
    sent = pa.record_batch({"blob": pa.array(blobs, pa.binary())})
    unpacked = cast(pl.DataFrame, pl.from_arrow(pa.Table.from_batches(unpack_blobs(iter([sent])))))
    assert unpacked.equals(frame)
    unpacked_size = sum(batch.nbytes for batch in unpack_blobs(iter([sent])))
    assert (sum(map(len, blobs)) < unpacked_size) == (rows > 100)
