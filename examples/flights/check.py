"""Checks the demo: DuckDB computes every window again from the replay files.

A message counts in a window unless the window was closed when the message arrived. A window is
closed when the watermark has reached its end plus the grace. The watermark for a file is the
greatest scheduled departure in the files before it, minus the lateness: a batch is
one file. SQL can express all of this without asking muntin for anything but its final windows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

_MESSAGES = """
CREATE TEMP TABLE message AS
WITH arrived AS (
    SELECT *, dense_rank() OVER (ORDER BY filename) AS file
    FROM read_parquet('{folder}/*.parquet', filename = true)
), reached AS (
    SELECT file, max(max(scheduled)) OVER (
        ORDER BY file ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) - INTERVAL '{lateness}' AS watermark
    FROM arrived GROUP BY file
)
SELECT arrived.*, watermark FROM arrived JOIN reached USING (file)
"""

_EXPECTED = """
CREATE OR REPLACE TEMP TABLE expected AS
WITH counted AS (
    SELECT {key}, dep_delay,
           time_bucket(INTERVAL 5 MINUTE, scheduled) - hop * INTERVAL 5 MINUTE AS window_start
    FROM message, range(12) AS hops(hop)
    WHERE watermark IS NULL OR window_start + INTERVAL 1 HOUR + INTERVAL '{grace}' > watermark
), grouped AS (
    SELECT {key}, window_start, count(*) AS flights,
           count(dep_delay) AS departed, avg(dep_delay) AS mean,
           max(dep_delay) AS worst,
           list_sort(list(dep_delay) FILTER (dep_delay IS NOT NULL)) AS delays
    FROM counted GROUP BY ALL
)
SELECT * EXCLUDE (delays), delays[ceil(0.95 * len(delays))::BIGINT] AS p95 FROM grouped
"""

# A full join, so that a window of only one side is a difference, too.
_DIFFERENCES = """
SELECT coalesce(e.{key}, t.{key}) AS key, coalesce(e.window_start, t.window_start) AS window_start,
       e.flights, t.flights, e.departed, t.departed, e.mean, t.mean, e.worst, t.worst, e.p95, t.p95
FROM expected AS e FULL JOIN {key} AS t
  ON e.{key} = t.{key} AND e.window_start = t.window_start
WHERE e.flights IS DISTINCT FROM t.flights
   OR e.departed IS DISTINCT FROM t.departed
   OR e.worst IS DISTINCT FROM t.worst
   OR e.p95 IS DISTINCT FROM t.p95
   OR (e.mean IS NULL) <> (t.mean IS NULL)
   OR abs(e.mean - t.mean) > 1e-9
   OR t.window_end <> t.window_start + INTERVAL 1 HOUR
ORDER BY 2, 1
"""

_REJECTED = """
SELECT count(*) FROM message
WHERE time_bucket(INTERVAL 5 MINUTE, scheduled) + INTERVAL 1 HOUR + INTERVAL '{grace}' <= watermark
"""


@dataclass(frozen=True)
class Verdict:
    """The result of the comparison of one query's windows."""

    key: str
    windows: int
    differences: list[str] = field(default_factory=list)
    rejected: int = 0
    expected: int = 0

    @property
    def equal(self) -> bool:
        """True if nothing differs."""
        return not self.differences and self.rejected == self.expected

    def __str__(self) -> str:
        if self.equal:
            return (
                f"{self.windows:,} windows by {self.key} equal DuckDB's, "
                f"and the same {self.rejected:,} flights were rejected"
            )
        return (
            f"{len(self.differences):,} of {self.windows:,} windows by {self.key} differ from "
            f"DuckDB's; {self.rejected:,} flights were rejected and {self.expected:,} should be"
        )


def check_flights(
    database: Path,
    replay: Path,
    *,
    lateness: str,
    grace: str,
    keys: tuple[str, ...] = ("origin", "carrier"),
) -> list[Verdict]:
    """Compare the newest state of every window with DuckDB's own computation."""
    with open_database(database) as connection:
        folder = str(replay).replace("'", "''")
        connection.execute(_MESSAGES.format(folder=folder, lateness=lateness))
        return [_compare(connection, key, grace) for key in keys]


def open_database(database: Path) -> Any:
    """Open a DuckDB file for reading."""
    return duckdb.connect(str(database), read_only=True)


def _compare(connection: Any, key: str, grace: str) -> Verdict:
    def number(query: str) -> int:
        return int(connection.execute(query).fetchone()[0])

    connection.execute(_EXPECTED.format(key=key, grace=grace))
    differences = connection.execute(_DIFFERENCES.format(key=key)).fetchall()
    tables = {row[0] for row in connection.execute("SHOW TABLES").fetchall()}
    rejected = f"{key}_rejected"
    return Verdict(
        key=key,
        windows=number("SELECT count(*) FROM expected"),
        differences=[_describe_difference(row) for row in differences],
        rejected=number(f"SELECT count(*) FROM {rejected}") if rejected in tables else 0,
        expected=number(_REJECTED.format(grace=grace)),
    )


def _describe_difference(row: tuple[Any, ...]) -> str:
    name, start, *pairs = row
    columns = ("flights", "departed", "mean", "worst", "p95")
    differences = [
        f"{column} is {theirs}, DuckDB says {ours}"
        for column, ours, theirs in zip(columns, pairs[::2], pairs[1::2], strict=True)
        if ours != theirs
    ]
    return f"{name} from {start}: " + "; ".join(differences or ["its end is wrong"])
