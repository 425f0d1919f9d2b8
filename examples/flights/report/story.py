"""Reads the contents of the page from the DuckDB file that the queries wrote."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from examples.flights.check import open_database

AIRPORTS = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
EMISSIONS = ("early", "full", "late")
# Windows without overlap, so that no flight is counted twice.
_WHOLE_HOURS = "minute(window_start) = 0 AND mean IS NOT NULL"

_WEEK = """
WITH weeks AS (
    SELECT date_trunc('week', window_start) AS week FROM origin WHERE {whole}
    GROUP BY week ORDER BY sum(mean * departed) / sum(departed) DESC LIMIT 1
)
SELECT origin, window_start, mean, p95 FROM origin, weeks
WHERE window_start >= week AND window_start < week + INTERVAL 7 DAY
  AND minute(window_start) % 15 = 0 AND mean IS NOT NULL AND departed >= 8
ORDER BY origin, window_start
"""

# Each late emission with the previous emission of the same window.
_CHANGES = """
WITH corrections AS (
    SELECT emission, mean, lag(mean) OVER emitted AS before
    FROM {key}_history
    WINDOW emitted AS (PARTITION BY {key}, window_start ORDER BY revision)
)
SELECT CASE WHEN before IS NULL OR mean IS NULL THEN 0
            WHEN abs(mean - before) < 1 THEN 1 WHEN abs(mean - before) < 5 THEN 2
            WHEN abs(mean - before) < 15 THEN 3 ELSE 4 END AS step, count(*)
FROM corrections WHERE emission = 'late' GROUP BY step ORDER BY step
"""
CHANGE_STEPS = (
    "first emission, or no delay known",
    "less than 1 minute",
    "1 to 5 minutes",
    "5 to 15 minutes",
    "15 minutes or more",
)

_WORST = """
SELECT {key}, window_start, departed, mean, worst, p95 FROM {key}
WHERE departed >= least(5, (SELECT max(departed) FROM {key})) AND mean IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY mean DESC, window_start) = 1
ORDER BY mean DESC
"""


@dataclass(frozen=True)
class Hour:
    """One window of one airport or carrier; its flights are those that left."""

    name: str
    start: datetime
    flights: int
    mean: float
    worst: int
    p95: float


@dataclass(frozen=True)
class Story:
    """The contents of the page.

    Attributes:
        windows: Number of windows by query.
        emissions: Number of emissions by query and kind.
        weeks: Airport, first day of a week, mean delay.
        worst_week: Airport, start of a window, mean and p95, for the week with most delay.
        hours: Month, hour of the day, mean delay, flights.
        months: Month, kind of emission, number of emissions.
        changes: Number of late emissions by how much they changed the mean; see ``CHANGE_STEPS``.
        rejected: Number of messages by query and reason.
        behind: Hours behind the watermark, rejected messages.
        cancelled: Number of rejected flights that never left.
        samples: Rejected messages: columns of ``SAMPLE_COLUMNS``.
        worst: The worst hour of each carrier.
    """

    windows: dict[str, int]
    emissions: dict[str, dict[str, int]]
    weeks: list[tuple[str, date, float]]
    worst_week: list[tuple[str, datetime, float, float]]
    hours: list[tuple[int, int, float, int]]
    months: list[tuple[int, str, int]]
    changes: dict[int, int]
    rejected: dict[str, dict[str, int]]
    behind: list[tuple[int, int]]
    cancelled: int
    samples: list[tuple[Any, ...]]
    worst: list[Hour]


SAMPLE_COLUMNS = ("flight", "from", "to", "scheduled", "known", "watermark then", "reason")


def read_worst_hours(database: Path, key: str) -> list[Hour]:
    """Return the worst hour of each airport or carrier, the worst first."""
    with open_database(database) as connection:
        return _read_worst_hours(connection, key)


_WEEKS = (
    "SELECT origin, date_trunc('week', window_start)::DATE AS week, "
    f"sum(mean * departed) / sum(departed) FROM origin WHERE {_WHOLE_HOURS} "
    "GROUP BY origin, week ORDER BY origin, week"
)
_HOURS = (
    "SELECT month(window_start) AS m, hour(window_start) AS h, "
    f"sum(mean * departed) / sum(departed), sum(departed)::BIGINT FROM origin "
    f"WHERE {_WHOLE_HOURS} GROUP BY m, h ORDER BY m, h"
)
_MONTHS = (
    "SELECT month(window_start) AS m, emission, count(*) FROM "
    "(SELECT window_start, emission FROM origin_history UNION ALL "
    "SELECT window_start, emission FROM carrier_history) GROUP BY ALL ORDER BY m"
)
_BEHIND = (
    "SELECT floor(date_diff('minute', scheduled, watermark) / 60)::BIGINT AS hours, "
    "count(*) FROM origin_rejected GROUP BY hours ORDER BY hours"
)
_CANCELLED = "SELECT count(*) FROM origin_rejected WHERE dep_delay IS NULL"
_SAMPLES = (
    "SELECT carrier || ' ' || flight, origin, dest, scheduled, landed, watermark, reason "
    "FROM origin_rejected ORDER BY watermark - scheduled DESC, scheduled, flight LIMIT 8"
)


def read_story(database: Path) -> Story:
    """Read the contents of the page from the queries' tables."""
    with open_database(database) as connection:
        return _read_story(connection)


def _read_story(connection: Any) -> Story:
    def fetch_rows(query: str) -> list[Any]:
        rows: list[Any] = connection.execute(query).fetchall()
        return rows

    tables = {name for (name,) in fetch_rows("SHOW TABLES")}

    def fetch_rejected(key: str, query: str) -> list[Any]:
        # The sink creates a table at its first row.
        return fetch_rows(query) if f"{key}_rejected" in tables else []

    keys = [key for key in ("origin", "carrier") if key in tables]
    fired = "SELECT emission, count(*) FROM {key}_history GROUP BY emission"
    reasons = "SELECT reason, count(*) FROM {key}_rejected GROUP BY reason"
    changes: Counter[int] = Counter()
    for key in keys:
        changes.update(dict(fetch_rows(_CHANGES.format(key=key))))
    cancelled = fetch_rejected(
        "origin", "SELECT count(*) FROM origin_rejected WHERE dep_delay IS NULL"
    )
    return Story(
        windows={key: fetch_rows(f"SELECT count(*) FROM {key}")[0][0] for key in keys},
        emissions={key: dict(fetch_rows(fired.format(key=key))) for key in keys},
        weeks=fetch_rows(_WEEKS),
        worst_week=fetch_rows(_WEEK.format(whole=_WHOLE_HOURS)),
        hours=fetch_rows(_HOURS),
        months=fetch_rows(_MONTHS),
        changes=dict(changes),
        rejected={key: dict(fetch_rejected(key, reasons.format(key=key))) for key in keys},
        behind=fetch_rejected("origin", _BEHIND),
        cancelled=cancelled[0][0] if cancelled else 0,
        samples=fetch_rejected("origin", _SAMPLES),
        worst=_read_worst_hours(connection, "carrier"),
    )


def _read_worst_hours(connection: Any, key: str) -> list[Hour]:
    return [Hour(*row) for row in connection.execute(_WORST.format(key=key)).fetchall()]
