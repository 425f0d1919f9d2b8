"""Tests that a batch frame gives the final results of a stream of the same messages."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from tests.spark.feed import Feed, at, rows

import muntin as mt
from muntin.model.axis import SECOND

AT = dt.datetime(2026, 1, 1)
AGGREGATES = {"n": mt.count(), "total": mt.sum("value"), "most": mt.max("value")}


def seconds(row: Any) -> int:
    return (row.window_start - AT).total_seconds()


def test_batch_stream_and_duckdb_agree(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(7)
    feed = Feed(tmp_path / "source")
    for number in range(4):
        moments = [at(60 * number + chance.uniform(-30, 30)) for _ in range(200)]
        feed.add(*((chance.choice("abc"), moment, chance.randrange(-99, 99)) for moment in moments))

    def windows(frame: DataFrame) -> Any:
        windows = mt.windowed(frame, key="key", time="at", lateness="1 minute")
        return windows.hopping("20 seconds", slide="7 seconds").early(each=True).agg(**AGGREGATES)

    query = windows(feed.stream(spark)).start(
        checkpoint=f"{tmp_path}/checkpoint",
        results=mt.to_duckdb(f"{tmp_path}/out.duckdb", "windows"),
        available_now=True,
    )
    assert query.await_end(timeout=240)
    streamed = "SELECT key, epoch_us(window_start), n, total, most FROM windows ORDER BY ALL"

    whole = windows(feed.frame(spark))
    batch = [
        (r.key, round(at(seconds(r)).timestamp()) * SECOND, r.n, r.total, r.most)
        for r in whole.results.collect()
    ]
    assert {(r.emission, r.revision) for r in whole.results.collect()} == {("full", 0)}
    assert whole.rejected.collect() == []
    assert sorted(batch) == rows(tmp_path / "out.duckdb", streamed) == feed.windows(20, 7)


KEYS = {
    "name": (T.StringType(), ["é", "z"]),
    "number": (T.IntegerType(), [-1, 2**31 - 1]),
    "long": (T.LongType(), [-(2**63), 2**63 - 1]),
    "short": (T.ShortType(), [0, 7]),
    "day": (T.DateType(), [dt.date(1969, 12, 31), dt.date(2026, 1, 1)]),
    "moment": (T.TimestampType(), [AT, AT + dt.timedelta(microseconds=1)]),
    "local": (T.TimestampNTZType(), [AT, AT + dt.timedelta(microseconds=1)]),
    "truth": (T.BooleanType(), [True, False]),
    "price": (T.DecimalType(20, 3), [Decimal("-1.500"), Decimal("12345678901234567.891")]),
    "raw": (T.BinaryType(), [bytearray(b"\x00"), bytearray(b"\xff")]),
}


def test_a_key_may_be_a_field_of_a_struct(spark: SparkSession) -> None:
    users = [(AT, (("DE", 1), 2)), (AT, (("FR", 1), 2)), (AT, (("DE", 2), 1))]
    kinds = "at timestamp, user struct<home:struct<land:string,n:int>,age:int>"
    frame = spark.createDataFrame(users, kinds)
    windows = mt.windowed(frame, key=["user.home.land", "user.age"], time="at").tumbling("1 hour")
    rows = windows.agg(n=mt.count()).results.select("land", "age", "n").collect()
    assert sorted(map(tuple, rows)) == [("DE", 1, 1), ("DE", 2, 1), ("FR", 2, 1)]


@pytest.mark.parametrize("key", ["KEY", "Key"])
def test_a_key_may_differ_from_its_column_by_capitals(
    key: str, spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1), ("A", at(2), 2), ("a", at(3), 4))
    frame = feed.frame(spark)
    sums = mt.windowed(frame, key=F.col(key), time="at").tumbling("1 hour").agg(s=mt.sum("value"))
    assert sorted((row[key], row.s) for row in sums.results.collect()) == [("A", 2), ("a", 5)]
    frame.createOrReplaceTempView("capitals")
    text = (
        f"SELECT {key}, SUM(VALUE) AS s FROM TABLE(TUMBLE(TABLE CAPITALS, DESCRIPTOR(AT), "
        f"INTERVAL '1' HOUR)) GROUP BY {key}, window_start, window_end"
    )
    rows = mt.sql(spark, text).results.collect()
    assert sorted((row[key], row.s) for row in rows) == [("A", 2), ("a", 5)]


def make_keyed_frame(spark: SparkSession, names: list[str]) -> DataFrame:
    schema = T.StructType(
        [T.StructField("at", T.TimestampType()), *(T.StructField(n, KEYS[n][0]) for n in names)]
    )
    messages = [(AT, *(KEYS[n][1][i % 2] for n in names)) for i in range(6)]
    return spark.createDataFrame(messages, schema)


@pytest.mark.parametrize("names", [["name"], ["long"], list(KEYS)], ids=["text", "long", "all"])
def test_keys_keep_their_types(names: list[str], spark: SparkSession) -> None:
    results = (
        mt.windowed(make_keyed_frame(spark, names), key=names, time="at")
        .tumbling("1 day")
        .agg(n=mt.count())
        .results
    )
    assert [results.schema[n].dataType for n in names] == [KEYS[n][0] for n in names]
    rows = [(*(r[n] for n in names), r.n) for r in results.collect()]
    wanted = [(*(KEYS[n][1][i] for n in names), 3) for i in (0, 1)]
    assert sorted(rows, key=repr) == sorted(wanted, key=repr)


def test_aggregates_have_types_and_values(spark: SparkSession) -> None:
    columns = (
        "key string, at timestamp, n int, x double, d decimal(10,2), s string, ok boolean, day date"
    )
    days = [dt.date(2026, 1, day) for day in (3, 1, 2)]
    frame = spark.createDataFrame(
        [
            ("a", AT, 3, 1.5, Decimal("1.25"), "q", True, days[0]),
            ("a", AT + dt.timedelta(seconds=1), 1, -2.0, Decimal("2.50"), "p", False, days[1]),
            ("a", AT + dt.timedelta(seconds=2), 2, 4.0, None, None, None, days[2]),
        ],
        columns,
    )
    wanted = {
        "all": (mt.count(), "bigint", 3),
        "some": (mt.count("s"), "bigint", 2),
        "yes": (mt.count_if("ok"), "bigint", 1),
        "total": (mt.sum("n"), "bigint", 6),
        "real": (mt.sum("x"), "double", 3.5),
        "least": (mt.min("n"), "int", 1),
        "text": (mt.max("s"), "string", "q"),
        "late": (mt.max("day"), "date", days[0]),
        "cheap": (mt.min("d"), "decimal(10,2)", Decimal("1.25")),
        "mid": (mt.mean("n"), "double", 2.0),
        "spread": (mt.variance("n"), "double", 1.0),
        "dev": (mt.stddev("n"), "double", 1.0),
        "first": (mt.first("day"), "date", days[0]),
        "last": (mt.last("x"), "double", 4.0),
        "low": (mt.arg_min("s", "n"), "string", "p"),
        "high": (mt.arg_max("day", "x"), "date", days[2]),
        "each": (mt.bool_and("ok"), "boolean", False),
        "any": (mt.bool_or("ok"), "boolean", True),
        "kinds": (mt.approx_distinct("s"), "bigint", 2),
        "median": (mt.quantile("x", 0.5), "double", 1.5),
    }
    results = (
        mt.windowed(frame, key="key", time="at")
        .tumbling("1 minute")
        .agg(**{name: aggregate for name, (aggregate, _, _) in wanted.items()})
        .results
    )
    [row] = results.collect()
    assert {name: results.schema[name].dataType.simpleString() for name in wanted} == {
        name: kind for name, (_, kind, _) in wanted.items()
    }
    assert {name: row[name] for name in wanted} == {name: v for name, (_, _, v) in wanted.items()}


def test_expressions_as_keys_and_in_aggregates(spark: SparkSession) -> None:
    columns = "name string, at timestamp, value int, `odd name` int"
    moments = [AT + dt.timedelta(seconds=second) for second in (1, 2, 13)]
    frame = spark.createDataFrame(
        [("Ab", moments[0], 1, 1), ("aB", moments[1], 2, 2), (None, moments[2], 3, 3)], columns
    )
    whole = (
        mt.windowed(
            frame,
            key=[F.lower("name").alias("lower"), F.col("value") % 1],
            time="at",
            where=F.col("value") < 3,
        )
        .tumbling("10 seconds")
        .agg(
            double=mt.sum(F.col("value") * 2),
            odd=mt.max("odd name"),
            last=mt.arg_max(F.upper("name"), F.col("value")),
        )
    )
    results = whole.results
    assert results.columns == [
        "lower", "(value % 1)", "window_start", "window_end", "double", "odd", "last",
        "emission", "revision",
    ]  # fmt: skip
    end = AT + dt.timedelta(seconds=10)
    assert [tuple(r) for r in results.collect()] == [("ab", 0, AT, end, 6, 2, "AB", "full", 0)]
    assert whole.rejected.columns == [*frame.columns, "reason", "watermark"]


def test_local_times_stay_local(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", AT), (None, AT)], "key string, at timestamp_ntz")
    whole = mt.windowed(frame, key="key", time="at").tumbling("1 hour").agg(n=mt.count())
    for output, column in ((whole.results, "window_start"), (whole.rejected, "at")):
        assert output.schema[column].dataType == T.TimestampNTZType()
        assert [r[column] for r in output.collect()] == [AT]
    assert whole.rejected.schema["watermark"].dataType == T.TimestampNTZType()
    assert [r.reason for r in whole.rejected.collect()] == ["null_key"]


def test_the_session_time_zone_moves_no_window(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 'a' AS key, timestamp '2026-07-01 00:30:00Z' AS at")
    query = mt.windowed(frame, key="key", time="at").tumbling("1 day").agg(n=mt.count())
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        start = F.unix_micros("window_start").alias("start")
        [row] = query.results.select(start, "n").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    day = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)
    assert row.start == round(day.timestamp()) * SECOND


def test_an_empty_frame_says_nothing(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "key string, at timestamp, value long")
    whole = mt.windowed(frame, key="key", time="at").tumbling("1 hour").agg(**AGGREGATES)
    assert whole.results.collect() == []
    assert whole.rejected.collect() == []


def test_without_a_key_all_messages_are_one(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(AT, 2), (AT, 5), (AT, None)], "at timestamp, n long")
    daily = mt.windowed(frame, time="at").tumbling("1 day").agg(n=mt.count(), total=mt.sum("n"))
    names = ["window_start", "window_end", "n", "total", "emission", "revision"]
    assert daily.results.columns == names
    assert [(row.n, row.total, row.emission) for row in daily.results.collect()] == [(3, 7, "full")]
    assert "of all messages on at" in daily.explain()
    pairs = mt.windowed(frame).tumbling(mt.rows(2)).agg(n=mt.count()).results
    assert [tuple(row) for row in pairs.collect()] == [(0, 2, 2, "full", 0), (2, 4, 1, "full", 0)]


def test_what_is_said_of_grace_and_what_is_kept(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "shop string, at timestamp, part int, place long")
    by_time = mt.windowed(frame, key="shop", time="at").tumbling("1 hour")
    counts = by_time.late(grace="5 minutes").agg(n=mt.count())
    assert (counts.plan.spec.firing.grace, counts.plan.spec.firing.retention) == (300 * SECOND,) * 2
    counts = by_time.keep("1 day", rows=900).late(grace="5 minutes").agg(n=mt.count())
    assert counts.plan.spec.firing.retention == 86_400 * SECOND
    assert "kept until 1 day after" in join_lines(counts.explain())
    assert "900 messages" in join_lines(counts.explain())
    by_offset = mt.windowed(frame, key="shop", offset=("part", "place")).tumbling(mt.rows(9))
    counts = by_offset.late(grace=mt.rows(4), each=True).keep(mt.rows(7)).agg(n=mt.count())
    assert (counts.plan.spec.firing.grace, counts.plan.spec.firing.retention) == (4, 7)
    assert "by part, shop on place of each part" in join_lines(counts.explain())
    assert "taken for 4 rows after the end, emitted after each batch that changed it" in join_lines(
        counts.explain()
    )


@pytest.mark.parametrize("action", ["show", "collect", "toPandas", "count", "take", "head"])
def test_an_action_on_a_stream_says_how_to_start_it(spark: SparkSession, action: str) -> None:
    ticks = spark.readStream.format("rate").load()
    windows = mt.windowed(ticks, time="timestamp").tumbling("1 second").agg(n=mt.count())
    for frame in (windows.results, windows.rejected):
        with pytest.raises(mt.OptionError, match=rf"\.{action}\(\).*write \.start\(checkpoint="):
            getattr(frame, action)()
    assert windows.results.isStreaming
    assert "window_start" in windows.results.columns


@pytest.mark.parametrize(
    "derive",
    [
        lambda rows: rows.where("emission = 'full'"),
        lambda rows: rows.select("n").filter(F.col("n") > 1).orderBy("n").limit(3),
        lambda rows: rows.groupBy("emission").count(),
        lambda rows: rows.groupBy("emission").agg(F.sum("n")).drop("emission"),
    ],
)
def test_an_action_on_what_is_made_of_a_stream_says_it_too(
    spark: SparkSession, derive: Callable[[DataFrame], DataFrame]
) -> None:
    ticks = spark.readStream.format("rate").load()
    windows = mt.windowed(ticks, time="timestamp").tumbling("1 second").agg(n=mt.count())
    with pytest.raises(mt.OptionError, match=r"\.show\(\).*results=muntin\.to_print\(\)"):
        derive(windows.results).show()


def join_lines(text: str) -> str:
    """Return a text without its line breaks."""
    return " ".join(text.split())
