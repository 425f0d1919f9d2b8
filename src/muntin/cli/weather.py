"""``muntin demo weather``: flights joined with the weather at their airport."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from muntin.cli.watch import run_to_end

if TYPE_CHECKING:
    from muntin.apps.flights.check import Verdict

OURS = ("both", "checkpoints", "weather.duckdb", "weather.duckdb.wal", "weather.html")


def run_weather(
    console: Console, out: Path, flights: int | None, pieces: int
) -> tuple[dict[str, Verdict], dict[str, Path]]:
    """Run the join and check it; return the verdict, and the path of the page."""
    from muntin.apps.flights.source import read_flights, sort_by_landing
    from muntin.apps.flights.weather import pipeline, read_weather, write_flights_and_weather
    from muntin.apps.flights.weather_check import check_weather
    from muntin.apps.report.weather import write_weather_page

    with console.status("Sorting flights and readings by when they became known …"):
        messages = sort_by_landing(read_flights())
        messages = messages.head(flights or len(messages))
        replay = write_flights_and_weather(messages, read_weather(), out / "both", pieces)
    console.print(f"{replay.flights:,} flights in {replay.files} files, and as many of weather")
    start = partial(pipeline, data=str(out / "both"), out=str(out))
    _, (query,) = run_to_end(console, "muntin demo weather", start, replay.flights)
    with console.status("Computing the join again with DuckDB …"):
        verdict = check_weather(out / "weather.duckdb", out / "both")
    progress = query.progress
    counts = {
        "flights and readings in": progress.join.counts["seen"],
        "flights that the join emitted": progress.counts["seen"],
        "rejected": verdict.rejected,
        "windows": verdict.windows,
    }
    words = _sentence(verdict)
    page = write_weather_page(
        out / "weather.duckdb", (words, verdict.equal), counts, out / "weather.html"
    )
    _show(console, out)
    return {words: verdict}, {"page": page}


def _sentence(verdict: Verdict) -> str:
    if verdict.equal:
        return (
            f"{verdict.windows:,} windows by weather equal DuckDB's join of all flights but the "
            f"{verdict.rejected:,} that came too late"
        )
    return f"{len(verdict.differences):,} of {verdict.windows:,} windows differ from DuckDB's"


def _show(console: Console, out: Path) -> None:
    from muntin.apps.report.weather import read_skies

    table = Table(title="Delays by weather", header_style="bold", title_style="")
    table.add_column("weather")
    for name in ("flights", "mean delay", "late by 30 min", "cancelled"):
        table.add_column(name, justify="right")
    for sky in read_skies(out / "weather.duckdb")[0]:
        shares = [f"{100 * share:.1f} %" for share in (sky.late, sky.cancelled)]
        table.add_row(sky.name, f"{sky.flights:,}", f"{sky.mean:.0f} min", *shares)
    console.print(table)
