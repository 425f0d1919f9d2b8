"""``muntin rescale``: changes the number of shards of a query that continues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer
from rich.console import Console

from muntin.cli.checkpoints import StoppedCheckpoint, resolve_folder, session_for
from muntin.cli.console import print_text, report_errors
from muntin.cli.pipelines import Conf
from muntin.model.errors import OptionError


def rescale_checkpoint(
    checkpoint: StoppedCheckpoint,
    shards: Annotated[int, typer.Option(help="New number of shards.")],
    to: Annotated[
        str | None, typer.Option(help="Folder to write the new checkpoint to; it must not exist.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Use the state as of this batch (default: the last).")
    ] = None,
    conf: Conf = None,
) -> None:
    """Change the number of shards of a checkpoint, without losing state.

    With --to, the old checkpoint stays unchanged, and the query continues
    from the new one.
    """
    console = Console()
    from muntin.hosts.local.state import is_local_checkpoint

    if is_local_checkpoint(checkpoint):
        with report_errors():
            _rescale_here(checkpoint, shards, {"--to": to, "--batch": batch})
        print_text(console, f"{checkpoint} has {shards} shards now; start the query from it")
        return
    with session_for("rescale", checkpoint, console, "Moving the state", conf) as spark:
        from muntin.spark.rescale import rescale as copy_rescaled
        from muntin.spark.rescale import rescale_in_place

        old = resolve_folder(checkpoint)
        if to is None:
            if batch is not None:
                hint = "give --to, the folder of a new checkpoint"
                raise OptionError("--batch", batch, "needs a new checkpoint", hint)
            rescale_in_place(spark, old, shards)
            text = f"{checkpoint} has {shards} shards now; start the query from it"
        else:
            new = resolve_folder(to)
            copied = copy_rescaled(spark, old, shards=shards, to=new, batch=batch)
            text = f"{to} holds batch {copied.batch} in {shards} shards; start the query from it"
    print_text(console, text)


def _rescale_here(checkpoint: str, shards: int, options: Mapping[str, object]) -> None:
    """Rescale a checkpoint of the local host, without Spark."""
    from muntin.hosts.local.rescale import rescale_folder

    for option, value in options.items():
        if value is not None:
            hint = "leave it out, and copy the folder first to keep it"
            raise OptionError(option, value, "isn't for checkpoints of the local host", hint)
    rescale_folder(checkpoint, shards)
