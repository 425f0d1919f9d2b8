"""Writes results and rejected messages to PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from muntin.engine import columns
from muntin.model.axis import Duration, parse_duration
from muntin.model.errors import OptionError, SinkError
from muntin.sinks.batch import Batch
from muntin.sinks.postgres_link import PostgresLink, translate_refusals
from muntin.sinks.postgres_rows import write_separately
from muntin.sinks.postgres_types import column_type, to_psycopg_values
from muntin.sinks.sink import (
    BATCH_COLUMN,
    TableSink,
    quote_ansi_name,
    report_refused,
    warn_of_new_table,
)
from muntin.sinks.unwritable import RowsRefusedError

if TYPE_CHECKING:
    from psycopg import Connection

CreateMode = Literal["if missing", "never"]
_STAGE = "muntin_stage"
# PostgreSQL truncates longer names, so that two of them may become equal.
_MAX_NAME_BYTES = 63
_MAX_COLUMNS = 1600
_VERSION_WITH_EQUAL_NULLS = 150000
# Finds a unique index over exactly these columns, in any order, to which NULL equals NULL.
_FIND_FITTING_INDEX = """
SELECT 1 FROM pg_index AS i
WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indisvalid
    AND i.indnullsnotdistinct AND i.indpred IS NULL AND i.indexprs IS NULL
    AND (
        SELECT array_agg(a.attname::text ORDER BY a.attname::text)
        FROM pg_attribute AS a
        WHERE a.attrelid = i.indrelid
            AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
    ) = (SELECT array_agg(name ORDER BY name) FROM unnest(%s::text[]) AS name)
"""


@dataclass(frozen=True)
class _Target:
    """A table to write to.

    Attributes:
        schema: The table's schema; ``None`` for the first of the search path.
        rows: The rows of the batch; in a log, including the batch's number.
        identity: The columns that identify a row; empty for a log of rows.
    """

    schema: str | None
    table: str
    rows: pa.Table
    identity: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name in SQL."""
        parts = (self.table,) if self.schema is None else (self.schema, self.table)
        return ".".join(map(quote_ansi_name, parts))

    @property
    def nullable_identity(self) -> tuple[str, ...]:
        """The identifying columns that are NULL in some row."""
        return tuple(name for name in self.identity if self.rows[name].null_count)

    @property
    def full_name(self) -> str:
        """The name with its schema."""
        return self.table if self.schema is None else f"{self.schema}.{self.table}"

    def build_statements(self, source: str) -> list[str]:
        """Return the statements that append the rows of a source, or upsert them."""
        if self.identity:
            return self._build_upserts(source)
        every = _join_names(self.rows.column_names)
        return [f"INSERT INTO {self.name} ({every}) SELECT {every} FROM {source}"]

    def _build_upserts(self, source: str) -> list[str]:
        key, all_names = _join_names(self.identity), self.rows.column_names
        # IS NOT DISTINCT FROM can't use an index, so compare with it only if there are NULLs.
        equal = dict.fromkeys(self.nullable_identity, "IS NOT DISTINCT FROM")
        same = " AND ".join(
            f"kept.{quote_ansi_name(name)} {equal.get(name, '=')} newest.{quote_ansi_name(name)}"
            for name in self.identity
        )
        # A window may emit early and in full within one batch: only its newest row counts.
        newest = f"SELECT DISTINCT ON ({key}) * FROM {source} ORDER BY {key}, revision DESC"
        rest = [quote_ansi_name(name) for name in all_names if name not in self.identity]
        sets = ", ".join(f"{name} = excluded.{name}" for name in rest)
        insert = (
            f"INSERT INTO {self.name} AS kept ({_join_names(all_names)}) "
            f"SELECT {_join_names(all_names)} FROM ({newest}) AS newest "
            f"WHERE emission <> 'retract' "
            f"ON CONFLICT ({key}) DO UPDATE SET {sets} WHERE excluded.revision >= kept.revision"
        )
        if not pc.any(pc.equal(self.rows[columns.EMISSION], "retract")).as_py():
            return [insert]
        delete = (
            f"DELETE FROM {self.name} AS kept USING ({newest}) AS newest WHERE {same} "
            "AND newest.emission = 'retract' AND newest.revision >= kept.revision"
        )
        return [delete, insert]


