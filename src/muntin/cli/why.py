"""``muntin why``: why a window hasn't emitted, or why a message is rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from muntin.cli.console import say, session_for


def why(
    checkpoint: Annotated[Path, typer.Argument(help="The folder that a query started with.")],
    at: Annotated[
        str,
        typer.Option(help='An event time: "2026-01-01 09:04:00", in UTC; of rows a number.'),
    ],
    key: Annotated[
        list[str] | None, typer.Option(help=r"The key's value; once for each column, \N for NULL.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Which of several tables of agents.")] = None,
    operator: Annotated[
        int, typer.Option(help="Which operator of a chain, counted from the last one.")
    ] = 0,
) -> None:
    """Say of the windows, messages or entries of a key what they hold and what they wait for.

    Of a join it says of a message which partners it has, or why it has none.

    Reads what the query's last batch has committed; the query may be running.
    """
    console = Console()
    with session_for("why", checkpoint, console, "Reading the state") as spark:
        from muntin.spark.inspect.why import why as lines

        path = str(checkpoint.resolve())
        found = lines(spark, path, key or [], at, table=table, operator=operator)
    for line in found:
        say(console, line)
