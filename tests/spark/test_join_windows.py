"""Tests of windows over the pairs of a join in one query, with the messages that it rejects."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import Row, SparkSession
from tests.spark.feed import Feed, at, rows

import muntin as mt

FILES, MESSAGES = 3, 40
MOMENT = "timestamp_seconds(id)"
WANTED = """
    SELECT l.key, epoch_us(time_bucket(INTERVAL 20 SECOND, l."at")), count(*), sum(r.value)
    FROM read_parquet('{left}') AS l LEFT JOIN read_parquet('{right}') AS r
      ON l.key = r.key AND abs(epoch_us(l."at") - epoch_us(r."at")) <= 10000000
    WHERE l.key <> 'z' GROUP BY ALL ORDER BY ALL
"""
UNMATCHED = """
    SELECT id FROM read_parquet('{right}') AS r WHERE "at" IS NOT NULL AND NOT EXISTS (
        FROM read_parquet('{left}') AS l
        WHERE l.key = r.key AND abs(epoch_us(l."at") - epoch_us(r."at")) <= 10000000
    ) ORDER BY id
"""


def fill(feed: Feed, chance: random.Random, odd: tuple[Any, ...]) -> None:
    """Add files of half a minute each, out of order, with one message that is rejected."""
    for number in range(FILES):
        messages = [
            (chance.choice("abcdef"), at(30 * number + chance.uniform(-10, 20)), n)
            for n in range(MESSAGES)
        ]
        feed.add(*messages, *([odd] if number == 1 else []))
    feed.add(("z", at(3600), 0))


def windows(left: Any, right: Any) -> Any:
    sides = [mt.windowed(frame, time="at", lateness="30 seconds") for frame in (left, right)]
    pairs = mt.join(*sides, on="key", within="10 seconds", how="full")
    tumbling = mt.windowed(pairs, key="key", time="at").tumbling("20 seconds")
    return tumbling.agg(n=mt.count(), total=mt.sum("value_right"))


def select_side(rows: list[tuple[Any, ...]], side: str) -> list[tuple[Any, ...]]:
    return sorted((row[1:] for row in rows if row[0] == side), key=repr)


@pytest.mark.slow
def test_windows_over_a_join(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(11)
    left, right = Feed(tmp_path / "left"), Feed(tmp_path / "right")
    fill(left, chance, (None, at(31), 5))
    fill(right, chance, ("a", None, 6))
    window_query = windows(left.stream(spark), right.stream(spark))
    query = window_query.start(
        checkpoint=f"{tmp_path}/checkpoint",
        results=mt.to_duckdb(f"{tmp_path}/out.duckdb", "windows"),
        rejected=mt.to_parquet(f"{tmp_path}/rejected"),
        available_now=True,
    )
    assert query.await_end(timeout=240)

    files = {"left": f"{left.folder}/*.parquet", "right": f"{right.folder}/*.parquet"}
    wanted = duckdb.sql(WANTED.format(**files)).fetchall()
    streamed = "SELECT key, epoch_us(window_start), n, total FROM windows ORDER BY ALL"
    assert rows(tmp_path / "out.duckdb", streamed) == wanted
    columns = "SELECT side, id, id_right, reason"
    rejected_rows = duckdb.sql(
        f"{columns} FROM read_parquet('{tmp_path}/rejected/*/*.parquet')"
    ).fetchall()
    unmatched = [
        (None, number, "null_time")
        for (number,) in duckdb.sql(UNMATCHED.format(**files)).fetchall()
    ]
    assert select_side(rejected_rows, "left") == [(2 * MESSAGES, None, "null_key")]
    assert select_side(rejected_rows, "right") == [(2 * MESSAGES, None, "null_time")]
    assert select_side(rejected_rows, "pair") == sorted(unmatched, key=repr) != []

    progress = query.progress
    assert progress.join.counts["seen"] == left.ids + right.ids
    assert progress.join.fired["early"] + progress.join.fired["full"] == progress.counts["seen"]
    assert progress.adds_up()
    assert progress.fired == {"full": len(wanted)}

    whole = windows(left.frame(spark), right.frame(spark))
    batch = whole.results.where("key <> 'z'").selectExpr(
        "key", "unix_micros(window_start) AS start", "n", "total"
    )
    assert sorted(map(tuple, batch.collect())) == wanted
    batch_rejected = whole.rejected.select("side", "id", "id_right", "reason")
    assert sorted(map(tuple, batch_rejected.collect()), key=repr) == sorted(rejected_rows, key=repr)


def test_what_does_not_follow_from_a_join_is_asked_for(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", at(1))], "key string, at timestamp")
    side = mt.windowed(frame, time="at")
    sessions = mt.join(side.session("1 minute"), side.session("1 minute"), on="key")
    with pytest.raises(mt.OptionError, match='lateness="10 minutes"'):
        mt.windowed(sessions, key="key", time="at")
    pairs = mt.join(side, side, on="key", within="1 minute")
    assert (
        "partners"
        in mt.windowed(pairs, key="key", time="at").tumbling("1 hour").agg(n=mt.count()).explain()
    )
    third = mt.join(
        mt.windowed(pairs, time="at"), side, on="key", within="1 minute", suffix="_third"
    )
    assert third.explain().count("partners  from 1 minute before to 1 minute after") == 2


@pytest.mark.slow
def test_only_what_a_join_computes_with_must_be_utf8(spark: SparkSession) -> None:
    """Bytes that aren't UTF-8 are escaped in pairs, and rejected by windows that use them."""
    noted = spark.range(4).selectExpr(
        "id", "timestamp_seconds(id) AS at", "CAST(unhex(hex(id + 253)) AS STRING) AS note"
    )
    other = spark.range(4).selectExpr(
        "CAST(unhex(hex(id + 97)) AS STRING) AS k", "id", "timestamp_seconds(id) AS at"
    )
    sides = [mt.windowed(frame, time="at") for frame in (noted, other)]
    pairs = mt.join(*sides, on="id", within="1 second")
    notes = {row.id: row.note for row in pairs.results.collect()}
    assert notes == {0: "\\xfd", 1: "\\xfe", 2: "\\xff", 3: "\x01\x00"}
    assert pairs.rejected.count() == 0
    windows = mt.windowed(pairs, key="note", time="at").tumbling("1 minute").agg(n=mt.count())
    assert {row.note: row.n for row in windows.results.collect()} == {"\x01\x00": 1}
    rejected = [(row.reason, row.note) for row in windows.rejected.collect()]
    assert sorted(rejected) == [
        ("malformed", "\\xfd"),
        ("malformed", "\\xfe"),
        ("malformed", "\\xff"),
    ]
    keyed = mt.join(*[mt.windowed(noted, time="at")] * 2, on="note", within="1 second")
    assert {row.note for row in keyed.rejected.collect()} == {"\\xfd", "\\xfe", "\\xff"}
    malformed_by_items = {"other.id, note": 0, "`id`, made.`note`": 0, "id, upper(note) AS n": 3}
    for items, malformed in malformed_by_items.items():
        query = mt.sql(
            spark,
            f"SELECT {items} FROM made JOIN other OVER (ORDER BY at RANGE '2' min PRECEDING) "
            "ON other.id = made.id",
            made=noted,
            other=other,
        )
        assert query.rejected.where("reason = 'malformed'").count() == malformed
        assert query.results.count() == 4 - malformed


