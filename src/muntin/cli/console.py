"""Output and errors of commands, and the sessions that they run in."""

from __future__ import annotations

import re
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from muntin.hosts.interrupts import quit_on_signals
from muntin.model.errors import MuntinError, OptionError
from muntin.model.printable import escape_controls
from muntin.model.secrets import redacted

# An error raised in a worker comes back as text, at the end of a line of the worker's traceback.
_FROM_WORKER = re.compile(r"^\s*muntin\.[\w.]*Error: (.+)$", re.MULTILINE)
# What Spark writes around the cause of a query's end.
_STREAM_FAILED = re.compile(r"^\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: ")
_WITHOUT_CODE = re.compile(r"\s*SQLSTATE: \w+\s*$")
_CAUSED_BY = re.compile(r"^Caused by: (?:[\w$]+\.)+[\w$]+: (.+)$", re.MULTILINE)


class QueryFailedError(MuntinError):
    """A query ended by an error; the message is that error's."""


def words(error: BaseException) -> str:
    """An error in as few words as say what to do."""
    text = redacted(str(error).strip())
    if isinstance(error, MuntinError):
        return text
    if said := _FROM_WORKER.findall(text):
        return str(said[-1]).strip()
    first = _STREAM_FAILED.sub("", text.partition("=== Streaming Query ===")[0]).strip()
    first = _WITHOUT_CODE.sub("", first.partition("\n\tat ")[0]).strip()
    causes = [cause.strip() for cause in _CAUSED_BY.findall(text)]
    return first if not causes or causes[-1] in first else f"{first} ({causes[-1]})"


def keep_details(error: BaseException) -> Path | None:
    """Write all that Spark says of an error into a file that only this user can read.

    Returns:
        The file; ``None`` where Spark says nothing, or it can't be written.
    """
    spoken: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None:
        spoken.append(cause)
        cause = cause.__cause__ or cause.__context__
    if not any(_is_of_spark(type(one)) for one in spoken):
        return None
    try:
        handle, path = tempfile.mkstemp(prefix="muntin-", suffix=".log")
        with open(handle, "w", errors="replace") as file:
            file.write(redacted("".join(traceback.format_exception(error))))
    except OSError:
        return None
    return Path(path)


def _is_of_spark(kind: type[BaseException]) -> bool:
    return kind.__module__.startswith("pyspark.") or kind.__name__.startswith("Py4J")


@contextmanager
def reported() -> Iterator[None]:
    """Print errors of muntin without a traceback and end with exit code 1."""
    try:
        yield
    except MuntinError as error:
        show_error(Console(stderr=True), error, keep_details(error))
        raise typer.Exit(1) from error


def show_error(console: Console, error: BaseException, details: Path | None = None) -> None:
    """Print an error in its own words; the first line and the last one are the cause.

    Args:
        console: Where to.
        error: The error.
        details: The file that has all that Spark says of it.
    """
    text = words(error)
    console.print("[bold red]error[/]", end=" ")
    if details is None:
        say(console, text)
        return
    first, *more = text.splitlines() or [""]
    if more:
        say(console, text)
        console.print("[bold red]error[/]", end=" ")
    say(console, f"{first} (details in {details})")


def cell(value: object) -> Text:
    """A value as a cell of a table: no markup, and control characters written out."""
    return Text(escape_controls(str(value)))


def say(console: Console, text: str, style: str | None = None) -> None:
    """Print data: brackets are no markup, lines aren't cut, control characters are written out."""
    console.print(escape_controls(text), style=style, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def session(
    console: Console, name: str, doing: str = "Starting Spark", quits: Any = True, **settings: Any
) -> Iterator[Any]:
    """A session of Spark that ends with the block; ``settings`` are of ``mt.session``.

    Unless it is verbose, Spark logs nothing: the command says what a query ends with. Where
    ``quits``, a signal ends the command at once while no query is watched.
    """
    # Importing Spark takes a while.
    import muntin as mt
    from muntin.spark.host.internals.jvm import silence_dead_jvm, silence_spark, stop_session

    console.print(f"{doing} …", style="dim")
    with quit_on_signals() if quits else nullcontext():
        spark = mt.session(name, **settings)
        if not settings.get("verbose"):
            silence_spark(spark)
            silence_dead_jvm()
        # The session has set a handler that calls Spark from within whatever runs.
        with quit_on_signals() if quits else nullcontext():
            try:
                yield spark
            finally:
                stop_session(spark)


@contextmanager
def session_for(command: str, checkpoint: Path, console: Console, doing: str) -> Iterator[Any]:
    """A session while a checkpoint is looked at; errors of muntin end the command."""
    with reported():
        if not checkpoint.is_dir():
            hint = "give the folder that start(checkpoint=…) got"
            raise OptionError("CHECKPOINT", str(checkpoint), "isn't a folder", hint)
        with session(console, f"muntin {command}", doing) as spark:
            yield spark
