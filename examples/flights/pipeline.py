"""Delays of New York's flights, an hour at a time, by airport and by carrier.

Runs with ``make demo``, and by itself: ``muntin run pipeline.py --until-quiet --set data=FOLDER
--set out=FOLDER``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import muntin as mt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLIGHT_COLUMNS = """scheduled timestamp_ntz, landed timestamp_ntz, origin string, dest string,
             carrier string, flight long, dep_delay long"""
LATENESS, GRACE = "1 hour", "3 hours"


def pipeline(spark: SparkSession, data: str, out: str) -> list[mt.WindowedQuery]:
    """Start one query for airports and one for carriers, over the same files."""
    flights = spark.readStream.schema(FLIGHT_COLUMNS).option("maxFilesPerTrigger", 1).parquet(data)

    def by(key: str) -> mt.WindowedQuery:
        delays = (
            mt.windowed(flights, key=key, time="scheduled", lateness=LATENESS)
            .hopping("1 hour", slide="5 minutes")
            .early(every="2 seconds")
            .late(every="2 seconds", grace=GRACE)
            .agg(
                flights=mt.count(),
                departed=mt.count("dep_delay"),
                mean=mt.mean("dep_delay"),
                worst=mt.max("dep_delay"),
                p95=mt.quantile("dep_delay", 0.95),
            )
        )
        return delays.start(
            name=f"by {key}",
            checkpoint=f"{out}/checkpoints/{key}",
            results=mt.to_duckdb(f"{out}/flights.duckdb", key, history=f"{key}_history"),
            rejected=mt.to_duckdb(f"{out}/flights.duckdb", f"{key}_rejected"),
        )

    return [by("origin"), by("carrier")]
