"""Tests of NULL in keys: groups as in Spark SQL, restarts, and reading the state."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.feed import STAMP, Feed, at, rows

import muntin as mt
from muntin.dataframe.state import explain_checkpoint, read_checkpoint, report_checkpoint
from muntin.hosts.inspect.windows import OpenWindows
from muntin.spark.rescale import rescale

pytestmark = pytest.mark.slow

AGGREGATES = {"n": mt.count(), "total": mt.sum("value"), "most": mt.max("value")}
FILES = [
    [(None, 1, 1), ("null", 2, 2), ("", 3, 4), (None, 4, 8)],
    [(None, 14, 16), ("a", 33, 32), (None, 12, 64)],
    [(None, 9, 128), ("a", 41, 256), (None, 95, 512)],
]
COLUMNS = "SELECT key, epoch_us(window_start), n, total, most FROM windows ORDER BY ALL"


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "messages")


def add(feed: Feed, number: int) -> None:
    feed.add(*((key, at(second), value) for key, second, value in FILES[number]))


def run(spark: SparkSession, feed: Feed, folder: Path, **options: Any) -> mt.WindowedQuery:
    """Run hopping windows, early and late, over all input."""
    windows = mt.windowed(feed.stream(spark), key="key", time="at", **options)
    query = (
        windows.hopping("20 seconds", "10 seconds")
        .early(each=True)
        .late(grace="2 minutes", each=True)
        .keep("10 minutes")
        .agg(**AGGREGATES)
        .start(
            checkpoint=f"{folder}/checkpoint",
            results=mt.to_duckdb(f"{folder}/out.duckdb", "windows"),
            rejected=mt.to_duckdb(f"{folder}/out.duckdb", "rejected"),
            available_now=True,
        )
    )
    assert query.await_end(timeout=240)
    return query


@pytest.mark.slow
def test_a_group_lives_through_restarts_and_is_read_from_outside(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    checkpoint = f"{tmp_path}/checkpoint"
    for number in range(len(FILES)):
        add(feed, number)
        query = run(spark, feed, tmp_path, nulls="group", shards=3)
    assert query.progress.counts["counted"] == 10
    wanted = feed.windows(20, 10)
    assert [row[0] for row in wanted].count(None) == 5
    assert rows(tmp_path / "out.duckdb", COLUMNS) == wanted

    state = mt.open_state(checkpoint)
    assert isinstance(state, OpenWindows)
    null_windows = state.fetch((None,))
    assert null_windows["key"].to_list() == [None] * 5
    assert sorted(null_windows["n"]) == sorted(n for key, _, n, _, _ in wanted if key is None)
    assert state.fetch({"key": None}).equals(null_windows)
    assert len(state.fetch("null")) == 2
    assert len(state.fetch()) == len(wanted)
    assert state.windows((None,)).filter(pl.col("messages") == 5).height == 1
    changes = state.changes(1).filter(pl.col("key").is_null())
    assert sorted(changes["change"]) == ["changed", "changed", "new", "new"]

    report = report_checkpoint(read_checkpoint(checkpoint, spark=spark), [r"\N"])
    assert report["spec"]["nulls"] == "group"
    assert sum(row["messages"] or 0 for row in report["key"]) == sum(null_windows["n"])
    explanation = " ".join(
        " ".join(
            explain_checkpoint(
                read_checkpoint(checkpoint, spark=spark), [r"\N"], "2026-01-01 00:00:05"
            )
        ).split()
    )
    assert "holds 5 messages" in explanation

    rescale(spark, checkpoint, shards=2, to=f"{tmp_path}/moved")
    assert mt.open_state(f"{tmp_path}/moved").fetch((None,)).equals(null_windows)


def test_null_may_become_a_group_and_stays_one(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    add(feed, 0)
    assert run(spark, feed, tmp_path).progress.counts["null_key"] == 2
    add(feed, 1)
    add(feed, 2)
    run(spark, feed, tmp_path, nulls="group")
    assert rows(tmp_path / "out.duckdb", COLUMNS) == feed.windows(20, 10, but=[0, 3])
    assert rows(tmp_path / "out.duckdb", "SELECT id, reason FROM rejected ORDER BY ALL") == [
        (0, "null_key"), (3, "null_key")
    ]  # fmt: skip
    add(feed, 0)
    with pytest.raises(Exception, match="nulls: was group, is reject"):
        run(spark, feed, tmp_path)


def make_messages(feed: Feed) -> list[tuple[Any, ...]]:
    """Return messages whose two keys are NULL, or similar to NULL, in all combinations."""
    chance = random.Random(3)
    names, numbers = [None, "null", "", "a"], [None, 0, -1]
    return [
        (chance.choice(names), chance.choice(numbers), at(chance.uniform(0, 60)), n)
        for n in range(300)
    ]


def test_sql_groups_as_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("k", pa.string()),
            ("j", pa.int32()),
            ("at", STAMP),
            ("v", pa.int64()),
        ]
    )
    feed = Feed(tmp_path / "messages", schema)
    feed.add(*make_messages(feed))
    messages = feed.frame(spark)
    messages.createOrReplaceTempView("messages")
    ours = mt.sql(
        spark,
        "SELECT k, j % 2 AS odd, window_start, count(*) AS n, sum(v) AS total FROM messages "
        "GROUP BY k, j % 2, TUMBLE(at, INTERVAL 10 SECONDS)",
    )
    theirs = spark.sql(
        "SELECT k, j % 2 AS odd, window.start AS window_start, count(*) AS n, sum(v) AS total "
        "FROM messages GROUP BY k, j % 2, window(at, '10 seconds')"
    )
    results = ours.results.select("k", "odd", "window_start", "n", "total")
    assert results.exceptAll(theirs).collect() == theirs.exceptAll(results).collect() == []
    assert results.where("k IS NULL AND odd IS NULL").count() == 6
    assert ours.rejected.count() == 0
    assert "null_key" not in ours.explain()
    spark.catalog.dropTempView("messages")


def test_a_join_keeps_the_rule_of_sql_and_windows_over_it_group(
    spark: SparkSession, tmp_path: Path
) -> None:
    left, right = Feed(tmp_path / "left"), Feed(tmp_path / "right")
    left.add((None, at(1), 1), ("a", at(2), 2), ("b", at(3), 4))
    right.add((None, at(1), 1), ("a", at(2), 2))
    pairs = mt.join(
        mt.windowed(left.frame(spark), time="at"),
        mt.windowed(right.frame(spark), time="at"),
        on="key",
        within="10 seconds",
        how="left",
    )
    grouped = mt.windowed(pairs, key="value_right", time="at", nulls="group", lateness="1 minute")
    counts = grouped.tumbling("10 seconds").agg(n=mt.count(), keys=mt.collect_list("key"))
    groups = {row.value_right: (row.n, row["keys"]) for row in counts.results.collect()}
    assert groups == {None: (1, ["b"]), 2: (1, ["a"])}
    assert {(row.reason) for row in counts.rejected.collect()} == {"null_key"}
    hint = r'omit it: NULL has no partner; join\(nulls="unmatched"\) emits it without one'
    with pytest.raises(mt.OptionError, match=hint):
        mt.join(
            mt.windowed(left.frame(spark), time="at", nulls="group"),
            mt.windowed(right.frame(spark), time="at"),
            on="key",
            within="10 seconds",
        )


OUTER = """
    SELECT a.id, b.id AS other, a.key, b.key AS its, a.value, b.value AS cost FROM a {how} JOIN b
    ON a.key = b.key AND a.value = b.value
    AND b.at BETWEEN a.at - INTERVAL 10 SECONDS AND a.at + INTERVAL 10 SECONDS
