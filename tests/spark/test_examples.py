"""Tests of the examples that are single files: fraud, sensors and page views."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import pytest
from examples import fraud, page_views, sensors
from pyspark.sql import SparkSession

import muntin as mt


@pytest.mark.slow
def test_fraud_is_found_where_it_was_planted_and_shown_early(
    spark: SparkSession, tmp_path: Path
) -> None:
    database = fraud.run(spark, tmp_path)
    alarms = database.sql(fraud.ALARMS).fetchall()
    assert [card for card, *_ in alarms] == fraud.THIEVES
    assert all(len(cities) >= 5 and payments >= 5 for _, _, payments, cities, _ in alarms)
    assert database.sql(fraud.FIRST).fetchall() == [(card, "early") for card in fraud.THIEVES]
    # The table holds every payment once, also after retractions.
    counted = "SELECT sum(payments), round(sum(spent), 2) FROM sessions"
    rows = fraud.payments()
    assert database.sql(counted).fetchall() == [
        (len(rows), round(sum(a for _, _, a, _ in rows), 2))
    ]
    assert database.sql("FROM emitted WHERE emission = 'retract'").fetchall() != []


@pytest.mark.slow
def test_wrong_clocks_are_told_apart_and_nothing_is_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows, problems = sensors.readings()
    query = sensors.run(spark, tmp_path, rows)
    counts = dict(query.progress.counts)
    assert counts.pop("seen") == len(rows)
    assert counts.pop("duplicates") == problems.pop("duplicate")
    assert Counter(counts) == problems
    reasons = f"SELECT reason, count(*) FROM '{tmp_path}/rejected/*/*.parquet' GROUP BY ALL"
    counted = problems.pop("counted")
    assert dict(duckdb.sql(reasons).fetchall()) == problems
    with duckdb.connect(f"{tmp_path}/sensors.duckdb") as database:
        assert database.sql("SELECT sum(n) FROM averages").fetchall() == [(2 * counted,)]


def test_views_are_counted_here_and_on_spark_alike(spark: SparkSession, tmp_path: Path) -> None:
    at = "2026-03-01T09:59:00Z"
    current, before, visitor = page_views.run_locally(at)
    assert (current, before, visitor) == (5, 10, "visitor-59")
    page_views.run_on_spark(spark, tmp_path)
    assert mt.open_table(f"{tmp_path}/checkpoint", "views")["home"].current(at) == current
