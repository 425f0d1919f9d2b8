"""Parquet files written in this process: whole batches, folders by values, repeats."""

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


def batch(number: int, rows: pl.DataFrame, **more: Any) -> Batch:
    held = LocalRows(rows)
    return Batch(number, "results", held.table().schema, None, held, rows.is_empty(), **more)


def rows(*keys: str | None) -> pl.DataFrame:
    columns = {"key": [*keys], "n": [*range(len(keys))], "at": [AT] * len(keys)}
    return pl.DataFrame(columns, schema_overrides={"key": pl.String})


def read(folder: Path) -> list[dict[str, Any]]:
    return ds.dataset(folder, partitioning="hive").to_table().sort_by("n").to_pylist()


def test_a_batch_is_a_folder_and_a_repeat_replaces_it(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    for keys in (("a", "b", "c"), ("a", "b")):
        mt.to_parquet(out).write(batch(3, rows(*keys)))
    mt.to_parquet(out).write(batch(4, rows("d")))
    found = [(row["batch"], row["key"], row["at"]) for row in read(out)]
    assert sorted(found) == [(3, "a", AT), (3, "b", AT), (4, "d", AT)]
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
            sink.write(batch(0, rows("a", "b")))
    assert not (tmp_path / "batch=0").exists()
    sink.write(batch(0, rows("a")))
    assert [row["key"] for row in read(tmp_path)] == ["a"]
    assert [path.name for path in tmp_path.iterdir()] == ["batch=0"]


def test_folders_by_values_as_spark_names_them(tmp_path: Path) -> None:
    day = pl.col("at").dt.date().alias("day")
    sink = mt.to_parquet(tmp_path, partition_by=["key", day])
    sink.write(batch(0, rows("a=b/c", "a=b/c", None, "ä b")))
    names = sorted(str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet"))
    assert names == [
        "batch=0/key=__HIVE_DEFAULT_PARTITION__/day=2026-01-02",
        "batch=0/key=a%3Db%2Fc/day=2026-01-02",
        "batch=0/key=ä b/day=2026-01-02",
    ]
    found = [(row["n"], row["key"], str(row["day"])) for row in read(tmp_path)]
    keys = ["a=b/c", "a=b/c", None, "ä b"]
    assert found == [(n, key, "2026-01-02") for n, key in enumerate(keys)]


def test_a_row_whose_folder_would_have_too_long_a_name_is_set_aside(tmp_path: Path) -> None:
    one = batch(0, rows("a", "/" * 84, "/" * 83))
    mt.to_parquet(tmp_path, partition_by="key").write(one)
    assert [row["n"] for row in read(tmp_path)] == [0, 2]
    (letter,) = one.unwritable.table().to_pylist()
    assert letter["why"] == "the folder of key has a name of 256 bytes; file systems take 255"
    assert letter["sink"] == str(tmp_path)


def test_a_key_that_would_come_back_as_null_is_set_aside(tmp_path: Path) -> None:
    one = batch(0, rows("a", "", None, "__HIVE_DEFAULT_PARTITION__"))
    mt.to_parquet(tmp_path, partition_by="key").write(one)
    assert [row["key"] for row in read(tmp_path)] == ["a", None]
    reasons = one.unwritable.table()["why"].to_pylist()
    assert (
        reasons
        == ["the folder of key for this value is that of NULL, as which readers would take it"] * 2
    )


def test_a_folder_beside_the_columns_may_be_that_of_null(tmp_path: Path) -> None:
    """The rows have the column that it is computed from."""
    one = batch(0, rows("a", ""))
    mt.to_parquet(tmp_path, partition_by=pl.col("key").str.to_uppercase().alias("up")).write(one)
    assert [(row["key"], row["up"]) for row in read(tmp_path)] == [("a", "A"), ("", None)]
    assert not one.unwritable.tables


def test_no_key_leads_out_of_the_folder(tmp_path: Path) -> None:
    keys = ("../../evil", "..", ".", "/abs", "\\..", "a\nb", "%2e%2e", "~", "x\0y")
    one = batch(0, rows(*keys))
    mt.to_parquet(tmp_path / "out", partition_by="key").write(one)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert [row["key"] for row in read(tmp_path / "out")] == [*keys[:-1]]
    (letter,) = one.unwritable.table().to_pylist()
    assert letter["why"].startswith("the folder of key has the character NUL in its name")


@pytest.mark.parametrize("by", [(), "key"])
def test_the_first_batch_has_columns_also_without_rows(tmp_path: Path, by: Any) -> None:
    sink = mt.to_parquet(tmp_path, partition_by=by)
    sink.write(batch(0, rows()))
    sink.write(batch(1, rows()))
    assert [path.name for path in tmp_path.iterdir()] == ["batch=0"]
    assert {"n", "at"} <= set(ds.dataset(tmp_path).schema.names)


@pytest.mark.parametrize(
    ("sink", "words"),
    [
        (lambda: mt.to_parquet("s3://bucket/out"), "path='s3://bucket/out' is no local folder"),
        (lambda: mt.to_parquet("out", partition_by="kee"), "partition_by='kee' isn't a column"),
        (lambda: mt.to_parquet("out", partition_by=["key", "key"]), "can't be folders"),
        (lambda: mt.to_parquet("out", partition_by=["key", "n"]), "leave one column"),
        (lambda: mt.to_parquet("out", partition_by=7), "isn't computed in this process"),
    ],
)
def test_what_cant_be_written_is_refused_before_anything_runs(sink: Any, words: str) -> None:
    made: ParquetSink = sink()
    with pytest.raises(mt.OptionError, match=words):
        made.check(pa.schema([("key", pa.string()), ("n", pa.int64())]), None)
