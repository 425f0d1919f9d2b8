"""``muntin windowing delete``: a deleter outside of the running application."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from muntin.apps import windowing
from muntin.cli.console import reported, say


def delete(
    folder: Annotated[Path, typer.Argument(help="The folder that the run got with --deletes.")],
    before: Annotated[
        datetime | None, typer.Option(help="Delete rows that are older than this; in UTC.")
    ] = None,
    historyseconds: Annotated[
        float | None, typer.Option(help="Delete rows that are older, by this machine's clock.")
    ] = None,
    bucketrows: Annotated[
        int | None, typer.Option(help="Delete all but the newest so many rows of each bucket.")
    ] = None,
    most: Annotated[
        int | None, typer.Option(help="Rows that each bucket deletes at most in one call.")
    ] = None,
    every: Annotated[
        float | None, typer.Option(help="Go on until Ctrl-C: look again after so many seconds.")
    ] = None,
    patience: Annotated[float, typer.Option(help="Seconds to wait for an answer.")] = 30.0,
) -> None:
    """Delete the oldest rows of a table that another process fills.

    Says how many rows went, and how many of those that were named are left.
    """
    console = Console()
    with reported():
        while True:
            done = windowing.delete(
                folder,
                before=before,
                historyseconds=historyseconds,
                bucketrows=bucketrows,
                most=most,
                patience=patience,
            )
            say(console, f"deleted {done.deleted:,} rows, {done.left:,} are left to delete")
            if every is None:
                return
            if not done.left:
                time.sleep(every)
