"""A year of flights through windows, checked by DuckDB, shown on a page.

``python -m examples.flights`` shows delays by airport and carrier; ``python -m examples.flights
weather`` joins the flights with the weather at their airport.
"""

from __future__ import annotations

import shutil
import time
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from examples.flights.check import Verdict, check_flights
from examples.flights.pipeline import GRACE, LATENESS, pipeline
from examples.flights.progress import run_to_end
from examples.flights.report.page import RunFacts, write_page
from examples.flights.report.story import read_worst_hours
from examples.flights.source import read_airlines, read_flights, sort_by_landing, write_replay
from examples.flights.weather_demo import OUTPUTS as WEATHER_OUTPUTS
from examples.flights.weather_demo import run_weather
from rich.console import Console
from rich.table import Table

import muntin as mt

_OUTPUTS = ("replay", "checkpoints", "flights.duckdb", "flights.duckdb.wal", "flights.html")
# A folder without this file isn't the demo's, so nothing in it may be removed.
_MARKER = ".muntin-demo"


class Subject(StrEnum):
    """The subject of a demo."""

    FLIGHTS = "flights"
    WEATHER = "weather"


def demo(
    subject: Annotated[
        Subject, typer.Argument(help="Show delays by airport and carrier, or by the weather.")
    ] = Subject.FLIGHTS,
    out: Annotated[
        Path, typer.Option(help="Folder to write to: a new one, or an earlier demo's.")
    ] = Path("artifacts/flights"),
    flights: Annotated[
        int | None, typer.Option(min=1, help="Number of flights to read (default: all).")
    ] = None,
    pieces: Annotated[
        int, typer.Option(min=1, help="Number of files to split the flights into; each is a batch.")
    ] = 24,
) -> None:
    """Watch windows over a year of flights.

    Reads 336,776 flights from New York in the order in which they became
    known, and aggregates them by airport and by carrier, in windows of an
    hour every five minutes. DuckDB then computes the same windows, and a
    page shows the results.

    With weather, the flights are joined with the weather of their hour
    and airport.
    """
    began = time.monotonic()
    console = Console()
    empty_folder(out)
    run_subject = run_weather if subject is Subject.WEATHER else _run_flights
    try:
        verdicts, outputs = run_subject(console, out, flights, pieces)
    except mt.MuntinError as error:
        console.print(f"error {error}", style="bold red", highlight=False, markup=False)
        raise typer.Exit(1) from error
    for sentence, verdict in verdicts.items():
        colour = "green" if verdict.equal else "bold red"
        console.print(f"[{colour}]{sentence}[/]", highlight=False, soft_wrap=True)
        for difference in verdict.differences[:10]:
            console.print(f"  {difference}", highlight=False, markup=False)
    for name, path in outputs.items():
        console.print(f"{name:9}{path}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"took     {time.monotonic() - began:.0f} s", highlight=False)
    if not all(verdict.equal for verdict in verdicts.values()):
        raise typer.Exit(1)


def empty_folder(out: Path) -> None:
    """Remove the files of an earlier run, and nothing else.

    Raises:
        BadParameter: When the folder isn't one, or has files that no demo has written.
    """
    marker = out / _MARKER
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} isn't a folder. Name a folder.")
    if out.exists() and not marker.exists() and any(out.iterdir()):
        problem = f"{out} has files that no demo has written."
        raise typer.BadParameter(f"{problem} Name a folder that is new, empty, or of a demo.")
    out.mkdir(parents=True, exist_ok=True)
    marker.write_text("The demo of muntin writes here, and removes what an earlier run left.\n")
    for name in {*_OUTPUTS, *WEATHER_OUTPUTS}:
        path = out / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _run_flights(
    console: Console, out: Path, flights: int | None, pieces: int
) -> tuple[dict[str, Verdict], dict[str, Path]]:
    """Run the windows by airport and carrier; return the verdicts, and the paths of the results."""
    with console.status("Sorting the flights by when they became known …"):
        messages = sort_by_landing(read_flights())
        replay = write_replay(messages.head(flights or len(messages)), out / "replay", pieces)
    console.print(f"{replay.flights:,} flights in {replay.files} files, the first landing first")
    start = partial(pipeline, data=str(replay.folder), out=str(out))
    seconds, queries = run_to_end(console, "flights", start, replay.flights)
    database = out / "flights.duckdb"
    with console.status("Computing every window again with DuckDB …"):
        verdicts = check_flights(database, replay.folder, lateness=LATENESS, grace=GRACE)
    facts = RunFacts(
        flights=replay.flights,
        files=replay.files,
        seconds=seconds,
        lateness=LATENESS,
        grace=GRACE,
        counts={query.name or "query": dict(query.progress.counts) for query in queries},
        verdicts=[(str(verdict), verdict.equal) for verdict in verdicts],
        airlines=read_airlines(),
    )
    page = write_page(database, facts, out / "flights.html")
    _show_worst(console, database)
    return {str(verdict): verdict for verdict in verdicts}, {"page": page, "windows": database}


def _show_worst(console: Console, database: Path) -> None:
    for key, title in (("origin", "airport"), ("carrier", "carrier")):
        table = Table(title=f"The worst hour of each {title}", header_style="bold", title_style="")
        table.add_column(title)
        table.add_column("from", no_wrap=True)
        for name in ("flights", "mean delay", "p95", "worst"):
            table.add_column(name, justify="right")
        for row in read_worst_hours(database, key):
            delays = [f"{minutes:,.0f} min" for minutes in (row.mean, row.p95, row.worst)]
            table.add_row(row.name, f"{row.start:%a %d %b %H:%M}", str(row.flights), *delays)
        console.print(table)


if __name__ == "__main__":
    typer.run(demo)
