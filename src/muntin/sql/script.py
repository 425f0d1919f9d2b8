"""Texts of several statements: a pipeline, or one query with the definitions before it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from muntin.model.axis import micros
from muntin.model.errors import MuntinError, OptionError, ProblemsError, SqlError
from muntin.model.pipeline import (
    Column,
    DeclaredTable,
    Flow,
    Pipeline,
    find_tables,
    quote_name,
    set_shards,
)
from muntin.model.placeholders import placeholder_names
from muntin.sql.catalog import Catalog, ResolvedRelation
from muntin.sql.cursor import Cursor, Span
from muntin.sql.dialect import find_semicolons, parse_statements
from muntin.sql.expressions import Scope
from muntin.sql.lowering import LoweredQuery, add_view, lower_query
from muntin.sql.order_by import refuse_order
from muntin.sql.outputs import OUTPUT_HINT, find_shared_table
from muntin.sql.statements import parse_statement
from muntin.sql.syntax import CreateTable, CreateView, Explain, Insert, Select, Setting, Statement


@dataclass(frozen=True)
class CompiledQuery:
    """One query to run, with the tables that were defined before it.

    Attributes:
        text: Text of all statements.
        lowered: Lowered query.
        tables: Declared tables by name.
        explain: Span of ``EXPLAIN`` before the query, if it is written.
        earlier: Expressions of earlier statements, with their texts and spans.
    """

    text: str
    lowered: LoweredQuery
    tables: Mapping[str, DeclaredTable]
    explain: Span | None = None
    earlier: Mapping[str, tuple[str, Span]] = field(default_factory=dict)

    def place(self, expression: str | None) -> tuple[str, Span]:
        """Return the text and span of an expression; by default those of the query."""
        asked = expression or ""
        if asked in self.lowered.places:
            return self.text, self.lowered.places[asked]
        return self.earlier.get(asked, (self.text, self.lowered.spans["select"]))

    def locate(self, error: OptionError) -> SqlError:
        """Return the error of an option with its place: that of its expression, or its clause."""
        text, span = self.text, self.lowered.place(error)
        if isinstance(error.value, str) and error.value in {*self.lowered.places, *self.earlier}:
            text, span = self.place(error.value)
        problem = f"{error.option} {error.value!r} {error.problem}"
        return SqlError(text, span, problem, error.hint)


@dataclass
class Definitions:
    """Tables, views and settings that statements define for those after them.

    Attributes:
        catalog: Defined tables and views.
        checkpoint: Folder of the queries' progress and state, as it was written.
        trigger: Least time between batches, in microseconds.
        available_now: Whether to read the messages available now and then stop.
        shards: Number of shards of the state.
        places: Expressions with the statements that contain them, and their spans.
    """

    catalog: Catalog = field(default_factory=Catalog)
    checkpoint: str | None = None
    trigger: int | None = None
    available_now: bool = False
    shards: int | None = None
    places: dict[str, tuple[str, Span]] = field(default_factory=dict)

    def define(self, cursor: Cursor, statement: Statement) -> bool:
        """Apply a statement if it defines something; return whether it does."""
        if isinstance(statement, CreateTable):
            made = declare_table(cursor, statement)
            self.catalog.add_table(cursor, statement.span, made, statement.existing)
        elif isinstance(statement, CreateView):
            add_view(cursor, statement, self.catalog)
        elif isinstance(statement, Setting):
            self._apply_setting(cursor, statement)
        else:
            return False
        return True

    def _apply_setting(self, cursor: Cursor, setting: Setting) -> None:
        name, span = setting.name.lower(), setting.value_span
        if name == "checkpoint":
            # Its placeholders are filled in when the pipeline runs, like those of options.
            self.checkpoint = setting.value
        elif name == "shards":
            value = cursor.filled(setting.value, span)
            if not (value.isdigit() and int(value)):
                cursor.fail(span, "shards isn't a number", "give a whole number, 1 or more")
            self.shards = int(value)
        elif name == "trigger":
            value = cursor.filled(setting.value, span)
            self.available_now = value.lower() == "available now"
            try:
                self.trigger = None if self.available_now else micros(name, value, zero=False)
            except OptionError as error:
                hint = "write for example '5 seconds', or 'available now'"
                cursor.fail(span, f"the trigger {error.problem}", hint)
        else:
            hint = "the settings are checkpoint, trigger, shards"
            cursor.fail(setting.name_span, f"{setting.name} isn't a setting", hint)

    def lower_query(self, cursor: Cursor, select: Select) -> LoweredQuery:
        """Lower a query over the definitions; refuse one that is neither windowed nor a join."""
        found = lower_query(cursor, select, self.catalog, outermost=True)
        if isinstance(found, ResolvedRelation):
            hint = "group by windows, as in GROUP BY key, TUMBLE(ts, INTERVAL '10' MINUTE)"
            cursor.fail(select.span, "this query has no windows", hint)
        if self.shards is None:
            return found
        return replace(found, query=set_shards(found.query, self.shards))


def compile_pipeline(
    text: str,
    given: Mapping[str, str] | None = None,
    problems: list[MuntinError] | None = None,
) -> Pipeline:
    """Return the pipeline that ``CREATE``, ``SET`` and ``INSERT INTO`` statements define.

    Args:
        text: Text of the statements.
        given: Values of the placeholders ``${name}``.
        problems: Collects the mistakes of statements, which are then left out; ``None``
            raises them.

    Raises:
        SqlError: When a statement can't be run, at the place.
        ProblemsError: When several can't.

    Example:
        >>> made = pipeline('''
        ...     CREATE TABLE clicks (page STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - 30 SECONDS)
        ...     WITH (connector = 'json', path = 'clicks/');
        ...     CREATE TABLE views WITH (connector = 'parquet', path = 'views/');
        ...     INSERT INTO views SELECT page, count(*) AS n
        ...     FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), 10 MINUTES))
        ...     GROUP BY page, window_start, window_end
        ... ''')
        >>> str(made.flows[0].query.spec.windows)
        'tumbling 10 minutes'
    """
    mistakes: list[SqlError] = []
    statements, cursor = parse_statements(text, parse_statement, given, mistakes)
    made = Definitions()
    inserts: list[Insert] = []
    flows: list[Flow] = []
    for one in statements:
        try:
            if made.define(cursor, one):
                continue
            insert = _require_insert(cursor, one)
            flows.append(_lower_insert(cursor, insert, made))
            inserts.append(insert)
        except SqlError as error:
            mistakes.append(error)
    tables, checkpoint = made.catalog.tables, made.checkpoint
    try:
        _check_outputs(cursor, inserts, flows, tables)
        if not flows and not mistakes:
            hint = "end it with INSERT INTO a_table SELECT ..."
            cursor.fail(_find_end(text), "the pipeline runs no query", hint)
    except SqlError as error:
        mistakes.append(error)
    mistakes = [one for one in mistakes if not _is_consequence(one, text, mistakes)]
    mistakes.sort(key=lambda error: error.span)
    if problems is None:
        ProblemsError.raise_if_any(mistakes)
    else:
        problems += mistakes
    texts = [value for table in tables.values() for value in table.options.values()]
    asked = frozenset(cursor.used).union(*map(placeholder_names, [*texts, checkpoint or ""]))
    places = {name: (text, span) for name, span in cursor.places.items()}
    return Pipeline(
        tables, tuple(flows), checkpoint, made.trigger, made.available_now, asked, places
    )


class _NoTableError(SqlError):
    """A statement writes to a table that no statement before it creates."""


def _is_consequence(error: SqlError, text: str, mistakes: Sequence[SqlError]) -> bool:
    """Return whether a mistake only follows from another: its table couldn't be created."""
    if not isinstance(error, _NoTableError) or len(mistakes) == 1:
        return False
    name = re.escape(text[slice(*error.span)])
    return re.search(rf"(?i)\bCREATE\b[^;(]*\bTABLE\b[^;(]*{name}", text) is not None


