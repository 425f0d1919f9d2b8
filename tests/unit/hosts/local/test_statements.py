"""Statements in this process: which are refused, and tables of Kafka."""

from __future__ import annotations

import json
from datetime import datetime

import polars as pl
import pytest
from tests.services.kafka import Kafka

import muntin as mt

CLICKS = pl.DataFrame({"page": ["home", "cart"], "v": [1, 2], "at": [datetime(2026, 1, 1)] * 2})
WINDOW = "GROUP BY page, TUMBLE(at, INTERVAL 1 MINUTE)"


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        (f"SELECT page, sum(soundex(page)) AS n FROM clicks {WINDOW}", r"soundex\(\), which needs"),
        (f"SELECT page, hash(count(*)) AS n FROM clicks {WINDOW}", r"hash\(\), which needs Spark"),
        (f"SELECT page, count(*) AS n FROM clicks WHERE rand() > 0 {WINDOW}", r"rand\(\), which"),
        (f"SELECT page, count(*) AS n FROM clicks {WINDOW} ORDER BY n", "'ORDER BY' needs Spark"),
        (
            "SELECT page, count(*) AS n FROM (SELECT page, at FROM clicks UNION ALL "
            f"SELECT page, at FROM clicks) {WINDOW}",
            "'UNION' needs Spark",
        ),
        (
            "SELECT page, v, sum(v) OVER (PARTITION BY page ORDER BY at RANGE INTERVAL 1 MINUTE "
            "PRECEDING) AS n FROM clicks",
            "each row with its window's aggregates\" needs Spark",
        ),
    ],
)
def test_what_only_spark_runs_is_named(statement: str, named: str) -> None:
    with pytest.raises(mt.SqlError, match=named):
        mt.sql(statement, clicks=CLICKS)


def test_a_column_that_isnt_there_is_named_without_a_way_to_spark() -> None:
    with pytest.raises(mt.SqlError, match=r"has pge, which isn't a column; give one of page, v"):
        mt.sql(f"SELECT page, count(*) AS n FROM clicks WHERE pge = 'a' {WINDOW}", clicks=CLICKS)


def test_a_window_that_doesnt_hold_any_more_is_taken_back() -> None:
    frame = CLICKS.with_columns(pl.lit(0).alias("offset"))
    statement = f"SELECT page, sum(v) AS n FROM clicks {WINDOW} HAVING sum(v) > 1"
    assert mt.sql(statement, clicks=frame).results["page"].to_list() == ["cart"]


def test_a_declared_topic_is_read_in_this_process(broker: Kafka) -> None:
    topic = broker.topic()
    click = json.dumps({"page": "home", "ms": 1767258000000}).encode()
    broker.send(topic, [(0, None, click), (0, None, click), (1, None, b"broken")])
    views = mt.sql(
        f"""
        CREATE TABLE clicks (
            page STRING, ms BIGINT, at AS timestamp_millis(ms),
            WATERMARK FOR at AS at MAX AHEAD ANY, OFFSET FOR (partition, offset)
        ) WITH (connector = 'kafka', topic = '{topic}', 'bootstrap.servers' = '{broker.servers}');
        SELECT page, count(*) AS n FROM clicks {WINDOW} EMIT EARLY EACH
        """
    )
    query = views.start(checkpoint=None, available_now=True)
    assert query.await_end(60)
    assert query.frame().select("page", "n").rows() == [("home", 2)]
    assert query.progress.counts["malformed"] == 1


def test_aggregates_per_row_are_those_of_the_last_rows() -> None:
    statement = "SELECT page, v, sum(v) OVER (PARTITION BY page ROWS 1 PRECEDING) AS n FROM clicks"
    clicks = pl.concat([CLICKS, CLICKS.with_columns(v=pl.col("v") * 10)])
    rows = mt.sql(statement, clicks=clicks).results.select("page", "v", "n").rows()
    assert sorted(rows) == [("cart", 2, 2), ("cart", 20, 22), ("home", 1, 1), ("home", 10, 11)]
