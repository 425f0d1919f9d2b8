"""Tests of SQL against the same queries in Python, and against DuckDB or Spark SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.spark.feed import Feed, at, rows

import muntin as mt
from muntin.spark.pipelines import SparkPipelines
from muntin.sql.api import compile_pipeline

pytestmark = pytest.mark.slow

MESSAGES = [
    (None, at(3), 4),
    ("a", at(1), 7),
    ("a", at(4), -2),
    ("b", at(4), 5),
    ("a", at(11), 3),
    ("b", at(12.5), 8),
    ("a", at(12.5), 1),
    ("a", at(24), None),
    ("b", at(61), 6),
    ("a", at(75), 2),
]


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    source = Feed(tmp_path / "messages")
    source.add(*MESSAGES)
    return source


def collect_rows(frame: DataFrame, *names: str) -> list[tuple[Any, ...]]:
    """Return sorted rows of some columns, with times as seconds since the feed's day."""
    rows_of_frame = frame.select(*names).collect()
    values = [tuple(_to_plain_value(value) for value in row) for row in rows_of_frame]
    return sorted(values, key=lambda row: [(v is not None, v) for v in row])


def _to_plain_value(value: Any) -> Any:
    if hasattr(value, "timestamp"):
        return value.timestamp() - at(0).timestamp() % 86400 // 1
    return value


BOTH = [
    (
        """SELECT key, count(*) AS n, sum(value) AS total
           FROM TABLE(HOP(TABLE t, DESCRIPTOR(`at`), INTERVAL '5' SECOND, INTERVAL '10' SECOND))
           GROUP BY key, window_start, window_end""",
        lambda t: (
            mt.windowed(t, key="key", time="at", nulls="group")
            .hopping("10 seconds", "5 seconds")
            .agg(n=mt.count(), total=mt.sum("value"))
        ),
    ),
    (
        """SELECT key, count(*) AS n, sum(value) AS total FROM t WHERE value > 0
           GROUP BY key, SESSION(at, INTERVAL '8' SECOND)""",
        lambda t: (
            mt.windowed(t, key="key", time="at", where="value > 0", nulls="group")
            .session("8 seconds")
            .agg(n=mt.count(), total=mt.sum("value"))
        ),
    ),
    (
        """SELECT STREAM key, count(*) AS n, sum(value) AS total FROM t
           GROUP BY key, FLOOR(at TO MINUTE)""",
        lambda t: (
            mt.windowed(t, key="key", time="at", nulls="group")
            .tumbling("1 minute")
            .agg(n=mt.count(), total=mt.sum("value"))
        ),
    ),
    (
        """SELECT key, count(*) AS n, sum(value) AS total
           FROM t WATERMARK `at` DELAY OF INTERVAL '5' SECOND
           WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS, GRACE PERIOD 20 SECONDS)
           WHERE value > 0 GROUP BY key EMIT FINAL""",
        lambda t: (
            mt.windowed(
                t, key="key", time="at", where="value > 0", lateness="25 seconds", nulls="group"
            )
            .hopping("10 seconds", "5 seconds")
            .agg(n=mt.count(), total=mt.sum("value"))
        ),
    ),
    (
        """SELECT key, count(*) AS n, sum(value) AS total
           FROM TABLE(TUMBLE(TABLE t, 2 ROWS)) GROUP BY key, window_start, window_end""",
        lambda t: (
            mt.windowed(t, key="key", nulls="group")
            .tumbling(mt.rows(2))
            .agg(n=mt.count(), total=mt.sum("value"))
        ),
    ),
]


@pytest.mark.parametrize(("text", "twin"), BOTH)
def test_the_rows_of_the_twin(spark: SparkSession, feed: Feed, text: str, twin: Any) -> None:
    frame = feed.frame(spark)
    ours, theirs = mt.sql(spark, text, t=frame), twin(frame)
    columns = ["key", "window_start", "window_end", "n", "total", "emission", "revision"]
    assert set(ours.results.columns) == set(columns)
    assert collect_rows(ours.results, *columns) == collect_rows(theirs.results, *columns)
    assert collect_rows(ours.rejected, "id", "reason") == collect_rows(
        theirs.rejected, "id", "reason"
    )


def test_hopping_windows_are_those_of_duckdb(spark: SparkSession, feed: Feed) -> None:
    text = """SELECT key, unix_micros(window_start) AS s, count(*) AS n, sum(value) AS t,
              max(value) AS m FROM t GROUP BY key, HOP(`at`, 4 SECONDS, 10 SECONDS)"""
    results = mt.sql({"t": feed.frame(spark)}, text).results
    ours = [tuple(row) for row in results.select("key", "s", "n", "t", "m").collect()]
    assert sorted(ours, key=str) == sorted(feed.windows(10, 4), key=str)


