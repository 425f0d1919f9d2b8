"""Delays by weather: joins every flight with the weather reading of its hour and airport.

Runs with ``make demo ARGS=weather``, and by itself: ``muntin run weather.py --until-quiet --set
data=FOLDER --set out=FOLDER``.

A reading is known when its hour has passed. A flight's event time is its scheduled departure, and
it becomes known when it has landed, so most flights find a reading that has been waiting for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import muntin as mt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLIGHT_COLUMNS = """scheduled timestamp_ntz, landed timestamp_ntz, origin string, dest string,
             carrier string, flight long, dep_delay long"""
READING_COLUMNS = """origin string, at timestamp_ntz, known timestamp_ntz, temp double,
                     wind_speed double, precip double, visib double"""
LATENESS, GRACE = "1 hour", "1 day"
NO_READING = "no reading"
# Degrees Fahrenheit, miles an hour, inches an hour, miles.
SKY_EXPRESSION = """CASE WHEN precip > 0 AND temp <= 32 THEN 'snow'
              WHEN precip >= 0.1 THEN 'heavy rain'
              WHEN precip > 0 THEN 'rain'
              WHEN visib < 3 THEN 'fog'
              WHEN wind_speed >= 20 THEN 'strong wind'
              ELSE 'fair' END"""


def pipeline(spark: SparkSession, data: str, out: str) -> list[mt.WindowedQuery]:
    """Start one query: the join, and windows of an hour over what it emits."""
    from pyspark.sql import functions as F

    files = spark.readStream.option("maxFilesPerTrigger", 1)
    flights = files.schema(FLIGHT_COLUMNS).parquet(f"{data}/flights")
    weather = files.schema(READING_COLUMNS).parquet(f"{data}/weather")
    sky = weather.select("origin", "at", F.expr(SKY_EXPRESSION).alias("sky"))

    joined_flights = mt.join(
        mt.windowed(flights, time="scheduled", lateness=LATENESS)
        .tumbling("1 hour")
        .late(each=True, grace=GRACE),
        mt.windowed(sky, time="at").tumbling("1 hour"),
        on="origin",
        how="left",
    )
    weather_name = F.coalesce("sky", F.lit(NO_READING)).alias("weather")
    delays = (
        mt.windowed(joined_flights, key=weather_name, time="scheduled")
        .tumbling("1 hour")
        .early(each=True)
        .agg(
            flights=mt.count(),
            departed=mt.count("dep_delay"),
            delay=mt.sum("dep_delay"),
            late=mt.count_if(F.col("dep_delay") >= 30),
        )
    )
    query = delays.start(
        name="by weather",
        checkpoint=f"{out}/checkpoints/weather",
        results=mt.to_duckdb(f"{out}/weather.duckdb", "weather"),
        rejected=mt.to_duckdb(f"{out}/weather.duckdb", "rejected"),
    )
    return [query]
