"""Tests of the first rows of each window, in Python and SQL, over batches and streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from tests.spark.feed import Feed, at, rows

import muntin as mt

pytestmark = pytest.mark.slow

CALL = "TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '5' MINUTES))"
NUMBER = "ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY {}) AS rank"
SUMS = f"""
    SELECT key, window_start, window_end, sum(value) AS total FROM {CALL}
    GROUP BY key, window_start, window_end
"""
MESSAGES = [(k, at(60 * n), n * (ord(k) - 95) % 7) for n in range(12) for k in "abc"]


@pytest.fixture
def clicks(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(MESSAGES, "key string, at timestamp, value long")


def sort_rows(rows: list[Row], *names: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in names) for row in rows), key=repr)


def compute_by_spark(clicks: DataFrame, statement: str) -> list[tuple[Any, ...]]:
    """Return the rows of Spark's own windows and row numbers."""
    clicks.createOrReplaceTempView("ranked_clicks")
    return sorted(map(tuple, clicks.sparkSession.sql(statement).collect()), key=repr)


def test_the_first_messages_of_each_window(spark: SparkSession, clicks: DataFrame) -> None:
    first_rows = mt.windowed(clicks, key="key", time="at").tumbling("5 minutes").top(2, by="value")
    by = "PARTITION BY window_start, window_end, key"
    text = f"SELECT *, {NUMBER.format('value DESC')} FROM {CALL} QUALIFY rank <= 2"
    text = text.replace("PARTITION BY window_start, window_end", by)
    names = ("key", "window_start", "value", "at", "rank")
    # Equal values are in the order of their columns.
    expected = compute_by_spark(
        clicks,
        """
        SELECT key, start, value, at, rank FROM (
            SELECT *, row_number() OVER (PARTITION BY key, start ORDER BY value DESC, at) AS rank
            FROM (SELECT *, window(at, '5 minutes').start AS start FROM ranked_clicks)
        ) WHERE rank <= 2
        """,
    )
    assert sort_rows(first_rows.results.collect(), *names) == expected
    assert sort_rows(mt.sql(spark, text, clicks=clicks).results.collect(), *names) == expected


def test_the_first_of_windows_that_end_together(spark: SparkSession, clicks: DataFrame) -> None:
    sums = mt.windowed(clicks, key="key", time="at").hopping("5 minutes", "2 minutes")
    first_rows = sums.agg(total=mt.sum("value")).top(
        2, by=["total", "key"], ascending=[False, True]
    )
    text = f"SELECT *, {NUMBER.format('total DESC, key')} FROM ({SUMS}) QUALIFY rank <= 2"
    text = text.replace("TUMBLE(TABLE clicks, DESCRIPTOR(at),", "HOP(TABLE clicks, DESCRIPTOR(at), "
                        "INTERVAL '2' MINUTES,")  # fmt: skip
    names = ("window_start", "window_end", "key", "total", "rank")
    expected = compute_by_spark(
        clicks,
        """
        SELECT * FROM (
            SELECT *, row_number() OVER (PARTITION BY start ORDER BY total DESC, key) AS rank FROM (
                SELECT window.start, window.end, key, sum(value) AS total FROM ranked_clicks
                GROUP BY window(at, '5 minutes', '2 minutes'), key)
        ) WHERE rank <= 2
        """,
    )
    assert sort_rows(first_rows.results.collect(), *names) == expected
    assert sort_rows(mt.sql(spark, text, clicks=clicks).results.collect(), *names) == expected
    hourly = mt.windowed(first_rows, key="key", time="window_end").tumbling("1 hour")
    counted = hourly.agg(n=mt.count()).results.collect()
    assert sum(row["n"] for row in counted) == len(expected)


