"""Tests of joins of windows that are emitted again: new pairs at each change of a side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.feed import Feed, at, rows
from tests.spark.test_chained_joins import BOTH, Ran, by_duckdb, close, fill, messages

import muntin as mt
from muntin.dataframe.state import explain_checkpoint, read_checkpoint

pytestmark = pytest.mark.slow

ON = ["key", "window_start", "window_end"]
TABLE = """
    SELECT key, epoch_us(window_start) AS start, total, total_right FROM {}
    WHERE key <> 'z' ORDER BY ALL
"""
SQL = """
    SELECT key, window_start, window_end, l.total, r.total * 2 AS twice
    FROM (SELECT key, window_start, window_end, sum(value) AS total FROM TABLE(TUMBLE(
              TABLE orders, DESCRIPTOR(at), 10 SECONDS)) WATERMARK at DELAY OF 5 SECONDS
          GROUP BY key, window_start, window_end {emit}) l
    {how} JOIN (SELECT key, window_start, window_end, sum(value) AS total FROM TABLE(TUMBLE(
              TABLE shipments, DESCRIPTOR(at), 10 SECONDS)) WATERMARK at DELAY OF 5 SECONDS
          GROUP BY key, window_start, window_end {emit}) r
    USING (key, window_start, window_end) EMIT CHANGES
