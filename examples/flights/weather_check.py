"""Checks the weather demo: DuckDB computes the join and its windows again."""

from __future__ import annotations

from pathlib import Path

from examples.flights.check import Verdict, open_database
from examples.flights.weather import NO_READING, SKY_EXPRESSION

_EXPECTED = """
CREATE TEMP TABLE expected AS
WITH flown AS (
    SELECT * FROM read_parquet('{folder}/flights/*.parquet')
    {but}
), reading AS (
    SELECT origin, "at", {sky} AS sky FROM read_parquet('{folder}/weather/*.parquet')
)
SELECT coalesce(sky, '{unknown}') AS weather, time_bucket(INTERVAL 1 HOUR, scheduled) AS start,
       count(*) AS flights, count(dep_delay) AS departed, sum(dep_delay) AS delay,
       count(*) FILTER (dep_delay >= 30) AS late
FROM flown LEFT JOIN reading
  ON flown.origin = reading.origin AND "at" = time_bucket(INTERVAL 1 HOUR, scheduled)
GROUP BY ALL
"""

_DIFFERENCES = """
SELECT coalesce(e.weather, t.weather) || ' from ' || coalesce(e.start, t.window_start)
FROM expected AS e FULL JOIN weather AS t ON e.weather = t.weather AND e.start = t.window_start
WHERE e.flights IS DISTINCT FROM t.flights OR e.departed IS DISTINCT FROM t.departed
   OR e.delay IS DISTINCT FROM t.delay OR e.late IS DISTINCT FROM t.late
ORDER BY ALL
"""


def check_weather(database: Path, replay: Path) -> Verdict:
    """Compare every window with DuckDB's own join of all flights that weren't rejected."""
    with open_database(database) as connection:
        tables = {row[0] for row in connection.execute("SHOW TABLES").fetchall()}
        exclusion, rejected = "", 0
        if "rejected" in tables:
            exclusion = (
                "ANTI JOIN rejected USING (scheduled, landed, origin, dest, carrier, flight)"
            )
            rejected = int(connection.sql("SELECT count(*) FROM rejected").fetchall()[0][0])
        folder = str(replay).replace("'", "''")
        query = _EXPECTED.format(
            folder=folder, sky=SKY_EXPRESSION, unknown=NO_READING, but=exclusion
        )
        connection.execute(query)
        windows = int(connection.sql("SELECT count(*) FROM expected").fetchall()[0][0])
        differences = [row[0] for row in connection.sql(_DIFFERENCES).fetchall()]
    return Verdict("weather", windows, differences, rejected, rejected)
