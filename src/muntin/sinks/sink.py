"""Where batches of results and rejected messages go.

A sink may be given a batch again after a restart; it then gets the same rows under the same number,
and must leave the same table behind. Rows that it can't take it sets aside.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from inspect import signature
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from muntin.model.errors import OptionError
from muntin.sinks.batch import Batch

_LOG = logging.getLogger(__name__)
# The column in which tables that are appended to keep the batch's number.
BATCH = "batch"


class Sink(Protocol):
    """Takes batches.

    One that also has a method ``check(schema, keys)`` is asked before the query starts whether it
    can take such rows, and raises an ``OptionError`` where it can't. One that has ``prepare()``
    is then asked to have its place ready, unless batches are written on another machine (Spark
    Connect). One that has ``tables`` names what no other output may go to.
    """

    def write(self, batch: Batch) -> None:
        """Write one batch, so that writing it again changes nothing.

        Rows that can't be written, whenever they come, go to ``batch.unwritable``.
        """


def check(target: Sink | None, schema: pa.Schema, keys: tuple[str, ...] | None) -> None:
    """Ask a sink, before anything runs, whether it can take such rows."""
    if target is not None and hasattr(target, "check"):
        target.check(schema, keys)


def prepare(targets: Iterable[Sink | None]) -> None:
    """Let sinks have their places ready, on the machine where batches are written."""
    for target in targets:
        if target is not None and hasattr(target, "prepare"):
            target.prepare()


def check_apart(targets: Iterable[Sink | None]) -> None:
    """Refuse two outputs into one table, since a batch replaces what stood under its number."""
    taken: set[str] = set()
    for table in (table for target in targets for table in getattr(target, "tables", ())):
        if table in taken:
            problem = "is where two outputs go, of which one would wipe what the other wrote"
            raise OptionError("sink", table, problem, "give each output a table of its own")
        taken.add(table)


def set_aside(batch: Batch, rows: pa.Table, refused: Mapping[int, str], where: str) -> None:
    """Give a batch back the rows that were refused."""
    if refused:
        taken = rows.take(pa.array(refused, pa.int64()))
        batch.unwritable.add(taken, where, list(refused.values()))


def warn_of_new_table(where: str, number: int) -> None:
    """Say that a table was created after the query's first batch, so that it lacks what was in it.

    Args:
        where: The table and its database.
        number: The number of the batch.
    """
    if number:
        _LOG.warning(
            "%s doesn't exist at batch %d: it is created again, without what earlier batches wrote",
            where, number,
        )  # fmt: skip


def sql_name(name: str) -> str:
    """A name in the SQL of DuckDB and PostgreSQL."""
    return '"' + name.replace('"', '""') + '"'


SinkLike = Sink | Callable[[Any, int], None]


class FunctionSink:
    """A function that gets each batch's frame and number."""

    def __init__(self, function: Callable[[Any, int], None]) -> None:
        self.function = function

    def write(self, batch: Batch) -> None:
        self.function(batch.frame, batch.number)


def sink(target: SinkLike | None) -> Sink | None:
    """A sink, also out of a plain function of a frame and a batch's number.

    Raises:
        OptionError: When it is a function that can't be called so, or nothing that writes.
    """
    if target is None or hasattr(target, "write"):
        return target
    hint = "give a sink, or a function of a frame and a batch's number"
    if not callable(target):
        raise OptionError("sink", target, "doesn't write", hint)
    with suppress(ValueError):  # a function of C may not tell its parameters
        try:
            signature(target).bind(None, 0)
        except TypeError:
            name = getattr(target, "__name__", repr(target))
            problem = "can't be called with a frame and a batch's number"
            raise OptionError("sink", name, problem, hint) from None
    return FunctionSink(target)


class TableSink(ABC):
    """A sink that keeps rows in a table: the newest of each identity, or all of them by batch.

    Args:
        table: The table.
        history: Another that keeps every row of what has an identity.
        place: What names a table among those of all sinks.
    """

    # Whether names that differ only in capitals are two names there.
    capitals: ClassVar[bool] = False

    def __init__(self, table: str, history: str | None, place: Callable[[str], str]) -> None:
        self.table = table
        self.history = history
        self.tables = tuple(place(name) for name in (table, history) if name is not None)
        self._begun = False

    def check(self, schema: pa.Schema, keys: tuple[str, ...] | None) -> None:
        self.check_names(schema.names, keys)

    def write(self, batch: Batch) -> None:
        # The first batch makes the table, also without rows.
        if batch.empty and self._begun:
            return
        if not batch.write_natively(self):
            self._write(batch)
        self._begun = True

    def log_table(self, keys: tuple[str, ...] | None) -> str | None:
        """The table that rows are appended to, under their batch's number, if there is one."""
        return self.table if keys is None else self.history

    def check_names(self, names: Iterable[str], keys: tuple[str, ...] | None) -> None:
        """Refuse columns that would become one, or that of the batch's number where it is kept."""
        taken: dict[str, str] = {}
        for name in names:
            plain = name if self.capitals else name.lower()
            if plain in taken:
                problem = f"is twice among the columns that {self.table} gets"
                more = "" if self.capitals else " (capitals make no other name there)"
                raise OptionError("column", name, problem + more, "give one another name")
            if not plain:
                problem = f"can't be the name of a column of {self.table}"
                raise OptionError("column", name, problem, "give the column a name")
            taken[plain] = name
        log = self.log_table(keys)
        if log is not None and BATCH in taken:
            problem = f"is the column in which {log} keeps the batch's number"
            hint = "give the column another name" + ("" if keys is None else ", or keep no history")
            raise OptionError("column", taken[BATCH], problem, hint)

    @abstractmethod
    def _write(self, batch: Batch) -> None:
        """Write a batch in this process, or make the table where it is empty."""
