"""``muntin move``: carries a stopped query from one host to the other."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from muntin.cli.checkpoints import session_for
from muntin.cli.console import print_text, report_errors


class TargetHost(StrEnum):
    """The hosts to which a query can move."""

    SPARK = "spark"
    LOCAL = "local"


def move_checkpoint(
    checkpoint: Annotated[
        Path, typer.Argument(help="Checkpoint folder of a stopped query.", metavar="FROM")
    ],
    target: Annotated[
        Path,
        typer.Argument(
            help="Folder of the new checkpoint; empty, or one that doesn't exist.", metavar="TO"
        ),
    ],
    to: Annotated[TargetHost, typer.Option(help="Host that runs the query from now on.")],
) -> None:
    """Move a stopped query to Spark, or to the local host.

    Writes a new checkpoint with the state, the source offsets and the batch
    number. The old one stays unchanged: start the query from the new one only.
    """
    from muntin.dataframe.move import move as moved

    console = Console()
    old, new = str(checkpoint.resolve()), str(target.resolve())
    if to is TargetHost.SPARK:
        with report_errors():
            batch = moved(old, new, to="spark")
    else:
        with session_for("move", str(checkpoint), console, "Reading the state") as spark:
            batch = moved(old, new, to="local", spark=spark)
    host = "Spark" if to is TargetHost.SPARK else "the local host"
    print_text(
        console, f"{target} continues after batch {batch}; start the query from it on {host}"
    )
