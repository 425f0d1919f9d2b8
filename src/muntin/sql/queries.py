"""Reads ``SELECT``, from the select list to ``EMIT``."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp
from sqlglot.tokens import TokenType

from muntin.model.pipeline import Values
from muntin.sql import group_by, ksql, stream_clauses, subqueries
from muntin.sql.cursor import Cursor, Span
from muntin.sql.order_by import parse_order_by
from muntin.sql.syntax import (
    CreateView,
    Emit,
    FromItem,
    Join,
    Select,
    SelectItem,
    TableExpression,
    WindowCall,
)
from muntin.sql.window_functions import TABLE_FUNCTIONS, USAGE, parse_window_call

# Keywords that end a list, and therefore are no aliases of the item before them.
_CLAUSES = {
    "FROM", "WHERE", "GROUP BY", "HAVING", "EMIT", "WINDOW", "ORDER BY", "LIMIT", "JOIN", "INNER",
    "LEFT", "RIGHT", "FULL", "CROSS", "SEMI", "ANTI", "NATURAL", "ASOF", "ON", "USING", "OVER",
    "WATERMARK", "GROUP", "ORDER", "UNION", "EXCEPT", "INTERSECT", "QUALIFY", "OFFSET", "AS",
    "WITHIN",
}  # fmt: skip
_REFUSED = {
    "OFFSET": ("OFFSET isn't taken", "read the table that you write to"),
    "MATCH_RECOGNIZE": (
        "MATCH_RECOGNIZE isn't taken: it looks for patterns of rows, not for windows",
        "mark the rows that end a pattern, or keep its state in an agent",
    ),
    "LATERAL": (
        "LATERAL isn't taken: it makes rows of a row",
        "make them in a view, WITH v AS (SELECT *, explode(tags) AS tag FROM t), or JOIN a table",
    ),
    "EXCEPT": ("EXCEPT isn't taken", "write two queries"),
    "INTERSECT": ("INTERSECT isn't taken", "write two queries"),
}
_CLAUSE_ORDER = "WHERE, GROUP BY, HAVING, WINDOW, QUALIFY, ORDER BY, LIMIT"
_SELECT_HINT = "write SELECT ... FROM ... GROUP BY ... EMIT ..."


def parse_query(cursor: Cursor) -> Select:
    """Read a query, with the views that ``WITH`` defines before it."""
    views: list[CreateView] = []
    if cursor.takes("WITH"):
        views = cursor.several(lambda: _parse_view(cursor))
    first, more = _parse_select(cursor, tuple(views)), []
    while cursor.takes_kind(TokenType.UNION):
        if not cursor.takes("ALL"):
            hint = "write UNION ALL"
            cursor.fail(cursor._prev, "UNION would remember every row of a stream", hint)
        more.append(_parse_select(cursor, ()))
    return replace(first, united=tuple(more))


def _parse_view(cursor: Cursor) -> CreateView:
    name, span = cursor.name("a view")
    names = parse_column_names(cursor)
    cursor.needs("AS", "(", hint=f"write WITH {name} AS (SELECT ...)")
    made = CreateView(name, rename_columns(cursor, parse_query(cursor), names), span)
    cursor.closes("WITH")
    return made


def parse_column_names(cursor: Cursor) -> list[tuple[str, Span]]:
    """Read ``(a, b)`` after a view's name, if it comes next."""
    if not cursor.takes_kind(TokenType.L_PAREN):
        return []
    found = cursor.several(lambda: cursor.name("a column"))
    cursor.closes("the list of columns")
    return found


def rename_columns(cursor: Cursor, select: Select, names: list[tuple[str, Span]]) -> Select:
    """Return a query whose columns have the names that its view declares."""
    if not names:
        return select
    if len(names) != len(select.items) or any(item.scalar is None for item in select.items):
        span = (names[0][1][0], names[-1][1][1])
        hint = "name the columns of the query one by one, as many as there"
        cursor.fail(span, "these names aren't those of the query's columns", hint)
    pairs = zip(select.items, names, strict=True)
    return replace(select, items=tuple(replace(item, alias=name) for item, (name, _) in pairs))


