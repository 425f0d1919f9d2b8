"""Readings of sensors whose clocks are wrong: what can't be used is told apart, nothing is lost.

Some readings come twice, some clocks are a century ahead, some start at the epoch, some readings
are a day late, some are without a name. One sensor's wrong clock moves nobody's windows.
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
    """Three hours of twenty sensors, and how many readings of each kind of trouble there are."""
    chance, made, trouble = random.Random(seed), [], Counter()
    for number in range(6000):
        moment = START + timedelta(seconds=1.8 * number + chance.uniform(-20, 20))
        sensor: str | None = f"s{chance.randrange(20):02d}"
        odd = chance.random() if number > 500 else 1.0
        if odd < 0.005:
            moment, kind = moment + timedelta(days=36_500), "future"
        elif odd < 0.01:
            moment, kind = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=odd), "late"
        elif odd < 0.015:
            moment, kind = moment - timedelta(days=1), "late"
        elif odd < 0.02:
            sensor, kind = None, "null_key"
        else:
            kind = "counted"
        trouble[kind] += 1
        made.append((sensor, 20 + chance.gauss(0, 2), moment, 0, number))
        # A gateway that hears no answer sends again.
        if chance.random() < 0.02:
            made.append(made[-1])
            trouble["duplicate"] += 1
    return made, trouble


def run(spark: SparkSession, folder: Path, made: list[Reading]) -> mt.WindowedQuery:
    """Averages of each sensor over ten minutes, every five."""
    for number in range(0, len(made), 500):
        part = spark.createDataFrame(made[number : number + 500], READINGS).coalesce(1)
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
        made, trouble = readings()
        query = run(mt.session("sensors"), Path(folder), made)
        print(f"made     {dict(trouble)}\ncounted  {query.progress.counts}")
        rejected = f"read_parquet('{folder}/rejected/*/*.parquet')"
        print(duckdb.sql(f"SELECT reason, count(*) FROM {rejected} GROUP BY 1"))
        averages = "FROM averages ORDER BY window_start, sensor LIMIT 10"
        print(duckdb.connect(f"{folder}/sensors.duckdb").sql(averages))
