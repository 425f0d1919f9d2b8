"""Compiles scripts: a pipeline, or one query with the definitions before it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from muntin.model.axis import parse_duration
from muntin.model.errors import MuntinError, OptionError, ProblemsError, SqlError
from muntin.model.option_types import MOST_SHARDS, check_shards
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
from muntin.sql.plain_rows import lower_plain_rows
from muntin.sql.statements import parse_statement
from muntin.sql.syntax import CreateTable, CreateView, Explain, Insert, Select, Setting, Statement

# What Flink's settings are here.
_EMIT = "write it behind the query: EMIT "
_FLINK_SETTINGS = {
    "execution.checkpointing.interval": "leave it out: every batch is a checkpoint; "
    "SET trigger = '10 seconds' begins a batch that often",
    "state.checkpoints.dir": "write SET checkpoint = 'FOLDER'",
    "execution.checkpointing.dir": "write SET checkpoint = 'FOLDER'",
    "parallelism.default": "write SET shards = 4, or leave it out",
    "table.exec.source.idle-timeout": "write it behind the table's watermark: WATERMARK FOR ts AS "
    "ts - INTERVAL '5' SECOND IDLE AFTER INTERVAL '1' MINUTE",
    "table.exec.emit.early-fire.enabled": f"{_EMIT}EARLY EVERY 5 SECONDS",
    "table.exec.emit.early-fire.delay": f"{_EMIT}EARLY EVERY 5 SECONDS",
    "table.exec.emit.late-fire.enabled": f"{_EMIT}LATE EVERY 5 SECONDS GRACE 1 HOUR",
    "table.exec.emit.late-fire.delay": f"{_EMIT}LATE EVERY 5 SECONDS GRACE 1 HOUR",
    "table.exec.emit.allow-lateness": f"{_EMIT}GRACE 1 HOUR",
    "table.exec.state.ttl": f"leave it out, or {_EMIT}RETAIN 1 DAY",
    "table.local-time-zone": "leave it out: times are UTC; a window takes ZONE => 'Europe/Berlin'",
    **dict.fromkeys(
        ("execution.runtime-mode", "pipeline.name", "sql-client.execution.result-mode"),
        "leave it out",
    ),
}


@dataclass(frozen=True)
class CompiledQuery:
    """One query to run, with the tables that the statements before it define.

    Attributes:
        tables: Declared tables by name.
        explain: Span of ``EXPLAIN`` before the query; ``None`` without it.
        earlier: Text and span of the expressions of earlier statements, by expression.
        option_spans: Text of each declared table, and the spans of its options, by table.
    """

    text: str
    lowered: LoweredQuery
    tables: Mapping[str, DeclaredTable]
    explain: Span | None = None
    earlier: Mapping[str, tuple[str, Span]] = field(default_factory=dict)
    option_spans: Mapping[str, tuple[str, Mapping[str, Span]]] = field(default_factory=dict)

    def locate_option(self, table: str, error: OptionError) -> SqlError:
        """Return the error of a declared table with the span of its option, or of its connector."""
        text, spans = self.option_spans[table.lower()]
        written = {_strip_client_prefix(name): name for name in spans}
        names = (_strip_client_prefix(name) for name in (error.option, str(error.value)))
        span = spans[next((written[name] for name in names if name in written), "connector")]
        shown = error.option if error.value is None else f"{error.option} {error.value!r}"
        return SqlError(text, span, f"{shown} {error.problem}", error.hint)

    def locate_expression(self, expression: str | None) -> tuple[str, Span]:
        """Return the text and span of an expression; those of the query if it isn't known."""
        text = expression or ""
        if text in self.lowered.expression_spans:
            return self.text, self.lowered.expression_spans[text]
        return self.earlier.get(text, (self.text, self.lowered.spans["select"]))

    def locate_error(self, error: OptionError) -> SqlError:
        """Return an option's error with the span of its expression or clause."""
        text, span = self.text, self.lowered.locate(error)
        if isinstance(error.value, str) and error.value in {
            *self.lowered.expression_spans,
            *self.earlier,
        }:
            text, span = self.locate_expression(error.value)
            # The expression as it was written: in its text, aggregates have internal names.
            value: object = text[slice(*span)]
        else:
            value = error.value
        problem = f"{error.option} {value!r} {error.problem}"
        return SqlError(text, span, problem, error.hint)