def test_spark_windows_are_those_of_spark(spark: SparkSession, feed: Feed) -> None:
    frame = feed.frame(spark)
    text = """SELECT key, window.start AS s, window.end AS e, count(value) AS n,
              round(avg(value), 3) AS mean
              FROM t GROUP BY key, window(at, '10 seconds', '5 seconds')"""
    theirs = frame.groupBy("key", F.window("at", "10 seconds", "5 seconds")).agg(
        F.count("value").alias("n"), F.round(F.avg("value"), 3).alias("mean")
    )
    theirs = theirs.select("key", "window.start", "window.end", "n", "mean")
    ours = mt.sql(spark, text, t=frame).results
    assert collect_rows(ours, "key", "s", "e", "n", "mean") == collect_rows(theirs, *theirs.columns)


def test_spark_sessions_are_those_of_spark(spark: SparkSession, feed: Feed) -> None:
    feed.frame(spark).createOrReplaceTempView("sessions_of_sql")
    text = """SELECT key, session_window.start AS s, count(*) AS n
              FROM sessions_of_sql GROUP BY key, session_window(at, '8 seconds')"""
    ours = mt.sql(spark, text).results
    assert collect_rows(ours, "key", "s", "n") == collect_rows(spark.sql(text), "key", "s", "n")


def test_sessions_of_own_gaps_are_those_of_spark(spark: SparkSession, feed: Feed) -> None:
    feed.frame(spark).createOrReplaceTempView("own_gaps_of_sql")
    gap = "CASE WHEN value % 2 = 0 THEN '3 seconds' ELSE '9 seconds' END"
    text = f"""SELECT key, session_window.start AS s, session_window.end AS e, count(*) AS n
              FROM own_gaps_of_sql GROUP BY key, session_window(at, {gap})"""
    ours = mt.sql(spark, text).results
    assert collect_rows(ours, "key", "s", "e", "n") == collect_rows(
        spark.sql(text), "key", "s", "e", "n"
    )


def test_rows_before_are_those_of_duckdb(spark: SparkSession, feed: Feed) -> None:
    over = "OVER (PARTITION BY key {} ROWS 2 PRECEDING)"
    text = "SELECT id, key, value * 2 AS v, sum(value) {0} AS s, count(*) {0} AS n FROM t"
    frame = feed.frame(spark).coalesce(1)
    ours = mt.sql(spark, text.format(over.format("")), t=frame).results
    query = text.format(over.format("ORDER BY id"))
    t = f"(SELECT * FROM '{feed.folder}/[0-9]*.parquet') AS t"
    theirs = duckdb.sql(query.removesuffix("t") + t).fetchall()
    assert collect_rows(ours, "id", "key", "v", "s", "n") == sorted(theirs)


def test_a_time_before_is_that_of_duckdb(spark: SparkSession, feed: Feed) -> None:
    feed.add(("a", at(12.5), 9), ("b", at(13), 1))
    text = """SELECT DISTINCT key, {seconds}({at}) AS moment, sum(value) OVER w AS s,
              count(*) OVER w AS n FROM t
              WINDOW w AS (PARTITION BY key ORDER BY {at} RANGE INTERVAL '9' SECOND PRECEDING)"""
    frame = feed.frame(spark)
    ours = mt.sql(spark, text.format(seconds="unix_seconds", at="at"), t=frame).results
    t = f"(SELECT * FROM '{feed.folder}/[0-9]*.parquet') AS t"
    query = text.format(seconds="epoch", at='"at"').replace("FROM t", "FROM " + t)
    theirs = duckdb.sql(query).fetchall()
    our_rows = [(k, m, s, n) for k, m, s, n in collect_rows(ours, "key", "moment", "s", "n")]
    assert sorted(our_rows, key=str) == sorted(
        [(k, int(m), s, n) for k, m, s, n in theirs], key=str
    )


def test_each_row_with_a_time_before_is_that_of_duckdb(spark: SparkSession, feed: Feed) -> None:
    feed.add(("a", at(12.5), 9), ("b", at(13), 1), ("b", at(13), 1), ("b", at(13), None))
    text = """SELECT id, key, value + 1 AS more, sum(value) OVER w AS s, count(*) OVER w AS n FROM t
              WINDOW w AS (PARTITION BY key ORDER BY {at} RANGE INTERVAL '9' SECOND PRECEDING)"""
    query = mt.sql(spark, text.format(at="at"), t=feed.frame(spark))
    t = f"(SELECT * FROM '{feed.folder}/[0-9]*.parquet') AS t"
    theirs = duckdb.sql(text.format(at='"at"').replace("FROM t", "FROM " + t)).fetchall()
    our_rows = collect_rows(query.results, "id", "key", "more", "s", "n")
    assert sorted(our_rows, key=str) == sorted(theirs, key=str)
    assert len(our_rows) == feed.ids