"""


def sides(tmp_path: Path) -> tuple[Feed, Feed]:
    """Return messages of two sides, some of which have NULL in their keys."""
    left, right = Feed(tmp_path / "left"), Feed(tmp_path / "right")
    left.add((None, at(1), 1), ("a", at(2), 2), ("b", at(3), None), (None, at(4), None))
    right.add((None, at(1), 1), ("a", at(2), 2), ("c", at(3), 4), (None, at(4), None))
    return left, right


@pytest.mark.parametrize("how", ["INNER", "LEFT", "RIGHT", "FULL", "LEFT ANTI"])
def test_outer_joins_of_sql_show_what_those_of_spark_show(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    left, right = (feed.frame(spark) for feed in sides(tmp_path))
    left.createOrReplaceTempView("a"), right.createOrReplaceTempView("b")
    text = OUTER.format(how=how)
    if how == "LEFT ANTI":
        text = text.replace("b.id AS other, ", "").replace(", b.value AS cost", "")
        text = text.replace(", b.key AS its", "")
    ours, theirs = mt.sql(spark, text), spark.sql(text)
    results = ours.results.drop("emission")
    assert sorted(results.collect(), key=str) == sorted(theirs.collect(), key=str)
    # A side whose unmatched messages aren't results rejects those without a key.
    preserved = {"INNER": [], "RIGHT": ["right"], "FULL": ["left", "right"]}.get(how, ["left"])
    rejected = {(row["side"], row["reason"]): row["count"] for row in rejections(ours)}
    null_keys_by_side = {"left": 3, "right": 2}
    assert rejected == {
        (s, "null_key"): n for s, n in null_keys_by_side.items() if s not in preserved
    }
    assert ("NULL in a key of the left and the right is" in ours.explain()) == (how == "FULL")
    spark.catalog.dropTempView("a"), spark.catalog.dropTempView("b")


def rejections(join: Any) -> list[Any]:
    return join.rejected.groupBy("side", "reason").count().collect()


@pytest.mark.slow
def test_messages_without_a_key_stay_unmatched_through_restarts(
    spark: SparkSession, tmp_path: Path
) -> None:
    left, right = sides(tmp_path)
    checkpoint = f"{tmp_path}/checkpoint"

    def run(nulls: Any) -> Any:
        pairs = mt.join(
            mt.windowed(left.stream(spark), time="at"),
            mt.windowed(right.stream(spark), time="at"),
            on="key",
            within="10 seconds",
            how="left",
            nulls=nulls,
            shards=3,
        )
        query = pairs.start(
            checkpoint=checkpoint,
            results=mt.to_duckdb(f"{tmp_path}/out.duckdb", "pairs"),
            rejected=mt.to_duckdb(f"{tmp_path}/out.duckdb", "rejected"),
            available_now=True,
        )
        assert query.await_end(timeout=240)
        return query

    def count_rows(table: str, columns: str) -> list[Any]:
        return rows(
            tmp_path / "out.duckdb", f"SELECT {columns} FROM {table} GROUP BY ALL ORDER BY ALL"
        )

    # By default they are rejected; such a checkpoint may continue with the option.
    assert run("reject").progress.counts["null_key"] == 4
    left.add((None, at(5), 5), ("a", at(6), 6))
    right.add((None, at(5), 5))
    counts = run("unmatched").progress.counts
    assert (counts["null_key"], counts["counted"]) == (5, 6)
    state = mt.open_state(checkpoint)
    assert state.fetch("left", (None,))["value"].to_list() == [5]
    assert state.fetch("left")["value"].to_list() == [2, None, 5, 6]
    rescale(spark, checkpoint, shards=2, to=f"{tmp_path}/moved")
    assert mt.open_state(f"{tmp_path}/moved").fetch("left", (None,))["value"].to_list() == [5]
    for second in (60, 61):
        right.add(("z", at(second), 0))
    query = run("unmatched")
    assert query.progress.adds_up()
    emitted_pairs = count_rows("pairs", "key, value, value_right, emission")
    assert [row for row in emitted_pairs if row[-1] == "full"] == [
        ("b", None, None, "full"), (None, 5, None, "full")
    ]  # fmt: skip
    assert count_rows("rejected", "side, count(*) AS n") == [("left", 2), ("right", 3)]
    right.add(("z", at(62), 0))
    with pytest.raises(Exception, match="nulls: was unmatched, is reject"):
        run("reject")


def test_explain_warns_of_a_key_that_may_be_null_and_is_rejected(
    spark: SparkSession, feed: Feed
) -> None:
    add(feed, 0)
    frame = feed.frame(spark)

    def explain(**options: Any) -> str:
        windows = mt.windowed(options.pop("frame", frame), time="at", **options)
        return " ".join(windows.tumbling("10 seconds").agg(n=mt.count()).explain().split())

    warning = "messages in which key or value is NULL are rejected (null_key)"
    assert warning in explain(key=["key", "value"])
    assert "null_key" not in explain(key=["key", "value"], nulls="group")
    assert "null_key" not in explain(key="whole", frame=frame.selectExpr("at", "1 AS whole"))
    assert "null_key" not in explain()


def test_parquet_keeps_null_apart(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    add(feed, 0)
    windowed = mt.windowed(feed.frame(spark), key="key", time="at", nulls="group")
    results = windowed.tumbling("10 seconds").agg(n=mt.count()).results
    assert results.schema["key"].nullable
    results.write.parquet(f"{tmp_path}/out")
    read = duckdb.sql(f"SELECT key, n FROM '{tmp_path}/out/*.parquet' ORDER BY ALL").fetchall()
    assert read == [("", 1), ("null", 1), (None, 2)]
    rejecting = mt.windowed(feed.frame(spark), key="key", time="at").tumbling("10 seconds")
    assert not rejecting.agg(n=mt.count()).results.schema["key"].nullable
