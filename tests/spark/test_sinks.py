"""Tests of sinks behind a query; tests/contract tests each sink by itself."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from tests.spark.feed import Feed, at, emitted, rows

import muntin as mt
from muntin.sinks.batch import Batch
from muntin.sinks.sink import check_separate_tables, prepare_sinks
from muntin.sinks.sink import to_sink as sink_of
from muntin.spark.sinks.writers import check_destination


def test_sessions_that_grow_together_leave_one(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(0), 1), ("a", at(30), 2), ("b", at(5), 3), ("a", at(60), 4))
    feed.add(("a", at(15), 5), ("b", at(200), 6))
    feed.add(("b", at(400), 7))
    visits = mt.windowed(feed.stream(spark), key="key", time="at").session("20 seconds")
    visits = visits.late(grace="5 minutes", each=True)
    counts = visits.agg(n=mt.count(), values=mt.collect_list("value"))
    out = tmp_path / "out.duckdb"
    query = counts.start(
        checkpoint=str(tmp_path / "checkpoint"),
        results=mt.to_duckdb(str(out), "visits", history="history"),
        available_now=True,
    )
    assert query.await_end(timeout=120)
    query_rows = "SELECT key, epoch(window_start - window_end), n, values FROM visits ORDER BY ALL"
    assert rows(out, query_rows) == [
        ("a", -50.0, 3, [1, 5, 2]),
        ("a", -20.0, 1, [4]),
        ("b", -20.0, 1, [3]),
        ("b", -20.0, 1, [6]),
    ]
    emitted = "SELECT emission, count(*) FROM history GROUP BY ALL ORDER BY ALL"
    assert rows(out, emitted) == [("full", 5), ("late", 1), ("retract", 2)]


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(mt.MissingExtraError, match=r"pip install 'muntin\[duckdb\]'"):
        mt.to_duckdb("out.duckdb", "windows")


def test_one_run_of_a_batch_feeds_all_sinks(spark: SparkSession, tmp_path: Path) -> None:
    """Each message reaches the aggregates once, though two sinks and the progress need it."""
    log = tmp_path / "touched"

    def touch(state: int, value: int) -> int:
        with open(log, "a") as file:
            file.write(f"{value}\n")
        return state + value

    total = mt.aggregate(
        "value", initializer=int, aggregator=touch, merger=int.__add__, state_type="long"
    )
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1), ("b", at(2), 2), (None, at(3), 3))
    feed.add(("a", at(11), 4), ("a", at(2), 5), ("a", None, 6))
    feed.add(("b", at(25), 7), ("a", at(3), 8))
    rejected_by_batch: dict[int, list[Any]] = {}

    def collect(frame: DataFrame, number: int) -> None:
        rejected_by_batch[number] = sorted((r.id, r.reason) for r in frame.collect())

    query = (
        mt.windowed(feed.stream(spark), key="key", time="at")
        .tumbling("10 seconds")
        .late(grace="5 seconds", each=True)
        .agg(n=mt.count(), total=total, most=mt.max("value"))
        .start(
            checkpoint=f"{tmp_path}/checkpoint",
            results=mt.to_parquet(f"{tmp_path}/results/"),
            rejected=collect,
            available_now=True,
        )
    )
    assert query.await_end(timeout=240)
    assert sorted(map(int, log.read_text().split())) == [1, 2, 4, 5, 7, 8]
    assert rejected_by_batch == {0: [(2, "null_key")], 1: [(5, "null_time")], 2: []}
    assert query.progress.fired == {"full": 3, "late": 1}

    frame = spark.read.parquet(f"{tmp_path}/results")
    stored = [
        (r.batch, r.key, r.n, r.total, r.most, r.emission, r.revision) for r in frame.collect()
    ]
    assert sorted(stored) == [
        (1, "a", 2, 6, 5, "full", 0),
        (1, "b", 1, 2, 2, "full", 0),
        (2, "a", 1, 4, 4, "full", 0),
        (2, "a", 3, 14, 8, "late", 1),
    ]


@pytest.mark.slow
def test_parquet_in_folders_by_the_values_of_columns(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(*((key, at(10 * n), n) for n in range(4) for key in ("a", "b")), ("a", at(60), 0))
    windows = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("10 seconds")
    hour = F.hour("window_start").alias("hour")
    out, folder = f"{tmp_path}/out", f"{tmp_path}/checkpoint"
    for _ in range(2):
        query = windows.agg(n=mt.count()).start(
            checkpoint=folder,
            results=mt.to_parquet(out, partition_by=["key", hour], files=1),
            available_now=True,
        )
        assert query.await_end(240)
        # As after a crash between the sink and the commit.
        for path in (tmp_path / "checkpoint" / "commits").glob("*0*"):
            path.unlink()
    paths = sorted(str(p.parent.relative_to(out)) for p in Path(out).rglob("*.parquet"))
    assert paths == ["batch=0/key=a/hour=0", "batch=0/key=b/hour=0"]
    counts = spark.read.parquet(out).groupBy("key", "hour", "batch").count().collect()
    assert sorted(map(tuple, counts)) == [("a", 0, 0, 4), ("b", 0, 0, 4)]


@pytest.mark.parametrize(
    ("by", "words"),
    [
        (lambda: "carrier", "partition_by='carrier' isn't a column; give some of key, n"),
        (lambda: ["key", "key"], "can't be folders; name each once"),
        (lambda: ["key", "n"], "can't be folders"),
        (lambda: ["key", F.lit(1).alias("n")], "is another column of the frame"),
    ],
)
def test_folders_that_cant_be_are_refused(
    spark: SparkSession, by: Callable[[], Any], words: str
) -> None:
    schema = StructType.fromDDL("key string, n int")
    with pytest.raises(mt.OptionError, match=words):
        check_destination(mt.to_parquet("out", partition_by=by()), schema, None)


def test_no_files_are_refused() -> None:
    with pytest.raises(mt.OptionError, match="files=0 is less than one"):
        mt.to_parquet("out", files=0)


def test_parquet_of_a_repeated_batch_is_replaced(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The commit of the last batch is lost, so the restart runs that batch again."""
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1))
    feed.add(("a", at(12), 2), ("b", at(13), 3))

    def run() -> None:
        query = (
            mt.windowed(feed.stream(spark), key="key", time="at")
            .tumbling("10 seconds")
            .early(each=True)
            .agg(n=mt.count(), total=mt.sum("value"), most=mt.max("value"))
            .start(
                checkpoint=f"{tmp_path}/checkpoint",
                results=Both(mt.to_parquet(f"{tmp_path}/parquet"), duckdb),
                available_now=True,
            )
        )
        assert query.await_end(timeout=240)
        assert query.progress.batch == 1
        assert query.progress.counts == {"seen": 3, "counted": 3}

    duckdb = mt.to_duckdb(f"{tmp_path}/out.duckdb", "windows", history="history")
    run()
    first_rows = sorted(spark.read.parquet(f"{tmp_path}/parquet").collect())
    history = rows(tmp_path / "out.duckdb", "SELECT * FROM history ORDER BY ALL")
    assert len(first_rows) == len(history) == 4

    def run_again() -> None:
        for name in ("1", ".1.crc"):
            (tmp_path / "checkpoint/commits" / name).unlink(missing_ok=True)
        run()

    run_again()
    assert sorted(spark.read.parquet(f"{tmp_path}/parquet").collect()) == first_rows
    assert "doesn't exist" not in caplog.text
    shutil.rmtree(tmp_path / "parquet")
    run_again()
    (line,) = [line for line in caplog.messages if "Parquet" in line]
    assert line.startswith(f"Parquet {tmp_path}/parquet doesn't exist at batch 1: it is created")
    assert rows(tmp_path / "out.duckdb", "SELECT * FROM history ORDER BY ALL") == history
    assert emitted(tmp_path / "out.duckdb") == feed.windows(10, 10)


