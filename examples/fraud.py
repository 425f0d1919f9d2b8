"""Find stolen cards: a session of payments in four cities or more raises an alarm at once.

A session ends when a card has had no payment for ten minutes. Payments come out of order: one may
arrive that joins two sessions after both were emitted. Then both are retracted, and the merged
session is emitted. A table by card and session start is always right.
"""

from __future__ import annotations

import random
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
from pyspark.sql import DataFrame, SparkSession

import muntin as mt

START = datetime(2026, 3, 1, 8, tzinfo=UTC)
CITIES = ["Berlin", "Lyon", "Porto", "Turin", "Graz", "Ghent"]
THIEVES = ["card-007", "card-042"]
PAYMENTS = "card string, city string, amount double, at timestamp"


def payments(seed: int = 1) -> list[tuple[str, str, float, datetime]]:
    """Return two hours of payments by a hundred cards; thieves use two of them all over Europe."""
    chance = random.Random(seed)
    rows = []
    for number in range(100):
        card, home = f"card-{number:03d}", chance.choice(CITIES)
        for _ in range(8):
            time = START + timedelta(seconds=chance.uniform(0, 7200))
            rows.append((card, home, round(chance.uniform(5, 80), 2), time))
    for card in THIEVES:
        begin = START + timedelta(minutes=chance.uniform(20, 90))
        for step, city in enumerate(chance.sample(CITIES, 5)):
            rows.append((card, city, 400.0, begin + timedelta(minutes=4 * step)))
    # In the order of arrival: a payment arrives up to five minutes after its time.
    return sorted(rows, key=lambda payment: payment[3] + timedelta(seconds=chance.uniform(0, 300)))


def sessions(frame: DataFrame):
    """Return the query: sessions of each card, emitted again whenever a payment changes them."""
    return (
        mt.windowed(frame, key="card", time="at", lateness="1 minute")
        .session("10 minutes")
        .early(each=True)
        .late(grace="1 hour", each=True)
        .agg(payments=mt.count(), cities=mt.distinct("city"), spent=mt.sum("amount"))
    )


def run(spark: SparkSession, folder: Path) -> duckdb.DuckDBPyConnection:
    """Stream the payments, file by file, into a table of sessions, and return its database."""
    rows = payments()
    for number in range(0, len(rows), 100):
        part = spark.createDataFrame(rows[number : number + 100], PAYMENTS).coalesce(1)
        part.write.mode("append").parquet(f"{folder}/payments")
    reader = spark.readStream.schema(PAYMENTS).option("maxFilesPerTrigger", 1)
    query = sessions(reader.parquet(f"{folder}/payments")).start(
        checkpoint=f"{folder}/checkpoint",
        results=mt.to_duckdb(f"{folder}/sessions.duckdb", "sessions", history="emitted"),
        rejected=mt.to_parquet(f"{folder}/rejected"),
        available_now=True,
    )
    query.await_end()
    assert query.progress.adds_up()
    return duckdb.connect(f"{folder}/sessions.duckdb")


ALARMS = """
    SELECT card, window_start, payments, cities, spent FROM sessions
    WHERE len(cities) >= 4 ORDER BY card
"""
FIRST = """
    SELECT card, min_by(emission, batch) AS first FROM emitted
    WHERE len(cities) >= 4 GROUP BY card ORDER BY card
"""

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        database = run(mt.session("fraud"), Path(folder))
        print(database.sql(ALARMS), database.sql(FIRST))
