"""Where batches of results and rejected messages go.

A sink may be given a batch again after a restart; it then gets the same rows under the same number,
and must leave the same table behind. Rows that it can't take it sets aside.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from muntin.engine import columns
from muntin.model.errors import MissingExtraError, OptionError
from muntin.spark.sinks.batch import Batch
from muntin.spark.sinks.unstorable import RowsRefusedError, sift

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

        Rows that can't be written, whenever they come, go to ``batch.letters``.
        """


def check(target: Sink | None, schema: StructType, keys: tuple[str, ...] | None) -> None:
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
        batch.letters.add(taken, where, list(refused.values()))


def check_columns(
    names: Iterable[str],
    keys: tuple[str, ...] | None,
    table: str,
    history: str | None = None,
    *,
    capitals: bool = False,
) -> None:
    """Refuse columns that would become one, or that of the batch's number where that is kept.

    Args:
        names: The columns.
        keys: As of ``Batch``.
        table: What is written to.
        history: What keeps every row of what has an identity.
        capitals: Whether names that differ only in capitals are two names there.
    """
    taken: dict[str, str] = {}
    for name in names:
        plain = name if capitals else name.lower()
        if plain in taken:
            problem = f"is twice among the columns that {table} gets"
            more = "" if capitals else " (capitals make no other name there)"
            raise OptionError("column", name, problem + more, "give one another name")
        if not plain:
            problem = f"can't be the name of a column of {table}"
            raise OptionError("column", name, problem, "give the column a name")
        taken[plain] = name
    log = table if keys is None else history
    if log is not None and BATCH in taken:
        problem = f"is the column in which {log} keeps the batch's number"
        hint = "give the column another name" + ("" if keys is None else ", or keep no history")
        raise OptionError("column", taken[BATCH], problem, hint)


SinkLike = Sink | Callable[[DataFrame, int], None]


class _Function:
    def __init__(self, function: Callable[[DataFrame, int], None]) -> None:
        self.function = function

    def write(self, batch: Batch) -> None:
        self.function(batch.frame, batch.number)


def sink(given: SinkLike | None) -> Sink | None:
    """A sink, also out of a plain function of a DataFrame and a batch number."""
    if given is None or hasattr(given, "write"):
        return given
    return _Function(given)


class TableSink(ABC):
    """A sink that keeps rows in a table: the newest of each identity, or all of them by batch.

    Args:
        table: The table.
        history: Another that keeps every row of what has an identity.
        place: What names a table among those of all sinks.
    """

    def __init__(self, table: str, history: str | None, place: Callable[[str], str]) -> None:
        self.table = table
        self.history = history
        self.tables = tuple(place(name) for name in (table, history) if name is not None)
        self._begun = False

    def check(self, schema: StructType, keys: tuple[str, ...] | None) -> None:
        self._check_names(schema.names, keys)

    def write(self, batch: Batch) -> None:
        # The first batch makes the table, also without rows.
        if batch.empty and self._begun:
            return
        self._write(batch)
        self._begun = True

    def _check_names(self, names: Iterable[str], keys: tuple[str, ...] | None) -> None:
        check_columns(names, keys, self.table, self.history)

    @abstractmethod
    def _write(self, batch: Batch) -> None:
        """Write a batch, or make the table where it is empty."""


# Queries of one process may share a file. DuckDB hands out a database that another thread is
# still opening, with functions missing, so they take turns.
_TURNS: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtraError("to_duckdb()", "duckdb") from error
    return duckdb


