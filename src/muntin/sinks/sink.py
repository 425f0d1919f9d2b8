"""The protocol of sinks, which store batches of results and rejected messages.

After a restart, a sink may get a batch again, with the same rows and the same number, and
must leave the table in the same state. It sets aside the rows that it can't store.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from inspect import (
    isasyncgenfunction,
    iscoroutinefunction,
    isgeneratorfunction,
    signature,
)
from os import PathLike, fspath
from os.path import abspath
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from muntin.engine.function_times import measure_function
from muntin.model.errors import OptionError, SinkError, describe_os_error
from muntin.model.option_types import check_text
from muntin.model.patience import watch_call
from muntin.model.printable import escape_line
from muntin.sinks.batch import Batch

_LOG = logging.getLogger(__name__)
# The column with the batch's number in tables of appended rows.
BATCH_COLUMN = "batch"
# The sink for each of Spark's names of formats.
_SINKS_OF_FORMATS = {
    "console": "to_print()",
    "memory": "to_memory()",
    "parquet": "to_parquet('results')",
    "delta": "to_delta('results')",
    "iceberg": "to_iceberg('results')",
    "kafka": "to_kafka('localhost:9092', 'results')",
    "jdbc": "to_postgres('postgresql://localhost/shop', 'results')",
}


class Sink(Protocol):
    """Stores batches.

    Optional members:
        - ``check(schema, keys)`` is called before the query starts, and raises an
          ``OptionError`` if the sink can't store such rows.
        - ``prepare()`` is then called to set up the storage, unless batches are written on another
          machine (Spark Connect).
        - ``tables`` names the tables that no other output may use.
        - ``folders`` has the local folders of those that are folders, as absolute paths.
        - ``primary_key`` is set to the columns that a statement declares as a table's primary key,
          by which the sink then finds older rows; empty without one.
    """

    def write(self, batch: Batch) -> None:
        """Write one batch, so that writing it again changes nothing.

        Rows that can't be stored go to ``batch.unwritable``.
        """


def check_output(target: Sink | None, schema: pa.Schema, keys: tuple[str, ...] | None) -> None:
    """Check, before anything runs, that a sink can store such rows."""
    if target is not None and hasattr(target, "check"):
        target.check(schema, keys)


def prepare_sinks(targets: Iterable[Sink | None]) -> None:
    """Let sinks set up their storage, on the machine where batches are written."""
    for target in targets:
        if target is not None and hasattr(target, "prepare"):
            target.prepare()


def check_separate_tables(targets: Iterable[Sink | None], checkpoint: str | None = None) -> None:
    """Refuse two outputs to one table, because a batch replaces the rows of its number.

    A folder of one output within that of another is refused, too, and so is a checkpoint in the
    folder of an output: readers of the folder would read both.
    """
    taken: set[str] = set()
    folders: list[str] = []
    for target in targets:
        for table in getattr(target, "tables", ()):
            if table in taken:
                problem = "is where two outputs go, of which one would wipe what the other wrote"
                raise OptionError("sink", table, problem, "give each output a table of its own")
            taken.add(table)
        for folder in getattr(target, "folders", ()):
            for other in folders:
                if is_within(folder, other) or is_within(other, folder):
                    problem = f"and {other} are outputs of which one is within the other"
                    raise OptionError("sink", folder, problem, "give each a folder of its own")
            folders.append(folder)
    for folder in folders:
        if checkpoint is not None and is_within(make_absolute(checkpoint), folder):
            problem = f"is within {folder}, which holds the rows of an output"
            raise OptionError("checkpoint", checkpoint, problem, "give it a folder of its own")


def is_within(path: str, folder: str) -> bool:
    """Return whether an absolute path is a folder, or is below it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def make_absolute(path: str) -> str:
    """Return a path of this machine in one spelling; an address stays as it is."""
    plain = path.removeprefix("file://")
    return path.rstrip("/") if "://" in plain else abspath(plain)


def report_refused(batch: Batch, rows: pa.Table, refused: Mapping[int, str], where: str) -> None:
    """Report the refused rows to their batch."""
    if refused:
        refused_rows = rows.take(pa.array(refused, pa.int64()))
        batch.unwritable.add(refused_rows, where, list(refused.values()))


def warn_of_new_table(where: str, number: int) -> None:
    """Warn that a table was created after the query's first batch, so it lacks rows."""
    if number:
        _LOG.warning(
            "%s doesn't exist at batch %d: it is created again, without what earlier batches wrote",
            where, number,
        )  # fmt: skip


def watch_sink(sink: Sink, kind: str, number: int) -> AbstractContextManager[None]:
    """Return a context in which a sink that doesn't answer is a wait, which names the sink.

    Args:
        sink: The sink that is written to.
        kind: The kind of its rows.
        number: The number of the batch.
    """
    location = getattr(sink, "location", "")
    where = f" ({escape_line(location)})" if location else ""
    return watch_call(f"the sink of {kind}{where}", f"batch {number}")