def test_nested_values_that_are_never_null_are_null_beside_an_unmatched_message(
    spark: SparkSession,
) -> None:
    struct = "named_struct('n', id, 'inner', named_struct('x', 0.5D))"
    columns = ["id"]
    columns += [
        f"IF(id = 1, NULL, {value}) AS {n}" for n, value in (("at", MOMENT), ("st", struct))
    ]
    frames = [spark.range(*ids).selectExpr(*columns) for ids in ((0, 3), (2, 4))]
    pairs = mt.join(
        *[mt.windowed(frame, time="at") for frame in frames], on="id", within="1 second", how="full"
    )
    st = {number: Row(n=number, inner=Row(x=0.5)) for number in range(4)}
    structs = {row.id: (row.st, row.st_right) for row in pairs.results.collect()}
    assert structs == {0: (st[0], None), 2: (st[2], st[2]), 3: (None, st[3])}
    assert [(row.id, row.st, row.reason) for row in pairs.rejected.collect()] == [
        (1, None, "null_time")
    ]
    windows = mt.windowed(pairs, key="id", time="at", lateness="1 minute").tumbling("1 minute")
    last = {row.id: row.last for row in windows.agg(last=mt.last("st")).results.collect()}
    assert last == {0: st[0], 2: st[2]}


def test_nested_text_that_isnt_utf8_is_escaped_where_it_is(spark: SparkSession) -> None:
    """It isn't NULL in pairs or rejected rows; windows that use it reject it as malformed."""
    garbled = "CAST(unhex(hex(id + 254)) AS STRING)"
    struct = f"named_struct('t', array({garbled}), 'n', id) AS st"
    frame = spark.range(3).selectExpr("id", f"{MOMENT} AS at", struct)
    pairs = mt.join(*[mt.windowed(frame, time="at")] * 2, on="id", within="1 second")
    st = [Row(t=[text], n=n) for n, text in enumerate(["\\xfe", "\\xff", "\x01\x00"])]
    assert sorted((row.id, row.st) for row in pairs.results.collect()) == list(enumerate(st))
    last = mt.windowed(frame, key="id", time="at").tumbling("1 minute").agg(last=mt.last("st"))
    assert [(row.id, row.last) for row in last.results.collect()] == [(2, st[2])]
    rejected = [(row.reason, row.st) for row in last.rejected.collect()]
    assert sorted(rejected) == [("malformed", st[0]), ("malformed", st[1])]
