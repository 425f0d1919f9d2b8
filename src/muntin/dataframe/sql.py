"""`sql`: turns SQL statements into queries on both hosts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from muntin.dataframe.host import Host, choose_host
from muntin.hosts.local.plan import InputRows
from muntin.hosts.local.statements import bind_query
from muntin.hosts.local.tables import make_source, needs_spark
from muntin.hosts.local.windowed import find_rows
from muntin.model.close_names import find_close_name
from muntin.model.errors import OptionError, SqlError
from muntin.model.pipeline import find_tables
from muntin.sinks.declared import Surroundings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from muntin.dataframe.windowed import LocalFrame
    from muntin.hosts.local.definition import LocalDefinition
    from muntin.spark.join import Joined
    from muntin.spark.windowed import WindowedAggregate
    from muntin.sql.script import CompiledQuery

    Table: TypeAlias = DataFrame | WindowedAggregate | LocalFrame


def sql(
    source: SparkSession | Mapping[str, Table] | str,
    statement: str = "",
    /,
    *,
    host: Host | None = None,
    **tables: Table,
) -> WindowedAggregate | Joined | LocalDefinition:
    """Build windows or a join from a SQL statement; the result is the same object as in Python.

    The inputs decide which host runs it. With a session or a Spark DataFrame among the tables, it
    runs on Spark. Other frames and sources, and declared tables of Kafka, files and `rate`, are
    read in this process. There, expressions are limited to those for which Polars and Spark agree;
    the error for any other one names it.

    Args:
        source: A session; or tables by their names in the statement; or the statement itself, if it
            declares its tables or they are keyword arguments. For windows over other windows, give
            those, or their `.full`, as a table.
        statement: `SELECT ... GROUP BY ... EMIT ...`, optionally after `CREATE` statements.
        host: `"spark"` or `"local"`; by default the inputs decide.
        **tables: Tables by name. On Spark, other names that the statement doesn't create are looked
            up in the session's catalog.

    Returns:
        `.results`, `.rejected`, `.start(...)` and `.explain()`.

    Raises:
        SqlError: When the statement can't run; the error has the place, the problem and a hint.
        MissingExtraError: When sqlglot isn't installed.

    Example:
        >>> from datetime import datetime
        >>> import polars as pl
        >>> clicks = pl.DataFrame({"page": ["home", "home"], "ts": [datetime(2026, 1, 1)] * 2})
        >>> views = sql(
        ...     "SELECT page, count(*) AS n FROM clicks "
        ...     "GROUP BY page, TUMBLE(ts, INTERVAL 10 MINUTES)",
        ...     clicks=clicks,
        ... )
        >>> views.results.select("page", "n").rows()
        [('home', 2)]
    """
    from muntin.sql import api

    tables_by_name: dict[str, Any] = dict(tables)
    session: Any = None
    if isinstance(source, Mapping):
        tables_by_name |= source
    elif isinstance(source, str):
        if statement:
            hint = "write mt.sql(statement, clicks=clicks), or mt.sql(spark, statement)"
            raise OptionError("source", source, "is a second statement", hint)
        statement = source
    else:
        session = source
    question = api.compile_query(statement)
    if question.explain is not None:
        hint = "leave EXPLAIN out, and call .explain() on the result; muntin sql takes EXPLAIN"
        raise SqlError(statement, question.explain, "mt.sql returns a query, not a text", hint)
    return bind_compiled(question, session, tables_by_name, host)


def bind_compiled(
    question: CompiledQuery,
    session: Any,
    tables_by_name: Mapping[str, Any],
    host: Host | None = None,
) -> WindowedAggregate | Joined | LocalDefinition:
    """Build the query of a compiled statement on the host that reads its tables.

    Raises:
        OptionError: When tables have one name, or are read on several hosts.
        SqlError: When the statement can't run there.
    """
    _refuse_equal_names([*tables_by_name, *(one.name for one in question.tables.values())])
    if choose_statement_host(question, session, tables_by_name, host) == "spark":
        from muntin.spark.statements import bind_tables

        return bind_tables(session, question, tables_by_name)
    return bind_locally(question, tables_by_name)


def _refuse_equal_names(names: list[str]) -> None:
    """Refuse two tables of one name, which has no case in SQL."""
    taken: dict[str, str] = {}
    for name in names:
        other = taken.get(name.lower())
        if other == name:
            hint = "leave one of them out"
            raise OptionError("tables", name, "is declared by the statement, too", hint)
        if other is not None:
            problem = f"and {other} are one table: names have no case in SQL"
            raise OptionError("tables", name, problem, "give one of them another name")
        taken[name.lower()] = name


def choose_statement_host(
    question: CompiledQuery, session: object, tables: Mapping[str, Any], requested_host: Host | None
) -> Host:
    """Return the host of a statement, which must be the same for all of its inputs.

    Args:
        question: The statement.
        session: The session of Spark, if there is one.
        tables: Tables by name, beside those that the statement declares.
        requested_host: The value of `host=`, if there is one.

    Raises:
        OptionError: When the inputs are read on several hosts, or not on the requested one.
    """
    hosts = {name: choose_host(name, table, None) for name, table in tables.items()}
    if session is not None:
        hosts["the session"] = "spark"
    if len({*hosts.values()}) > 1:
        shown = ", ".join(f"{name} on {where}" for name, where in hosts.items())
        hint = "give all of them as DataFrames of Spark's, or none"
        raise OptionError("tables", shown, "are read on several hosts", hint)
    natural = next(iter(hosts.values()), None)
    if requested_host is not None and (
        requested_host not in get_args(Host) or natural not in (None, requested_host)
    ):
        problem = f"can't read inputs of the {natural} host" if natural else "isn't a host"
        raise OptionError("host", requested_host, problem, 'give "spark" or "local", or omit it')
    return requested_host or natural or _host_of_declared(question)


def _host_of_declared(question: CompiledQuery) -> Host:
    """Return the host that reads the tables that a statement declares."""
    tables_read = find_tables(question.lowered.query)
    declared = [table for name, table in question.tables.items() if name in tables_read]
    return "spark" if any(map(needs_spark, declared)) else "local"


def bind_locally(question: CompiledQuery, tables: Mapping[str, Any]) -> LocalDefinition:
    """Build a query in this process, and open its tables.

    Args:
        question: The statement.
        tables: Tables by name, beside those that the statement declares.

    Raises:
        SqlError: When it can't run here; the error has the place, the problem and a hint.
    """
    rows_by_name = {name.lower(): find_rows(name, table) for name, table in tables.items()}
    surroundings = Surroundings({}, os.environ, keeps_secrets=True)

    def find(name: str) -> InputRows:
        if name.lower() in rows_by_name:
            return rows_by_name[name.lower()]
        table = question.tables.get(name.lower())
        if table is None:
            nearest = find_close_name(name, [*tables, *question.tables])
            hint = f"pass it by name, mt.sql(statement, {name}={name})"
            hint += "; of a view of Spark's, pass the session: mt.sql(spark, statement)"
            hint = hint if nearest is None else f"write {nearest}"
            raise OptionError("FROM", name, "isn't a table", hint)
        try:
            source = make_source(table, surroundings)
            # A source finds out with its columns whether this process can read it.
            _ = source.schema
            return source
        except OptionError as error:
            raise question.locate_option(name, error) from error

    lowered = question.lowered
    try:
        query = bind_query(lowered.query, find)
        if lowered.order is not None:
            query.sort_results(lowered.order)
        return query
    except OptionError as error:
        raise question.locate_error(error) from error