def _parse_select(cursor: Cursor, views: tuple[CreateView, ...]) -> Select:
    start = cursor.here
    cursor.needs("SELECT", hint=_SELECT_HINT)
    cursor.depth += 1
    if cursor.depth > 20:
        cursor.fail(None, "queries are nested too deep", "name some of them with CREATE VIEW")
    _skip_stream(cursor)
    distinct = cursor.takes("DISTINCT")
    items = cursor.several(lambda: _parse_item(cursor))
    head = cursor.since(start)
    cursor.needs("FROM", hint="write FROM and a table, or AS before a column's name")
    source = _parse_source(cursor)
    joins = _parse_joins(cursor, source.span[1])
    window = ksql.parse_window(cursor)
    where, member = subqueries.parse_where(cursor, source, parse_query)
    if member is not None:
        joins = (*joins, member)
    group, sets, group_span = group_by.parse_group_by(cursor, head)
    having = cursor.scalar("a condition") if cursor.takes_kind(TokenType.HAVING) else None
    named = _parse_named_windows(cursor)
    qualify = cursor.scalar("a condition") if cursor.takes_kind(TokenType.QUALIFY) else None
    order = parse_order_by(cursor)
    emit = _parse_end(cursor)
    return Select(
        items=tuple(items), distinct=bool(distinct), source=source, joins=joins, where=where,
        group=group, having=having, named=named, emit=emit, span=head, group_span=group_span,
        views=views, window=window, qualify=qualify, sets=sets, ordering=order,
    )  # fmt: skip


def _parse_end(cursor: Cursor) -> Emit | None:
    """Read ``EMIT``, if it comes next; the query must end after it."""
    if cursor.word in _REFUSED:
        problem, hint = _REFUSED[cursor.word]
        cursor.fail(None, problem, hint)
    emit = stream_clauses.parse_emit(cursor)
    followed = map(cursor.sees_kind, (TokenType.R_PAREN, TokenType.UNION))
    if not cursor.ended and not any(followed):
        hint = f"the clauses are {_CLAUSE_ORDER} and EMIT, in this order"
        cursor.fail(None, f"{cursor.shown} isn't understood here", hint)
    return emit


def _skip_stream(cursor: Cursor) -> None:
    """Read Calcite's ``STREAM``, which changes nothing, unless it is the name of a column."""
    if cursor.word != "STREAM" or cursor.second in ("", ",", "AS", "FROM", ".", "[", "("):
        return
    following = cursor._tokens[cursor._index + 1].token_type
    if following in (TokenType.STAR, TokenType.VAR, TokenType.IDENTIFIER, TokenType.DISTINCT):
        cursor.takes("STREAM")


def _parse_joins(cursor: Cursor, after: int) -> tuple[Join, ...]:
    """Read the joined tables after a table that ends at ``after``."""
    joins = []
    left_over = _parse_over(cursor)
    while (join := _parse_join(cursor, left_over)) is not None:
        joins.append(join)
        left_over = None
    if left_over is not None:
        span = cursor.since(after)
        hint = "write an aggregate OVER (...), or JOIN a table"
        cursor.fail(span, "a table alone has no OVER", hint)
    return tuple(joins)


def _parse_item(cursor: Cursor) -> SelectItem:
    start = cursor.here
    if cursor.takes_kind(TokenType.STAR):
        return SelectItem(None, None, cursor.since(start))
    if cursor.word in ("FROM", "WHERE", "GROUP BY", "HAVING", "AS"):
        cursor.fail(None, f"{cursor.word} stands where a column should", "name a column")
    of = _parse_qualified_star(cursor)
    if of is not None:
        return SelectItem(None, None, cursor.since(start), of)
    scalar = cursor.scalar("a column")
    span = cursor.since(start)
    return SelectItem(scalar, _parse_alias(cursor, "a column"), span)


