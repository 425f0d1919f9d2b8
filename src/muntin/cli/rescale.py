"""``muntin rescale``: another number of buckets for a query that goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from muntin.cli.checkpoint import session_for


def rescale(
    checkpoint: Annotated[Path, typer.Argument(help="The folder of a query that is stopped.")],
    buckets: Annotated[int, typer.Option(help="How many buckets there are to be.")],
    to: Annotated[Path, typer.Option(help="The new checkpoint: a folder that isn't there yet.")],
    batch: Annotated[int | None, typer.Option(help="Take the state of this batch.")] = None,
) -> None:
    """Write a new checkpoint with another number of buckets, without losing state.

    The old checkpoint stays as it is. Start the query from the new one, with as many buckets.
    """
    console = Console()
    with session_for("rescale", checkpoint, console, "Moving the state") as spark:
        from muntin.apps.windowing.division import WindowingDivision
        from muntin.spark.inspect.rescale import rescale as moved

        more = {"windowing": WindowingDivision}
        old, new = str(checkpoint.resolve()), str(to.resolve())
        made = moved(spark, old, buckets=buckets, to=new, batch=batch, more=more)
    text = f"{to} holds batch {made.batch} in {buckets} buckets; start the query from it"
    console.print(text, highlight=False, markup=False, soft_wrap=True)