def _require_insert(cursor: Cursor, one: Statement) -> Insert:
    """Return a statement that defines nothing as an ``INSERT``; refuse any other."""
    if isinstance(one, Insert):
        return one
    assert isinstance(one, Select | Explain)
    span = one.select.span if isinstance(one, Explain) else one.span
    hint = "write INSERT INTO a_table before it, or use muntin explain or muntin sql"
    cursor.fail(span, "nobody takes this query's rows", hint)


def _find_end(text: str) -> Span:
    end = len(text.rstrip())
    return end, end + 1


def _check_outputs(
    cursor: Cursor, inserts: list[Insert], flows: list[Flow], tables: Mapping[str, DeclaredTable]
) -> None:
    """Refuse a second output to the same table, at that output."""
    clash = find_shared_table(flows, tables)
    if clash is None:
        return
    second = clash[1]
    insert = inserts[second.query]
    span = insert.into_span if second.part == "into" else insert.rejected_span
    cursor.fail(span, f"{second.table} is written twice", OUTPUT_HINT)


def _lower_insert(cursor: Cursor, insert: Insert, made: Definitions) -> Flow:
    query, rejected = made.lower_query(cursor, insert.select).query, None
    if insert.select.ordering is not None:
        refuse_order(cursor, insert.select.ordering)
    into = _find_target(cursor, insert.into, insert.into_span, made)
    if insert.rejected is not None:
        rejected = _find_target(cursor, insert.rejected, insert.rejected_span, made)
    made.catalog.used |= find_tables(query)
    return Flow(into, query, into, rejected)


