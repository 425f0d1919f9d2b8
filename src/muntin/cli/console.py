"""Output and errors of commands, and their sessions."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from muntin.hosts.failures import append_details
from muntin.hosts.interrupts import quit_on_signals
from muntin.model.errors import MuntinError
from muntin.model.printable import escape_controls
from muntin.model.secrets import redact

# A worker's error comes back as text, at the end of a line of the worker's traceback.
_FROM_WORKER = re.compile(r"^\s*muntin\.[\w.]*Error: (.+)$", re.MULTILINE)
# The text that Spark puts around the cause of a query's failure.
_STREAM_FAILED = re.compile(r"^\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: ")
# What Spark raised in the function that writes a batch, within the trace that Java wraps.
_IN_BATCH = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): (\[.+)$", re.MULTILINE)
_WITHOUT_CODE = re.compile(r"\s*SQLSTATE: \w+\s*$")
_CAUSED_BY = re.compile(r"^Caused by: (?:[\w$]+\.)+[\w$]+: (.+)$", re.MULTILINE)


class QueryFailedError(MuntinError):
    """A query failed; the message is that of its error."""


class PipelineCodeError(MuntinError):
    """The code of a pipeline in Python raised; the message begins with what it raised."""


@contextmanager
def name_code_errors(path: Path) -> Iterator[None]:
    """Raise exceptions of a pipeline's code as errors that name the line of the file."""
    try:
        yield
    except MuntinError:
        raise
    except Exception as error:
        lines = [
            one for one in traceback.extract_tb(error.__traceback__) if one.filename == str(path)
        ]
        location = f"{path}:{lines[-1].lineno}, in {lines[-1].name}" if lines else str(path)
        problem = summarize_error(error)
        kind = type(error).__name__
        message = f"{kind}: {problem}" if problem else kind
        raise PipelineCodeError(f"{message} ({location})") from error


def summarize_error(error: BaseException) -> str:
    """Return the message of an error in few words, without traces and secrets."""
    text = redact(str(error).strip())
    if isinstance(error, MuntinError):
        return text
    if worker_errors := _FROM_WORKER.findall(text):
        return str(worker_errors[-1]).strip()
    if "[FOREACH_BATCH_USER_FUNCTION_ERROR]" in text and (raised := _IN_BATCH.findall(text)):
        return _WITHOUT_CODE.sub("", raised[-1]).strip()
    summary = _STREAM_FAILED.sub("", text.partition("=== Streaming Query ===")[0]).strip()
    summary = _WITHOUT_CODE.sub("", summary.partition("\n\tat ")[0]).strip()
    causes = [cause.strip() for cause in _CAUSED_BY.findall(text)]
    return summary if not causes or causes[-1] in summary else f"{summary} ({causes[-1]})"


def write_details(error: BaseException) -> Path | None:
    """Write the traces of an error of Spark or of a pipeline's code into the log file.

    Returns:
        The file; ``None`` if the error is another one, or the file can't be written.
    """
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    of_spark = [one for one in chain if _is_of_spark(one)]
    if not of_spark and not isinstance(error, PipelineCodeError):
        return None
    traces = ["".join(traceback.format_exception(error))]
    if of_spark:
        from muntin.spark.host.internals.jvm import read_java_trace

        traces += filter(None, map(read_java_trace, of_spark))
    return append_details("\n".join(traces))


def _is_of_spark(error: BaseException) -> bool:
    kind = type(error)
    return kind.__module__.startswith("pyspark.") or kind.__name__.startswith("Py4J")


@contextmanager
def report_errors() -> Iterator[None]:
    """Print errors of muntin and of Spark without a traceback and end with exit code 1."""
    try:
        yield
    except Exception as error:
        if not (isinstance(error, MuntinError) or _is_of_spark(error)):
            raise
        show_error(Console(stderr=True), error, write_details(error))
        raise typer.Exit(1) from error


def show_error(console: Console, error: BaseException, details: Path | None = None) -> None:
    """Print an error in its own words, with the cause in the first and the last line.

    Args:
        console: Console to print on.
        error: Error to print.
        details: File with Spark's details, if there is one.
    """
    text = summarize_error(error)
    console.print("[bold red]error[/]", end=" ")
    if details is None:
        print_text(console, text)
        return
    first, *more = text.splitlines() or [""]
    if more:
        print_text(console, text)
        console.print("[bold red]error[/]", end=" ")
    print_text(console, f"{first} (details in {details})")


def cell(value: object) -> Text:
    """Return a value as a cell of a table, without markup, and with control characters escaped."""
    return Text(escape_controls(str(value)))


def print_text(console: Console, text: str, style: str | None = None) -> None:
    """Print text as it is: without markup or cut lines, and with control characters escaped."""
    console.print(escape_controls(text), style=style, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def open_session(
    console: Console,
    name: str,
    progress: str = "Starting Spark",
    quits: Any = True,
    **settings: Any,
) -> Iterator[Any]:
    """Run a block in a Spark session, which ends with it; ``settings`` are of ``mt.session``.

    Unless ``verbose``, Spark's log is off, since the command prints the error of a query. With
    ``quits``, a signal ends the command at once, except while a query is watched.
    """
    # Importing Spark is slow.
    import muntin as mt
    from muntin.spark.host.internals.jvm import silence_dead_jvm, silence_spark, stop_session

    console.print(f"{progress} …", style="dim")
    with quit_on_signals() if quits else nullcontext():
        spark = mt.session(name, **settings)
        if not settings.get("verbose"):
            silence_spark(spark)
            silence_dead_jvm()
        # The session has set a handler that calls Spark from any code that a signal interrupts.
        with quit_on_signals() if quits else nullcontext():
            try:
                yield spark
            finally:
                stop_session(spark)