OVERS = """SELECT id, key, value, sum(value) OVER near AS near, round(avg(value) OVER w, 6) AS mean,
           count(*) OVER near AS n, max(value) OVER w - min(value) OVER nearer AS width FROM t
           WINDOW w AS (PARTITION BY key ORDER BY {at} RANGE INTERVAL '9' SECOND PRECEDING),
           near AS (PARTITION BY key ORDER BY {at} RANGE INTERVAL '4' SECOND PRECEDING),
           nearer AS (PARTITION BY key ORDER BY {at} RANGE INTERVAL '1' SECOND PRECEDING)"""
OF_OVERS = ("id", "key", "value", "near", "mean", "n", "width")


def compute_by_duckdb(feed: Feed) -> list[tuple[Any, ...]]:
    t = f"(SELECT * FROM '{feed.folder}/[0-9]*.parquet') AS t"
    return sorted(
        duckdb.sql(OVERS.format(at='"at"').replace("FROM t", "FROM " + t)).fetchall(), key=str
    )


def test_several_times_before_are_those_of_duckdb(spark: SparkSession, feed: Feed) -> None:
    feed.add(("a", at(12.5), 9), ("b", at(13), 1), ("b", at(13), 2), ("b", at(13.5), None))
    query = mt.sql(spark, OVERS.format(at="at"), t=feed.frame(spark))
    assert sorted(collect_rows(query.results, *OF_OVERS), key=str) == compute_by_duckdb(feed)


@pytest.mark.slow
def test_several_times_before_go_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "messages")
    text = OVERS.format(at="at").replace("FROM t", "FROM t WATERMARK at DELAY OF 5 SECONDS")
    steps = [(1, 3, 2), (6, 4, 8.5), (10, 9, 12), (40, 38)]
    for step in steps:
        feed.add(*(("ab"[int(second) % 2], at(second), int(second)) for second in step))
        query = mt.sql(spark, text, t=feed.stream(spark)).start(
            checkpoint=f"{tmp_path}/checkpoint",
            results=mt.to_duckdb(f"{tmp_path}/out.duckdb", "sums"),
            available_now=True,
        )
        assert query.await_end(240)
    stored = rows(tmp_path / "out.duckdb", f"SELECT {', '.join(OF_OVERS)} FROM sums")
    # The last ones wait for the watermark.
    assert sorted(stored, key=str) == [row for row in compute_by_duckdb(feed) if row[0] < 9]


def test_rows_of_one_time_are_each_a_row_of_a_table(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "messages")
    feed.add(("a", at(1), 1), ("a", at(1), 1), ("a", at(5), 7), ("b", at(5), 2))
    # One more of a time that was emitted.
    feed.add(("a", at(5), 3), ("b", at(30), 0))
    text = """SELECT key, value, sum(value) OVER
              (PARTITION BY key ORDER BY at RANGE INTERVAL '4' SECOND PRECEDING) AS s
              FROM t EMIT EARLY EACH LATE EACH GRACE 1 MINUTE"""
    query = mt.sql(spark, text, t=feed.stream(spark)).start(
        checkpoint=f"{tmp_path}/checkpoint",
        results=mt.to_duckdb(f"{tmp_path}/out.duckdb", "sums"),
        available_now=True,
    )
    assert query.await_end(240)
    select = "SELECT key, value, s FROM sums WHERE epoch(window_end) % 86400 < 30 ORDER BY ALL"
    assert rows(tmp_path / "out.duckdb", select) == [
        ("a", 1, 2), ("a", 1, 2), ("a", 3, 12), ("a", 7, 12), ("b", 2, 2),
    ]  # fmt: skip


def test_windows_of_all_rows(spark: SparkSession, feed: Feed) -> None:
    text = "SELECT count(*) AS n, count(DISTINCT key) AS d FROM t GROUP BY TUMBLE(at, 1 MINUTE)"
    results = mt.sql(spark, text, t=feed.frame(spark)).results
    assert results.columns == ["window_start", "window_end", "n", "d", "emission", "revision"]
    assert collect_rows(results, "n", "d") == [(2, 2), (8, 2)]


