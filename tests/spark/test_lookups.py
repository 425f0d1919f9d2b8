"""Tests of messages and windows joined with static tables, compared with DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.feed import Feed, at, rows

import muntin as mt
from muntin.model.errors import OptionError, SqlError

pytestmark = pytest.mark.slow

KINDS = [("a", "first", 3), ("a", "more", 9), ("c", "third", 1)]
COUNT = """SELECT kind, count(*) AS n, sum(value) AS total FROM t {} GROUP BY kind, {}"""


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    source = Feed(tmp_path / "messages")
    source.add(("a", at(1), 7), ("a", at(4), -2), ("b", at(4), 5), (None, at(5), 4))
    source.add(("a", at(11), 3), ("c", at(12.5), 8), ("a", at(40), 1))
    return source


@pytest.fixture
def kinds(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(KINDS, "name string, kind string, least int")


@pytest.mark.parametrize(
    "join",
    [
        "JOIN kinds k ON t.key = k.name",
        "LEFT JOIN kinds k ON t.key = k.name",
        "JOIN kinds k ON t.key = k.name AND t.value >= k.least",
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_rows_are_those_of_duckdb(
    spark: SparkSession, feed: Feed, kinds: DataFrame, join: str, stream: bool, tmp_path: Path
) -> None:
    frame = feed.stream(spark) if stream else feed.frame(spark)
    text = f"{COUNT.format(join, 'TUMBLE(at, 10 SECONDS)')} EMIT CHANGES"
    query_to_start = mt.sql(spark, text, t=frame, kinds=kinds)
    if stream:
        out = tmp_path / "out.duckdb"
        query = query_to_start.start(
            checkpoint=str(tmp_path / "c"), results=mt.to_duckdb(str(out), "w"), available_now=True
        )
        assert query.await_end(120)
        assert query.progress.counts["seen"] == query.progress.counts["counted"]
        ours = rows(out, "SELECT kind, n, total FROM w")
    else:
        ours = [tuple(row) for row in query_to_start.results.select("kind", "n", "total").collect()]
    db = duckdb.connect()
    db.execute("CREATE TABLE kinds (name TEXT, kind TEXT, least INT)")
    db.executemany("INSERT INTO kinds VALUES (?, ?, ?)", KINDS)
    t = f"(SELECT * FROM '{feed.folder}/[0-9]*.parquet') AS t"
    text = COUNT.format(join, 'epoch_us(t."at") // 10000000').replace("FROM t", f"FROM {t}")
    assert sorted(ours, key=str) == sorted(db.sql(text).fetchall(), key=str)


def test_rows_of_the_query_itself(spark: SparkSession, feed: Feed, kinds: DataFrame) -> None:
    frame = feed.frame(spark)
    values = ", ".join(f"('{name}', '{kind}', {least})" for name, kind, least in KINDS)
    joins = "kinds k", f"(VALUES {values}) AS k(name, kind, least)"
    window = "TUMBLE(at, 10 SECONDS)"
    results = []
    for table in joins:
        text = COUNT.format(f"JOIN {table} ON t.key = k.name", window)
        counts = mt.sql(spark, text, t=frame, kinds=kinds).results.select("kind", "n", "total")
        results.append(sorted(map(tuple, counts.collect())))
    assert results[0] == results[1]
    assert len(results[0]) > 3


def test_those_that_are_there_and_those_that_are_not(
    spark: SparkSession, feed: Feed, kinds: DataFrame
) -> None:
    text = """SELECT count(*) AS n FROM t WHERE {} (SELECT 1 FROM kinds k WHERE k.name = t.key)
              GROUP BY TUMBLE(at, 1 MINUTE)"""
    for words, wanted in (("EXISTS", 5), ("NOT EXISTS", 2)):
        query = mt.sql(spark, text.format(words), t=feed.frame(spark), kinds=kinds)
        assert [row.n for row in query.results.collect()] == [wanted]


@pytest.mark.parametrize(
    ("names", "wanted"), [(["a", "c"], 1), (["a", None], 0), ([None], 0), ([], 7)]
)
def test_not_in_is_unknown_of_null(
    spark: SparkSession, feed: Feed, names: list[str | None], wanted: int
) -> None:
    known_names = spark.createDataFrame([(name,) for name in names], "name string")
    text = """SELECT count(*) AS n FROM t WHERE key NOT IN (SELECT name FROM known k)
              GROUP BY TUMBLE(at, 1 MINUTE)"""
    query = mt.sql(spark, text, t=feed.frame(spark), known=known_names)
    assert sum(row.n for row in query.results.collect()) == wanted


def test_the_first_rows_of_windows_and_a_second_table(
    spark: SparkSession, feed: Feed, kinds: DataFrame
) -> None:
    short_names = spark.createDataFrame(
        [("first", "1st"), ("third", "3rd")], "code string, short string"
    )
    text = """SELECT shown.short, count(*) AS n
              FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), 1 MINUTE)) t
              JOIN kinds k ON t.key = k.name JOIN shown ON k.kind = shown.code
              GROUP BY shown.short, window_start, window_end"""
    counts = mt.sql(
        spark, text, t=feed.frame(spark), kinds=kinds, shown=short_names
    ).results.collect()
    assert sorted((row.short, row.n) for row in counts) == [("1st", 4), ("3rd", 1)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            COUNT.format("JOIN kinds k ON t.key = k.nme", "TUMBLE(at, 1 MINUTE)"),
            "Spark refuses",
        ),
        (
            COUNT.format("JOIN kinds k ON t.key = k.name", "TUMBLE(at, 1 MINUTE)").replace(
                "FROM t", "FROM t OFFSET FOR (id, value)"
            ),
            "is that of each row that a message has met in k",
        ),
        (
            "SELECT count(*) AS n FROM t JOIN twice k ON t.key = k.name "
            "GROUP BY TUMBLE(at, 1 MINUTE)",
            "has columns that the messages have as well: value",
        ),
        (
            "SELECT count(*) AS n FROM t JOIN moving k ON t.key = k.name "
            "GROUP BY TUMBLE(at, 1 MINUTE)",
            "is a stream, and the join has no bound",
        ),
    ],
)
def test_what_is_refused(
    spark: SparkSession, feed: Feed, kinds: DataFrame, text: str, problem: str
) -> None:
    twice = kinds.withColumnRenamed("least", "value")
    moving = feed.stream(spark).selectExpr("key AS name")
    with pytest.raises(SqlError, match=problem):
        mt.sql(spark, text, t=feed.frame(spark), kinds=kinds, twice=twice, moving=moving)


def test_explain_names_the_table(spark: SparkSession) -> None:
    from muntin.explain.flows import describe_query
    from muntin.sql.api import compile_query

    text = COUNT.format("JOIN kinds k ON t.key = k.name", "TUMBLE(at, 1 MINUTE)")
    assert "t, looked up in kinds" in describe_query(compile_query(text).lowered.query, {})
    text = f"SELECT * FROM ({OURS}) w JOIN kinds k ON w.key = k.name"
    assert "beside rows of kinds" in describe_query(compile_query(text).lowered.query, {})


WINDOWS = """SELECT key, {start} AS start, count(*) AS n, sum(value) AS total FROM {t}
             GROUP BY key, {window}"""
BEHIND = """SELECT w.*, k.kind, coalesce(k.short, 'none') AS short, total * 2 AS twice
            FROM ({windows}) w {join} names k ON w.key = k.name"""
NAMES = [("a", "first", "1st"), ("c", "third", None), (None, "nobody", "0th")]


@pytest.fixture
def names(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(NAMES, "name string, kind string, short string")


def compute_by_duckdb(feed: Feed, join: str) -> list[tuple[Any, ...]]:
    t = f"(SELECT * FROM '{feed.folder}/[0-9]*.parquet') AS t"
    start = 'epoch_us("at") // 10000000'
    db = duckdb.connect()
    db.execute("CREATE TABLE names (name TEXT, kind TEXT, short TEXT)")
    db.executemany("INSERT INTO names VALUES (?, ?, ?)", NAMES)
    windows = WINDOWS.format(t=t, start=start, window=start)
    text = f"SELECT * EXCLUDE (start) FROM ({BEHIND.format(windows=windows, join=join)})"
    return sorted(db.sql(text).fetchall(), key=str)


OURS = WINDOWS.format(t="t", start="window_start", window="TUMBLE(at, 10 SECONDS)")
SHOWN = ("key", "n", "total", "kind", "short", "twice")


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
@pytest.mark.parametrize("stream", [False, True])
def test_windows_beside_rows_are_those_of_duckdb(
    spark: SparkSession, feed: Feed, names: DataFrame, join: str, stream: bool, tmp_path: Path
) -> None:
    frame = feed.stream(spark) if stream else feed.frame(spark)
    inner = f"{OURS} EMIT EARLY EACH LATE EACH GRACE 1 MINUTE"
    query_to_start = mt.sql(spark, BEHIND.format(windows=inner, join=join), t=frame, names=names)
    if stream:
        out = tmp_path / "out.duckdb"
        query = query_to_start.start(
            checkpoint=str(tmp_path / "c"), results=mt.to_duckdb(str(out), "w"), available_now=True
        )
        assert query.await_end(120)
        ours = rows(out, f"SELECT {', '.join(SHOWN)} FROM w")
    else:
        ours = [tuple(row) for row in query_to_start.results.select(*SHOWN).collect()]
    assert sorted(ours, key=str) == compute_by_duckdb(feed, join)


def test_windows_over_windows_that_were_looked_up(
    spark: SparkSession, feed: Feed, names: DataFrame
) -> None:
    """Messages that the inner windows reject aren't looked up, and aren't lost."""
    feed.add(("a", None, 1))
    text = f"""WITH w AS ({OURS})
               SELECT kind, sum(n) AS n FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(window_time), 1 DAY))
               w {{}} names k ON w.key = k.name GROUP BY kind, window_start, window_end"""
    for join, more in (("JOIN", []), ("LEFT JOIN", [(None, 2)])):
        query = mt.sql(spark, text.format(join), t=feed.frame(spark), names=names)
        counts = sorted(((row.kind, row.n) for row in query.results.collect()), key=str)
        assert counts == sorted([("first", 4), ("third", 1), *more], key=str)
        assert [(row.stage, row.reason) for row in query.rejected.collect()] == [(1, "null_time")]


def test_each_row_with_a_time_before_it_is_looked_up(
    spark: SparkSession, feed: Feed, names: DataFrame
) -> None:
    over = "sum(value) OVER (PARTITION BY key ORDER BY at RANGE 3 SECONDS PRECEDING) AS s"
    text = f"""SELECT o.value, o.s, kind FROM (SELECT key, value, {over} FROM t) o
               JOIN names ON o.key = names.name WHERE s > 2"""
    query = mt.sql(spark, text, t=feed.frame(spark), names=names)
    sums = sorted((row.value, row.s, row.kind) for row in query.results.collect())
    assert sums == [(-2, 5, "first"), (3, 3, "first"), (7, 7, "first"), (8, 8, "third")]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("JOIN names k ON w.key = k.nme", "Spark refuses"),
        ("JOIN moving k ON w.key = k.name", "is a stream, and the join has no bound"),
        ("JOIN twins k ON w.key = k.name", "has columns that the windows have as well: n"),
    ],
)
def test_what_is_refused_behind_windows(
    spark: SparkSession, feed: Feed, names: DataFrame, text: str, problem: str
) -> None:
    moving = feed.stream(spark).selectExpr("key AS name")
    twins = names.withColumnRenamed("short", "n")
    tables = {"names": names, "moving": moving, "twins": twins}
    with pytest.raises(SqlError, match=problem):
        mt.sql(spark, f"SELECT * FROM ({OURS}) w {text}", t=feed.frame(spark), **tables)


def test_a_window_that_would_be_two_rows_of_a_table(
    spark: SparkSession, feed: Feed, kinds: DataFrame, tmp_path: Path
) -> None:
    text = f"SELECT w.*, kind FROM ({OURS}) w JOIN kinds k ON w.key = k.name"
    batch_rows = mt.sql(spark, text, t=feed.frame(spark), kinds=kinds).results.collect()
    assert {row.kind for row in batch_rows if row.key == "a"} == {"first", "more"}
    query = mt.sql(spark, text, t=feed.stream(spark), kinds=kinds)
    sink = mt.to_duckdb(str(tmp_path / "out.duckdb"), "w")
    with pytest.raises(OptionError, match=r"has several rows of name='a'"):
        query.start(checkpoint=str(tmp_path / "c"), results=sink, available_now=True)
