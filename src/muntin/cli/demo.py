"""``muntin demo``: a year of flights through windows, checked by DuckDB, shown on a page.

``muntin demo weather`` joins them with the weather at their airport.
"""

from __future__ import annotations

import shutil
import time
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from muntin.cli.console import print_text, report_errors
from muntin.cli.watch import run_to_end
from muntin.cli.weather import OURS as OF_THE_WEATHER
from muntin.cli.weather import run_weather
from muntin.model.errors import OptionError

if TYPE_CHECKING:
    from muntin.apps.flights.check import Verdict

_OF_FLIGHTS = ("replay", "checkpoints", "flights.duckdb", "flights.duckdb.wal", "flights.html")
# A folder without this file isn't the demo's, so nothing in it may be removed.
_MARKER = ".muntin-demo"


class DemoKind(StrEnum):
    """The subject of a demo."""

    FLIGHTS = "flights"
    WEATHER = "weather"


def demo(
    subject: Annotated[
        DemoKind, typer.Argument(help="Show delays by airport and carrier, or by the weather.")
    ] = DemoKind.FLIGHTS,
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
    begun = time.monotonic()
    console = Console()
    with report_errors():
        _empty(out)
        run_subject = run_weather if subject is DemoKind.WEATHER else _run_flights
        verdicts, outputs = run_subject(console, out, flights, pieces)
        for words, verdict in verdicts.items():
            colour = "green" if verdict.equal else "bold red"
            console.print(f"[{colour}]{words}[/]", highlight=False, soft_wrap=True)
            for difference in verdict.differences[:10]:
                console.print(f"  {difference}", highlight=False, markup=False)
        for name, path in outputs.items():
            print_text(console, f"{name:9}{path}")
        console.print(f"took     {time.monotonic() - begun:.0f} s", highlight=False)
        if not all(verdict.equal for verdict in verdicts.values()):
            raise typer.Exit(1)


def _empty(out: Path) -> None:
    """Remove the files of an earlier run, and nothing else."""
    marker = out / _MARKER
    if out.exists() and not out.is_dir():
        raise OptionError("out", str(out), "isn't a folder", "give a folder")
    if out.exists() and not marker.exists() and any(out.iterdir()):
        hint = "give a folder that is new, empty, or of an earlier demo"
        raise OptionError("out", str(out), "holds what no demo has written", hint)
    out.mkdir(parents=True, exist_ok=True)
    marker.write_text("muntin demo writes here, and removes what an earlier run left.\n")
    for name in {*_OF_FLIGHTS, *OF_THE_WEATHER}:
        path = out / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _run_flights(
    console: Console, out: Path, flights: int | None, pieces: int
) -> tuple[dict[str, Verdict], dict[str, Path]]:
    """Run the windows by airport and carrier; return the verdicts, and the paths of the results."""
    from muntin.apps.flights.check import check_flights
    from muntin.apps.flights.pipeline import GRACE, LATENESS, pipeline
    from muntin.apps.flights.source import (
        read_airlines,
        read_flights,
        sort_by_landing,
        write_replay,
    )
    from muntin.apps.report.page import RunFacts, write_page

    with console.status("Sorting the flights by when they became known …"):
        messages = sort_by_landing(read_flights())
        replay = write_replay(messages.head(flights or len(messages)), out / "replay", pieces)
    console.print(f"{replay.flights:,} flights in {replay.files} files, the first landing first")
    start = partial(pipeline, data=str(replay.folder), out=str(out))
    seconds, queries = run_to_end(console, "muntin demo", start, replay.flights)
    database = out / "flights.duckdb"
    with console.status("Computing every window again with DuckDB …"):
        verdicts = check_flights(database, replay.folder, lateness=LATENESS, grace=GRACE)
    facts = RunFacts(
        flights=replay.flights,
        files=replay.files,
        seconds=seconds,
        lateness=LATENESS,
        grace=GRACE,
        counts={q.query.name: dict(q.progress.counts) for q in queries},
        verdicts=[(str(verdict), verdict.equal) for verdict in verdicts],
        airlines=read_airlines(),
    )
    page = write_page(database, facts, out / "flights.html")
    _show_worst(console, database)
    return {str(one): one for one in verdicts}, {"page": page, "windows": database}


def _show_worst(console: Console, database: Path) -> None:
    from muntin.apps.report.story import read_worst_hours

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