class PostgresSink(TableSink):
    """Tables in PostgreSQL; see ``to_postgres``.

    Attributes:
        primary_key: The columns that identify a row of the table, if a statement declares them;
            otherwise they are the keys and the window.
    """

    is_case_sensitive = True

    def __init__(
        self,
        link: PostgresLink,
        schema: str | None,
        table: str,
        history: str | None,
        create: CreateMode,
    ) -> None:
        for option, name in (("schema", schema), ("table", table), ("history", history)):
            if name is not None:
                _check_name(option, name)
            if name is not None and option != "schema" and "." in name:
                whose, _, own = name.rpartition(".")
                problem = "would be a name with a dot, without a schema"
                raise OptionError(option, name, problem, f"give schema={whose!r}, {option}={own!r}")
        self.link = link
        self.schema = schema
        self.create = create
        self.primary_key: tuple[str, ...] = ()
        where = f"{link.location}, {schema or 'public'}"
        super().__init__(table, history, lambda name: f"{where}.{name}")

    def __repr__(self) -> str:
        return f"PostgresSink({self.link.location!r}, {self.table!r})"

    @property
    def location(self) -> str:
        """The table in messages."""
        return self._describe_location(self.table)

    def _write(self, batch: Batch) -> None:
        rows = batch.table()
        # A user's own sink may call this one without a check before.
        self.check_names(rows.column_names, batch.keys)
        numbered = rows.append_column(
            BATCH_COLUMN, pa.array([batch.number] * len(rows), pa.int64())
        )
        log, identity = self.get_log_table(batch.keys), batch.identity

        targets = []
        if identity is not None:
            # Newer revisions come later, even if rows are written in parts.
            ordered = rows.sort_by(columns.REVISION)
            own = {name.lower(): name for name in rows.column_names}
            key = tuple(own[name.lower()] for name in self.primary_key) or identity
            targets.append(_Target(self.schema, self.table, ordered, key))
        if log is not None:
            targets.append(_Target(self.schema, log, numbered))

        def write(connection: Connection[Any]) -> list[tuple[_Target, bool, dict[int, str]]]:
            return [(one, *self._write_to(connection, one, batch.number)) for one in targets]

        for target, is_new, refused in self.link.run(write):
            taken = target.rows.select(rows.column_names)
            where = self._describe_location(target.table)
            report_refused(batch, taken, refused, where)
            if is_new:
                warn_of_new_table(where, batch.number)

    def _write_to(
        self, connection: Connection[Any], target: _Target, number: int
    ) -> tuple[bool, dict[int, str]]:
        """Write to one table; return whether it was created, and what it refused."""
        is_new = self._lock_or_create(connection, target)
        if not target.identity:
            # An earlier attempt may have appended these rows.
            statement = f"DELETE FROM {target.name} WHERE {BATCH_COLUMN} = {number}"
            self._run_explained(connection, target, statement)
        return is_new, self._write_fitting(connection, target)

    def check_names(self, names: Iterable[str], keys: tuple[str, ...] | None) -> None:
        listed = list(names)
        for name in listed:
            _check_name("column", name)
        super().check_names(listed, keys)
        if len(listed) >= _MAX_COLUMNS:
            hint = "select fewer, or put them into a struct"
            problem = f"are more than PostgreSQL's tables have, of which one has {_MAX_COLUMNS}"
            raise OptionError("columns", len(listed), problem, hint)

    def _write_fitting(self, connection: Connection[Any], target: _Target) -> dict[int, str]:
        """Write the rows that the table accepts; return the others' positions and reasons."""
        missing = self._find_unmatched_nulls(connection, target)
        fitting = [n for n in range(len(target.rows)) if n not in missing] if missing else None
        if fitting is not None:
            target = replace(target, rows=target.rows.take(pa.array(fitting, pa.int64())))
        try:
            self._write_at_once(connection, target)
            return missing
        except RowsRefusedError:
            pass
        try:
            self._write_at_once(connection, replace(target, rows=target.rows.slice(0, 0)))
        except RowsRefusedError as error:
            raise SinkError(
                f"{self._describe_location(target.table)} takes no row at all: {error}"
            ) from error
        with translate_refusals():
            refused = write_separately(
                connection, target.name, target.rows, target.build_statements
            )
        if fitting is not None:
            refused = {fitting[n]: why for n, why in refused.items()}
        return dict(sorted((missing | refused).items()))

    def _write_at_once(self, connection: Connection[Any], target: _Target) -> None:
        """Write all rows, or none of them."""
        with translate_refusals(), connection.transaction():
            self._stage(connection, target)
            for statement in target.build_statements(_STAGE):
                self._run_explained(connection, target, statement)
            # Otherwise deferred constraints would only fail at the commit.
            connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
            connection.execute(f"DROP TABLE {_STAGE}")

    def _describe_location(self, table: str) -> str:
        schema = "" if self.schema is None else f"{self.schema}."
        return f"PostgreSQL {self.link.location}, table {schema}{table}"

    def _find_unmatched_nulls(self, connection: Connection[Any], target: _Target) -> dict[int, str]:
        """Return rows with NULL keys of which the table would keep every revision."""
        if not target.nullable_identity:
            return {}
        if connection.info.server_version >= _VERSION_WITH_EQUAL_NULLS:
            named = (target.name, list(target.identity))
            if connection.execute(_FIND_FITTING_INDEX, named).fetchone() is not None:
                return {}
        key = ", ".join(target.identity)
        why = (
            f"{', '.join(target.nullable_identity)} is NULL, and {target.full_name} has no "
            f"UNIQUE NULLS NOT DISTINCT ({key}), which PostgreSQL has from 15 on; add it "
            "in place of the primary key"
        )
        null = (pc.is_null(target.rows[name]) for name in target.nullable_identity)
        return dict.fromkeys(pc.indices_nonzero(reduce(pc.or_, null)).to_pylist(), why)

    def _lock_or_create(self, connection: Connection[Any], target: _Target) -> bool:
        """Lock the table until the transaction ends; return whether it was created."""
        # Queries that share a table are serialized, so that each sees the rows of the other.
        lock = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
        connection.execute(lock, (f"muntin {target.full_name}",))
        if self.create == "never" or self._table_exists(connection, target):
            return False
        self._create_table(connection, target)
        return True

    def _stage(self, connection: Connection[Any], target: _Target) -> None:
        """Copy the rows into a table beside the target."""
        every = _join_names(target.rows.column_names)
        # Use the table's own types, which may differ from those that we would choose.
        shape = f"SELECT {every} FROM {target.name} WITH NO DATA"
        self._run_explained(
            connection, target, f"CREATE TEMP TABLE {_STAGE} ON COMMIT DROP AS {shape}"
        )
        copy = f"COPY {_STAGE} ({every}) FROM STDIN"
        with connection.cursor() as cursor, cursor.copy(copy) as stream:
            for row in zip(*(to_psycopg_values(c) for c in target.rows.columns), strict=True):
                stream.write_row(row)

    def _table_exists(self, connection: Connection[Any], target: _Target) -> bool:
        cursor = connection.execute("SELECT to_regclass(%s)", (target.name,))
        return cursor.fetchone() != (None,)

    def _create_table(self, connection: Connection[Any], target: _Target) -> None:
        shape = [f"{quote_ansi_name(f.name)} {column_type(f.type)}" for f in target.rows.schema]
        if target.identity:
            shape.append(
                f"{_choose_constraint(connection, target)} ({_join_names(target.identity)})"
            )
        connection.execute(f"CREATE TABLE {target.name} ({', '.join(shape)})")
        if not target.identity:
            connection.execute(f"CREATE INDEX ON {target.name} ({BATCH_COLUMN})")

    def _run_explained(self, connection: Connection[Any], target: _Target, statement: str) -> None:
        """Run a statement, and explain errors about the table's definition."""
        from psycopg import errors

        try:
            connection.execute(statement)
        except errors.UndefinedTable:
            hint = "create it, or leave create='never' away"
            raise SinkError(f"the table {target.full_name} isn't there; {hint}") from None
        except errors.UndefinedColumn as error:
            message = error.diag.message_primary
            hint = f"add it, or give another table: it needs {', '.join(target.rows.column_names)}"
            raise SinkError(
                f"the table {target.full_name} lacks a column: {message}; {hint}"
            ) from None
        except errors.InvalidColumnReference:
            key = ", ".join(target.identity)
            raise SinkError(
                f"the table {target.full_name} has no primary key or unique index over "
                f"({key}), by which newer revisions find older ones; add one"
            ) from None


