"""Parses whole statements: ``CREATE``, ``INSERT``, ``SET``, ``EXPLAIN`` and ``SELECT``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from sqlglot import exp
from sqlglot.tokens import TokenType

from muntin.model.inputs import InputOptions
from muntin.sql import stream_clauses
from muntin.sql.cursor import Cursor, Span
from muntin.sql.foreign_functions import has_ignored_length, is_processing_time
from muntin.sql.queries import parse_column_names, parse_query, rename_columns
from muntin.sql.syntax import CreateTable, CreateView, Existing, Explain, Insert, Setting, Statement

_STATEMENTS_HINT = (
    "the statements are SELECT, CREATE TABLE, CREATE VIEW, INSERT INTO, SET and EXPLAIN; "
    "in the shell, tables lists what they have created"
)
_OWN_OPTIONS = ("connector", "mode")
_CONSTRAINTS = ("UNIQUE", "FOREIGN", "CHECK", "REFERENCES")
_FLINK_TYPES = {"ROW": "STRUCT<a: INT, b: STRING>", "BYTES": "BINARY", "MULTISET": "ARRAY<STRING>"}
_OR_COMMA = "close its parenthesis, or write a comma"
_TABLE_HINT = "write CREATE TABLE t (ts TIMESTAMP, ...) WITH (connector = 'parquet', path = '...')"


def parse_statement(cursor: Cursor) -> Statement | None:
    """Parse one statement; return ``None`` if it is empty."""
    cursor.depth = 0
    if cursor.is_at_end or cursor.peek_kind(TokenType.SEMICOLON):
        cursor.skip_all()
        return None
    if cursor.accept("EXECUTE", "STATEMENT", "SET") or cursor.accept("BEGIN", "STATEMENT", "SET"):
        # Flink's sets of statements: all queries of a file run side by side here.
        cursor.accept("BEGIN")
        return parse_statement(cursor)
    statement = _parse_by_keyword(cursor)
    if not cursor.is_at_end:
        hint = "end the statement with a semicolon before the next"
        cursor.fail(None, f"{cursor.next_text} isn't understood here", hint)
    return statement


def _parse_by_keyword(cursor: Cursor) -> Statement:
    if cursor.next_word in ("SELECT", "WITH"):
        return parse_query(cursor)
    if cursor.accept("EXPLAIN"):
        span = cursor.span_from(cursor.last_token.start)
        cursor.accept("PLAN", "FOR")  # Flink's words change nothing
        return Explain(parse_query(cursor), span)
    if cursor.accept("CREATE"):
        return _parse_create(cursor)
    if cursor.accept("INSERT", "INTO"):
        return _parse_insert(cursor)
    if cursor.accept("SET"):
        return _parse_setting(cursor)
    cursor.fail(None, f"{cursor.next_text} doesn't begin a statement", _STATEMENTS_HINT)


def _parse_create(cursor: Cursor) -> CreateTable | CreateView:
    start = cursor.last_token.start
    replaces_existing = cursor.accept("OR", "REPLACE")
    cursor.accept("TEMPORARY") or cursor.accept("TEMP")
    if cursor.accept("VIEW"):
        existing = _parse_existing(cursor, replaces_existing)
        name, span = cursor.parse_name("a view")
        names = parse_column_names(cursor)
        cursor.expect("AS", hint=f"write CREATE VIEW {name} AS SELECT ...")
        return CreateView(name, rename_columns(cursor, parse_query(cursor), names), span, existing)
    if cursor.next_word == "STREAM":
        hint = "write CREATE TABLE ... WITH (...), or CREATE VIEW ... AS SELECT for a query"
        cursor.fail(None, "CREATE STREAM isn't supported", hint)
    cursor.accept("STREAMING")
    cursor.expect("TABLE", hint=_TABLE_HINT)
    existing = _parse_existing(cursor, replaces_existing)
    name, _ = cursor.parse_name("a table")
    if cursor.next_word == "AS":
        hint = f"write CREATE TABLE {name} WITH (...) for a sink, and INSERT INTO {name} SELECT ..."
        cursor.fail(None, "CREATE TABLE ... AS SELECT isn't supported", hint)
    parts = _TableParts()
    if cursor.accept_kind(TokenType.L_PAREN):
        cursor.parse_list(lambda: _parse_table_part(cursor, parts))
        cursor.expect_close("the list of columns", _OR_COMMA)
    cursor.expect("WITH", "(", hint=_TABLE_HINT)
    options, spans = _parse_options(cursor)
    return CreateTable(
        name,
        tuple(parts.columns),
        tuple(parts.computed),
        parts.input_options,
        options,
        spans,
        cursor.span_from(start),
        existing,
        tuple(parts.names),
        _check_primary_key(cursor, parts),
    )


def _parse_existing(cursor: Cursor, replaces_existing: bool) -> Existing:
    start = cursor.position
    if not cursor.accept("IF", "NOT", "EXISTS"):
        return "replace" if replaces_existing else "refuse"
    if replaces_existing:
        hint = "leave one of them out"
        cursor.fail(cursor.span_from(start), "OR REPLACE and IF NOT EXISTS can't be combined", hint)
    return "keep"


@dataclass
class _TableParts:
    """The columns and input options between the parentheses of ``CREATE TABLE``."""

    columns: list[tuple[str, str]] = field(default_factory=list)
    computed: list[tuple[str, exp.Expr]] = field(default_factory=list)
    input_options: InputOptions = field(default_factory=InputOptions)
    names: list[str] = field(default_factory=list)
    primary_key: list[tuple[str, Span]] = field(default_factory=list)


def _parse_table_part(cursor: Cursor, parts: _TableParts) -> None:
    start = cursor.position
    if cursor.next_word == "WATERMARK" and cursor.second_word != ",":
        cursor.accept("WATERMARK")
        if parts.input_options.time is not None:
            cursor.fail((start, cursor.position), "the table has two watermarks", "leave one out")
        options = stream_clauses.parse_table_watermark(cursor).input_options
        earlier = parts.input_options
        parts.input_options = replace(options, offset=earlier.offset, clock=earlier.clock)
    elif cursor.peek("OFFSET", "FOR"):
        parts.input_options = replace(
            parts.input_options, offset=stream_clauses.parse_offset_columns(cursor)
        )
    elif cursor.accept("CLOCK", "FOR"):
        parts.input_options = replace(parts.input_options, clock=cursor.parse_name("a column")[0])
    elif not _parse_primary_key(cursor, parts):
        _refuse_constraint(cursor)
        _parse_column(cursor, parts, start)


def _parse_primary_key(
    cursor: Cursor, parts: _TableParts, column: tuple[str, Span] | None = None
) -> bool:
    """Parse ``PRIMARY KEY (a, b) NOT ENFORCED``, or that of one column, if it comes next."""
    start = cursor.position
    if cursor.accept("CONSTRAINT"):
        cursor.parse_name("a constraint")
    # PRIMARY KEY and FOREIGN KEY are one token each.
    if not (cursor.accept("PRIMARY KEY") or cursor.accept("PRIMARY", "KEY")):
        if cursor.position != start:
            _refuse_constraint(cursor)
            cursor.fail(None, "this isn't a constraint", "write PRIMARY KEY (a, b) NOT ENFORCED")
        return False
    if parts.primary_key:
        cursor.fail(cursor.span_from(start), "the table has two primary keys", "leave one out")
    if column is None:
        cursor.expect("(", hint="write PRIMARY KEY (page, window_start, window_end) NOT ENFORCED")
        parts.primary_key += cursor.parse_list(lambda: cursor.parse_name("a column"))
        cursor.expect_close("PRIMARY KEY")
    else:
        parts.primary_key.append(column)
    if not cursor.accept("NOT", "ENFORCED"):
        span = cursor.span_from(start)
        text = cursor.sql[slice(*span)]
        problem = "a primary key isn't enforced: no table is searched for its rows"
        cursor.fail(span, problem, f"write {text} NOT ENFORCED")
    return True


def _check_primary_key(cursor: Cursor, parts: _TableParts) -> tuple[str, ...]:
    """Return the columns of the primary key, as they are declared."""
    declared = {name.lower(): name for name in parts.names}
    for name, span in parts.primary_key:
        if name.lower() not in declared:
            hint = f"the columns are {', '.join(parts.names)}"
            cursor.fail(span, f"{name} isn't a column of the table", hint)
    return tuple(declared[name.lower()] for name, _ in parts.primary_key)


def _refuse_constraint(cursor: Cursor) -> None:
    if cursor.next_word.partition(" ")[0] in _CONSTRAINTS:
        hint = "leave it out; PRIMARY KEY (a, b) NOT ENFORCED names the columns that identify a row"
        cursor.fail(None, f"{cursor.next_word} isn't enforced", hint)


def _parse_column(cursor: Cursor, parts: _TableParts, start: int) -> None:
    name, span = cursor.parse_name("a column")
    names = {n.lower() for n, _ in (*parts.columns, *parts.computed)}
    if name.lower() in names:
        cursor.fail(span, f"{name} is defined twice", "give each column a name of its own")
    if cursor.accept("AS"):
        node = cursor.parse_scalar("an expression")
        if is_processing_time(node):
            hint = (
                f"leave {name} out, and use the column timestamp of a Kafka table, the time of "
                f"arrival, or on Spark {name} AS current_timestamp(), the time of the batch that "
                "reads a row; a join by arrival is FOR SYSTEM_TIME AS OF PROCTIME()"
            )
            problem = "PROCTIME() depends on when the query runs"
            cursor.fail(cursor.span_from(start), problem, hint)
        parts.computed.append((name, node))
        parts.names.append(name)
        return
    kind = cursor.parse_type()
    if kind is None:
        own = _FLINK_TYPES.get(cursor.next_word)
        hint = f"write for example {name} STRING, {name} BIGINT or {name} AS expression"
        hint = hint if own is None else f"write {name} {own}"
        cursor.fail(None, f"{cursor.next_text} isn't a type", hint)
    if has_ignored_length(kind):
        shown = kind.sql()
        hint = f"write {name} {re.sub(r'[(][0-9]+[)]', '', shown.replace('VARCHAR', 'STRING'))}"
        if kind.is_type("CHAR", "VARCHAR", "NCHAR", "NVARCHAR"):
            hint = f"write {name} STRING, and WHERE length({name}) <= … if it matters"
        cursor.fail(cursor.span_from(start), f"{shown} has a length, which isn't checked", hint)
    if cursor.accept("METADATA"):
        cursor.fail(
            cursor.span_from(start),
            "METADATA isn't needed",
            "leave it out: Kafka's columns are read by their names",
        )
    cursor.accept("NOT", "NULL")
    if not _parse_primary_key(cursor, parts, (name, span)):
        _refuse_constraint(cursor)
    if cursor.accept("COMMENT"):
        cursor.parse_string("the comment")
    parts.columns.append((name, kind.sql(dialect="spark")))
    parts.names.append(name)


def _parse_options(cursor: Cursor) -> tuple[dict[str, str], dict[str, Span]]:
    """Parse options such as ``connector = 'parquet'``, with or without quotes around the name.

    The names of our own options may have any case; all others are passed on unchanged.

    Returns:
        Values and their spans, by the names of the options.
    """
    options: dict[str, str] = {}
    spans: dict[str, Span] = {}
    while not cursor.peek_kind(TokenType.R_PAREN):
        if options and not cursor.accept_kind(TokenType.COMMA):
            cursor.fail(None, "the options aren't closed", "write name = 'value', ...")
        start = cursor.position
        key = _parse_key(cursor)
        if key.lower() in _OWN_OPTIONS:
            key = key.lower()
        # Spark's readers compare options without case, so the second would replace the first.
        if key.lower() in {option.lower() for option in options}:
            cursor.fail((start, cursor.position), f"{key} is given twice", "give it once")
        if not cursor.accept_kind(TokenType.EQ):
            cursor.fail(None, f"{key} has no value", f"write {key} = '...'")
        options[key], spans[key] = _parse_value(cursor, key)
    cursor.expect_close("WITH", _OR_COMMA)
    return options, spans


def _parse_key(cursor: Cursor) -> str:
    if cursor.peek_kind(TokenType.STRING):
        return cursor.parse_string("the option")[0]
    if cursor.next_word.isalpha() and cursor.second_word == "=":
        # Also a word of SQL, as `create` is.
        name = cursor.sql[slice(*cursor.next_span)]
        cursor.skip()
        return name
    return cursor.parse_path("an option")


def _parse_value(cursor: Cursor, key: str) -> tuple[str, Span]:
    number = cursor.accept_kind(TokenType.NUMBER)
    if number is not None:
        return number.text, (number.start, number.end + 1)
    if cursor.next_word in ("TRUE", "FALSE"):
        span = cursor.next_span
        value = cursor.next_word.lower()
        cursor.skip()
        return value, span
    if cursor.next_word.isalnum():
        hint = f"write {key} = '{cursor.sql[slice(*cursor.next_span)]}'"
        cursor.fail(None, f"the value of {key} isn't in quotes", hint)
    return cursor.parse_string("the value")


def _parse_insert(cursor: Cursor) -> Insert:
    cursor.accept("TABLE")
    into, into_span = cursor.parse_name("a table")
    rejected, rejected_span = None, None
    if cursor.accept("REJECTED"):
        cursor.expect("INTO", hint="write INSERT INTO results REJECTED INTO rejected SELECT ...")
        rejected, rejected_span = cursor.parse_name("a table")
    if cursor.peek_kind(TokenType.L_PAREN) or cursor.next_word not in ("SELECT", "WITH"):
        hint = f"write INSERT INTO {into} SELECT ..."
        cursor.fail(None, "INSERT needs a query, and columns by name", hint)
    return Insert(into, into_span, rejected, rejected_span, parse_query(cursor))


def _parse_setting(cursor: Cursor) -> Setting:
    start = cursor.position
    name = _parse_key(cursor)
    name_span = (start, cursor.last_token.end + 1)
    if not cursor.accept_kind(TokenType.EQ):
        cursor.fail(None, f"{name} has no value", f"write SET {name} = '...'")
    value, span = _parse_value(cursor, name)
    return Setting(name, name_span, value, span)
