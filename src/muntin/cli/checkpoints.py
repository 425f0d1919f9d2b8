"""Opens checkpoints for commands, whichever host wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from muntin.cli.console import open_session, report_errors
from muntin.cli.pipelines import parse_spark_settings
from muntin.model.errors import OptionError

CheckpointArgument = Annotated[
    str, typer.Argument(help="Checkpoint of the query: a folder, or s3a://bucket/folder.")
]
StoppedCheckpoint = Annotated[
    str, typer.Argument(help="Checkpoint of a stopped query: a folder, or s3a://bucket/folder.")
]


@contextmanager
def open_checkpoint(
    command: str,
    checkpoint: str,
    console: Console,
    batch: int | None = None,
    operator: int = 0,
    conf: list[str] | None = None,
) -> Iterator[Any]:
    """Read a checkpoint, without Spark if the local host wrote it; errors end the command.

    Args:
        command: The name of the command.
        checkpoint: Folder of the checkpoint, also in an object store.
        console: Console for the note that Spark starts.
        batch: Batch to read; the newest by default.
        operator: Operator of a chain, counted from the last one.
        conf: Settings of Spark.
    """
    from muntin.dataframe.state import read_checkpoint
    from muntin.hosts.local.state import is_local_checkpoint, refuse_other_folder

    folder = resolve_folder(checkpoint)
    with report_errors():
        if not is_in_store(folder):
            refuse_other_folder(folder)
    if is_local_checkpoint(folder):
        with report_errors():
            yield read_checkpoint(folder, batch, operator)
        return
    with session_for(command, checkpoint, console, "Reading the state", conf) as spark:
        yield read_checkpoint(folder, batch, operator, spark)


def is_in_store(folder: str | PathLike[str]) -> bool:
    """Return whether a folder is in a file system of Hadoop's, such as an object store."""
    return "://" in str(folder)


def resolve_folder(folder: str | PathLike[str]) -> str:
    """Return the whole path of a folder; that in an object store stays as it is."""
    return str(folder) if is_in_store(folder) else str(Path(folder).resolve())


@contextmanager
def session_for(
    command: str, checkpoint: str, console: Console, doing: str, conf: list[str] | None = None
) -> Iterator[Any]:
    """Run a block in a session that reads a checkpoint; errors of muntin end the command."""
    with report_errors():
        settings = parse_spark_settings(conf or [])
        if not is_in_store(checkpoint) and not Path(checkpoint).is_dir():
            hint = "give the folder of start(checkpoint=…)"
            raise OptionError("CHECKPOINT", checkpoint, "isn't a folder", hint)
        with open_session(console, f"muntin {command}", doing, **settings) as spark:
            yield spark
