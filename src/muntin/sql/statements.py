"""Reads whole statements: ``CREATE``, ``INSERT``, ``SET``, ``EXPLAIN`` and ``SELECT``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp
from sqlglot.tokens import TokenType

from muntin.model.inputs import InputOptions
from muntin.sql import stream_clauses
from muntin.sql.cursor import Cursor, Span
from muntin.sql.queries import parse_column_names, parse_query, rename_columns
from muntin.sql.syntax import (
    CreateTable,
    CreateView,
    Existing,
    Explain,
    Insert,
    Setting,
    Statement,
)

_STATEMENTS_HINT = (
    "the statements are SELECT, CREATE TABLE, CREATE VIEW, INSERT INTO, SET and EXPLAIN"
)
_OWN_OPTIONS = ("connector", "mode")
_CONSTRAINTS = ("PRIMARY", "UNIQUE", "CONSTRAINT", "FOREIGN", "CHECK", "REFERENCES")
_OR_COMMA = "close its parenthesis, or write a comma"
_TABLE_HINT = "write CREATE TABLE t (ts TIMESTAMP, ...) WITH (connector = 'parquet', path = '...')"


def parse_statement(cursor: Cursor) -> Statement | None:
    """Read one statement; ``None`` if the text is empty."""
    cursor.depth = 0
    if cursor.ended or cursor.sees_kind(TokenType.SEMICOLON):
        cursor._advance(len(cursor._tokens))
        return None
    found = _parse_by_keyword(cursor)
    if not cursor.ended:
        hint = "end the statement with a semicolon before the next"
        cursor.fail(None, f"{cursor.shown} isn't understood here", hint)
    return found


def _parse_by_keyword(cursor: Cursor) -> Statement:
    if cursor.word in ("SELECT", "WITH"):
        return parse_query(cursor)
    if cursor.takes("EXPLAIN"):
        span = cursor.since(cursor._prev.start)
        return Explain(parse_query(cursor), span)
    if cursor.takes("CREATE"):
        return _parse_create(cursor)
    if cursor.takes("INSERT", "INTO"):
        return _parse_insert(cursor)
    if cursor.takes("SET"):
        return _parse_setting(cursor)
    cursor.fail(None, f"{cursor.shown} doesn't begin a statement", _STATEMENTS_HINT)


def _parse_create(cursor: Cursor) -> CreateTable | CreateView:
    start = cursor._prev.start
    replaces = cursor.takes("OR", "REPLACE")
    cursor.takes("TEMPORARY") or cursor.takes("TEMP")
    if cursor.takes("VIEW"):
        existing = _parse_existing(cursor, replaces)
        name, span = cursor.name("a view")
        names = parse_column_names(cursor)
        cursor.needs("AS", hint=f"write CREATE VIEW {name} AS SELECT ...")
        return CreateView(name, rename_columns(cursor, parse_query(cursor), names), span, existing)
    if cursor.word == "STREAM":
        hint = "write CREATE TABLE ... WITH (...), or CREATE VIEW ... AS SELECT for a query"
        cursor.fail(None, "CREATE STREAM isn't taken", hint)
    cursor.takes("STREAMING")
    cursor.needs("TABLE", hint=_TABLE_HINT)
    existing = _parse_existing(cursor, replaces)
    name, _ = cursor.name("a table")
    if cursor.word == "AS":
        hint = f"write CREATE TABLE {name} WITH (...) for a sink, and INSERT INTO {name} SELECT ..."
        cursor.fail(None, "CREATE TABLE ... AS SELECT isn't taken: it doesn't say where to", hint)
    parts = _TableParts()
    if cursor.takes_kind(TokenType.L_PAREN):
        cursor.several(lambda: _parse_table_part(cursor, parts))
        cursor.closes("the list of columns", _OR_COMMA)
    cursor.needs("WITH", "(", hint=_TABLE_HINT)
    options, spans = _parse_options(cursor)
    return CreateTable(
        name,
        tuple(parts.columns),
        tuple(parts.computed),
        parts.marks,
        options,
        spans,
        cursor.since(start),
        existing,
    )


def _parse_existing(cursor: Cursor, replaces: bool) -> Existing:
    start = cursor.here
    if not cursor.takes("IF", "NOT", "EXISTS"):
        return "replace" if replaces else "refuse"
    if replaces:
        hint = "leave one of them out"
        cursor.fail(cursor.since(start), "OR REPLACE and IF NOT EXISTS exclude each other", hint)
    return "keep"


@dataclass
class _TableParts:
    """The columns and marks between the parentheses of ``CREATE TABLE``."""

    columns: list[tuple[str, str]] = field(default_factory=list)
    computed: list[tuple[str, exp.Expr]] = field(default_factory=list)
    marks: InputOptions = field(default_factory=InputOptions)


def _parse_table_part(cursor: Cursor, parts: _TableParts) -> None:
    start = cursor.here
    if cursor.word == "WATERMARK" and cursor.second != ",":
        cursor.takes("WATERMARK")
        if parts.marks.time is not None:
            cursor.fail((start, cursor.here), "the table has two watermarks", "leave one away")
        found, known = stream_clauses.parse_table_watermark(cursor).marks, parts.marks
        parts.marks = replace(found, offset=known.offset, clock=known.clock)
    elif cursor.sees("OFFSET", "FOR"):
        parts.marks = replace(parts.marks, offset=stream_clauses.parse_offset_columns(cursor))
    elif cursor.takes("CLOCK", "FOR"):
        parts.marks = replace(parts.marks, clock=cursor.name("a column")[0])
    else:
        _refuse_constraint(cursor)
        _parse_column(cursor, parts, start)


def _refuse_constraint(cursor: Cursor) -> None:
    # The words PRIMARY KEY are one token, and so are FOREIGN KEY.
    if cursor.word.partition(" ")[0] in _CONSTRAINTS:
        hint = "omit it; OFFSET FOR (partition, offset) takes every message once"
        cursor.fail(None, f"{cursor.word} isn't kept here", hint)


def _parse_column(cursor: Cursor, parts: _TableParts, start: int) -> None:
    name, span = cursor.name("a column")
    taken = {n.lower() for n, _ in (*parts.columns, *parts.computed)}
    if name.lower() in taken:
        cursor.fail(span, f"{name} is defined twice", "give each column a name of its own")
    if cursor.takes("AS"):
        node = cursor.scalar("an expression")
        if isinstance(node, exp.Anonymous) and node.name.upper() == "PROCTIME":
            hint = (
                f"write {name} AS current_timestamp(), the time of the batch that reads a row; "
                "a join by arrival is FOR SYSTEM_TIME AS OF PROCTIME()"
            )
            problem = "a time of processing depends on when the query runs"
            cursor.fail(cursor.since(start), problem, hint)
        parts.computed.append((name, node))
        return
    kind = None if cursor.ended else cursor._parse_types(schema=True)
    if kind is None:
        hint = f"write for example {name} STRING, {name} BIGINT or {name} AS expression"
        cursor.fail(None, f"{cursor.shown} isn't a type", hint)
    if kind.is_type("CHAR", "VARCHAR", "NCHAR", "NVARCHAR") and kind.expressions:
        hint = f"write {name} STRING, and WHERE length({name}) <= … if it matters"
        cursor.fail(cursor.since(start), f"{kind.sql()} has a length, which isn't checked", hint)
    if cursor.takes("METADATA"):
        cursor.fail(
            cursor.since(start), "METADATA isn't needed", "Kafka's columns have their names"
        )
    cursor.takes("NOT", "NULL")
    if cursor.takes("COMMENT"):
        cursor.text("the comment")
    _refuse_constraint(cursor)
    parts.columns.append((name, _render_type(kind)))


def _render_type(kind: exp.Expr) -> str:
    return kind.sql(dialect="spark")


def _parse_options(cursor: Cursor) -> tuple[dict[str, str], dict[str, Span]]:
    """Read options such as ``connector = 'parquet'``, with or without quotes around the key.

    Our own keys may be written in any case; all others are passed to the connector as written.
    """
    options: dict[str, str] = {}
    spans: dict[str, Span] = {}
    while not cursor.sees_kind(TokenType.R_PAREN):
        if options and not cursor.takes_kind(TokenType.COMMA):
            cursor.fail(None, "the options aren't closed", "write name = 'value', ...")
        start = cursor.here
        key = _parse_key(cursor)
        if key.lower() in _OWN_OPTIONS:
            key = key.lower()
        # Spark's readers compare options without case, so the second would replace the first.
        if key.lower() in {known.lower() for known in options}:
            cursor.fail((start, cursor.here), f"{key} is given twice", "give it once")
        if not cursor.takes_kind(TokenType.EQ):
            cursor.fail(None, f"{key} has no value", f"write {key} = '...'")
        options[key], spans[key] = _parse_value(cursor)
    cursor.closes("WITH", _OR_COMMA)
    return options, spans


def _parse_key(cursor: Cursor) -> str:
    if cursor.sees_kind(TokenType.STRING):
        return cursor.text("the option")[0]
    return cursor.path("an option")


def _parse_value(cursor: Cursor) -> tuple[str, Span]:
    number = cursor.takes_kind(TokenType.NUMBER)
    if number is not None:
        return number.text, (number.start, number.end + 1)
    if cursor.word in ("TRUE", "FALSE"):
        span = cursor.next_span
        value = cursor.word.lower()
        cursor._advance()
        return value, span
    return cursor.text("the value")


def _parse_insert(cursor: Cursor) -> Insert:
    cursor.takes("TABLE")
    into, into_span = cursor.name("a table")
    rejected, rejected_span = None, None
    if cursor.takes("REJECTED"):
        cursor.needs("INTO", hint="write INSERT INTO results REJECTED INTO rejected SELECT ...")
        rejected, rejected_span = cursor.name("a table")
    if cursor.sees_kind(TokenType.L_PAREN) or cursor.word not in ("SELECT", "WITH"):
        hint = f"write INSERT INTO {into} SELECT ..."
        cursor.fail(None, "INSERT takes a query, and its columns by name", hint)
    return Insert(into, into_span, rejected, rejected_span, parse_query(cursor))


def _parse_setting(cursor: Cursor) -> Setting:
    start = cursor.here
    name = _parse_key(cursor)
    name_span = (start, cursor._prev.end + 1)
    if not cursor.takes_kind(TokenType.EQ):
        cursor.fail(None, f"{name} has no value", f"write SET {name} = '...'")
    value, span = _parse_value(cursor)
    return Setting(name, name_span, value, span)
