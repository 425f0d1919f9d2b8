"""Opens checkpoints for commands, whichever host wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from muntin.cli.console import report_errors, session_for


@contextmanager
def open_checkpoint(
    command: str, checkpoint: Path, console: Console, batch: int | None = None, operator: int = 0
) -> Iterator[Any]:
    """Read a checkpoint, without Spark if the local host wrote it; errors end the command.

    Args:
        command: The name of the command.
        checkpoint: Folder of the checkpoint.
        console: Console for the note that Spark starts.
        batch: Batch to read; the newest by default.
        operator: Operator of a chain, counted from the last one.
    """
    from muntin.dataframe.state import read_checkpoint
    from muntin.hosts.local.state import is_local_checkpoint, refuse_other_folder

    folder = str(checkpoint.resolve())
    with report_errors():
        refuse_other_folder(folder)
    if is_local_checkpoint(folder):
        with report_errors():
            yield read_checkpoint(folder, batch, operator)
        return
    with session_for(command, checkpoint, console, "Reading the state") as spark:
        yield read_checkpoint(folder, batch, operator, spark)
