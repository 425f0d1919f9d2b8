"""Results and rejected messages in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from muntin.engine import columns
from muntin.model.axis import Duration, micros
from muntin.model.errors import OptionError, SinkError
from muntin.sinks.batch import Batch
from muntin.sinks.postgres_link import Link, refusals
from muntin.sinks.postgres_rows import write_separately
from muntin.sinks.postgres_types import column_type, values
from muntin.sinks.sink import BATCH, TableSink, set_aside, sql_name, warn_of_new_table
from muntin.sinks.unwritable import RowsRefusedError

if TYPE_CHECKING:
    from psycopg import Connection

Create = Literal["if missing", "never"]
_STAGE = "muntin_stage"
# PostgreSQL cuts longer names, so that two of them may become one.
_LONGEST = 63
_MOST = 1600
_NULLS_ARE_EQUAL = 150000
# A unique index over just these columns, in any order, to which NULL equals NULL.
_FITTING = """
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
        schema: Its schema; ``None`` is the connection's first.
        table: Its name.
        rows: What the batch brings; the batch's number is among the columns of a log.
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
        return ".".join(map(sql_name, parts))

    @property
    def nulls(self) -> tuple[str, ...]:
        """The columns that identify a row and are NULL in some."""
        return tuple(name for name in self.identity if self.rows[name].null_count)

    @property
    def qualified(self) -> str:
        """The name with its schema."""
        return self.table if self.schema is None else f"{self.schema}.{self.table}"

    def statements(self, source: str) -> list[str]:
        """The statements that append the rows of a source, or let them replace older revisions."""
        if self.identity:
            return self._upserts(source)
        every = _names(self.rows.column_names)
        return [f"INSERT INTO {self.name} ({every}) SELECT {every} FROM {source}"]

    def _upserts(self, source: str) -> list[str]:
        key, every = _names(self.identity), self.rows.column_names
        # No index helps to find what isn't distinct, so only where there may be NULL.
        equal = dict.fromkeys(self.nulls, "IS NOT DISTINCT FROM")
        same = " AND ".join(
            f"kept.{sql_name(name)} {equal.get(name, '=')} newest.{sql_name(name)}"
            for name in self.identity
        )
        # A window may emit early and in full within one batch: only its newest row counts.
        newest = f"SELECT DISTINCT ON ({key}) * FROM {source} ORDER BY {key}, revision DESC"
        rest = [sql_name(name) for name in every if name not in self.identity]
        sets = ", ".join(f"{name} = excluded.{name}" for name in rest)
        insert = (
            f"INSERT INTO {self.name} AS kept ({_names(every)}) SELECT {_names(every)} "
            f"FROM ({newest}) AS newest WHERE emission <> 'retract' "
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
    """Tables in PostgreSQL; see ``to_postgres``."""

    capitals = True

    def __init__(
        self, link: Link, schema: str | None, table: str, history: str | None, create: Create
    ) -> None:
        for option, name in (("schema", schema), ("table", table), ("history", history)):
            if name is not None:
                _check_name(option, name)
        self.link = link
        self.schema = schema
        self.create = create
        where = f"{link.place}, {schema or 'public'}"
        super().__init__(table, history, lambda name: f"{where}.{name}")

    def __repr__(self) -> str:
        return f"PostgresSink({self.link.place!r}, {self.table!r})"

    def _write(self, batch: Batch) -> None:
        rows = batch.table()
        # A user's own sink may write through this one without having checked before.
        self.check_names(rows.column_names, batch.keys)
        numbered = rows.append_column(BATCH, pa.array([batch.number] * len(rows), pa.int64()))
        log, identity = self.log_table(batch.keys), batch.identity

        targets = []
        if identity is not None:
            # Newer revisions come later, also where rows are written bit by bit.
            ordered = rows.sort_by(columns.REVISION)
            targets.append(_Target(self.schema, self.table, ordered, identity))
        if log is not None:
            targets.append(_Target(self.schema, log, numbered))

        def write(connection: Connection[Any]) -> list[tuple[_Target, bool, dict[int, str]]]:
            return [(one, *self._write_to(connection, one, batch.number)) for one in targets]

        for target, is_new, refused in self.link.run(write):
            taken = target.rows.select(rows.column_names)
            set_aside(batch, taken, refused, self._place(target))
            if is_new:
                warn_of_new_table(self._place(target), batch.number)

    def _write_to(
        self, connection: Connection[Any], target: _Target, number: int
    ) -> tuple[bool, dict[int, str]]:
        """Write to one table; return whether it was created, and what it refused."""
        is_new = self._prepare(connection, target)
        if not target.identity:
            self._erase(connection, target, number)
        return is_new, self._write_fitting(connection, target)

    def check_names(self, names: Iterable[str], keys: tuple[str, ...] | None) -> None:
        there = list(names)
        for name in there:
            _check_name("column", name)
        super().check_names(there, keys)
        if len(there) >= _MOST:
            hint = "select fewer, or put them into a struct"
            problem = f"are more than PostgreSQL's tables have, of which one has {_MOST}"
            raise OptionError("columns", len(there), problem, hint)

    def _write_fitting(self, connection: Connection[Any], target: _Target) -> dict[int, str]:
        """Write the rows that the table takes; return the others' positions and reasons."""
        missing = self._unmatched_nulls(connection, target)
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
            raise SinkError(f"{self._place(target)} takes no row at all: {error}") from error
        with refusals():
            refused = write_separately(connection, target.name, target.rows, target.statements)
        if fitting is not None:
            refused = {fitting[n]: why for n, why in refused.items()}
        return dict(sorted((missing | refused).items()))

    def _write_at_once(self, connection: Connection[Any], target: _Target) -> None:
        """Write all rows, or none of them."""
        with refusals(), connection.transaction():
            self._stage(connection, target)
            for statement in target.statements(_STAGE):
                self._checked(connection, target, statement)
            # Else some would be looked at when all is committed.
            connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
            connection.execute(f"DROP TABLE {_STAGE}")

    def _place(self, target: _Target) -> str:
        return f"PostgreSQL {self.link.place}, table {target.qualified}"

    def _unmatched_nulls(self, connection: Connection[Any], target: _Target) -> dict[int, str]:
        """The rows of which the table would keep every revision, since no NULL is like another."""
        if not target.nulls:
            return {}
        if connection.info.server_version >= _NULLS_ARE_EQUAL:
            named = (target.name, list(target.identity))
            if connection.execute(_FITTING, named).fetchone() is not None:
                return {}
        key = ", ".join(target.identity)
        why = (
            f"{', '.join(target.nulls)} is NULL, and {target.qualified} has no UNIQUE NULLS NOT "
            f"DISTINCT ({key}), which PostgreSQL has from 15 on; add it in place of the primary key"
        )
        null = (pc.is_null(target.rows[name]) for name in target.nulls)
        return dict.fromkeys(pc.indices_nonzero(reduce(pc.or_, null)).to_pylist(), why)

    def _erase(self, connection: Connection[Any], target: _Target, number: int) -> None:
        """Forget what an earlier try has appended."""
        self._checked(connection, target, f"DELETE FROM {target.name} WHERE {BATCH} = {number}")

    def _prepare(self, connection: Connection[Any], target: _Target) -> bool:
        """Hold the table alone until the transaction ends; return whether it was created."""
        # Queries that share a table take turns: the second one sees the first one's rows.
        turn = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
        connection.execute(turn, (f"muntin {target.qualified}",))
        if self.create == "never" or self._exists(connection, target):
            return False
        self._make(connection, target)
        return True

    def _stage(self, connection: Connection[Any], target: _Target) -> None:
        """Copy the rows into a table beside the target."""
        every = _names(target.rows.column_names)
        # Of the table's own types, which need not be those that we would have chosen.
        shape = f"SELECT {every} FROM {target.name} WITH NO DATA"
        self._checked(connection, target, f"CREATE TEMP TABLE {_STAGE} ON COMMIT DROP AS {shape}")
        copy = f"COPY {_STAGE} ({every}) FROM STDIN"
        with connection.cursor() as cursor, cursor.copy(copy) as stream:
            for row in zip(*(values(c) for c in target.rows.columns), strict=True):
                stream.write_row(row)

    def _exists(self, connection: Connection[Any], target: _Target) -> bool:
        known = connection.execute("SELECT to_regclass(%s)", (target.name,))
        return known.fetchone() != (None,)

    def _make(self, connection: Connection[Any], target: _Target) -> None:
        shape = [f"{sql_name(f.name)} {column_type(f.type)}" for f in target.rows.schema]
        if target.identity:
            shape.append(f"{_unique(connection, target)} ({_names(target.identity)})")
        connection.execute(f"CREATE TABLE {target.name} ({', '.join(shape)})")
        if not target.identity:
            connection.execute(f"CREATE INDEX ON {target.name} ({BATCH})")

    def _checked(self, connection: Connection[Any], target: _Target, statement: str) -> None:
        """Run a statement that fails where the table isn't as it must be."""
        from psycopg import errors

        try:
            connection.execute(statement)
        except errors.UndefinedTable:
            hint = "create it, or leave create='never' away"
            raise SinkError(f"the table {target.qualified} isn't there; {hint}") from None
        except errors.UndefinedColumn as error:
            message = error.diag.message_primary
            hint = f"it needs {', '.join(target.rows.column_names)}"
            raise SinkError(f"the table {target.qualified} lacks one: {message}; {hint}") from None
        except errors.InvalidColumnReference:
            key = ", ".join(target.identity)
            raise SinkError(
                f"the table {target.qualified} has no primary key or unique index over ({key}), by "
                "which newer revisions find older ones; add one"
            ) from None


def to_postgres(
    dsn: str,
    table: str,
    *,
    schema: str | None = None,
    history: str | None = None,
    create: Create = "if missing",
    patience: Duration = "1 minute",
    password: str | None = None,
) -> PostgresSink:
    """Keep the newest state of every window in a table of PostgreSQL.

    A batch is one transaction: its rows are copied into a staging table and upserted from there by
    keys and window, the greater revision wins, and sessions that were taken back are deleted. Where
    a key may be NULL (``nulls="group"``, SQL) the table gets ``UNIQUE NULLS NOT DISTINCT`` in place
    of a primary key, from PostgreSQL 15 on; rows with NULL in a key that a table has no such
    constraint for are set aside, as others that it can't take. Pairs
    of joins and rejected messages are appended under their batch's number, in a column ``batch``
    (which therefore none of theirs may be called), in place of what an earlier try left. A repeated
    batch changes nothing, so that a restart of the query or of the server, at any moment, loses and
    doubles nothing. A table that is appended to belongs to one query.

    Where the server goes away, the batch waits for it and is written again as a whole.

    Args:
        dsn: Where the server is: ``postgresql://user@host:5432/database`` or ``host=… dbname=…``.
            It isn't shown in messages, but its host and database are.
        table: The table.
        schema: Its schema; the first of the connection's search path where it isn't given.
        history: Another table that keeps every firing, with the batch's number.
        create: ``"if missing"`` creates tables that don't exist, at any batch: where a table was
            dropped while the query ran, a warning says that what it held is gone. ``"never"``
            ends the query instead. A table of your own needs a primary key or unique index over
            the keys, ``window_start`` and ``window_end``, and the columns by their names; it may
            have more columns.
        patience: How long a server that is away is waited for before the query ends with an error.
        password: The password, where neither the address has one nor libpq finds it (in
            ``PGPASSWORD`` or ``~/.pgpass``). It is never shown.

    Returns:
        The sink. Its query ends with a ``SinkError`` where the server stays away for longer than
        ``patience``.

    Raises:
        MissingExtraError: When ``psycopg`` isn't installed.
        OptionError: When the address or a name can't be one.

    Example:
        >>> sink = to_postgres("postgresql://host/db", "views")  # doctest: +SKIP
    """
    if create not in get_args(Create):
        hint = f"give one of {', '.join(map(repr, get_args(Create)))}"
        raise OptionError("create", create, "isn't a choice", hint)
    waits = micros("patience", patience) / 1_000_000
    return PostgresSink(Link(dsn, waits, password), schema, table, history, create)


def _unique(connection: Connection[Any], target: _Target) -> str:
    """What makes rows of one identity one, in a table that is made."""
    nullable = any(target.rows.schema.field(name).nullable for name in target.identity)
    if nullable and connection.info.server_version >= _NULLS_ARE_EQUAL:
        return "UNIQUE NULLS NOT DISTINCT"
    return "PRIMARY KEY"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(sql_name, names))


def _check_name(option: str, name: str) -> None:
    if not name or "\x00" in name or len(name.encode()) > _LONGEST:
        hint = f"give one of 1 to {_LONGEST} bytes, which is all that PostgreSQL keeps apart"
        raise OptionError(option, name, "can't be a name", hint)
