"""A session for commands that look at a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from muntin.cli.failure import reported
from muntin.model.errors import OptionError


@contextmanager
def session_for(command: str, checkpoint: Path, console: Console, doing: str) -> Iterator[Any]:
    """A session while a checkpoint is looked at; errors of muntin end the command."""
    with reported():
        if not checkpoint.is_dir():
            hint = "give the folder that start(checkpoint=…) got"
            raise OptionError("CHECKPOINT", str(checkpoint), "isn't a folder", hint)
        # Importing Spark takes a while.
        import muntin as mt

        console.print(f"{doing} …", style="dim")
        spark = mt.session(f"muntin {command}")
        try:
            yield spark
        finally:
            spark.stop()