def quote_ansi_name(name: str) -> str:
    """Quote a name for the SQL of DuckDB and PostgreSQL."""
    return '"' + name.replace('"', '""') + '"'


SinkLike = Sink | Callable[[Any, int], None]


class FunctionSink:
    """A sink that calls a function with each batch's frame and number."""

    def __init__(self, function: Callable[[Any, int], None]) -> None:
        self.function = function

    @property
    def location(self) -> str:
        """The function in messages."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def write(self, batch: Batch) -> None:
        with measure_function(self.function):
            self.function(batch.frame, batch.number)


def to_sink(target: SinkLike | None, option: str = "sink") -> Sink | None:
    """Convert a plain function of a frame and a batch's number to a sink; return a sink unchanged.

    Raises:
        OptionError: When it is neither a sink nor a function with these parameters.
    """
    if target is None or hasattr(target, "write"):
        return target
    hint = "give a sink, or a function of a frame and a batch's number"
    if isinstance(target, str | PathLike):
        sink = _SINKS_OF_FORMATS.get(str(target).lower(), f"to_parquet({fspath(target)!r})")
        hint = f"give a sink, as in {option}=mt.{sink}"
    if not callable(target):
        raise OptionError(option, target, "doesn't write", hint)
    try:
        parameters = signature(target)
    except ValueError:  # a function of C may not tell its parameters
        return FunctionSink(target)
    try:
        parameters.bind(None, 0)
    except TypeError:
        name = getattr(target, "__name__", repr(target))
        problem = "can't be called with a frame and a batch's number"
        raise OptionError(option, name, problem, "write lambda rows, batch: …") from None
    _refuse_unrun(option, target)
    return FunctionSink(target)


def _refuse_unrun(option: str, function: Callable[..., Any]) -> None:
    """Refuse a function whose body a call doesn't run: its rows would be lost in silence."""
    for one in (function, getattr(function, "__call__", None)):  # noqa: B004
        if iscoroutinefunction(one) or isasyncgenfunction(one) or isgeneratorfunction(one):
            name = getattr(function, "__name__", repr(function))
            kind = "a generator" if isgeneratorfunction(one) else "an async function"
            hint = "write a plain function, which may call asyncio.run(…)"
            raise OptionError(option, name, f"is {kind}, which a call doesn't run", hint)


class TableSink(ABC):
    """A sink that stores rows in a table: the newest of each identity, or all of them by batch.

    Args:
        history: Another table that keeps every row with an identity.
        identify: Returns a name for a table that is unique among all sinks.
    """

    # True if names that differ only in case are different names.
    is_case_sensitive: ClassVar[bool] = False
    # True if it tells the rows of several queries in one table apart.
    takes_queries: ClassVar[bool] = False
    folders: tuple[str, ...] = ()

    def __init__(self, table: str, history: str | None, identify: Callable[[str], str]) -> None:
        check_text("table", table)
        if history is not None:
            check_text("history", history)
        self.table = table
        self.history = history
        self.tables = tuple(identify(name) for name in (table, history) if name is not None)
        self._has_written = False

    def check(self, schema: pa.Schema, keys: tuple[str, ...] | None) -> None:
        self.check_names(schema.names, keys)

    def write(self, batch: Batch) -> None:
        # The first batch creates the table, even without rows.
        if batch.empty and self._has_written:
            return
        try:
            if not batch.write_natively(self):
                self._write(batch)
        except OSError as error:
            raise SinkError(
                f"{self.location} can't be written: {describe_os_error(error)}. Make room or "
                "correct the rights, and start the query again: the batch is repeated"
            ) from error
        self._has_written = True

    @property
    def location(self) -> str:
        """The table in messages."""
        return self.table

    def get_log_table(self, keys: tuple[str, ...] | None) -> str | None:
        """Return the table that rows are appended to with their batch's number, or ``None``."""
        return self.table if keys is None else self.history

    def check_names(self, names: Iterable[str], keys: tuple[str, ...] | None) -> None:
        """Refuse columns with equal names, or with that of the batch's number."""
        taken: dict[str, str] = {}
        for name in names:
            plain = name if self.is_case_sensitive else name.lower()
            if plain in taken:
                problem = f"is twice among the columns that {self.table} gets"
                more = "" if self.is_case_sensitive else " (capitals make no other name there)"
                raise OptionError("column", name, problem + more, "give one another name")
            if not plain:
                problem = f"can't be the name of a column of {self.table}"
                raise OptionError("column", name, problem, "give the column a name")
            taken[plain] = name
        log = self.get_log_table(keys)
        if log is not None and BATCH_COLUMN in taken:
            problem = f"is the column in which {log} keeps the batch's number"
            hint = "give the column another name" + ("" if keys is None else ", or keep no history")
            raise OptionError("column", taken[BATCH_COLUMN], problem, hint)

    @abstractmethod
    def _write(self, batch: Batch) -> None:
        """Write a batch in this process, or create the table if it is empty."""