def _find_target(cursor: Cursor, name: str, span: Span | None, made: Definitions) -> str:
    """Return a table that is written to, under the name of its definition."""
    table = made.catalog.tables.get(name.lower())
    if table is None:
        hint = f"write CREATE TABLE {name} WITH (connector = 'parquet', path = '...')"
        raise _NoTableError(cursor.sql, span or cursor.next_span, f"there is no table {name}", hint)
    made.catalog.used.add(name.lower())
    return table.name


def compile_query(
    text: str, given: Mapping[str, str] | None = None, made: Definitions | None = None
) -> CompiledQuery:
    """Return the one query of a text, with the definitions before it.

    Raises:
        SqlError: When there is none, or it can't be run, at the place.
    """
    statements, cursor = parse_statements(text, parse_statement, given)
    made = made or Definitions()
    asked: Select | None = None
    explain: Span | None = None
    for one in statements:
        if asked is not None:
            hint = "ask one query at a time, as the last statement"
            cursor.fail(asked.span, "another statement follows this query", hint)
        if made.define(cursor, one):
            continue
        if isinstance(one, Insert):
            hint = "ask with SELECT, and start() it with a sink; or run it with muntin run"
            cursor.fail(one.into_span, "INSERT INTO starts a query", hint)
        asked = one
        if isinstance(one, Explain):
            asked, explain = one.select, one.span
    if asked is None:
        cursor.fail(_find_end(text), "no query is asked", "end with SELECT ... FROM ...")
    lowered = made.lower_query(cursor, asked)
    if asked.ordering is not None:
        known = map(made.catalog.tables.get, find_tables(lowered.query))
        if any(table is not None and table.stream for table in known):
            refuse_order(cursor, asked.ordering)
    return CompiledQuery(text, lowered, made.catalog.tables, explain, made.places)


def compile_input(text: str, made: Definitions) -> CompiledQuery | None:
    """Run one text of a session: return its query, or ``None`` if it only defines something.

    Returns:
        The query, where it is one; ``None`` where something was defined.
    """
    statements, cursor = parse_statements(text, parse_statement)
    if not any(isinstance(one, Select | Explain | Insert) for one in statements):
        for one in statements:
            made.define(cursor, one)
        made.places |= {one: (text, span) for one, span in cursor.places.items()}
        return None
    return compile_query(text, made=made)


def split_statements(text: str) -> list[str]:
    """Split a text into its statements, each with its semicolon.

    A statement with an unterminated quote is returned as it is.

    Example:
        >>> split("SET a = ';'; SELECT 1")
        ["SET a = ';';", ' SELECT 1']
    """
    found, start = [], 0
    for end in find_semicolons(text):
        found.append(text[start : end + 1])
        start = end + 1
    found.append(text[start:])
    return [one for one in found if one.strip(" ;\n\t\r")]


def declare_table(cursor: Cursor, made: CreateTable) -> DeclaredTable:
    """Return the table that a statement declares, as pipelines use it."""
    options = dict(made.options)
    connector = options.pop("connector", None)
    if connector is None:
        hint = "add connector = 'parquet', or csv, json, kafka, rate, ..."
        cursor.fail(made.span, f"{made.name} has no connector", hint)
    connector = cursor.filled(connector, made.spans["connector"])
    mode = options.pop("mode", "stream")
    if mode not in ("stream", "batch"):
        hint = "write 'stream' or 'batch'"
        cursor.fail(made.spans["mode"], f"mode {mode!r} isn't known", hint)
    scope = Scope(cursor, frozenset({made.name.lower()}))
    ddl = ", ".join(f"{quote_name(name)} {kind}" for name, kind in made.columns)
    return DeclaredTable(
        made.name,
        connector,
        ddl or None,
        tuple(Column(name, scope.plain(node)) for name, node in made.computed),
        options,
        made.marks,
        mode == "stream",
    )
