"""Average the readings of sensors, some with wrong clocks; unusable readings are rejected.

Some readings come twice, some are a day late, and some have no sensor. Some clocks are a century
ahead, and some start at the epoch. A wrong clock doesn't move the windows of other sensors.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
from pyspark.sql import SparkSession

import muntin as mt

START = datetime(2026, 3, 1, tzinfo=UTC)
READINGS = "sensor string, celsius double, at timestamp, line int, number long"
Reading = tuple[str | None, float, datetime, int, int]


def readings(seed: int = 1) -> tuple[list[Reading], Counter[str]]:
    """Return three hours of twenty sensors, and the number of readings by kind of problem."""
    chance, rows, problems = random.Random(seed), [], Counter()
    for number in range(6000):
        time = START + timedelta(seconds=1.8 * number + chance.uniform(-20, 20))
        sensor: str | None = f"s{chance.randrange(20):02d}"
        draw = chance.random() if number > 500 else 1.0
        if draw < 0.005:
            time, kind = time + timedelta(days=36_500), "future"
        elif draw < 0.01:
            time, kind = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=draw), "late"
        elif draw < 0.015:
            time, kind = time - timedelta(days=1), "late"
        elif draw < 0.02:
            sensor, kind = None, "null_key"
        else:
            kind = "counted"
        problems[kind] += 1
        rows.append((sensor, 20 + chance.gauss(0, 2), time, 0, number))
        # A gateway that gets no answer sends the reading again.
        if chance.random() < 0.02:
            rows.append(rows[-1])
            problems["duplicate"] += 1
    return rows, problems


def run(spark: SparkSession, folder: Path, rows: list[Reading]) -> mt.WindowedQuery:
    """Compute the averages of each sensor over ten minutes, every five minutes."""
    for number in range(0, len(rows), 500):
        part = spark.createDataFrame(rows[number : number + 500], READINGS).coalesce(1)
        part.write.mode("append").parquet(f"{folder}/readings")
    reader = spark.readStream.schema(READINGS).option("maxFilesPerTrigger", 1)
    query = (
        mt.windowed(
            reader.parquet(f"{folder}/readings"),
            key="sensor",
            time="at",
            offset=("line", "number"),
            lateness="1 minute",
            max_ahead="1 hour",
        )
        .hopping("10 minutes", "5 minutes")
        .early(each=True)
        .late(grace="30 minutes", each=True)
        .agg(n=mt.count(), mean=mt.mean("celsius"), hottest=mt.max("celsius"))
        .start(
            checkpoint=f"{folder}/checkpoint",
            results=mt.to_duckdb(f"{folder}/sensors.duckdb", "averages"),
            rejected=mt.to_parquet(f"{folder}/rejected"),
            available_now=True,
        )
    )
    query.await_end()
    return query


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        rows, problems = readings()
        query = run(mt.session("sensors"), Path(folder), rows)
        print(f"sent     {dict(problems)}\ncounted  {query.progress.counts}")
        rejected = f"read_parquet('{folder}/rejected/*/*.parquet')"
        print(duckdb.sql(f"SELECT reason, count(*) FROM {rejected} GROUP BY 1"))
        averages = "FROM averages ORDER BY window_start, sensor LIMIT 10"
        print(duckdb.connect(f"{folder}/sensors.duckdb").sql(averages))
