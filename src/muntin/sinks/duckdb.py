"""Results and rejected messages in a DuckDB file."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections import defaultdict
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa

from muntin.engine import columns
from muntin.model.errors import MissingExtraError, OptionError
from muntin.sinks.batch import Batch
from muntin.sinks.sink import BATCH, TableSink, set_aside, sql_name, warn_of_new_table
from muntin.sinks.unwritable import RowsRefusedError, sift

_LOG = logging.getLogger(__name__)
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

    def _write(self, batch: Batch) -> None:
        rows = batch.table()
        # A user's own sink may write through this one without having checked before.
        self.check_names(rows.column_names, batch.keys)
        path = Path(self.path).resolve()
        with _TURNS[path]:
            self._make(path)
            with _duckdb().connect(self.path) as connection:
                connection.execute("SET TimeZone = 'UTC'")
                missing = self._missing(connection, batch)
                refused = self._written(connection, batch, rows)
        set_aside(batch, rows, refused, self._place)
        for table in missing:
            warn_of_new_table(f"DuckDB {self.path}, table {table}", batch.number)

    def _missing(self, connection: Any, batch: Batch) -> list[str]:
        """The tables that this batch is going to create."""
        shown = connection.execute("SELECT lower(table_name) FROM duckdb_tables()").fetchall()
        names = [self.table] if batch.keys is not None else []
        if (log := self.log_table(batch.keys)) is not None:
            names.append(log)
        return [name for name in names if (name.lower(),) not in shown]

    @property
    def _place(self) -> str:
        return f"DuckDB {self.path}, table {self.table}"

    def prepare(self) -> None:
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
        self.prepare()
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
            if (log := self.log_table(batch.keys)) is not None:
                self._append(connection, log, batch.number)
            connection.execute(end)
        except (duckdb.DataError, duckdb.IntegrityError, duckdb.InvalidInputException) as error:
            connection.execute("ROLLBACK")
            raise RowsRefusedError(str(error)) from error

    def _upsert(self, connection: Any, identity: tuple[str, ...], rows: pa.Table) -> None:
        table = sql_name(self.table)
        key = ", ".join(map(sql_name, identity))
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {table} AS SELECT * FROM batch_rows LIMIT 0"
        )
        connection.execute(
            f"CREATE UNIQUE INDEX IF NOT EXISTS {sql_name(self.table + '_key')} ON {table} ({key})"
        )
        rest = [sql_name(n) for n in rows.column_names if n not in identity]
        sets = ", ".join(f"{c} = excluded.{c}" for c in rest)
        # A window may emit early and in full within one batch: only its newest row counts.
        newest = (
            f"SELECT * FROM batch_rows QUALIFY row_number() OVER "
            f"(PARTITION BY {key} ORDER BY revision DESC) = 1"
        )
        nulls = [sql_name(n) for n in identity if rows[n].null_count]
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
        table = sql_name(self.table)
        same = " AND ".join(
            f"{table}.{sql_name(name)} IS NOT DISTINCT FROM muntin_newest.{sql_name(name)}"
            for name in identity
        )
        older = f"{same} AND muntin_newest.revision >= {table}.revision"
        connection.execute(f"DELETE FROM {table} USING ({newest}) AS muntin_newest WHERE {older}")
        connection.execute(
            f"INSERT INTO {table} BY NAME SELECT * FROM ({newest}) AS muntin_newest "
            f"WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {same})"
        )

    def _append(self, connection: Any, name: str, number: int) -> None:
        table = sql_name(name)
        numbered = f"SELECT *, {number}::BIGINT AS {BATCH} FROM batch_rows"
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} AS {numbered} LIMIT 0")
        known = {row[0].lower() for row in connection.execute(f"DESCRIBE {table}").fetchall()}
        for column, kind, *_ in connection.execute(f"DESCRIBE {numbered}").fetchall():
            # A source whose schema has grown since.
            if column.lower() not in known:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {sql_name(column)} {kind}")
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
        history: Another table that keeps every emission, with the batch's number.

    Returns:
        The sink. A query that starts with it raises an ``OptionError`` where the path can't be a
        file's.

    Raises:
        MissingExtraError: When ``duckdb`` isn't installed.

    Example:
        >>> to_duckdb("views.duckdb", "views", history="views_history").table
        'views'
    """
    return DuckDBSink(path, table, history)