def _strip_client_prefix(name: str) -> str:
    """Return the name of an option of Kafka's client without the prefix of Spark or Flink."""
    return name.removeprefix("kafka.").removeprefix("properties.")


@dataclass
class Definitions:
    """Tables, views and settings that statements define for the statements after them.

    Attributes:
        checkpoint: Folder of the queries' progress and state, with its placeholders.
        trigger: Least time between batches, in microseconds.
        available_now: Whether to read the messages available now and then stop.
        shards: Number of shards of the state.
        expression_spans: Text and span of the expressions that Spark is handed.
        option_spans: Text of each table's statement, and the spans of its options.
        starts_queries: Whether the queries are started, as those of a pipeline; one that its caller
            starts takes no settings of a start.
    """

    catalog: Catalog = field(default_factory=Catalog)
    checkpoint: str | None = None
    trigger: int | None = None
    available_now: bool = False
    shards: int | None = None
    expression_spans: dict[str, tuple[str, Span]] = field(default_factory=dict)
    option_spans: dict[str, tuple[str, Mapping[str, Span]]] = field(default_factory=dict)
    starts_queries: bool = False

    def define(self, cursor: Cursor, statement: Statement) -> bool:
        """Apply a statement if it defines something; return whether it does so."""
        if isinstance(statement, CreateTable):
            declared = declare_table(cursor, statement)
            self.catalog.add_table(cursor, statement.span, declared, statement.existing)
            self.option_spans[statement.name.lower()] = cursor.sql, statement.spans
        elif isinstance(statement, CreateView):
            add_view(cursor, statement, self.catalog)
        elif isinstance(statement, Setting):
            self._apply_setting(cursor, statement)
        else:
            return False
        return True

    def _apply_setting(self, cursor: Cursor, setting: Setting) -> None:
        name, span = setting.name.lower(), setting.value_span
        if name in ("checkpoint", "trigger") and not self.starts_queries:
            hint = "give it to start(): checkpoint=FOLDER, every=DURATION or available_now=True"
            cursor.fail(setting.name_span, f"{name} is a setting of pipelines", hint)
        if name == "checkpoint":
            # Its placeholders are filled in when the pipeline runs, like those of options.
            self.checkpoint = setting.value
        elif name == "shards":
            value = cursor.fill_placeholders(setting.value, span)
            try:
                self.shards = int(value)
                check_shards(self.shards)
            except ValueError:
                hint = f"give a whole number from 1 to {MOST_SHARDS:,}"
                cursor.fail(span, "shards isn't a number of shards", hint)
        elif name == "trigger":
            value = cursor.fill_placeholders(setting.value, span)
            self.available_now = value.lower() == "available now"
            try:
                self.trigger = (
                    None if self.available_now else parse_duration(name, value, zero=False)
                )
            except OptionError as error:
                hint = "write for example '5 seconds', or 'available now'"
                cursor.fail(span, f"the trigger {error.problem}", hint)
        else:
            hint = _FLINK_SETTINGS.get(name, "the settings are checkpoint, trigger, shards")
            cursor.fail(setting.name_span, f"{setting.name} isn't a setting", hint)

    def lower_query(self, cursor: Cursor, select: Select) -> LoweredQuery:
        """Lower a query over the definitions; without windows or a join its rows are emitted."""
        lowered = lower_query(cursor, select, self.catalog, is_outermost=True)
        if isinstance(lowered, ResolvedRelation):
            lowered = lower_plain_rows(cursor, select, lowered)
        if self.shards is None:
            return lowered
        return replace(lowered, query=set_shards(lowered.query, self.shards))


