"""``muntin windowing delete``: deletes rows from outside of the running application."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from muntin.apps import windowing
from muntin.cli.console import print_text, report_errors


def delete_rows(
    folder: Annotated[
        Path, typer.Argument(help="Folder that the run was started with (--deletes).")
    ],
    before: Annotated[
        datetime | None, typer.Option(help="Delete rows older than this time, in UTC.")
    ] = None,
    historyseconds: Annotated[
        float | None,
        typer.Option(help="Delete rows older than so many seconds, by this machine's clock."),
    ] = None,
    shardrows: Annotated[
        int | None,
        typer.Option(help="Number of newest rows to keep in each shard; delete the others."),
    ] = None,
    most: Annotated[
        int | None,
        typer.Option(help="Maximum number of rows to delete in each shard per request."),
    ] = None,
    every: Annotated[
        float | None, typer.Option(help="Repeat every so many seconds until Ctrl-C.")
    ] = None,
    patience: Annotated[
        float, typer.Option(help="How long to wait for an answer, in seconds.")
    ] = 30.0,
) -> None:
    """Delete the oldest rows of a table that another process fills.

    Prints the number of deleted rows, and of rows that are left to delete.
    """
    console = Console()
    with report_errors():
        while True:
            done = windowing.delete(
                folder,
                before=before,
                historyseconds=historyseconds,
                shardrows=shardrows,
                most=most,
                patience=patience,
            )
            print_text(console, f"deleted {done.deleted:,} rows, {done.left:,} are left to delete")
            if every is None:
                return
            if not done.left:
                time.sleep(every)
