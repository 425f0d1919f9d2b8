"""A sample of flights: a replay, and the tables that the queries would write."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
from examples.flights import check
from examples.flights.source import Replay, sort_by_landing, write_replay

COLUMNS = ("month", "day", "sched_dep_time", "dep_delay", "air_time", "origin", "carrier")
ROWS = [
    (1, 1, 600, 5, 60, "EWR", "UA"),
    (1, 1, 600, -3, 330, "EWR", "UA"),
    (1, 1, 610, 90, 45, "JFK", "B6"),
    (1, 1, 700, None, None, "LGA", "MQ"),
    (1, 1, 2330, 60, 100, "JFK", "B6"),
    (1, 2, 600, 0, 120, "LGA", "MQ"),
    (1, 2, 615, 20, None, "EWR", "UA"),
    (1, 2, 1200, 7, 60, "EWR", "UA"),
]


def make_flights() -> pl.DataFrame:
    frame = pl.DataFrame(ROWS, schema=COLUMNS, orient="row")
    return frame.with_columns(
        year=pl.lit(2013, pl.Int64), dest=pl.lit("BOS"), flight=pl.int_range(pl.len())
    )


def write_sample(folder: Path, pieces: int = 4) -> Replay:
    return write_replay(sort_by_landing(make_flights()), folder / "replay", pieces)


def write_database(folder: Path, flight_replay: Replay, *, lateness: str, grace: str) -> Path:
    """Write the tables that the queries would write, computed by the check's own SQL."""
    path = folder / "flights.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(check._MESSAGES.format(folder=flight_replay.folder, lateness=lateness))
        for key in ("origin", "carrier"):
            connection.execute(check._EXPECTED.format(key=key, grace=grace))
            connection.execute(
                f"CREATE TABLE {key} AS SELECT {key}, window_start, "
                "window_start + INTERVAL 1 HOUR AS window_end, flights, departed, mean, worst, "
                "p95::DOUBLE AS p95, 'full' AS emission, 0 AS revision FROM expected"
            )
            connection.execute(
                f"CREATE TABLE {key}_history AS SELECT *, 0 AS batch FROM {key} UNION ALL "
                f"SELECT * REPLACE (mean + 6 AS mean, 'late' AS emission, 1 AS revision), 1 "
                f"FROM {key} WHERE mean IS NOT NULL"
            )
            connection.execute(
                f"CREATE TABLE {key}_rejected AS SELECT * EXCLUDE (filename, file), "
                "'late' AS reason FROM message WHERE time_bucket(INTERVAL 5 MINUTE, scheduled) "
                f"+ INTERVAL 1 HOUR + INTERVAL '{grace}' <= watermark"
            )
    return path
