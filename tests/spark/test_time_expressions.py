"""Tests of event times as fields, expressions or days; keys and aggregates as fields."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.spark.feed import Feed, rows

import muntin as mt

pytestmark = pytest.mark.slow

MESSAGES = """
SELECT id, k, s, to_date(s) AS day, timestamp_millis(id) AS at,
    named_struct('at', try_to_timestamp(s), 'k', k, 'v', id) AS event,
    named_struct('day', to_date(s), 'text', s) AS deep
FROM VALUES (1, 'a', '2026-01-01 00:00:10'), (2, 'a', '2026-01-01 00:10:00'),
    (3, 'b', '2026-01-02 00:00:00'), (4, 'b', NULL) AS messages(id, k, s)
"""


@pytest.fixture(scope="module")
def messages(spark: SparkSession) -> DataFrame:
    return spark.sql(MESSAGES).cache()


def query(frame: DataFrame, **options: Any) -> mt.WindowedAggregate:
    return mt.windowed(frame, **options).tumbling("1 day").agg(n=mt.count())


def collect_rows(windows: mt.WindowedAggregate) -> list[tuple[Any, ...]]:
    rows = windows.results.selectExpr("k", "cast(window_start AS string)", "n")
    return sorted(tuple(row) for row in rows.collect())


def test_times_in_all_forms_give_the_same_windows(messages: DataFrame) -> None:
    days = [("a", "2026-01-01 00:00:00", 2), ("b", "2026-01-02 00:00:00", 1)]
    times = ["event.at", F.to_timestamp("deep.text"), "deep.text", "deep.day", F.to_date("s")]
    queries = [query(messages, key="k", time=time) for time in times]
    results = [
        query_of_time.results.selectExpr(
            f"{n} AS form", "k", "cast(window_start AS string) AS at", "n"
        )
        for n, query_of_time in enumerate(queries)
    ]
    rows = reduce(DataFrame.unionByName, results).collect()
    for n, time in enumerate(times):
        assert sorted(tuple(row)[1:] for row in rows if row.form == n) == days, time
    rejected = queries[1].rejected
    # Without the computed time.
    assert rejected.columns == [*messages.columns, "reason", "watermark"]
    assert [(row.id, row.reason) for row in rejected.collect()] == [(4, "null_time")]
    kinds = [dict(query_of_time.results.dtypes)["window_start"] for query_of_time in queries]
    assert kinds == [*["timestamp"] * 3, *["timestamp_ntz"] * 2]


def test_a_frames_own_column_keeps_its_name(messages: DataFrame) -> None:
    for time in ("at", F.col("at"), messages["at"]):
        windows = query(messages, key="k", time=time)
        assert windows.plan.spec.time == "at"
        assert set(windows.plan.sources[0].sent) == {*messages.columns, "__muntin_future"}


def test_what_isnt_a_time_is_rejected(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT named_struct('s', s) AS e, day FROM VALUES "
        "('2026-01-01', DATE'2026-01-01'), ('no', date_from_unix_date(200000000)) AS t(s, day)"
    )
    for time in ("e.s", "day"):
        windows = query(frame, time=time)
        assert [row.n for row in windows.results.collect()] == [1]
        assert [row.reason for row in windows.rejected.select("reason").collect()] == ["malformed"]


def test_fields_as_keys_and_of_aggregates(messages: DataFrame) -> None:
    fields = messages.drop("k")
    windows = mt.windowed(fields, key="event.k", time="event.at").tumbling("1 day")
    greatest = windows.agg(n=mt.max("event.v"))
    assert [row[2] for row in collect_rows(greatest)] == [2, 3]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a name that is taken": (
        {"key": "event.k"}, r'give it a name of its own: F.col\("event.k"\).alias\("event_k"\)'
    ),
    "a struct": ({"key": "event"}, "give its fields: event.at, event.k, event.v"),
    "text of an expression": ({"key": "upper(k)"}, r"F.expr\('upper\(k\)'\)"),
    "a field that isn't there": ({"time": "event.on"}, "time='event.on' isn't a column"),
    "text of a time": ({"time": "to_date(s)"}, r"or an expression: F.expr\('to_date\(s\)'\)"),
    "a number": ({"time": "event.v"}, "time='event.v' has type int, not timestamp"),
    "nothing of the kind": ({"time": 3}, "time=3 isn't the name of a column"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cant_be_is_refused_with_what_can(messages: DataFrame, case: str) -> None:
    options, words = REFUSED[case]
    with pytest.raises(mt.OptionError, match=words):
        query(messages, **{"key": "k", "time": "at", **options})


def test_an_expression_isnt_called_as_another_column(messages: DataFrame) -> None:
    with pytest.raises(mt.OptionError, match="time='s' is another column of the frame"):
        query(messages, time=F.to_timestamp("s").alias("s"))


def test_a_join_by_times_that_are_computed(messages: DataFrame) -> None:
    left = mt.windowed(messages.select("k", "event"), time="event.at")
    right = mt.windowed(messages.select("k", "s"), time=F.to_timestamp("s"))
    pairs = mt.join(left, right, on="k", within="1 minute")
    assert pairs.results.columns == ["k", "event", "s", "emission"]
    assert sorted(row.s for row in pairs.results.collect()) == [
        "2026-01-01 00:00:10", "2026-01-01 00:10:00", "2026-01-02 00:00:00"
    ]  # fmt: skip


def test_the_same_in_sql(spark: SparkSession, messages: DataFrame) -> None:
    days = [("a", "2026-01-01 00:00:00", 2), ("b", "2026-01-02 00:00:00", 1)]
    for text in (
        "SELECT k, count(*) AS n FROM TABLE(TUMBLE(TABLE m, DESCRIPTOR({}), INTERVAL '1' DAY)) "
        "GROUP BY k, window_start, window_end",
        "SELECT k, count(*) AS n FROM m GROUP BY k, window({}, '1 day')",
    ):
        assert collect_rows(mt.sql(spark, text.format("event.at"), m=messages)) == days
    by_field = "SELECT event.k, upper(event.k) AS u, count(*) AS n FROM m {} window(m.at, '1 day')"
    counts = mt.sql(
        spark, by_field.format("GROUP BY event.k, upper(event.k),"), m=messages.drop("k")
    )
    rows_of_fields = counts.results.select("k", "u", "n").collect()
    assert sorted(tuple(row) for row in rows_of_fields) == [("a", "A", 2), ("b", "B", 2)]
    unnamed = "SELECT upper(k), count(*) AS n FROM m GROUP BY upper(k), window(at, '1 day')"
    keys = mt.sql(spark, unnamed, m=messages).results.select("`upper(k)`").collect()
    assert sorted(row[0] for row in keys) == ["A", "B"]
    with pytest.raises(mt.SqlError, match="WITH v AS"):
        mt.sql(
            spark, "SELECT count(*) AS n FROM m GROUP BY window(to_date(s), '1 day')", m=messages
        )


@pytest.mark.slow
def test_a_stream_goes_on_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    nested = pa.struct([("s", pa.string())])
    feed = Feed(tmp_path / "in", pa.schema([("id", pa.int64()), ("k", pa.string()), ("e", nested)]))

    def run(time: Any) -> mt.WindowedQuery:
        windows = mt.windowed(feed.stream(spark), key="k", time=time).tumbling("10 seconds")
        query = windows.agg(n=mt.count()).start(
            checkpoint=tmp_path / "checkpoint",
            results=mt.to_duckdb(tmp_path / "out.duckdb", "windows"),
            rejected=mt.to_duckdb(tmp_path / "out.duckdb", "rejected"),
            available_now=True,
        )
        assert query.await_end(timeout=240)
        return query

    feed.add(("a", {"s": "2026-01-01 00:00:05"}), ("a", {"s": "2026-01-01 00:00:06"}))
    run("e.s")
    state = mt.open_state(tmp_path / "checkpoint", spark=spark)
    assert state.fetch("a")["n"].to_list() == [2]
    feed.add(("a", {"s": "2026-01-01 00:00:25"}), ("a", {"s": "2026-01-01 00:00:01"}))
    feed.add(("a", None), ("a", {"s": "none"}), ("a", {"s": "2026-01-01 00:00:02"}))
    with pytest.raises(mt.SpecChangedError, match="time"):
        run(F.to_timestamp("e.s").alias("other"))
    assert run("e.s").progress.counts["late"] == 1
    out = tmp_path / "out.duckdb"
    assert rows(out, "SELECT n FROM windows ORDER BY window_start") == [(3,)]
    reasons = "SELECT reason, e.s FROM rejected ORDER BY ALL"
    assert rows(out, reasons) == [
        ("late", "2026-01-01 00:00:02"), ("malformed", "none"), ("null_time", None)
    ]  # fmt: skip


@pytest.mark.slow
def test_the_clock_in_all_forms_gives_the_same_firings(spark: SparkSession, tmp_path: Path) -> None:
    """Windows fire early every 10 seconds of a clock in the messages."""
    schema = pa.schema([("id", pa.int64()), ("k", pa.string()), ("ms", pa.int64())])
    feed = Feed(tmp_path / "in", schema)
    for millis in (1_000, 8_000, 12_000, 31_000):
        feed.add(("a", millis))
    time, histories = F.timestamp_millis("ms"), []
    for number, clock in enumerate((time, "arrived", "nested.at")):
        frame = feed.stream(spark).withColumn("at", time)
        frame = frame.withColumn("arrived", time)
        frame = frame.withColumn("nested", F.struct(time.alias("at")))
        windows = mt.windowed(frame, key="k", time="at", clock=clock).tumbling("1 minute")
        counted = windows.early(every="10 seconds").agg(n=mt.count())
        out = tmp_path / f"{number}.duckdb"
        query = counted.start(
            checkpoint=str(tmp_path / f"c{number}"),
            results=mt.to_duckdb(str(out), "w", history="h"),
            available_now=True,
        )
        assert query.await_end(120)
        histories.append(rows(out, "SELECT n, emission FROM h ORDER BY revision"))
    assert histories[0] == histories[1] == histories[2]
    assert [n for n, _ in histories[0]] == [3, 4]
