"""Tests of files that workers read themselves: the results are those of rows from Spark."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.spark.feed import MESSAGE, Feed, at, rows

import muntin as mt
from muntin.engine.admission import Flags
from muntin.model.errors import OptionError
from muntin.spark.sources.parquet import SETTING, ParquetReader, list_file_parts


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    feed = Feed(tmp_path / "a source, with%20odd=name")
    feed.add(("a", at(1), 1), ("b", at(2), 2), (None, at(3), 3), ("a", None, 4))
    feed.add(("a", at(25), 5), ("c", at(26), None), ("b", at(400_000), 6))
    feed.add(("a", at(4), 7), ("a", at(31), 8))
    return feed


@pytest.fixture
def setting(spark: SparkSession) -> Any:
    yield spark.conf
    spark.conf.unset(SETTING)


def reads_files(frame: DataFrame) -> bool:
    return list_file_parts(frame, F.lit("0")) is not None


def windows(frame: DataFrame, **options: Any) -> mt.WindowedAggregate:
    plan = mt.windowed(frame, key="key", time="at", **options).tumbling("10 seconds")
    return plan.agg(n=mt.count(), total=mt.sum("value"), last=mt.last("value"))


def run_to_end(aggregate: mt.WindowedAggregate, folder: Path) -> tuple[list[Any], list[Any]]:
    """Return the results and rejected messages of a stream until its input ends."""
    emitted: dict[str, list[Any]] = {"results": [], "rejected": []}

    def into(name: str) -> Callable[[DataFrame, int], None]:
        return lambda frame, number: emitted[name].extend(map(tuple, frame.collect()))

    query = aggregate.start(
        checkpoint=str(folder),
        results=into("results"),
        rejected=into("rejected"),
        available_now=True,
    )
    assert query.await_end(timeout=120)
    assert query.progress.adds_up()
    return emitted["results"], emitted["rejected"]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({}, 1),
        pytest.param({"clock": "at"}, 2, marks=pytest.mark.slow),
        pytest.param({"max_ahead": None}, 1, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_files_and_rows_come_to_the_same(
    spark: SparkSession,
    feed: Feed,
    setting: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    parts: int,
) -> None:
    if parts > 1:
        monkeypatch.setattr("muntin.spark.sources.parquet._ROWS_OF_A_PART", 1)
    by_files = windows(feed.stream(spark), **options)
    plan = by_files.plan.output._jdf.queryExecution().analyzed().toString()
    assert plan.count(", content#") == 1
    assert ("explode(" in plan) == (parts > 1)
    setting.set(SETTING, "false")
    by_rows = windows(feed.stream(spark), **options)
    assert (by_files.plan.columnar, by_rows.plan.columnar) == (True, False)
    assert "Parquet" in by_files.explain()
    assert "as Spark hands them over" in by_rows.explain()
    results, rejected = run_to_end(by_files, tmp_path / "files")
    assert (results, rejected) == run_to_end(by_rows, tmp_path / "rows")
    assert len(results) >= 3
    assert len(rejected) >= 2


def test_spark_writes_what_the_workers_read(spark: SparkSession, tmp_path: Path) -> None:
    source = str(tmp_path / "source")
    rows = spark.range(3).select(
        F.lit("a").alias("key"),
        F.timestamp_seconds(F.col("id") + 1_000_000_000).alias("at"),
        F.col("id").cast("int").alias("value"),
    )
    rows.coalesce(1).write.partitionBy("key").parquet(source)
    frame = spark.readStream.schema("key string, at timestamp, value int").parquet(source)
    aggregate = windows(frame, max_ahead=None)
    assert aggregate.plan.columnar
    results, _ = run_to_end(aggregate, tmp_path / "checkpoint")
    assert results == []
    late = spark.range(1).selectExpr("'b' key", "timestamp'2027-01-01' at", "1 value")
    late.write.partitionBy("key").mode("append").parquet(source)
    results, _ = run_to_end(windows(frame, max_ahead=None), tmp_path / "once more")
    assert [(row[0], *row[3:6]) for row in results] == [("a", 3, 3, 2)]


def test_only_plain_columns_of_local_files_are_read_so(
    spark: SparkSession, feed: Feed, setting: Any
) -> None:
    stream = feed.stream(spark)
    assert reads_files(stream)
    assert reads_files(stream.select("at", "key").alias("x"))
    assert not reads_files(feed.frame(spark))
    assert not reads_files(stream.where("value > 1"))
    assert not reads_files(stream.select("key", (F.col("value") + 1).alias("value")))
    assert not reads_files(stream.withColumn("pair", F.struct("key", "value")))
    reader = spark.readStream.schema("key string, at timestamp, value array<int>")
    assert not reads_files(reader.parquet(str(feed.folder)))
    reader = spark.readStream.schema("key string, at timestamp").option("mergeSchema", "true")
    assert not reads_files(reader.parquet(str(feed.folder)))
    assert not reads_files(spark.readStream.schema("value string").text(str(feed.folder)))
    assert not windows(stream, where="value > 1").plan.columnar
    by_hash = mt.windowed(stream, key=F.hash("key"), time="at").tumbling("1 hour")
    assert not by_hash.agg(n=mt.count()).plan.columnar


def reader(root: Path | None = None, **schema: pl.DataType) -> ParquetReader:
    return ParquetReader(dict(schema), root and str(root), Flags("at", None))


def read_one_row(reader: ParquetReader, path: Path, **columns: pa.Array) -> dict[str, Any]:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    (frame,) = reader.read(str(path))
    assert dict(frame.schema) == reader.schema
    return frame.row(0, named=True)


def test_a_file_that_this_machine_lacks_is_named_with_it(tmp_path: Path) -> None:
    with pytest.raises(mt.SourceError) as caught:
        list(reader().read(f"{tmp_path}/a.parquet"))
    here = socket.gethostname()
    assert str(caught.value).startswith(f"{tmp_path}/a.parquet isn't on {here}: it was deleted, or")


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_times_of_every_unit_and_label(tmp_path: Path, unit: str) -> None:
    wanted = reader(at=pl.Datetime("us", "UTC"))
    for zone in (None, "UTC", "Asia/Tokyo"):
        stamps = pa.array([at(1.5)], pa.timestamp("us", tz="UTC"))
        stamps = stamps.cast(pa.timestamp(unit, tz="UTC")).cast(pa.int64())
        stamps = stamps.cast(pa.timestamp(unit, tz=zone))
        assert read_one_row(wanted, tmp_path / "a.parquet", at=stamps) == {"at": at(1.5)}


def test_columns_widened_missing_renamed_and_named_by_folders(tmp_path: Path) -> None:
    wanted = reader(
        tmp_path,
        n=pl.Int64(),
        x=pl.Float64(),
        Name=pl.String(),
        gone=pl.Date(),
        day=pl.Date(),
        city=pl.String(),
        price=pl.Decimal(9, 2),
    )
    row = read_one_row(
        wanted,
        tmp_path / "day=2026-01-02" / "city=S%C3%A3o%20Paulo" / "a.parquet",
        n=pa.array([1], pa.int16()),
        x=pa.array([0.5], pa.float32()),
        name=pa.array(["it"]),
        city=pa.array(["in the file"]),
        price=pa.array([Decimal("1.25")], pa.decimal128(9, 2)),
        more=pa.array([1]),
    )
    assert row == {
        "n": 1,
        "x": 0.5,
        "Name": "it",
        "gone": None,
        "day": date(2026, 1, 2),
        "city": "São Paulo",
        "price": Decimal("1.25"),
    }
    unknown = tmp_path / "day=__HIVE_DEFAULT_PARTITION__" / "a.parquet"
    assert read_one_row(reader(tmp_path, day=pl.Date()), unknown, n=pa.array([1])) == {"day": None}


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/*/*.parquet",
        *(pytest.param(p, marks=pytest.mark.slow) for p in ("/", "/../source", "/*")),
    ],
)
def test_folders_are_columns_where_spark_says_so(
    spark: SparkSession, tmp_path: Path, setting: Any, path: str
) -> None:
    source = tmp_path / "value=9" / "source"
    messages = spark.sql(
        "select 'a' key, timestamp'2026-01-01' at, 2 value union all "
        "select 'b' key, timestamp'2027-01-01' at, 3 value"
    )
    messages.coalesce(1).write.partitionBy("key").parquet(str(source))

    def read(name: str) -> tuple[list[list[Any]], bool]:
        rows = spark.readStream.schema("key string, at timestamp, value int")
        aggregate = windows(rows.parquet(f"file:{source}{path}"), max_ahead=None)
        emitted = [sorted(rows, key=str) for rows in run_to_end(aggregate, tmp_path / name)]
        return emitted, aggregate.plan.columnar

    by_files, columnar = read("files")
    setting.set(SETTING, "false")
    by_rows, _ = read("rows")
    assert columnar
    assert by_files == by_rows
    assert any(by_files)


def test_a_type_that_isnt_agreed_on_is_named_with_the_cure(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": pa.array(["text"])}), path)
    with pytest.raises(OptionError, match=SETTING):
        list(reader(n=pl.Int64()).read(str(path)))


def test_a_large_file_comes_in_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muntin.spark.sources.parquet.ROWS_AT_ONCE", 3)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": pa.array(range(7))}), path, row_group_size=2)
    frames = list(reader(n=pl.Int64()).read(str(path)))
    assert [frame["n"].to_list() for frame in frames] == [[0, 1, 2], [3, 4, 5], [6]]


def test_parts_make_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts have its rows in order, whatever its name: agents depend on that."""
    monkeypatch.setattr("muntin.spark.sources.parquet._ROWS_OF_A_PART", 10)
    wanted = reader(n=pl.Int64())
    for size in (0, 1, 9, 25, 40, 101):
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table({"n": pa.array(range(size), pa.int64())}), path, row_group_size=7)
        for parts in (1, 3, 4):
            first_parts = set()
            for name in range(20):
                path = path.rename(tmp_path / f"{name}.parquet")
                rows_by_part = [
                    [n for frame in wanted.read(str(path), part, parts) for n in frame["n"]]
                    for part in range(parts)
                ]
                assert [n for numbers in rows_by_part for n in numbers] == list(range(size))
                shares = min(parts, max(size // 10, 1))
                assert sum(map(bool, rows_by_part)) == (shares if size else 0)
                first_parts |= {next((i for i, numbers in enumerate(rows_by_part) if numbers), 0)}
            # Small files begin at different parts, so all tasks get work.
            assert first_parts == set(range(parts - shares + 1)) or not size


@pytest.mark.slow
def test_a_query_goes_on_in_other_parts(
    spark: SparkSession, feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint has the files as one source, whatever their size and the number of cores."""
    first = run_to_end(windows(feed.stream(spark)), tmp_path / "checkpoint")
    feed.add(("d", at(400_100), 1), ("d", at(400_101), 2), ("e", at(400_200), 3))
    feed.add(("e", at(400_300), 4), ("a", at(31), 5))
    monkeypatch.setattr("muntin.spark.sources.parquet._ROWS_OF_A_PART", 1)
    then = run_to_end(windows(feed.stream(spark)), tmp_path / "checkpoint")
    whole = run_to_end(windows(feed.stream(spark)), tmp_path / "anew")
    for part in (0, 1):
        assert sorted(first[part] + then[part], key=str) == sorted(whole[part], key=str)
    assert then[0]


def test_messages_of_the_ordinary_schema_are_files(spark: SparkSession, tmp_path: Path) -> None:
    assert reads_files(Feed(tmp_path / "source", MESSAGE).stream(spark))


def test_a_path_is_taken_from_where_spark_was_started(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python may have another working directory."""
    assert spark._jvm is not None
    spark_folder = Path(spark._jvm.java.lang.System.getProperty("user.dir"))
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1), ("a", at(2), 2))
    feed.add(("b", at(100), 3))
    relative = os.path.relpath(feed.folder, spark_folder)
    monkeypatch.chdir(tmp_path)
    frame = spark.readStream.schema("id long, key string, at timestamp, value long")
    windows = mt.windowed(frame.parquet(relative), key="key", time="at").tumbling("10 seconds")
    out = tmp_path / "out.duckdb"
    query = windows.agg(n=mt.count()).start(
        checkpoint=f"{tmp_path}/checkpoint",
        results=mt.to_duckdb(str(out), "windows"),
        available_now=True,
    )
    assert query.await_end(timeout=120)
    assert rows(out, "SELECT key, n FROM windows") == [("a", 2)]
