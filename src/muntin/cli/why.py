"""``muntin why``: explains why a window hasn't emitted, or why a message is rejected."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from muntin.cli.checkpoints import CheckpointArgument, open_checkpoint
from muntin.cli.console import print_text
from muntin.cli.pipelines import Conf
from muntin.model.printable import escape_line


def why(
    checkpoint: CheckpointArgument,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help='Event time in UTC, like "2026-01-01 09:04:00"; for windows of rows, '
            "a row number. By default all windows of the key.",
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VALUE", help=r"Value of the key. Repeat for each key column; \N is NULL."
        ),
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="Agent table to look in, if there are several.")
    ] = None,
    operator: Annotated[
        int, typer.Option(help="Operator of a chain to look in, counted from the last one.")
    ] = 0,
    conf: Conf = None,
) -> None:
    """Explain what the windows, messages or entries of a key contain and wait for.

    For a join, it lists the partners of a message, or explains why there are none.

    It reads the state as of the last committed batch; the query may be running.
    """
    console = Console()
    with open_checkpoint("why", checkpoint, console, operator=operator, conf=conf) as opened:
        from muntin.dataframe.state import explain_checkpoint

        lines = explain_checkpoint(opened, key or [], at, table)
    for line in lines:
        print_text(console, escape_line(line))