"""


def restless(frame: DataFrame) -> Any:
    """Return windows that are emitted with each batch that changes them, also late."""
    windows = mt.windowed(frame, key="key", time="at", lateness="5 seconds").tumbling("10 seconds")
    return windows.early(each=True).late(grace="30 seconds", each=True).agg(total=mt.sum("value"))


def pairs(left: DataFrame, right: DataFrame, how: Any = "full") -> Any:
    return mt.join(restless(left), restless(right), on=ON, how=how, each_change=True)


def run_into(path: Path, join: Any, checkpoint: Path) -> Any:
    """Run a join over all input into an upserted table, and return its progress."""
    sink = mt.to_duckdb(path, "pairs", history="changes")
    query = join.start(checkpoint=str(checkpoint), results=sink, available_now=True)
    assert query.await_end(timeout=240)
    return query.progress


@pytest.mark.slow
def test_the_table_is_that_of_a_join_of_two_group_bys(spark: SparkSession, tmp_path: Path) -> None:
    feeds = [Feed(tmp_path / name) for name in ("left", "right")]
    whole = [messages(5, []), messages(6, [])]
    for feed, side_messages in zip(feeds, whole, strict=True):
        fill(feed, side_messages[:40], 2)
    path, checkpoint = tmp_path / "pairs.duckdb", tmp_path / "checkpoint"
    run_into(path, pairs(*(feed.stream(spark) for feed in feeds)), checkpoint)
    for feed, side_messages in zip(feeds, whole, strict=True):
        fill(feed, side_messages[40:], 1)
    # Another query object, as after a restart of the process.
    progress = run_into(path, pairs(*(feed.stream(spark) for feed in feeds)), checkpoint)
    wanted = by_duckdb(feeds, BOTH)
    assert sorted(rows(path, TABLE.format("pairs")), key=repr) == wanted
    assert None in {total for *_, total in wanted}
    assert progress.adds_up()
    assert progress.received == sum(feed.ids for feed in feeds)
    changes = rows(path, "SELECT emission, count(*) FROM changes GROUP BY ALL")
    assert {word for word, _ in changes} == {"early", "full", "late"}
    replaced = rows(
        path,
        "SELECT count(*) FROM changes JOIN pairs USING (key, window_start) "
        "WHERE changes.total_right IS NULL AND pairs.total_right IS NOT NULL",
    )
    assert replaced[0][0] > 0

    story = pairs(*(feed.stream(spark) for feed in feeds)).explain()
    assert "partners  the other side's newest row, at each change of either" in story
    assert "kept while either side may change the window" in story
    state = mt.open_state(str(checkpoint), operator=0)
    key = wanted[-1][0]
    left_rows = state.fetch("left").filter(key=key)
    assert left_rows["total"].null_count() == 0
    assert left_rows.select(ON).is_unique().all()
    key_and_window = [key, *(str(time) for time in left_rows.select(ON[1:]).row(-1))]
    explanation = " ".join(
        explain_checkpoint(
            read_checkpoint(checkpoint, spark=spark), key_and_window, key_and_window[-1]
        )
    )
    assert "1 messages of this key are kept" in explanation


@pytest.mark.slow
@pytest.mark.parametrize("how", ["left"])
def test_each_kind_of_join(spark: SparkSession, tmp_path: Path, how: str) -> None:
    feeds = [Feed(tmp_path / name) for name in ("left", "right")]
    for number, feed in enumerate(feeds):
        fill(feed, messages(number, []), 3)
    path = tmp_path / "pairs.duckdb"
    run_into(path, pairs(*(feed.stream(spark) for feed in feeds), how), tmp_path / "checkpoint")
    wanted = by_duckdb(feeds, BOTH.replace("FULL", how.upper()))
    assert sorted(rows(path, TABLE.format("pairs")), key=repr) == wanted


@pytest.mark.slow
def test_state_goes_when_both_sides_have_closed_a_window(
    spark: SparkSession, tmp_path: Path
) -> None:
    feeds = [Feed(tmp_path / name) for name in ("left", "right")]
    for number, feed in enumerate(feeds):
        fill(feed, messages(number, []), 2)
    close(feeds)
    run_into(
        tmp_path / "pairs.duckdb",
        pairs(*(feed.stream(spark) for feed in feeds)),
        tmp_path / "checkpoint",
    )
    state = mt.open_state(str(tmp_path / "checkpoint"), operator=0)
    for side in ("left", "right"):
        assert set(state.fetch(side)["key"]) == {"z"}


@pytest.mark.slow
def test_sessions_that_grow_take_their_pairs_back(spark: SparkSession, tmp_path: Path) -> None:
    feeds = [Feed(tmp_path / name) for name in ("left", "right")]

    def join_sessions(*frames: DataFrame) -> Any:
        sides = [
            mt.windowed(frame, key="key", time="at", lateness="30 seconds")
            .session("4 seconds")
            .early(each=True)
            .agg(total=mt.sum("value"))
            for frame in frames
        ]
        return mt.join(*sides, on=ON, how="full", each_change=True)

    for number, feed in enumerate(feeds):
        fill(feed, messages(number, []), 3)
    path = tmp_path / "pairs.duckdb"
    run_into(path, join_sessions(*(feed.stream(spark) for feed in feeds)), tmp_path / "checkpoint")
    whole = join_sessions(*(feed.frame(spark) for feed in feeds)).results.collect()
    wanted = {(row["key"], row["window_start"], row["total"], row["total_right"]) for row in whole}
    query = "SELECT key, window_start, total, total_right FROM pairs"
    assert {*rows(path, query)} == {
        (key, start.replace(tzinfo=at(0).tzinfo), *totals) for key, start, *totals in wanted
    }
    retractions = "SELECT count(*) FROM changes WHERE emission = 'retract' AND total IS NULL"
    assert rows(path, retractions)[0][0] > 0


@pytest.mark.slow
def test_in_sql(spark: SparkSession, tmp_path: Path) -> None:
    """A full join, whose keys may come from either side; tests above have the other kinds."""
    feeds = [Feed(tmp_path / name) for name in ("left", "right")]
    for number, feed in enumerate(feeds):
        fill(feed, messages(number, []), 3)
    path = tmp_path / "pairs.duckdb"
    text = SQL.format(how="FULL", emit="EMIT CHANGES GRACE 30 SECONDS")
    frames = dict(zip(("orders", "shipments"), (f.stream(spark) for f in feeds), strict=True))
    query = mt.sql(spark, text, **frames)
    assert query.results.columns == [*ON, "total", "twice", "emission", "revision"]
    run_into(path, query, tmp_path / "checkpoint")
    stored = rows(path, TABLE.format("pairs").replace("total_right", "twice"))
    wanted = by_duckdb(feeds, BOTH.replace("r.total", "2 * r.total"))
    assert sorted(stored, key=repr) == sorted(wanted, key=repr)


def test_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1))
    stream = feed.stream(spark)
    emitting_again, windows = (
        restless(stream),
        mt.windowed(stream, key="key", time="at").tumbling("10 seconds"),
    )

    def check_refusal(left: Any, problem: str, on: Any = ON, **options: Any) -> None:
        with pytest.raises(mt.OptionError, match=problem):
            mt.join(left, emitting_again, on=on, each_change=True, **options)

    check_refusal(
        emitting_again, "isn't the key and the bounds of a window; give key, window_start", ON[1:]
    )
    check_refusal(emitting_again, r"needs the times .* among on", ["key"])
    check_refusal(emitting_again, "isn't for each_change joins", how="anti")
    check_refusal(
        emitting_again.results.where("total > 1"), "give the windows themselves, and choose among"
    )
    check_refusal(windows.early(each=True).deltas().agg(total=mt.sum("value")), "leave out deltas")
    check_refusal(windows.top(1, by="value"), "needs one row of each window and key")
    bare = mt.windowed(stream, time="at")
    with pytest.raises(mt.OptionError, match="which row of the left side replaces another"):
        mt.join(bare, bare, on=["key", "at"], each_change=True)
    changing = pairs(stream, stream)
    assert changing.results.columns == [*ON, "total", "total_right", "emission", "revision"]
    for source in (changing, changing.results):
        with pytest.raises(mt.OptionError, match="each would count; join without each_change=True"):
            mt.windowed(source, key="key", time="window_end")
    with pytest.raises(mt.SqlError, match="each would count"):
        mt.sql(
            spark,
            SQL.format(how="", emit="EMIT CHANGES").replace(") EMIT CHANGES", ")"),
            orders=stream,
            shipments=stream,
        )


def test_windows_beside_a_table_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1))
    stream = feed.stream(spark)
    names = spark.createDataFrame([("a", "one"), ("a", "other")], "key string, name string")
    statement = SQL.format(how="", emit="EMIT EARLY EVERY 1 ROWS").replace(
        "SELECT key, window_start, window_end, sum(value) AS total FROM TABLE(TUMBLE(\n"
        "              TABLE shipments",
        "SELECT w.*, n.name FROM (SELECT key, window_start, window_end, sum(value) AS total "
        "FROM TABLE(TUMBLE(\n              TABLE shipments",
    )
    statement = statement.replace(
        "EVERY 1 ROWS) r", "EVERY 1 ROWS) w JOIN names n ON w.key = n.key) r"
    )
    assert "names n" in statement
    with pytest.raises(mt.MuntinError, match="needs one row of each window and key"):
        mt.sql(spark, statement, orders=stream, shipments=stream, names=names)


def test_windows_that_emit_once_may_be_given_so_too(spark: SparkSession, tmp_path: Path) -> None:
    feeds = [Feed(tmp_path / name) for name in ("left", "right")]
    for feed in feeds:
        feed.add(("a", at(1), 2), ("b", at(2), 3))
        feed.add(("a", at(12), 4), ("z", at(40), 0))
    sides = [restless(feed.stream(spark)).full for feed in feeds]
    ran = Ran(mt.join(*sides, on=ON, each_change=True), tmp_path / "checkpoint")
    pairs_with_totals = sorted(
        (row["key"], row["total"], row["total_right"]) for row in ran.results
    )
    assert pairs_with_totals == [("a", 2, 2), ("a", 4, 4), ("b", 3, 3)]
    assert {row["emission"] for row in ran.results} == {"full"}
