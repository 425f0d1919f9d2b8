"""The check of the weather: the join and its windows, computed again by DuckDB."""

from __future__ import annotations

from pathlib import Path

from muntin.apps.flights.check import Verdict, opened
from muntin.apps.flights.weather import SKY, UNKNOWN

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
    """Compare every window with DuckDB's own join of all flights but those that were rejected."""
    with opened(database, "the check of the weather") as connection:
        there = {row[0] for row in connection.execute("SHOW TABLES").fetchall()}
        but, rejected = "", 0
        if "rejected" in there:
            but = "ANTI JOIN rejected USING (scheduled, landed, origin, dest, carrier, flight)"
            rejected = int(connection.sql("SELECT count(*) FROM rejected").fetchall()[0][0])
        folder = str(replay).replace("'", "''")
        query = _EXPECTED.format(folder=folder, sky=SKY, unknown=UNKNOWN, but=but)
        connection.execute(query)
        windows = int(connection.sql("SELECT count(*) FROM expected").fetchall()[0][0])
        found = [row[0] for row in connection.sql(_DIFFERENCES).fetchall()]
    return Verdict("weather", windows, found, rejected, rejected)
