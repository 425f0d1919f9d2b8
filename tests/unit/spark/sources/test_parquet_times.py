"""Tests of times of INT96 in any year, as Spark's older files have them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.engine.admission import Flags
from muntin.spark.sources.parquet import ParquetReader

# The years 1, 9999 and 57971, and the edges of what nanoseconds of 64 bits hold.
FAR = [-62_135_596_800_000_000, 253_402_300_799_999_999, 1_767_225_600_000_000_000]
EDGES = [9_223_372_036_854_775, 9_223_372_036_854_776, -9_223_372_036_854_776, -1, 0]


@pytest.mark.parametrize("names", [("at", "at"), ("At", "aT")])
@pytest.mark.parametrize("times", [*([time] for time in FAR + EDGES), [*FAR, *EDGES, None], [0, 1]])
def test_times_are_those_of_the_file(
    tmp_path: Path, names: tuple[str, str], times: list[int | None]
) -> None:
    path, (stored_name, read_name) = f"{tmp_path}/a.parquet", names
    table = pa.table({stored_name: pa.array(times, pa.timestamp("us")), "n": range(len(times))})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, store_schema=False)
    schema: dict[str, pl.DataType] = {"n": pl.Int64(), read_name: pl.Datetime("us", "UTC")}
    reader = ParquetReader(schema, None, Flags(None, None))
    rows = pl.concat(reader.read(path))
    assert rows.schema == schema
    assert rows[read_name].cast(pl.Int64).to_list() == times
    assert rows["n"].to_list() == list(range(len(times)))