def _parse_qualified_star(cursor: Cursor) -> str | None:
    """Read ``w.*``, if it comes next; return the ``w``."""
    index = cursor._index
    named = cursor.sees_kind(TokenType.IDENTIFIER) or cursor.sees_kind(TokenType.VAR)
    if named and cursor.second == ".":
        name, _ = cursor.name("a table")
        if cursor.takes_kind(TokenType.DOT) and cursor.takes_kind(TokenType.STAR):
            return name
        cursor._retreat(index)
    return None


def _parse_alias(cursor: Cursor, what: str) -> str | None:
    if cursor.takes("AS"):
        return cursor.name(what)[0]
    named = cursor.sees_kind(TokenType.IDENTIFIER) or cursor.sees_kind(TokenType.VAR)
    if named and cursor.word not in _CLAUSES:
        return cursor.name(what)[0]
    return None


def _parse_source(cursor: Cursor) -> FromItem:
    _refuse_lateral(cursor)
    start = cursor.here
    if cursor.second not in ("", ",", ")"):
        cursor.takes("STREAM")  # any table here is a stream
    item = _parse_table(cursor)
    mark, offset = (
        stream_clauses.parse_source_watermark(cursor),
        stream_clauses.parse_offset_columns(cursor),
    )
    as_of, alias = _parse_as_of(cursor), None
    if cursor.word != "MATCH_RECOGNIZE":
        alias = _parse_alias(cursor, "a table")
    if isinstance(item, Values) and alias:
        item = replace(item, columns=tuple(name for name, _ in parse_column_names(cursor)))
    mark = mark or stream_clauses.parse_source_watermark(cursor)
    offset = offset or stream_clauses.parse_offset_columns(cursor)
    return FromItem(item, alias, mark, cursor.since(start), offset, as_of)


def _parse_table(cursor: Cursor) -> TableExpression | WindowCall:
    """Read a window function, a query or rows in parentheses, or a table's name."""
    if cursor.word == "TABLE" and cursor.second == "(":
        cursor._advance(2)
        call = _parse_table_function(cursor)
        cursor.closes("TABLE")
        return call
    if cursor.word in TABLE_FUNCTIONS and cursor.second == "(":
        return _parse_table_function(cursor)
    if cursor.takes_kind(TokenType.L_PAREN):
        found = _parse_values(cursor) if cursor.takes("VALUES") else parse_query(cursor)
        cursor.closes("the query")
        return found
    name = cursor.path("a table")
    if cursor.sees_kind(TokenType.L_PAREN):
        hint = f"the window functions are {', '.join(TABLE_FUNCTIONS)}: {USAGE['TUMBLE']}"
        cursor.fail(None, f"{name} isn't a function that gives rows", hint)
    return name


def _refuse_lateral(cursor: Cursor) -> None:
    """Refuse a table that is computed from each row of another."""
    if cursor.word == "LATERAL" or (cursor.word == "UNNEST" and cursor.second == "("):
        problem, hint = _REFUSED["LATERAL"]
        cursor.fail(None, problem.replace("LATERAL", cursor.word), hint)


def _parse_values(cursor: Cursor) -> Values:
    """Read the rows after ``VALUES``."""

    def row() -> None:
        if cursor.takes_kind(TokenType.L_PAREN):
            cursor.several(lambda: cursor.scalar("a value"))
            cursor.closes("the row")
        else:
            cursor.scalar("a value")

    start = cursor.here
    cursor.several(row)
    return Values(cursor.sql[slice(*cursor.since(start))])


def _parse_as_of(cursor: Cursor) -> exp.Expr | None:
    """Read ``FOR SYSTEM_TIME AS OF orders.at``, if it comes next, and return the time."""
    if not cursor.word.startswith("FOR") or "SYSTEM" not in f"{cursor.word} {cursor.second}":
        return None
    cursor._advance(2 if cursor.word == "FOR" else 1)
    if not (cursor.takes("AS", "OF") or cursor.takes("AS OF")):
        cursor.fail(None, "AS OF has to stand here", "write FOR SYSTEM_TIME AS OF orders.at")
    return cursor.scalar("a time")