def test_a_firing_that_holds_no_more_is_taken_back(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "messages")
    feed.add(("a", at(1), 1), ("b", at(2), 5))
    feed.add(("a", at(3), 9), ("b", at(4), 5))
    feed.add(("a", at(30), 0), ("b", at(31), 0))
    text = """SELECT key, max(value) AS top, count(*) AS n FROM t
              GROUP BY key, TUMBLE(at, 10 SECONDS) HAVING max(value) < 6 EMIT CHANGES"""
    query = mt.sql(spark, text, t=feed.stream(spark)).start(
        checkpoint=str(tmp_path / "checkpoint"),
        results=mt.to_duckdb(str(tmp_path / "out.duckdb"), "tops", history="history"),
        available_now=True,
    )
    assert query.await_end(120)
    out = tmp_path / "out.duckdb"
    history = rows(out, "SELECT batch, key, top, n, emission, revision FROM history ORDER BY ALL")
    assert [row for row in history if row[1] == "a" and row[0] < 2] == [
        (0, "a", 1, 1, "early", 0),
        (1, "a", None, None, "retract", 1),
    ]
    newest = rows(
        out, "SELECT key, epoch(window_start)::BIGINT % 60, top, n FROM tops ORDER BY ALL"
    )
    assert newest == [("a", 30, 0, 1), ("b", 0, 5, 2), ("b", 30, 0, 1)]


@pytest.mark.parametrize(
    ("text", "problem", "part"),
    [
        ("SELECT k, count(*) FROM t GROUP BY k, TUMBLE(at, 1 HOUR)", "isn't a column", "k"),
        (
            "SELECT key, count(*) FROM t GROUP BY key, TUMBLE(value, 1 HOUR)",
            "not timestamp",
            "value",
        ),
        ("SELECT key, max(v) FROM t GROUP BY key, TUMBLE(at, 1 HOUR)", "no such column", "max(v)"),
        (
            "SELECT key, nope(key) FROM t GROUP BY key, TUMBLE(at, 1 HOUR)",
            "Spark refuses this: Cannot resolve routine `nope`",
            "nope(key)",
        ),
        (
            "SELECT key, -sum(nope) FROM t GROUP BY key, TUMBLE(at, 1 HOUR)",
            "no such column",
            "sum(nope)",
        ),
        (
            "SELECT key, count(*) FILTER (WHERE key LIKE value + INTERVAL 1 DAY) FROM t "
            "GROUP BY key, TUMBLE(at, 1 HOUR)",
            "Spark refuses this",
            "key LIKE value + INTERVAL 1 DAY",
        ),
        (
            "SELECT key, sum(nope + 1) FROM t GROUP BY key, TUMBLE(at, 1 HOUR)",
            "Spark refuses this",
            "nope + 1",
        ),
        (
            "SELECT key FROM t WHERE\n  lacks = 1 GROUP BY key, TUMBLE(at, 1 HOUR)",
            "lacks",
            "lacks = 1",
        ),
        (
            "SELECT key FROM (SELECT key, at, key[0] AS k FROM t) GROUP BY key, TUMBLE(at, 1 HOUR)",
            "Spark refuses this",
            "key[0]",
        ),
        (
            "SELECT count(*) AS n FROM t GROUP BY value, nope + 1, TUMBLE(at, 1 HOUR)",
            "nope",
            "nope + 1",
        ),
        (
            "SELECT count(*) AS n FROM t GROUP BY value, nope, TUMBLE(at, 1 HOUR)",
            "isn't a column",
            "nope",
        ),
        (
            "SELECT key FROM t GROUP BY key, TUMBLE(at, 1 HOUR) HAVING count(*) LIKE ar[0]",
            "isn't one value in a group",
            "ar",
        ),
        (
            "SELECT key FROM t GROUP BY key, TUMBLE(at, 1 HOUR) HAVING sum(value) + key[0] > 1",
            "Spark refuses this",
            "sum(value) + key[0] > 1",
        ),
        (
            "SELECT upper(key) AS id, count(*) FROM t GROUP BY 1, TUMBLE(at, 1 HOUR)",
            "another",
            "1",
        ),
        (
            "SELECT key, count(*) FROM no_such GROUP BY key, TUMBLE(at, 1 HOUR)",
            "can't be read",
            "no_such",
        ),
        (
            "SELECT a.key, b.value FROM t AS a JOIN t AS b OVER (ORDER BY at RANGE 1 HOUR "
            "PRECEDING) ON a.key = b.key WHERE b.nope > 1",
            "nope",
            "b.nope > 1",
        ),
    ],
)
def test_what_the_table_lacks_is_refused_at_its_place(
    spark: SparkSession, feed: Feed, text: str, problem: str, part: str | None
) -> None:
    with pytest.raises(mt.SqlError) as caught:
        mt.sql(spark, text, t=feed.frame(spark))
    assert problem in str(caught.value)
    if part is not None:
        start, end = caught.value.span
        assert text[start:end] == part


def test_tables_are_known_by_name_alone_without_a_session() -> None:
    with pytest.raises(mt.SqlError, match="pass it by name"):
        mt.sql({}, "SELECT key, count(*) FROM t GROUP BY key, TUMBLE(at, 1 HOUR)")


