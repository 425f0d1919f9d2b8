"""Writes results and rejected messages to a DuckDB file."""

from __future__ import annotations

import logging
import os
import re
import shutil
import threading
from collections import defaultdict
from contextlib import suppress
from os import PathLike
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa

from muntin.engine import columns
from muntin.model.errors import MissingExtraError, OptionError, SinkError
from muntin.model.option_types import parse_path
from muntin.sinks.batch import Batch
from muntin.sinks.sink import (
    BATCH_COLUMN,
    TableSink,
    quote_ansi_name,
    report_refused,
    warn_of_new_table,
)
from muntin.sinks.unwritable import RowsRefusedError, write_accepted

_LOG = logging.getLogger(__name__)
# Queries of one process may share a file. DuckDB may return a database that another thread is
# still opening, which lacks functions, so only one thread at a time opens it.
_LOCKS: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)
# What DuckDB takes for a database in memory, which would be gone after each batch, or elsewhere.
_OTHER_DATABASE = re.compile(r":memory:|[A-Za-z]\w+:")


def _import_duckdb() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtraError("to_duckdb()", "duckdb") from error
    return duckdb


class DuckDBSink(TableSink):
    """Tables in a DuckDB file; see ``to_duckdb``."""

    def __init__(self, path: str | PathLike[str], table: str, history: str | None) -> None:
        _import_duckdb()
        self.path = parse_path("path", path)
        if _OTHER_DATABASE.match(self.path):
            hint = "give the path of a file of this machine, or results=mt.to_memory()"
            raise OptionError("path", self.path, "isn't a file", hint)
        self._file = Path(self.path)
        file = self._file.resolve()
        super().__init__(table, history, lambda name: f"{file}, {name.lower()}")

    def _write(self, batch: Batch) -> None:
        rows = batch.table()
        # A user's own sink may call this one without a check before.
        self.check_names(rows.column_names, batch.keys)
        path = self._file.resolve()
        with _LOCKS[path]:
            self._create_file(path)
            with self._open() as connection:
                connection.execute("SET TimeZone = 'UTC'")
                missing = self._list_missing_tables(connection, batch)
                refused = self._write_rows(connection, batch, rows)
        report_refused(batch, rows, refused, self.location)
        for table in missing:
            warn_of_new_table(f"DuckDB {self.path}, table {table}", batch.number)

    def _open(self) -> Any:
        duckdb = _import_duckdb()
        try:
            return duckdb.connect(str(self._file))
        except duckdb.IOException as error:
            problem = str(error).removeprefix("IO Error: ").partition("\n")[0]
            raise SinkError(
                f"DuckDB {self.path} can't be opened: {problem}. Close it in other programs, "
                "free its disk, or give another path; then start the query again, which repeats "
                "the batch"
            ) from error

    def _list_missing_tables(self, connection: Any, batch: Batch) -> list[str]:
        """Return the tables that this batch will create."""
        existing = connection.execute("SELECT lower(table_name) FROM duckdb_tables()").fetchall()
        names = [self.table] if batch.keys is not None else []
        if (log := self.get_log_table(batch.keys)) is not None:
            names.append(log)
        return [name for name in names if (name.lower(),) not in existing]

    @property
    def location(self) -> str:
        """The table in messages."""
        return f"DuckDB {self.path}, table {self.table}"

    def prepare(self) -> None:
        """Create the folder of the file if it doesn't exist, and log that."""
        # The process may change its folder later.
        path = self._file = self._file.absolute()
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

    def _create_file(self, path: Path) -> None:
        """Create the file atomically, so that a crash or a full disk leaves no broken file."""
        if path.exists():
            return
        self.prepare()
        folder = Path(mkdtemp(dir=path.parent, prefix=".muntin-"))
        new_file = folder / path.name
        try:
            _import_duckdb().connect(str(new_file)).close()
            # If a full disk truncated the file on closing, opening it fails.
            _import_duckdb().connect(str(new_file), read_only=True).close()
            with suppress(FileExistsError):
                os.link(new_file, path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _write_rows(self, connection: Any, batch: Batch, rows: pa.Table) -> dict[int, str]:
        """Write the rows that can be written; return the others by position, with reasons."""
        with suppress(RowsRefusedError):
            self._run_transaction(connection, batch, rows, "COMMIT")
            return {}
        # An error rolls back the whole transaction, so test rows first, then write the good ones.
        refused = write_accepted(
            self.location,
            rows,
            lambda some: self._run_transaction(connection, batch, some, "ROLLBACK"),
        )
        accepted = [n for n in range(len(rows)) if n not in refused]
        self._run_transaction(
            connection, batch, rows.take(pa.array(accepted, pa.int64())), "COMMIT"
        )
        return refused

    def _run_transaction(self, connection: Any, batch: Batch, rows: pa.Table, end: str) -> None:
        import duckdb

        connection.execute("BEGIN")
        try:
            connection.register("batch_rows", rows)
            if batch.identity is not None:
                self._upsert(connection, batch.identity, rows)
            if (log := self.get_log_table(batch.keys)) is not None:
                self._append_rows(connection, log, batch.number)
            connection.execute(end)
        except (duckdb.DataError, duckdb.IntegrityError, duckdb.InvalidInputException) as error:
            connection.execute("ROLLBACK")
            raise RowsRefusedError(str(error)) from error
        except duckdb.BinderException as error:
            problem = str(error).removeprefix("Binder Error: ").partition("\n")[0]
            raise SinkError(
                f"{self.location} has other columns than the rows: {problem}. Give another table, "
                "or change this one, and start the query again: the batch is repeated"
            ) from error

    def _upsert(self, connection: Any, identity: tuple[str, ...], rows: pa.Table) -> None:
        table = quote_ansi_name(self.table)
        key = ", ".join(map(quote_ansi_name, identity))
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {table} AS SELECT * FROM batch_rows LIMIT 0"
        )
        connection.execute(
            f"CREATE UNIQUE INDEX IF NOT EXISTS {quote_ansi_name(self.table + '_key')} "
            f"ON {table} ({key})"
        )
        rest = [quote_ansi_name(n) for n in rows.column_names if n not in identity]
        sets = ", ".join(f"{c} = excluded.{c}" for c in rest)
        # A window may emit early and in full within one batch: only its newest row counts.
        newest = (
            f"SELECT * FROM batch_rows QUALIFY row_number() OVER "
            f"(PARTITION BY {key} ORDER BY revision DESC) = 1"
        )
        nulls = [quote_ansi_name(n) for n in identity if rows[n].null_count]
        if nulls:
            # An index treats NULLs as distinct, so replace older rows explicitly.
            null = " OR ".join(f"{name} IS NULL" for name in nulls)
            self._replace_rows(connection, identity, f"SELECT * FROM ({newest}) WHERE {null}")
            newest = f"SELECT * FROM ({newest}) WHERE NOT ({null})"
        connection.execute(
            f"INSERT INTO {table} BY NAME {newest} ON CONFLICT ({key}) DO UPDATE SET {sets} "
            f"WHERE excluded.revision >= {table}.revision"
        )
        connection.execute(f"DELETE FROM {table} WHERE {columns.EMISSION} = 'retract'")

    def _replace_rows(self, connection: Any, identity: tuple[str, ...], newest: str) -> None:
        """Replace the rows with the same identity that have no greater revision."""
        table = quote_ansi_name(self.table)
        names = map(quote_ansi_name, identity)
        same = " AND ".join(
            f"{table}.{name} IS NOT DISTINCT FROM muntin_newest.{name}" for name in names
        )
        older = f"{same} AND muntin_newest.revision >= {table}.revision"
        connection.execute(f"DELETE FROM {table} USING ({newest}) AS muntin_newest WHERE {older}")
        connection.execute(
            f"INSERT INTO {table} BY NAME SELECT * FROM ({newest}) AS muntin_newest "
            f"WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {same})"
        )

    def _append_rows(self, connection: Any, name: str, number: int) -> None:
        table = quote_ansi_name(name)
        numbered = f"SELECT *, {number}::BIGINT AS {BATCH_COLUMN} FROM batch_rows"
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} AS {numbered} LIMIT 0")
        existing = {row[0].lower() for row in connection.execute(f"DESCRIBE {table}").fetchall()}
        for column, kind, *_ in connection.execute(f"DESCRIBE {numbered}").fetchall():
            # The source's schema may have grown.
            if column.lower() not in existing:
                connection.execute(
                    f"ALTER TABLE {table} ADD COLUMN {quote_ansi_name(column)} {kind}"
                )
        connection.execute(f"DELETE FROM {table} WHERE {BATCH_COLUMN} = {number}")
        connection.execute(f"INSERT INTO {table} BY NAME {numbered}")


def to_duckdb(path: str | PathLike[str], table: str, *, history: str | None = None) -> DuckDBSink:
    """Store the newest state of every window in a DuckDB file on the driver.

    Results are upserted by keys and window, one transaction per batch: the greater revision wins,
    and retracted sessions are deleted. Pairs of joins and rejected messages are appended with their
    batch's number, in a column ``batch``, so none of their own columns can have this name. A
    repeated batch changes nothing. New columns of appended rows are added to the table.

    Args:
        path: The file; it is created when the query starts if it doesn't exist. So is its folder,
            which is logged.
        table: The table; it is created at the first batch.
        history: Another table that keeps every emission, with the batch's number.

    Returns:
        The sink. A query whose ``path`` can't be a file raises an ``OptionError`` when it starts.

    Raises:
        MissingExtraError: When ``duckdb`` isn't installed.
        OptionError: When ``path`` names a database in memory or of a server.

    Example:
        >>> to_duckdb("views.duckdb", "views", history="views_history").table
        'views'
    """
    return DuckDBSink(path, table, history)
