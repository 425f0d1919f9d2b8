"""How a demo runs its queries, and what it says in the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from muntin.cli.watch import watch

if TYPE_CHECKING:
    from muntin.apps.flights.check import Verdict


def run(
    console: Console, name: str, start: Callable[[Any], list[Any]], total: int
) -> tuple[float, list[Any]]:
    """Run queries to their end; returns how long they ran. Ctrl-C ends the demo."""
    import muntin as mt

    with console.status("Starting Spark …"):
        spark = mt.session(name)
        begun = time.monotonic()
        queries = start(spark)
    try:
        if not watch(queries, console, until_quiet=True, total=total):
            raise typer.Exit(130)
        return time.monotonic() - begun, queries
    finally:
        spark.stop()


def conclude(
    console: Console, verdicts: Mapping[str, Verdict], places: Mapping[str, Path], begun: float
) -> bool:
    """Say what the checks found, in words, and where to look; whether nothing differs."""
    for words, verdict in verdicts.items():
        colour = "green" if verdict.equal else "bold red"
        console.print(f"[{colour}]{words}[/]", highlight=False, soft_wrap=True)
        for difference in verdict.differences[:10]:
            console.print(f"  {difference}", highlight=False, markup=False)
    for name, path in places.items():
        console.print(f"{name:9}{path}", highlight=False, soft_wrap=True)
    console.print(f"took     {time.monotonic() - begun:.0f} s", highlight=False)
    return all(verdict.equal for verdict in verdicts.values())