ORDERS = [(0, 1, 0, 1, "8:59:10"), (0, 2, 5, 3, "9:00:00"), (0, 3, 9, 9, "8:59:30")]
SHIPMENTS = [
    (0, 1000, 0, 3, "9:00:10"),
    (0, 1001, 2, 1, "9:00:10"),
    (0, 1002, 3, 1, "9:01:10"),
    (0, 1003, 1, 9, "9:01:20"),
]


@pytest.mark.parametrize(
    "over", ["ROWS 3 PRECEDING", "ORDER BY time RANGE '2' min PRECEDING"], ids=["rows", "time"]
)
def test_the_joins_of_the_samza_design(spark: SparkSession, over: str) -> None:
    def frame(rows: list[tuple[Any, ...]], value: str) -> DataFrame:
        messages = spark.createDataFrame(
            rows, f"part int, off long, {value} long, id long, clock string"
        )
        time = F.concat(F.lit("2026-01-01 "), F.lpad("clock", 8, "0")).cast("timestamp")
        return messages.withColumn("time", time).drop("clock")

    offsets = " OFFSET FOR (part, off)" if over.startswith("ROWS") else ""
    text = f"""SELECT id, value, cost FROM Shipments{offsets}
               JOIN Orders{offsets} OVER ({over}) ON Orders.id = Shipments.id"""
    joined = mt.sql(spark, text, Orders=frame(ORDERS, "value"), Shipments=frame(SHIPMENTS, "cost"))
    assert joined.results.columns == ["id", "value", "cost", "emission"]
    assert collect_rows(joined.results, "id", "value", "cost") == [
        (1, 0, 2),
        (1, 0, 3),
        (3, 5, 0),
        (9, 9, 1),
    ]


def test_columns_of_a_join_may_say_whose_they_are(spark: SparkSession) -> None:
    rows = [(1, 10, at(5))]
    left = spark.createDataFrame(rows, "id long, value long, ts timestamp")
    right = spark.createDataFrame([(1, 3, at(4)), (2, 7, at(4))], left.schema)
    over = "OVER (ORDER BY ts RANGE 1 MINUTE PRECEDING)"
    text = f"""SELECT a.id AS k, a.value - b.value AS d FROM a JOIN b {over} ON a.id = b.id
               WHERE b.value < 5"""
    assert collect_rows(mt.sql(spark, text, a=left, b=right).results, "k", "d") == [(1, 7)]
    with pytest.raises(mt.SqlError, match=r"is a column of both sides; write a\.value or b\.value"):
        mt.sql(spark, text.replace("a.value - b", "value - b"), a=left, b=right)
    with pytest.raises(mt.SqlError, match="isn't a column of b"):
        mt.sql(spark, text.replace("= b.id", "= b.nope"), a=left, b=right)


SIDES = (
    """
    SELECT * FROM VALUES (1, 'a', 10, 0), (2, 'b', 20, 5), (2, 'c', 21, 6), (5, 'd', 50, 9)
    AS t(id, name, v, second)
    """,
    """
    SELECT * FROM VALUES (2, 200, 'x', 4), (3, 300, 'y', 5), (1, 100, 'z', 9000)
    AS t(order_id, cost, name, second)
    """,
)
NEAR = [
    "s.ts BETWEEN o.ts - INTERVAL 1 SECOND AND o.ts + INTERVAL '4' SECOND",
    "o.ts >= s.ts - INTERVAL '2' SECOND AND o.ts < s.ts + INTERVAL '1' SECOND",
    "s.ts + INTERVAL 2 SECONDS > o.ts AND (o.ts) >= s.ts",
    "o.ts <= s.ts + INTERVAL '00:01' MINUTE TO SECOND AND s.ts <= INTERVAL 2 HOURS + o.ts",
]
SHOWN = [
    ("*", ""),
    ("o.id AS o, s.order_id AS s, v, cost", "WHERE s.order_id IS NULL OR v > 20"),
    ("o.name AS o, s.name AS s, coalesce(o.id, -s.order_id) AS i", "WHERE NOT (o.v > 20)"),
]


@pytest.mark.slow
def test_a_comparison_of_times_bounds_a_join_as_in_spark(spark: SparkSession) -> None:
    time = "CAST('2026-01-01' AS TIMESTAMP) + make_dt_interval(0, 0, 0, second) AS ts"
    for name, text in zip("os", SIDES, strict=True):
        spark.sql(text).selectExpr("*", time).drop("second").createOrReplaceTempView(name)
    select = "SELECT o.id AS o, s.order_id AS s, v, cost FROM"
    texts = [f"{select} o FULL JOIN s ON o.id = s.order_id AND {near}" for near in NEAR]
    texts += [
        f"{select} o JOIN s ON {near} AND o.id = s.order_id AND v >= 20" for near in NEAR[::2]
    ]
    texts += [
        f"{select} o, s WHERE o.id = s.order_id AND {near} AND v + cost >= 220" for near in NEAR[:1]
    ]
    # A bound whose times are all after; only inner joins allow it.
    after = "o.ts > s.ts AND o.ts <= s.ts + INTERVAL 2 SECONDS"
    texts += [f"{select} o JOIN s ON {after} AND o.id = s.order_id"]
    for text in texts:
        ours = mt.sql(spark, text).results.drop("emission").collect()
        wanted = spark.sql(text).collect()
        assert sorted(ours, key=str) == sorted(map(tuple, wanted), key=str), text
        assert wanted


