"""``muntin --version``."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer


def _print(wanted: bool) -> None:
    if wanted:
        print(f"muntin {version('muntin')}")
        raise typer.Exit


def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Event-time windows for streams, in one process or on Spark."""
