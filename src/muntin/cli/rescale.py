"""``muntin rescale``: another number of buckets for a query that goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from muntin.cli.failure import reported


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
    with reported():
        import muntin as mt
        from muntin.apps.windowing.division import WindowingDivision
        from muntin.spark.inspect.rescale import rescale as moved

        console.print("Moving the state …", style="dim")
        spark = mt.session("muntin rescale")
        try:
            paths = str(checkpoint.resolve()), str(to.resolve())
            made = moved(
                spark,
                paths[0],
                buckets=buckets,
                to=paths[1],
                batch=batch,
                more={"windowing": WindowingDivision},
            )
        finally:
            spark.stop()
    text = f"{to} holds batch {made.batch} in {buckets} buckets; start the query from it"
    console.print(text, highlight=False, markup=False, soft_wrap=True)
