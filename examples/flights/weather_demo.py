"""Runs the demo of flights that are joined with the weather at their airport."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from examples.flights.check import Verdict
from examples.flights.progress import run_to_end
from examples.flights.report.weather import read_skies, write_weather_page
from examples.flights.source import read_flights, sort_by_landing
from examples.flights.weather import pipeline
from examples.flights.weather_check import check_weather
from examples.flights.weather_source import read_weather, write_flights_and_weather
from rich.console import Console
from rich.table import Table

OUTPUTS = ("both", "checkpoints", "weather.duckdb", "weather.duckdb.wal", "weather.html")


def run_weather(
    console: Console, out: Path, flights: int | None, pieces: int
) -> tuple[dict[str, Verdict], dict[str, Path]]:
    """Run the join and check it; return the verdict, and the path of the page."""
    with console.status("Sorting flights and readings by when they became known …"):
        messages = sort_by_landing(read_flights())
        messages = messages.head(flights or len(messages))
        replay = write_flights_and_weather(messages, read_weather(), out / "both", pieces)
    console.print(f"{replay.flights:,} flights in {replay.files} files, and as many of weather")
    start = partial(pipeline, data=str(out / "both"), out=str(out))
    _, (query,) = run_to_end(console, "weather", start, replay.flights)
    with console.status("Computing the join again with DuckDB …"):
        verdict = check_weather(out / "weather.duckdb", out / "both")
    progress = query.progress
    assert progress.join is not None
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
    table = Table(title="Delays by weather", header_style="bold", title_style="")
    table.add_column("weather")
    for name in ("flights", "mean delay", "late by 30 min", "cancelled"):
        table.add_column(name, justify="right")
    for sky in read_skies(out / "weather.duckdb")[0]:
        shares = [f"{100 * share:.1f} %" for share in (sky.late, sky.cancelled)]
        table.add_row(sky.name, f"{sky.flights:,}", f"{sky.mean:.0f} min", *shares)
    console.print(table)
