"""Tests of Parquet files written in this process: whole batches, folders by values, repeats."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import muntin as mt
from muntin.sinks import parquet
from muntin.sinks.batch import Batch, LocalRows
from muntin.sinks.parquet import ParquetSink

AT = datetime(2026, 1, 2, 3, tzinfo=UTC)


def make_batch(number: int, rows: pl.DataFrame, **options: Any) -> Batch:
    local = LocalRows(rows)
    return Batch(number, "results", local.table().schema, None, local, rows.is_empty(), **options)


def make_rows(*keys: str | None) -> pl.DataFrame:
    columns = {"key": [*keys], "n": [*range(len(keys))], "at": [AT] * len(keys)}
    return pl.DataFrame(columns, schema_overrides={"key": pl.String})


def read_sorted(folder: Path) -> list[dict[str, Any]]:
    return ds.dataset(folder, partitioning="hive").to_table().sort_by("n").to_pylist()


def test_a_batch_is_a_folder_and_a_repeat_replaces_it(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    for keys in (("a", "b", "c"), ("a", "b")):
        mt.to_parquet(out).write(make_batch(3, make_rows(*keys)))
    mt.to_parquet(out).write(make_batch(4, make_rows("d")))
    rows_read = [(row["batch"], row["key"], row["at"]) for row in read_sorted(out)]
    assert sorted(rows_read) == [(3, "a", AT), (3, "b", AT), (4, "d", AT)]
    assert sorted(path.name for path in out.iterdir()) == ["batch=3", "batch=4"]


def test_a_batch_that_was_cut_off_is_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    sink = mt.to_parquet(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(parquet, "_replace_folder", stop)
        with pytest.raises(KeyboardInterrupt):
            sink.write(make_batch(0, make_rows("a", "b")))
    assert not (tmp_path / "batch=0").exists()
    sink.write(make_batch(0, make_rows("a")))
    assert [row["key"] for row in read_sorted(tmp_path)] == ["a"]
    assert [path.name for path in tmp_path.iterdir()] == ["batch=0"]


def test_folders_by_values_as_spark_names_them(tmp_path: Path) -> None:
    day = pl.col("at").dt.date().alias("day")
    sink = mt.to_parquet(tmp_path, partition_by=["key", day])
    sink.write(make_batch(0, make_rows("a=b/c", "a=b/c", None, "ä b")))
    names = sorted(str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet"))
    assert names == [
        "batch=0/key=__HIVE_DEFAULT_PARTITION__/day=2026-01-02",
        "batch=0/key=a%3Db%2Fc/day=2026-01-02",
        "batch=0/key=ä b/day=2026-01-02",
    ]
    rows_read = [(row["n"], row["key"], str(row["day"])) for row in read_sorted(tmp_path)]
    keys = ["a=b/c", "a=b/c", None, "ä b"]
    assert rows_read == [(n, key, "2026-01-02") for n, key in enumerate(keys)]


def test_a_row_whose_folder_would_have_too_long_a_name_is_set_aside(tmp_path: Path) -> None:
    keyed_batch = make_batch(0, make_rows("a", "/" * 84, "/" * 83))
    mt.to_parquet(tmp_path, partition_by="key").write(keyed_batch)
    assert [row["n"] for row in read_sorted(tmp_path)] == [0, 2]
    (unwritable_row,) = keyed_batch.unwritable.table().to_pylist()
    assert (
        unwritable_row["why"] == "the folder of key has a name of 256 bytes; file systems take 255"
    )
    assert unwritable_row["sink"] == str(tmp_path)


def test_a_key_that_would_come_back_as_null_is_set_aside(tmp_path: Path) -> None:
    keyed_batch = make_batch(0, make_rows("a", "", None, "__HIVE_DEFAULT_PARTITION__"))
    mt.to_parquet(tmp_path, partition_by="key").write(keyed_batch)
    assert [row["key"] for row in read_sorted(tmp_path)] == ["a", None]
    reasons = keyed_batch.unwritable.table()["why"].to_pylist()
    assert (
        reasons
        == ["the folder of key for this value is that of NULL, as which readers would take it"] * 2
    )


def test_a_folder_beside_the_columns_may_be_that_of_null(tmp_path: Path) -> None:
    """The rows themselves have the column that the folder is computed from."""
    keyed_batch = make_batch(0, make_rows("a", ""))
    mt.to_parquet(tmp_path, partition_by=pl.col("key").str.to_uppercase().alias("up")).write(
        keyed_batch
    )
    assert [(row["key"], row["up"]) for row in read_sorted(tmp_path)] == [("a", "A"), ("", None)]
    assert not keyed_batch.unwritable.tables


def test_no_key_leads_out_of_the_folder(tmp_path: Path) -> None:
    keys = ("../../evil", "..", ".", "/abs", "\\..", "a\nb", "%2e%2e", "~", "x\0y")
    keyed_batch = make_batch(0, make_rows(*keys))
    mt.to_parquet(tmp_path / "out", partition_by="key").write(keyed_batch)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert [row["key"] for row in read_sorted(tmp_path / "out")] == [*keys[:-1]]
    (unwritable_row,) = keyed_batch.unwritable.table().to_pylist()
    assert unwritable_row["why"].startswith("the folder of key has the character NUL in its name")


@pytest.mark.parametrize("by", [(), "key"])
def test_the_first_batch_has_columns_also_without_rows(tmp_path: Path, by: Any) -> None:
    sink = mt.to_parquet(tmp_path, partition_by=by)
    sink.write(make_batch(0, make_rows()))
    sink.write(make_batch(1, make_rows()))
    assert [path.name for path in tmp_path.iterdir()] == ["batch=0"]
    assert {"n", "at"} <= set(ds.dataset(tmp_path).schema.names)


@pytest.mark.parametrize(
    ("make_sink", "problem"),
    [
        (lambda: mt.to_parquet("s3://bucket/out"), "path='s3://bucket/out' is no local folder"),
        (lambda: mt.to_parquet("out", partition_by="kee"), "partition_by='kee' isn't a column"),
        (lambda: mt.to_parquet("out", partition_by=["key", "key"]), "can't be folders"),
        (lambda: mt.to_parquet("out", partition_by=["key", "n"]), "leave one column"),
        (lambda: mt.to_parquet("out", partition_by=7), "isn't computed in this process"),
    ],
)
def test_what_cant_be_written_is_refused_before_anything_runs(make_sink: Any, problem: str) -> None:
    sink: ParquetSink = make_sink()
    with pytest.raises(mt.OptionError, match=problem):
        sink.check(pa.schema([("key", pa.string()), ("n", pa.int64())]), None)