@pytest.mark.parametrize(
    "how",
    [
        *("JOIN", "FULL OUTER JOIN"),
        *(pytest.param(how, marks=pytest.mark.slow) for how in ("LEFT JOIN", "RIGHT JOIN")),
    ],
)
def test_joins_are_those_of_spark(spark: SparkSession, how: str) -> None:
    time = "CAST('2026-01-01' AS TIMESTAMP) + make_dt_interval(0, 0, 0, second) AS ts"
    o, s = (spark.sql(text).selectExpr("*", time).drop("second") for text in SIDES)
    o.createOrReplaceTempView("o"), s.createOrReplaceTempView("s")
    over = "OVER (ORDER BY ts RANGE 1 MINUTE PRECEDING)"
    near = "s.ts BETWEEN o.ts - INTERVAL 1 MINUTE AND o.ts + INTERVAL 1 MINUTE"
    for items, where in SHOWN:
        ours = mt.sql(
            spark, f"SELECT {items} FROM o {how} s {over} ON o.id = s.order_id {where}"
        ).results.drop("emission")
        wanted = spark.sql(f"SELECT {items} FROM o {how} s ON o.id = s.order_id AND {near} {where}")
        assert len(ours.columns) == len(wanted.columns)
        assert sorted(ours.collect(), key=str) == sorted(map(tuple, wanted.collect()), key=str)
    # USING merges the columns into one; each side still has its own.
    shipments = s.withColumnRenamed("order_id", "id")
    text = f"SELECT id, o.id AS o, s.id AS s FROM o {how} s {over} USING (id)"
    merged = mt.sql(spark, text, o=o, s=shipments).results.drop("emission")
    shipments.createOrReplaceTempView("s")
    wanted = spark.sql(
        f"SELECT coalesce(o.id, s.id), o.id, s.id FROM o {how} s ON o.id = s.id AND {near}"
    )
    assert sorted(merged.collect(), key=str) == sorted(map(tuple, wanted.collect()), key=str)
    everything = mt.sql(
        spark, f"SELECT * FROM o {how} s {over} USING (id)", o=o, s=shipments
    ).results
    assert everything.columns == [
        "id",
        "name",
        "v",
        "ts",
        "cost",
        "name_right",
        "ts_right",
        "emission",
    ]
    if how != "JOIN":
        with pytest.raises(mt.SqlError, match=r"is a column of both sides; write o\.id or s\.id"):
            mt.sql(spark, f"SELECT id FROM o {how} s {over} ON o.id = s.id", o=o, s=shipments)


PIPELINE = """
    CREATE TABLE messages (
        id BIGINT, key STRING, `at` TIMESTAMP, value BIGINT, twice AS value * 2,
        WATERMARK FOR `at` AS `at` - 2 SECONDS
    ) WITH (connector = 'parquet', path = '${data}', maxFilesPerTrigger = 1);
    CREATE TABLE totals WITH (connector = 'duckdb', path = '${out}/out.duckdb');
    CREATE TABLE bad WITH (connector = 'parquet', path = '${out}/bad');
    SET checkpoint = '${out}/checkpoints';
    SET trigger = 'available now';
    INSERT INTO totals REJECTED INTO bad
    SELECT key, sum(twice) AS total FROM messages WHERE key <> '${not}'
    GROUP BY key, TUMBLE(`at`, 10 SECONDS) EMIT GRACE 5 SECONDS
"""