def compile_pipeline(
    text: str,
    placeholder_values: Mapping[str, str] | None = None,
    problems: list[MuntinError] | None = None,
) -> Pipeline:
    """Return the pipeline that ``CREATE``, ``SET`` and ``INSERT INTO`` statements define.

    Args:
        text: Text of the statements.
        placeholder_values: Values of the placeholders ``${name}``.
        problems: Collects the errors of statements, which are then left out; ``None``
            raises them.

    Returns:
        The pipeline, with one flow for each ``INSERT INTO``.

    Raises:
        SqlError: When a statement can't be run, at its span.
        ProblemsError: When several statements can't be run.

    Example:
        >>> pipeline = compile_pipeline('''
        ...     CREATE TABLE clicks (page STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - 30 SECONDS)
        ...     WITH (connector = 'json', path = 'clicks/');
        ...     CREATE TABLE views WITH (connector = 'parquet', path = 'views/');
        ...     INSERT INTO views SELECT page, count(*) AS n
        ...     FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), 10 MINUTES))
        ...     GROUP BY page, window_start, window_end
        ... ''')
        >>> str(pipeline.flows[0].query.spec.windows)
        'tumbling 10 minutes'
    """
    errors: list[SqlError] = []
    statements, cursor = parse_statements(text, parse_statement, placeholder_values, errors)
    definitions = Definitions(starts_queries=True)
    inserts: list[Insert] = []
    flows: list[Flow] = []
    for one in statements:
        try:
            if definitions.define(cursor, one):
                continue
            insert = _require_insert(cursor, one)
            flows.append(_lower_insert(cursor, insert, definitions))
            inserts.append(insert)
        except SqlError as error:
            errors.append(error)
    tables, checkpoint = definitions.catalog.tables, definitions.checkpoint
    try:
        _check_outputs(cursor, inserts, flows, tables)
        if not flows and not errors:
            hint = "end it with INSERT INTO a_table SELECT ..."
            cursor.fail(_find_end(text), "the pipeline runs no query", hint)
    except SqlError as error:
        errors.append(error)
    errors = [one for one in errors if not _is_consequence(one, text, errors)]
    errors.sort(key=lambda error: error.span)
    if problems is None:
        ProblemsError.raise_if_any(errors)
    else:
        problems += errors
    placeholders = _collect_placeholders(cursor, definitions)
    expression_spans = {name: (text, span) for name, span in cursor.expression_spans.items()}
    return Pipeline(
        tables,
        tuple(flows),
        checkpoint,
        definitions.trigger,
        definitions.available_now,
        placeholders,
        expression_spans,
    )


def _collect_placeholders(cursor: Cursor, definitions: Definitions) -> frozenset[str]:
    """Return the names of all placeholders, including those that a running pipeline fills in."""
    tables = definitions.catalog.tables.values()
    texts = [value for table in tables for value in table.options.values()]
    names = map(placeholder_names, [*texts, definitions.checkpoint or ""])
    return frozenset(cursor.used_placeholders).union(*names)


class _NoTableError(SqlError):
    """A statement writes to a table that no earlier statement creates."""


def _is_consequence(error: SqlError, text: str, mistakes: Sequence[SqlError]) -> bool:
    """Return whether an error only follows from another one: its table couldn't be created."""
    if not isinstance(error, _NoTableError) or len(mistakes) == 1:
        return False
    name = re.escape(text[slice(*error.span)])
    return re.search(rf"(?i)\bCREATE\b[^;(]*\bTABLE\b[^;(]*{name}", text) is not None


def _require_insert(cursor: Cursor, one: Statement) -> Insert:
    """Return a statement if it is an ``INSERT``; refuse a query without one."""
    if isinstance(one, Insert):
        return one
    assert isinstance(one, Select | Explain)
    span = one.select.span if isinstance(one, Explain) else one.span
    hint = "write INSERT INTO a_table before it, or use muntin explain or muntin sql"
    cursor.fail(span, "this query's rows are written nowhere", hint)


def _find_end(text: str) -> Span:
    end = len(text.rstrip())
    return end, end + 1


def _check_outputs(
    cursor: Cursor, inserts: list[Insert], flows: list[Flow], tables: Mapping[str, DeclaredTable]
) -> None:
    """Refuse the second of two outputs to the same table."""
    clash = find_shared_table(flows, tables)
    if clash is None:
        return
    second = clash[1]
    insert = inserts[second.query]
    span = insert.into_span if second.part == "into" else insert.rejected_span
    cursor.fail(span, f"{second.table} is written twice", OUTPUT_HINT)


def _lower_insert(cursor: Cursor, insert: Insert, definitions: Definitions) -> Flow:
    query, rejected = definitions.lower_query(cursor, insert.select).query, None
    if insert.select.order_by is not None:
        refuse_order(cursor, insert.select.order_by)
    into = _find_target(cursor, insert.into, insert.into_span, definitions)
    if insert.rejected is not None:
        rejected = _find_target(cursor, insert.rejected, insert.rejected_span, definitions)
    definitions.catalog.used |= find_tables(query)
    return Flow(into, query, into, rejected)


