"""Tests of queries over queries in SQL: each runs as one query, as in Python."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from tests.spark.feed import Feed, at

import muntin as mt

pytestmark = pytest.mark.slow

INNER = """
    SELECT key, window_start, window_end, window_time, sum(value) AS total
    FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '5' MINUTES))
    GROUP BY key, window_start, window_end, window_time
"""
OUTER = """
    SELECT key, window_start, window_end, sum(total) AS total, count(*) AS n
    FROM TABLE(TUMBLE({source}, DESCRIPTOR({time}), INTERVAL '10' MINUTES))
    GROUP BY key, window_start, window_end
"""
CASCADES = {
    "in its place": OUTER.format(source=f"({INNER})", time="window_time"),
    "as a table": OUTER.format(source=f"TABLE ({INNER})", time="window_time"),
    "in front": f"WITH five AS ({INNER}) " + OUTER.format(source="TABLE five", time="window_time"),
    "as a view": f"CREATE VIEW five AS {INNER.replace('_time,', '_time AS rowtime,', 1)};"
    + OUTER.format(source="TABLE five", time="rowtime"),
    "chosen again": f"WITH five AS ({INNER}), more AS (SELECT *, total * 1 AS t FROM five WHERE "
    "total >= 0) " + OUTER.format(source="TABLE more", time="window_time"),
    "as a function": f"SELECT key, window_start, window_end, sum(total) AS total, count(*) AS n "
    f"FROM ({INNER}) GROUP BY key, TUMBLE(window_time, INTERVAL '10' MINUTES)",
}


@pytest.fixture(scope="module")
def clicks(spark: SparkSession) -> DataFrame:
    """Return twelve minutes of messages of two keys, and one without a time."""
    rows = [(k, at(30 * n), n) for n in range(24) for k in "ab" if n % (ord(k) - 95)]
    return spark.createDataFrame([*rows, ("a", None, 1)], "key string, at timestamp, value long")


def sort_rows(rows: list[Row], *names: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in names) for row in rows), key=repr)


NAMES = ("key", "window_start", "window_end", "total", "n")


@pytest.fixture(scope="module")
def twin(clicks: DataFrame) -> list[tuple[Any, ...]]:
    """Return the results of the same windows over windows in Python."""
    inner = mt.windowed(clicks, key="key", time="at").tumbling("5 minutes")
    inner = inner.agg(total=mt.sum("value"))
    outer = mt.windowed(inner, key="key", time="window_time").tumbling("10 minutes")
    return sort_rows(outer.agg(total=mt.sum("total"), n=mt.count()).results.collect(), *NAMES)


@pytest.mark.parametrize("way", CASCADES)
def test_windows_over_windows_by_the_same_column(
    spark: SparkSession, clicks: DataFrame, twin: list[tuple[Any, ...]], way: str
) -> None:
    query = mt.sql(spark, CASCADES[way], clicks=clicks)
    results = sort_rows(query.results.collect(), *NAMES)
    assert results == twin
    # A window that ends with a larger one is in it.
    assert [row[-1] for row in results] == [2, 1, 2, 1]
    assert [(row["stage"], row["reason"]) for row in query.rejected.collect()] == [(1, "null_time")]
    assert query.explain().count("tumbling") >= 2


def join_statement(how: str) -> str:
    """Return a statement that joins windows of two tables by key and window."""
    left = INNER.replace("window_time, ", "").replace(", window_time", "")
    right = left.replace("clicks", "views").replace("AS total", "AS seen")
    return f"""
        SELECT L.key, R.key AS other, coalesce(L.window_start, R.window_start) AS start,
            L.total, R.seen
        FROM ({left}) L {how} JOIN ({right}) R ON L.key = R.key
            AND L.window_start = R.window_start AND L.window_end = R.window_end
    """


@pytest.mark.parametrize("how", ["INNER", pytest.param("FULL", marks=pytest.mark.slow)])
def test_a_join_of_windows_by_key_and_window(
    spark: SparkSession, clicks: DataFrame, how: str
) -> None:
    views = clicks.where("key = 'a' OR at < TIMESTAMP '2026-01-01 00:07:00'")
    views = views.where("at IS NULL OR at >= TIMESTAMP '2026-01-01 00:05:00'")
    query = mt.sql(spark, join_statement(how), clicks=clicks, views=views)
    sides = []
    for frame, name in ((clicks, "total"), (views, "seen")):
        windows = mt.windowed(frame, key="key", time="at", nulls="group").tumbling("5 minutes")
        sides.append(windows.agg(**{name: mt.sum("value")}))
    on = ["key", "window_start", "window_end"]
    twin = mt.join(*sides, on=on, how=how.lower())  # type: ignore[arg-type]
    names = ("key", "start", "total", "seen")
    wanted = sort_rows(twin.results.collect(), "key", "window_start", "total", "seen")
    assert sort_rows(query.results.collect(), *names) == wanted
    assert len(wanted) == (3 if how == "INNER" else 6)
    rejected_by_side = Counter(row["side"] for row in query.rejected.collect())
    assert rejected_by_side == {"left": 1, "right": 1}


@pytest.mark.slow
def test_a_stream_of_windows_of_a_join_of_windows(spark: SparkSession, tmp_path: Path) -> None:
    feeds = {name: Feed(tmp_path / name) for name in ("clicks", "views")}
    for shift, feed in enumerate(feeds.values()):
        for numbers in ((0, 1), (2, 3)):
            messages = [(key, at(200 * n + shift), n) for n in numbers for key in "ab"]
            feed.add(*messages, *([(None, None, 1)] * 2))
        feed.add(*(("a", at(second), 0) for second in (3600, 7200, 10_800)))
    statement = f"""
        WITH pairs AS (SELECT L.key, L.window_end AS until, L.total, R.seen FROM
            {join_statement("INNER").split("FROM", 1)[1]} WHERE L.total >= 0)
        SELECT key, window_start, window_end, sum(total + seen) AS total, count(*) AS n
        FROM TABLE(TUMBLE(TABLE pairs, DESCRIPTOR(until), INTERVAL '1' HOUR))
        GROUP BY key, window_start, window_end HAVING n > 1
    """
    windows = mt.sql(spark, statement, **{n: feed.stream(spark) for n, feed in feeds.items()})
    rows: list[Row] = []
    rejected: list[Row] = []
    query = windows.start(
        checkpoint=f"{tmp_path}/checkpoint",
        results=lambda frame, _: rows.extend(frame.collect()),
        rejected=lambda frame, _: rejected.extend(frame.collect()),
        available_now=True,
    )
    assert query.await_end(timeout=240)
    assert sort_rows(rows, "key", "total", "n") == [("a", 12, 3), ("b", 12, 3)]
    progress = query.progress
    assert progress.adds_up()
    assert progress.received == sum(feed.ids for feed in feeds.values())
    assert Counter((row["side"], row["reason"]) for row in rejected) == {
        ("left", "null_time"): 4,
        ("right", "null_time"): 4,
    }


@pytest.mark.slow
def test_windows_over_the_shown_pairs_of_a_join(spark: SparkSession, clicks: DataFrame) -> None:
    """Windows are computed over the select list and WHERE of the join."""
    statement = """
        SELECT upper(c.key) AS name, c.at AS moment, c.value + v.value AS both
        FROM clicks c JOIN views v
            ON c.key = v.key AND c.at BETWEEN v.at AND v.at + INTERVAL 1 SECOND
        WHERE c.value > 10
    """
    pairs = mt.sql(spark, statement, clicks=clicks, views=clicks)
    for source in (pairs, pairs.results):
        windows = mt.windowed(source, key="name", time="moment").tumbling("1 hour")
        counts = windows.agg(n=mt.count(), both=mt.sum("both"))
        whole = clicks.where("value > 10 AND at IS NOT NULL").groupBy("key")
        wanted = whole.agg({"value": "count", "at": "count"}).collect()
        assert {row["name"].lower(): row["n"] for row in counts.results.collect()} == {
            row["key"]: row["count(at)"] for row in wanted
        }
        sides = Counter(row["side"] for row in counts.rejected.collect())
        assert sides == {"left": 1, "right": 1}


def test_what_cannot_be_chained_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1))
    emitting_again = INNER + " EMIT EARLY EACH"
    with pytest.raises(mt.SqlError, match="each would count"):
        mt.sql(
            spark,
            OUTER.format(source=f"({emitting_again})", time="window_time"),
            clicks=feed.stream(spark),
        )
    with pytest.raises(mt.SqlError, match=r"write \(SELECT \.\.\.\) AS one"):
        mt.sql(spark, join_statement("INNER").replace(") L ", ") "), clicks=feed.stream(spark))