def test_a_pipeline_from_source_to_sinks(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "messages")
    feed.add(("a", at(1), 1), ("b", at(2), 5), ("c", at(3), 7))
    feed.add(("a", at(13), 9), ("a", at(40), 1))
    feed.add(("a", at(3), 100), ("b", at(31), 2))
    variables = {"data": str(feed.folder), "out": str(tmp_path), "not": "c"}
    pipeline = compile_pipeline(PIPELINE, {"not": "c"})
    assert pipeline.names == {"data", "out", "not"}
    for query in SparkPipelines(spark).start(pipeline, variables, {}):
        assert query.await_end(120)
        assert query.progress.counts["filtered"] == 1
    totals = rows(
        tmp_path / "out.duckdb",
        "SELECT key, epoch(window_start)::BIGINT % 60, total FROM totals ORDER BY ALL",
    )
    assert totals == [("a", 0, 2), ("a", 10, 18), ("b", 0, 10)]
    bad = spark.read.parquet(str(tmp_path / "bad"))
    assert [(row["id"], row["reason"]) for row in bad.collect()] == [(5, "late")]
    assert (tmp_path / "checkpoints" / "totals").is_dir()


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("'${data}'", "'${nowhere}'", r"messages|path='\$\{nowhere\}' has no value"),
        ("'duckdb', path = '${out}/out.duckdb'", "'duckdb'", "path=None is missing; add"),
        ("'duckdb', path", "'telegraph', path", "isn't written to; write to"),
        ("maxFilesPerTrigger = 1", "password = 'x'", "secret in plain sight"),
        ("SET checkpoint = '${out}/checkpoints';", "", "checkpoint=None isn't set"),
        ("sum(twice)", "sum(thrice)", "totals: agg=.* reads no such column"),
    ],
)
def test_what_a_pipeline_lacks_is_told_before_anything_starts(
    spark: SparkSession, tmp_path: Path, old: str, new: str, error: str
) -> None:
    feed = Feed(tmp_path / "messages")
    feed.add(("a", at(1), 1))
    variables = {"data": str(feed.folder), "out": str(tmp_path), "not": "c"}
    assert old in PIPELINE
    with pytest.raises(mt.MuntinError, match=error):
        SparkPipelines(spark).start(
            compile_pipeline(PIPELINE.replace(old, new), variables), variables, {}
        )
    assert not (tmp_path / "checkpoints").exists()


def test_times_rounded_up_and_the_last_moment_of_a_window(spark: SparkSession) -> None:
    times = ["09:00:00", "09:00:01", "10:00:00", "10:00:00.000001"]
    frame = spark.createDataFrame([(f"2026-01-01 {t}",) for t in times], "t string")
    orders = frame.selectExpr("CAST(t AS TIMESTAMP) AS rowtime")
    up = mt.sql(
        spark,
        "SELECT CEIL(rowtime TO HOUR) AS hour, count(*) AS n FROM orders "
        "GROUP BY CEIL(rowtime TO HOUR)",
        orders=orders,
    )
    counts_by_hour = up.results.selectExpr(
        "date_format(hour, 'HH:mm:ss.SSSSSS') AS hour", "n"
    ).collect()
    assert sorted(map(tuple, counts_by_hour)) == [
        ("09:00:00.000000", 1),
        ("10:00:00.000000", 2),
        ("11:00:00.000000", 1),
    ]
    last = mt.sql(
        spark,
        "SELECT window_time, count(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(rowtime), "
        "1 HOUR)) GROUP BY window_start, window_end, window_time",
        orders=orders,
    )
    counts_by_time = last.results.selectExpr(
        "date_format(window_time, 'HH:mm:ss.SSS') AS t", "n"
    ).collect()
    assert sorted(map(tuple, counts_by_time)) == [("09:59:59.999", 2), ("10:59:59.999", 2)]


def test_partners_within_a_time_as_ksqldb_says_it(spark: SparkSession) -> None:
    def table(*rows: tuple[int, str]) -> DataFrame:
        frame = spark.createDataFrame([(n, f"2026-01-01 {t}") for n, t in rows], "id int, t string")
        return frame.selectExpr("id", "CAST(t AS TIMESTAMP) AS ts")

    orders = table((1, "09:00:00"), (2, "09:00:00"), (3, "09:00:00"), (4, "09:00:00"))
    shipments = table((1, "08:59:00"), (2, "08:58:59"), (3, "09:02:00"), (4, "09:02:01"))
    pairs = mt.sql(
        spark,
        "SELECT o.id AS id FROM orders WATERMARK ts DELAY OF 1 HOUR o "
        "JOIN shipments WATERMARK ts DELAY OF 1 HOUR s "
        "WITHIN (1 MINUTE, 2 MINUTES) ON o.id = s.id",
        orders=orders,
        shipments=shipments,
    )
    assert sorted(row["id"] for row in pairs.results.collect()) == [1, 3]


def test_grouping_sets_are_those_of_spark_sql(spark: SparkSession, feed: Feed) -> None:
    frame = feed.frame(spark).selectExpr(
        "upper(key) AS a", "value % 3 AS b", "value AS v", "at AS ts"
    )
    frame.createOrReplaceTempView("sets_of_messages")
    ours = mt.sql(
        spark,
        """
        SELECT lower(a) AS low, b, GROUPING(b) AS without, sum(v) AS total,
            GROUPING_ID(b, lower(a)) AS back
        FROM messages GROUP BY TUMBLE(ts, INTERVAL '20' SECONDS), CUBE (lower(a), b)
        HAVING count(*) > 0
        """,
        messages=frame,
    )
    # For Spark, the window is another column, in every set.
    theirs = spark.sql(
        """
        SELECT lower(a) AS low, b, GROUPING(b) AS without, sum(v) AS total,
            GROUPING(b) * 2 + GROUPING(lower(a)) AS back, grouping_id() DIV 2 AS grouping_id,
            window.start AS window_start
        FROM sets_of_messages GROUP BY CUBE (lower(a), b), window(ts, '20 seconds')
        """
    )
    names = ("low", "b", "without", "total", "back", "grouping_id", "window_start")
    assert collect_rows(ours.results, *names) == collect_rows(theirs, *names)
    assert ours.results.schema["grouping_id"].nullable is False