def _find_target(cursor: Cursor, name: str, span: Span | None, definitions: Definitions) -> str:
    """Return the name of a table to write to, as its definition spells it."""
    table = definitions.catalog.tables.get(name.lower())
    if table is None:
        hint = f"write CREATE TABLE {name} WITH (connector = 'parquet', path = '...')"
        raise _NoTableError(cursor.sql, span or cursor.next_span, f"there is no table {name}", hint)
    definitions.catalog.used.add(name.lower())
    return table.name


def compile_query(
    text: str,
    placeholder_values: Mapping[str, str] | None = None,
    definitions: Definitions | None = None,
) -> CompiledQuery:
    """Return the one query of a text, with the definitions before it.

    Args:
        text: Text of the statements, of which the last one is the query.
        placeholder_values: Values of the placeholders ``${name}``.
        definitions: Definitions of earlier texts, to which those of this text are added.

    Raises:
        SqlError: When there is no query or it can't be run, at its span.
    """
    statements, cursor = parse_statements(text, parse_statement, placeholder_values)
    definitions = definitions or Definitions()
    select: Select | None = None
    explain: Span | None = None
    for one in statements:
        if select is not None:
            hint = "give one query, as the last statement"
            cursor.fail(select.span, "another statement follows this query", hint)
        if definitions.define(cursor, one):
            continue
        if isinstance(one, Insert):
            hint = "write SELECT, and start() it with a sink, or use muntin run"
            cursor.fail(one.into_span, "INSERT INTO starts a query", hint)
        select = one
        if isinstance(one, Explain):
            select, explain = one.select, one.span
    if select is None:
        cursor.fail(_find_end(text), "there is no query", "add SELECT ... FROM ...")
    lowered = definitions.lower_query(cursor, select)
    if select.order_by is not None:
        tables = map(definitions.catalog.tables.get, find_tables(lowered.query))
        if any(table is not None and table.stream for table in tables):
            refuse_order(cursor, select.order_by)
    return CompiledQuery(
        text,
        lowered,
        definitions.catalog.tables,
        explain,
        definitions.expression_spans,
        definitions.option_spans,
    )


def compile_input(text: str, definitions: Definitions) -> CompiledQuery | None:
    """Compile one input of an interactive session.

    Returns:
        The query; ``None`` if the text only adds to the definitions.
    """
    statements, cursor = parse_statements(text, parse_statement)
    if not any(isinstance(one, Select | Explain | Insert) for one in statements):
        for one in statements:
            definitions.define(cursor, one)
        definitions.expression_spans |= {
            one: (text, span) for one, span in cursor.expression_spans.items()
        }
        return None
    return compile_query(text, definitions=definitions)


def split_statements(text: str) -> list[str]:
    """Split a text into its statements, each with its semicolon.

    A text with an unterminated quote is returned as one statement.

    Example:
        >>> split_statements("SET a = ';'; SELECT 1")
        ["SET a = ';';", ' SELECT 1']
    """
    parts, start = [], 0
    for end in find_semicolons(text):
        parts.append(text[start : end + 1])
        start = end + 1
    parts.append(text[start:])
    return [one for one in parts if one.strip(" ;\n\t\r")]


def declare_table(cursor: Cursor, statement: CreateTable) -> DeclaredTable:
    """Return the table that a ``CREATE TABLE`` statement declares."""
    options = dict(statement.options)
    connector = options.pop("connector", None)
    if connector is None:
        hint = "add connector = 'parquet', or csv, json, kafka, rate, ..."
        cursor.fail(statement.span, f"{statement.name} has no connector", hint)
    connector = cursor.fill_placeholders(connector, statement.spans["connector"])
    mode = options.pop("mode", "stream")
    if mode not in ("stream", "batch"):
        hint = "write 'stream' or 'batch'"
        cursor.fail(statement.spans["mode"], f"mode {mode!r} isn't known", hint)
    scope = Scope(cursor, frozenset({statement.name.lower()}))
    ddl = ", ".join(f"{quote_name(name)} {kind}" for name, kind in statement.columns)
    return DeclaredTable(
        statement.name,
        connector,
        ddl or None,
        tuple(Column(name, scope.render(node)) for name, node in statement.computed),
        options,
        statement.input_options,
        mode == "stream",
        statement.names,
        statement.primary_key,
    )