def test_a_join_of_the_rows_of_windows(spark: SparkSession, clicks: DataFrame) -> None:
    views = clicks.where("value < 5 AND key <> 'c'")
    side = "(SELECT * FROM {})"
    text = f"""
        SELECT L.key, L.at AS left_at, R.at AS right_at,
            coalesce(L.window_start, R.window_start) AS start
        FROM {side.format(CALL)} L FULL JOIN {side.format(CALL.replace("clicks", "views"))} R
        ON L.key = R.key AND L.value = R.value
            AND L.window_start = R.window_start AND L.window_end = R.window_end
    """
    pairs = mt.sql(spark, text, clicks=clicks, views=views).results.collect()
    views.createOrReplaceTempView("ranked_views")
    sides = (
        f"(SELECT *, window(at, '5 minutes').start AS s FROM ranked_{name})"
        for name in ("clicks", "views")
    )
    expected = compute_by_spark(
        clicks,
        "SELECT l.key, l.at, r.at, coalesce(l.s, r.s) FROM {} l FULL JOIN {} r "
        "ON l.key = r.key AND l.value = r.value AND l.s = r.s".format(*sides),
    )
    assert sorted(map(repr, to_tuples(pairs))) == sorted(map(repr, expected))


def to_tuples(pairs: list[Row]) -> list[tuple[Any, ...]]:
    return [(row["key"], row["left_at"], row["right_at"], row["start"]) for row in pairs]


@pytest.mark.slow
def test_a_stream_of_the_first_windows(spark: SparkSession, tmp_path: Path) -> None:
    """Each is emitted with the batch that completes it, also after a restart."""
    feed = Feed(tmp_path / "source")
    table = tmp_path / "top.duckdb"
    for part in range(0, 36, 6):
        feed.add(*MESSAGES[part : part + 6])
    feed.add(("a", at(900), 0))

    def run() -> mt.WindowedQuery:
        sums = mt.windowed(feed.stream(spark), key="key", time="at").tumbling("5 minutes")
        top = sums.agg(total=mt.sum("value")).top(2, by="total")
        query = top.start(
            checkpoint=str(tmp_path / "checkpoint"),
            results=mt.to_duckdb(str(table), "top"),
            available_now=True,
        )
        assert query.await_end(timeout=240)
        return query

    select = "SELECT epoch(window_start), rank, key, total FROM top ORDER BY ALL"
    first = run()
    assert first.progress.adds_up()
    sums = {}
    for key, time, value in MESSAGES:
        start = (time - at(0)).seconds // 300 * 300
        sums[start, key] = sums.get((start, key), 0) + value
    best = [
        (at(start).timestamp(), rank, key, total)
        for start in (0, 300, 600)
        for rank, (total, key) in enumerate(
            sorted(((sums[start, k], k) for k in "abc"), key=lambda row: (-row[0], row[1]))[:2], 1
        )
    ]
    # The message of 900 seconds completes the last window.
    assert rows(table, select) == best
    feed.add(("b", at(1300), 5), ("c", at(1800), 1))
    run()
    assert rows(table, select)[: len(best)] == best
    assert [row[1:] for row in rows(table, select)[len(best) :]] == [(1, "a", 0), (1, "b", 5)]


def test_what_cannot_be_ranked_is_refused(clicks: DataFrame) -> None:
    windows = mt.windowed(clicks, key="key", time="at")
    hourly = windows.tumbling("1 hour")
    with pytest.raises(mt.OptionError, match="isn't the name of a column"):
        hourly.top(2, by="values")
    with pytest.raises(mt.OptionError, match="orders by nothing"):
        hourly.top(2, by=[])
    with pytest.raises(mt.OptionError, match="isn't for 1 columns"):
        hourly.top(2, by="value", ascending=[True, False])
    with pytest.raises(mt.OptionError, match="leaves no window its first rows"):
        hourly.early(each=True).deltas().top(2, by="value")
    with pytest.raises(mt.OptionError, match="taken back as wholes"):
        windows.session("1 minute").early(each=True).top(2, by="value")
    with pytest.raises(mt.OptionError, match="rank"):
        mt.windowed(clicks.withColumnRenamed("value", "rank"), time="at").tumbling("1 hour").top(
            1, by="rank"
        )