FIVE = (
    "SELECT key, window, sum(value) AS total FROM messages_around "
    "GROUP BY key, window(at, '5 seconds')"
)
SPARK_STATEMENTS = [
    # A query around windows, windows over windows, and queries within WHERE.
    (
        f"SELECT w.key, w.window.start AS since, total + 1 AS more FROM ({FIVE}) w WHERE total > 4",
        ("key", "since", "more"),
    ),
    (
        f"SELECT key, window(window, '20 seconds').start AS since, sum(total) AS whole "
        f"FROM ({FIVE}) GROUP BY key, window(window, '20 seconds')",
        ("key", "since", "whole"),
    ),
    *(
        (
            f"SELECT l.key, l.value FROM messages_around l WHERE {member} "
            "(SELECT * FROM (SELECT * FROM messages_around WHERE value > 4) r WHERE r.key = l.key "
            "AND r.at BETWEEN l.at - INTERVAL '9' SECOND AND l.at) AND l.value < 8",
            ("key", "value"),
        )
        for member in ("EXISTS", "NOT EXISTS")
    ),
]


def test_statements_of_spark_sql_give_its_rows(spark: SparkSession, feed: Feed) -> None:
    feed.frame(spark).createOrReplaceTempView("messages_around")
    for text, names in SPARK_STATEMENTS:
        theirs = collect_rows(spark.sql(text), *names)
        assert collect_rows(mt.sql(spark, text).results, *names) == theirs
        assert len(theirs) > 1


def test_a_batch_is_shown_in_an_order(spark: SparkSession, feed: Feed) -> None:
    batch = spark.read.parquet(str(feed.folder))
    text = """SELECT key, count(*) AS n, sum(value) AS total
              FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(`at`), INTERVAL '1' MINUTE))
              GROUP BY key, window_start, window_end"""
    ordered = mt.sql(spark, f"{text} ORDER BY n DESC, key NULLS LAST LIMIT 4", t=batch)
    ordered_rows = [tuple(row) for row in ordered.results.select("key", "n", "total").collect()]
    assert ordered_rows == [("a", 5, 9), ("b", 2, 13), ("a", 1, 2), ("b", 1, 6)]
    nulls = mt.sql(spark, f"{text} ORDER BY key NULLS FIRST LIMIT 1", t=batch)
    assert [row.key for row in nulls.results.collect()] == [None]
    assert mt.sql(spark, f"{text} LIMIT 0", t=batch).results.collect() == []
    with pytest.raises(mt.SqlError, match="never ends on a stream"):
        mt.sql(spark, f"{text} ORDER BY n", t=feed.stream(spark))
    with pytest.raises(mt.SqlError, match="Spark refuses this"):
        mt.sql(spark, f"{text} ORDER BY nothing", t=batch)


@pytest.mark.parametrize("stream", [False, True])
def test_messages_of_two_tables(
    spark: SparkSession, feed: Feed, tmp_path: Path, stream: bool
) -> None:
    other_feed = Feed(tmp_path / "more")
    other_feed.add(("a", at(2), 40), ("c", at(70), 2))
    t, u = ((f.stream if stream else f.frame)(spark) for f in (feed, other_feed))
    text = """SELECT key, count(*) AS n, sum(value) AS total
              FROM (SELECT key, value, at FROM t WHERE key IS NOT NULL
                    UNION ALL SELECT key, value + 1, at FROM u) AS m
                    WATERMARK at DELAY OF INTERVAL 0 SECONDS
              GROUP BY key, TUMBLE(at, INTERVAL '1' MINUTE) EMIT CHANGES"""
    query_to_start = mt.sql(spark, text, t=t, u=u)
    if stream:
        out = tmp_path / "out.duckdb"
        query = query_to_start.start(
            checkpoint=str(tmp_path / "c"), results=mt.to_duckdb(str(out), "w"), available_now=True
        )
        assert query.await_end(120)
        ours = rows(out, "SELECT key, n, total FROM w")
    else:
        ours = [tuple(row) for row in query_to_start.results.select("key", "n", "total").collect()]
    assert sorted(ours) == [("a", 1, 2), ("a", 6, 50), ("b", 1, 6), ("b", 2, 13), ("c", 1, 3)]