def columns(*names: str) -> pa.Schema:
    return pa.schema([(name, pa.int64()) for name in names])


def test_what_identifies_a_row() -> None:
    windows = columns("key", "window_start", "window_end", "n")
    rows: Any = None
    assert Batch(0, "results", windows, ("key",), rows).identity == tuple(windows.names[:3])
    assert Batch(0, "results", columns("key", "n"), ("key",), rows).identity == ("key",)
    assert Batch(0, "rejected", windows, None, rows).identity is None


@pytest.mark.parametrize("name", ["batch", "Batch"])
def test_the_column_of_the_batchs_number_is_the_sinks_own(tmp_path: Path, name: str) -> None:
    rows, path = columns("key", name), f"{tmp_path}/out"
    parquet, duckdb = mt.to_parquet(path), mt.to_duckdb(path, "t", history="log")
    for sink, keys in ((parquet, None), (parquet, ("key",)), (duckdb, None), (duckdb, ("key",))):
        error = f"column='{name}' is the column in which .* keeps the batch's number; give .* name"
        with pytest.raises(mt.OptionError, match=error):
            sink.check(rows, keys)
    # A table of the newest state has no batch numbers.
    mt.to_duckdb(path, "t").check(rows, ("key",))


def test_a_query_whose_rows_cant_be_written_isnt_started(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "source")
    messages = feed.stream(spark)
    renamed = mt.windowed(messages.withColumnRenamed("value", "Batch"), key="key", time="at")
    counted = renamed.tumbling("10 seconds").agg(n=mt.count())
    text = "FROM t GROUP BY key, TUMBLE(`at`, INTERVAL '10' SECOND)"
    shown = mt.sql(spark, f"SELECT key, sum(value) + 1 AS batch {text}", t=messages)
    hidden = mt.sql(spark, f"SELECT key AS batch, count(*) AS n {text}", t=messages)
    parquet, duckdb = mt.to_parquet(f"{tmp_path}/out"), mt.to_duckdb(f"{tmp_path}/db", "t")
    for query, sinks in (
        (counted, {"rejected": duckdb}),
        (counted, {"rejected": parquet}),
        (shown, {"results": parquet}),
        (hidden, {"results": parquet}),
        (shown, {"results": mt.to_kafka("nowhere:9", "t", key="n")}),
    ):
        with pytest.raises(mt.OptionError, match=r"(?i)column='batch'|key='n'"):
            query.start(checkpoint=f"{tmp_path}/checkpoint", name="refused", **sinks)
    assert not (tmp_path / "checkpoint").exists()
    assert "refused" not in [query.name for query in spark.streams.active]