def to_postgres(
    dsn: str,
    table: str,
    *,
    schema: str | None = None,
    history: str | None = None,
    create: CreateMode = "if missing",
    patience: Duration = "1 minute",
    password: str | None = None,
) -> PostgresSink:
    """Store the newest state of every window in a table of PostgreSQL.

    A batch is one transaction: its rows are copied into a staging table and upserted from there by
    keys and window; the greater revision wins, and retracted sessions are deleted. If
    a key may be NULL (``nulls="group"``, SQL) the table gets ``UNIQUE NULLS NOT DISTINCT`` instead
    of a primary key, from PostgreSQL 15 on. Rows with a NULL key are set aside if the table has no
    such constraint, like other rows that it can't store. Pairs of joins and rejected messages are
    appended with their batch's number, in a column ``batch``, so none of their own columns can have
    this name; they replace the rows of an earlier attempt. A repeated batch changes nothing, so a
    restart of the query or of the server, at any moment, neither loses nor duplicates rows. A table
    of appended rows belongs to one query.

    If the server is down, the batch waits for it and is written again as a whole.

    Args:
        dsn: The server's address: ``postgresql://user@host:5432/database`` or ``host=… dbname=…``.
            Messages don't show it, but its host and database.
        table: The table.
        schema: The table's schema; by default the first of the connection's search path.
        history: Another table that keeps every emission, with the batch's number.
        create: ``"if missing"`` creates tables that don't exist, at any batch: if a table was
            dropped while the query ran, a warning tells that its contents are lost. ``"never"``
            ends the query instead. A table of your own needs a primary key or unique index over
            the keys, ``window_start`` and ``window_end``, and the columns by their names; it may
            have more columns.
        patience: How long to wait for a server that is down before the query ends with an error.
        password: The password, if neither the address has one nor libpq finds it (in
            ``PGPASSWORD`` or ``~/.pgpass``), as ``${env:NAME}`` or ``${file:PATH}``. It is never
            shown.

    Returns:
        The sink. Its query ends with a ``SinkError`` where the server stays away for longer than
        ``patience``.

    Raises:
        MissingExtraError: When ``psycopg`` isn't installed.
        OptionError: When the address or a name is invalid.

    Example:
        >>> sink = to_postgres("postgresql://host/db", "views")  # doctest: +SKIP
    """
    if create not in get_args(CreateMode):
        hint = f"give one of {', '.join(map(repr, get_args(CreateMode)))}"
        raise OptionError("create", create, "isn't a choice", hint)
    waits = parse_duration("patience", patience) / 1_000_000
    return PostgresSink(PostgresLink(dsn, waits, password), schema, table, history, create)


def _choose_constraint(connection: Connection[Any], target: _Target) -> str:
    """Return the constraint that makes the identity unique in a new table."""
    nullable = any(target.rows.schema.field(name).nullable for name in target.identity)
    if nullable and connection.info.server_version >= _VERSION_WITH_EQUAL_NULLS:
        return "UNIQUE NULLS NOT DISTINCT"
    return "PRIMARY KEY"


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(map(quote_ansi_name, names))


def _check_name(option: str, name: str) -> None:
    if not name or "\x00" in name or len(name.encode()) > _MAX_NAME_BYTES:
        hint = f"give one of 1 to {_MAX_NAME_BYTES} bytes, which is all that PostgreSQL keeps apart"
        raise OptionError(option, name, "can't be a name", hint)