class DuckDBSink(TableSink):
    """Tables in a DuckDB file; see ``to_duckdb``."""

    def __init__(self, path: str | PathLike[str], table: str, history: str | None) -> None:
        _duckdb()
        self.path = fspath(path)
        file = Path(path).resolve()
        super().__init__(table, history, lambda name: f"{file}, {name.lower()}")

    def prepare(self) -> None:
        """Have a folder for the file."""
        self._make_folder()

    def _write(self, batch: Batch) -> None:
        rows = batch.table()
        # A user's own sink may write through this one without having checked before.
        self._check_names(rows.column_names, batch.keys)
        path = Path(self.path).resolve()
        with _TURNS[path]:
            self._make(path)
            with _duckdb().connect(self.path) as connection:
                connection.execute("SET TimeZone = 'UTC'")
                refused = self._written(connection, batch, rows)
        set_aside(batch, rows, refused, self._place)

    @property
    def _place(self) -> str:
        return f"DuckDB {self.path}, table {self.table}"

    def _make_folder(self) -> None:
        """Have a folder for the file, and say so where there was none."""
        path = Path(self.path)
        hint = "give the path of a file, in a folder that you may write to"
        if path.is_dir():
            raise OptionError("path", self.path, "is a folder", hint)
        if path.parent.is_dir():
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = f"lies in a folder that can't be made ({error.strerror})"
            raise OptionError("path", self.path, problem, hint) from error
        _LOG.warning("Made the folder %s for %s", path.parent, path.name)

    def _make(self, path: Path) -> None:
        """Have a file that can be opened, whatever happens to us or to the disk meanwhile."""
        if path.exists():
            return
        self._make_folder()
        folder = Path(mkdtemp(dir=path.parent, prefix=".muntin-"))
        made = folder / path.name
        try:
            _duckdb().connect(str(made)).close()
            # What a full disk cut off when it was closed shows when it is opened.
            _duckdb().connect(str(made), read_only=True).close()
            with suppress(FileExistsError):
                os.link(made, path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _written(self, connection: Any, batch: Batch, rows: pa.Table) -> dict[int, str]:
        """Write what can be written; give back what can't, by position, and why."""
        with suppress(RowsRefusedError):
            self._transaction(connection, batch, rows, "COMMIT")
            return {}
        # Nothing of a transaction survives a refusal: rows are tried first, and written then.
        refused = sift(
            self._place, rows, lambda some: self._transaction(connection, batch, some, "ROLLBACK")
        )
        fine = [n for n in range(len(rows)) if n not in refused]
        self._transaction(connection, batch, rows.take(pa.array(fine, pa.int64())), "COMMIT")
        return refused

    def _transaction(self, connection: Any, batch: Batch, rows: pa.Table, end: str) -> None:
        import duckdb

        connection.execute("BEGIN")
        try:
            connection.register("batch_rows", rows)
            if batch.identity is not None:
                self._upsert(connection, batch.identity, rows)
                if self.history is not None:
                    self._append(connection, self.history, batch.number)
            else:
                self._append(connection, self.table, batch.number)
            connection.execute(end)
        except (duckdb.DataError, duckdb.IntegrityError, duckdb.InvalidInputException) as error:
            connection.execute("ROLLBACK")
            raise RowsRefusedError(str(error)) from error

    def _upsert(self, connection: Any, identity: tuple[str, ...], rows: pa.Table) -> None:
        table = _quoted(self.table)
        key = ", ".join(map(_quoted, identity))
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {table} AS SELECT * FROM batch_rows LIMIT 0"
        )
        connection.execute(
            f"CREATE UNIQUE INDEX IF NOT EXISTS {_quoted(self.table + '_key')} ON {table} ({key})"
        )
        rest = [_quoted(n) for n in rows.column_names if n not in identity]
        sets = ", ".join(f"{c} = excluded.{c}" for c in rest)
        # A window may emit early and in full within one batch: only its newest row counts.
        newest = (
            f"SELECT * FROM batch_rows QUALIFY row_number() OVER "
            f"(PARTITION BY {key} ORDER BY revision DESC) = 1"
        )
        nulls = [_quoted(n) for n in identity if rows[n].null_count]
        if nulls:
            # To an index no NULL is like another: such rows replace older ones by hand.
            null = " OR ".join(f"{name} IS NULL" for name in nulls)
            self._replace(connection, identity, f"SELECT * FROM ({newest}) WHERE {null}")
            newest = f"SELECT * FROM ({newest}) WHERE NOT ({null})"
        connection.execute(
            f"INSERT INTO {table} BY NAME {newest} ON CONFLICT ({key}) DO UPDATE SET {sets} "
            f"WHERE excluded.revision >= {table}.revision"
        )
        connection.execute(f"DELETE FROM {table} WHERE {columns.EMISSION} = 'retract'")

    def _replace(self, connection: Any, identity: tuple[str, ...], newest: str) -> None:
        """Put rows in the place of those that have their identity and no greater revision."""
        table = _quoted(self.table)
        same = " AND ".join(
            f"{table}.{_quoted(name)} IS NOT DISTINCT FROM muntin_newest.{_quoted(name)}"
            for name in identity
        )
        older = f"{same} AND muntin_newest.revision >= {table}.revision"
        connection.execute(f"DELETE FROM {table} USING ({newest}) AS muntin_newest WHERE {older}")
        connection.execute(
            f"INSERT INTO {table} BY NAME SELECT * FROM ({newest}) AS muntin_newest "
            f"WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {same})"
        )

    def _append(self, connection: Any, name: str, number: int) -> None:
        table = _quoted(name)
        numbered = f"SELECT *, {number}::BIGINT AS {BATCH} FROM batch_rows"
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} AS {numbered} LIMIT 0")
        known = {row[0].lower() for row in connection.execute(f"DESCRIBE {table}").fetchall()}
        for column, kind, *_ in connection.execute(f"DESCRIBE {numbered}").fetchall():
            # A source whose schema has grown since.
            if column.lower() not in known:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {_quoted(column)} {kind}")
        connection.execute(f"DELETE FROM {table} WHERE {BATCH} = {number}")
        connection.execute(f"INSERT INTO {table} BY NAME {numbered}")


def to_duckdb(path: str | PathLike[str], table: str, *, history: str | None = None) -> DuckDBSink:
    """Keep the newest state of every window in a DuckDB file on the driver.

    Results are upserted by keys and window, the greater revision wins, a batch in one transaction;
    sessions that were taken back are deleted. Pairs of joins and rejected messages are appended
    under their batch's number, in a column ``batch``, which therefore none of theirs may be called.
    A repeated batch changes nothing. Columns that rows to append have and their table hasn't are
    added to it.

    Args:
        path: The file; made where it isn't there, when the query starts. So is its folder, which is
            logged.
        table: The table; made at the first batch.
        history: Another table that keeps every firing, with the batch's number.

    Raises:
        MissingExtraError: When ``duckdb`` isn't installed.

    A path that can't be a file's is refused by an ``OptionError`` when the query starts.
    """
    return DuckDBSink(path, table, history)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
