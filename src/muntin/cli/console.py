"""What commands print, errors among it, and the sessions that they run in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from muntin.model.errors import MuntinError, OptionError
from muntin.model.printable import escape_controls
from muntin.model.secrets import redacted

# An error raised in a worker comes back as text, at the end of a line of the worker's traceback.
_FROM_WORKER = re.compile(r"^\s*muntin\.[\w.]*Error: (.+)$", re.MULTILINE)


class QueryFailedError(MuntinError):
    """A query ended by an error; the message is that error's."""


def words(error: BaseException) -> str:
    """An error in as few words as say what to do."""
    text = redacted(str(error).strip())
    if isinstance(error, MuntinError):
        return text
    found = _FROM_WORKER.findall(text)
    return found[-1].strip() if found else text.partition("=== Streaming Query ===")[0].strip()


@contextmanager
def reported() -> Iterator[None]:
    """Print errors of muntin without a traceback and end with exit code 1."""
    try:
        yield
    except MuntinError as error:
        show_error(Console(stderr=True), error)
        raise typer.Exit(1) from error


def show_error(console: Console, error: BaseException) -> None:
    """Print an error in its own words."""
    console.print("[bold red]error[/]", end=" ")
    say(console, words(error))


def cell(value: object) -> Text:
    """A value as a cell of a table: no markup, and control characters written out."""
    return Text(escape_controls(str(value)))


def say(console: Console, text: str, style: str | None = None) -> None:
    """Print data: brackets are no markup, lines aren't cut, control characters are written out."""
    console.print(escape_controls(text), style=style, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def session(
    console: Console, name: str, doing: str = "Starting Spark", **settings: Any
) -> Iterator[Any]:
    """A session of Spark that ends with the block; ``settings`` are of ``mt.session``."""
    # Importing Spark takes a while.
    import muntin as mt

    console.print(f"{doing} …", style="dim")
    spark = mt.session(name, **settings)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def session_for(command: str, checkpoint: Path, console: Console, doing: str) -> Iterator[Any]:
    """A session while a checkpoint is looked at; errors of muntin end the command."""
    with reported():
        if not checkpoint.is_dir():
            hint = "give the folder that start(checkpoint=…) got"
            raise OptionError("CHECKPOINT", str(checkpoint), "isn't a folder", hint)
        with session(console, f"muntin {command}", doing) as spark:
            yield spark