def _parse_table_function(cursor: Cursor) -> WindowCall:
    start, name = cursor.here, cursor.word
    if name not in TABLE_FUNCTIONS or cursor.second != "(":
        hint = f"write one of {', '.join(TABLE_FUNCTIONS)}: TABLE({USAGE['TUMBLE']})"
        cursor.fail(None, f"{name or 'this'} isn't a window function", hint)
    cursor._advance(2)
    call = parse_window_call(cursor, name, start, parse_query)
    cursor.closes(name)
    return call


_JOIN_KINDS: dict[tuple[str, ...], str] = {
    ("JOIN",): "inner",
    ("INNER", "JOIN"): "inner",
    ("LEFT", "SEMI", "JOIN"): "semi",
    ("LEFT", "ANTI", "JOIN"): "anti",
    ("SEMI", "JOIN"): "semi",
    ("ANTI", "JOIN"): "anti",
    ("LEFT", "OUTER", "JOIN"): "left",
    ("LEFT", "JOIN"): "left",
    ("RIGHT", "OUTER", "JOIN"): "right",
    ("RIGHT", "JOIN"): "right",
    ("FULL", "OUTER", "JOIN"): "full",
    ("FULL", "JOIN"): "full",
    ("ASOF", "JOIN"): "inner",
    ("ASOF", "INNER", "JOIN"): "inner",
    ("ASOF", "LEFT", "JOIN"): "left",
    ("ASOF", "LEFT", "OUTER", "JOIN"): "left",
}


def _parse_join(cursor: Cursor, left_over: exp.Window | None) -> Join | None:
    start = cursor.here
    for words, how in _JOIN_KINDS.items():
        if cursor.takes(*words):
            source = _parse_source(cursor)
            over = _parse_over(cursor)
            near = ksql.parse_within(cursor)
            on: exp.Expr | None = None
            using: tuple[str, ...] = ()
            if cursor.takes_kind(TokenType.ON):
                on = cursor.scalar("a condition")
            elif cursor.takes("USING", "("):
                using = tuple(cursor.several(lambda: cursor.name("a column")[0]))
                cursor.closes("the list")
            else:
                hint = "write ON Orders.id = Shipments.id, or USING (id)"
                cursor.fail(None, "the join has no condition", hint)
            span = cursor.since(start)
            as_of = words[0] == "ASOF"
            return Join(how, source, over, left_over, on, using, span, within=near, as_of=as_of)
    if cursor.takes_kind(TokenType.COMMA):
        source = _parse_source(cursor)
        over = _parse_over(cursor)
        return Join("inner", source, over, left_over, None, (), cursor.since(start), by_where=True)
    if cursor.word in ("CROSS", "NATURAL"):
        span = cursor.next_span
        if cursor.takes("CROSS", "JOIN"):
            _refuse_lateral(cursor)
        cursor.fail(span, "a join needs equal columns", "write JOIN ... ON a.id = b.id")
    return None


def _parse_over(cursor: Cursor) -> exp.Window | None:
    """Read ``OVER (...)`` after a table, as in the Samza design, if it comes next."""
    if cursor.word != "OVER":
        return None
    start = cursor.here
    found = cursor._parse_window(exp.Null())
    if not isinstance(found, exp.Window):
        cursor.fail(cursor.since(start), "this is no OVER (...)", "write OVER (ROWS 3 PRECEDING)")
    found.meta["span"] = cursor.since(start)
    return found


def _parse_named_windows(cursor: Cursor) -> dict[str, exp.Window]:
    found: dict[str, exp.Window] = {}

    def one() -> None:
        name, span = cursor.name("a window")
        window = cursor._parse_window(exp.Null(), alias=True)
        if not isinstance(window, exp.Window) or name.lower() in found:
            cursor.fail(span, "this is no named window", "write WINDOW w AS (...)")
        found[name.lower()] = window

    if cursor.takes("WINDOW"):
        cursor.several(one)
    return found