def test_a_key_of_no_column_is_refused() -> None:
    sink = mt.to_kafka("nowhere:9", "views", key=["KEY", "kee"])
    with pytest.raises(mt.OptionError, match="key='kee' isn't a column of what views gets; give"):
        sink.check(columns("key", "n"), ("key",))
    mt.to_kafka("nowhere:9", "views", key="n").check(columns("key", "n"), ("key",))


def test_no_rows_are_sent_nowhere() -> None:
    mt.to_kafka("nowhere:9", "views").write(SimpleNamespace(empty=True))


@dataclass
class Both:
    """Two sinks as one."""

    first: Any
    second: Any

    def write(self, batch: Any) -> None:
        self.first.write(batch)
        self.second.write(batch)


PAIRS: dict[str, tuple[Callable[[str], tuple[Any, Any]], bool]] = {
    "one folder": (lambda out: (mt.to_parquet(out), mt.to_parquet(f"{out}/")), False),
    "one within the other": (
        lambda out: (mt.to_parquet(out), mt.to_parquet(f"{out}/rejected")), False
    ),
    "two folders": (lambda out: (mt.to_parquet(out), mt.to_parquet(f"{out}-rejected")), True),
    "one table": (lambda out: (mt.to_duckdb(out, "w"), mt.to_duckdb(out, "W")), False),
    "two tables": (lambda out: (mt.to_duckdb(out, "w"), mt.to_duckdb(out, "rejected")), True),
    "its history": (
        lambda out: (mt.to_duckdb(out, "w", history="h"), mt.to_duckdb(out, "h")), False
    ),
    "history in itself": (lambda out: (mt.to_duckdb(out, "w", history="w"), None), False),
    "functions": (lambda out: (lambda frame, number: None, lambda frame, number: None), True),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_two_outputs_into_one_table_are_refused(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    (results, rejected), is_valid = PAIRS[name][0](str(tmp_path / "out")), PAIRS[name][1]
    if is_valid:
        check_separate_tables(map(sink_of, (results, rejected)))
        return
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1))
    windows = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("1 minute")
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(mt.OptionError, match=r"give each .* of its own"):
        windows.agg(n=mt.count()).start(
            checkpoint=str(checkpoint), results=results, rejected=rejected
        )
    assert not checkpoint.exists()


def test_a_parquet_folder_belongs_to_one_query(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1))
    windows = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("1 minute")
    counted = windows.early(each=True).agg(n=mt.count())

    def run(checkpoint: str) -> None:
        counted.start(
            checkpoint=f"{tmp_path}/{checkpoint}",
            results=mt.to_parquet(f"{tmp_path}/out"),
            available_now=True,
        ).await_end(60)

    run("one")
    with pytest.raises(mt.SinkError, match="has the rows of another query"):
        run("other")
    feed.add(("a", at(2), 1))
    run("one")
    rows = spark.read.parquet(f"{tmp_path}/out").where("emission = 'early'")
    assert sorted(row["n"] for row in rows.collect()) == [1, 2]


def test_a_folder_is_made_when_a_query_starts_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = mt.to_duckdb(f"{tmp_path}/not/there/out.duckdb", "windows")
    assert not (tmp_path / "not").exists()
    prepare_sinks([sink, None])
    assert (tmp_path / "not/there").is_dir()
    assert f"Made the folder {tmp_path}/not/there for out.duckdb" in caplog.text
    (tmp_path / "file").touch()
    for path, problem in ((f"{tmp_path}/file/out.duckdb", "can't be made"), (tmp_path, "a folder")):
        with pytest.raises(mt.OptionError, match=f"path=.*{problem}.*; give the path of a file"):
            prepare_sinks([mt.to_duckdb(str(path), "windows")])
