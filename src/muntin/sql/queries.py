"""Parses ``SELECT``, from the select list to ``EMIT``."""

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

# Keywords that end a list, so none of them is an alias of the item before it.
_CLAUSES = {
    "FROM", "WHERE", "GROUP BY", "HAVING", "EMIT", "WINDOW", "ORDER BY", "LIMIT", "JOIN", "INNER",
    "LEFT", "RIGHT", "FULL", "CROSS", "SEMI", "ANTI", "NATURAL", "ASOF", "ON", "USING", "OVER",
    "WATERMARK", "GROUP", "ORDER", "UNION", "EXCEPT", "INTERSECT", "QUALIFY", "OFFSET", "AS",
    "WITHIN",
}  # fmt: skip
_REFUSED = {
    "OFFSET": ("OFFSET isn't supported", "read the table that you write to"),
    "MATCH_RECOGNIZE": (
        "MATCH_RECOGNIZE isn't supported",
        "mark the rows that end a pattern, or keep its state in an agent",
    ),
    "LATERAL": (
        "LATERAL isn't supported",
        "write WITH v AS (SELECT *, explode(tags) AS tag FROM t), or JOIN a table",
    ),
    "EXCEPT": ("EXCEPT isn't supported", "write two queries"),
    "PARTITION BY": (
        "PARTITION BY isn't supported here: messages are distributed by the keys of GROUP BY",
        "leave it out",
    ),
    "WITH": (
        "WITH ROLLUP and WITH CUBE aren't supported",
        "write GROUP BY TUMBLE(ts, INTERVAL '10' MINUTE), ROLLUP (a, b) or CUBE (a, b)",
    ),
    "INTERSECT": ("INTERSECT isn't supported", "write two queries"),
}
_CLAUSE_ORDER = "WHERE, GROUP BY, HAVING, WINDOW, QUALIFY, ORDER BY, LIMIT"
_NAMES = (TokenType.IDENTIFIER, TokenType.VAR)
_SELECT_HINT = "write SELECT ... FROM ... GROUP BY ... EMIT ..."


def parse_query(cursor: Cursor) -> Select:
    """Parse a query, with the views that ``WITH`` defines before it."""
    views: list[CreateView] = []
    if cursor.accept("WITH"):
        views = cursor.parse_list(lambda: _parse_view(cursor))
    first, unions = _parse_select(cursor, tuple(views)), []
    while cursor.accept_kind(TokenType.UNION):
        if not cursor.accept("ALL"):
            hint = "write UNION ALL"
            cursor.fail(cursor.last_token, "UNION would remember every row of a stream", hint)
        unions.append(_parse_select(cursor, ()))
    if not unions:
        return first
    if first.order_by is not None:
        hint = "write it behind the last query, for all rows"
        cursor.fail(first.order_by.span, "ORDER BY and LIMIT stand in front of UNION ALL", hint)
    *others, last = unions
    others.append(replace(last, order_by=None))
    return replace(first, unions=tuple(others), order_by=last.order_by)


def _parse_view(cursor: Cursor) -> CreateView:
    name, span = cursor.parse_name("a view")
    names = parse_column_names(cursor)
    cursor.expect("AS", "(", hint=f"write WITH {name} AS (SELECT ...)")
    view = CreateView(name, rename_columns(cursor, parse_query(cursor), names), span)
    cursor.expect_close("WITH")
    return view


def parse_column_names(cursor: Cursor) -> list[tuple[str, Span]]:
    """Parse ``(a, b)`` after a view's name, if it comes next."""
    if not cursor.accept_kind(TokenType.L_PAREN):
        return []
    names = cursor.parse_list(lambda: cursor.parse_name("a column"))
    cursor.expect_close("the list of columns")
    return names


def rename_columns(cursor: Cursor, select: Select, names: list[tuple[str, Span]]) -> Select:
    """Return a query with the column names that its view declares."""
    if not names:
        return select
    if len(names) != len(select.items) or any(item.scalar is None for item in select.items):
        span = (names[0][1][0], names[-1][1][1])
        hint = "name the columns of the query one by one, as many as in the list"
        cursor.fail(span, "these names aren't those of the query's columns", hint)
    pairs = zip(select.items, names, strict=True)
    return replace(select, items=tuple(replace(item, alias=name) for item, (name, _) in pairs))


def _parse_select(cursor: Cursor, views: tuple[CreateView, ...]) -> Select:
    start = cursor.position
    cursor.expect("SELECT", hint=_SELECT_HINT)
    cursor.depth += 1
    if cursor.depth > 20:
        cursor.fail(None, "queries are nested too deep", "name some of them with CREATE VIEW")
    _skip_stream(cursor)
    distinct = cursor.accept("DISTINCT")
    items = cursor.parse_list(lambda: _parse_item(cursor))
    head = cursor.span_from(start)
    if cursor.peek("FILTER") and cursor.sql[slice(*head)].rstrip().upper().endswith("NULLS"):
        hint = (
            "write FILTER (WHERE ...) before them, as in last(a) FILTER (WHERE b > 1) IGNORE NULLS"
        )
        cursor.fail(None, "FILTER stands behind IGNORE NULLS or RESPECT NULLS", hint)
    cursor.expect("FROM", hint="write FROM and a table, or AS before a column's name")
    source = _parse_source(cursor)
    joins = _parse_joins(cursor, source.span[1])
    window = ksql.parse_window(cursor)
    where, semi_join = subqueries.parse_where(cursor, source, parse_query)
    if semi_join is not None:
        joins = (*joins, semi_join)
    group = group_by.parse_group_by(cursor, head)
    having = cursor.parse_scalar("a condition") if cursor.accept_kind(TokenType.HAVING) else None
    named_windows = _parse_named_windows(cursor)
    qualify = cursor.parse_scalar("a condition") if cursor.accept_kind(TokenType.QUALIFY) else None
    order_by = parse_order_by(cursor)
    emit = _parse_end(cursor)
    return Select(
        items=tuple(map(group.name_item, items)), distinct=bool(distinct), source=source,
        joins=joins, where=where, group=group.keys, having=having, named_windows=named_windows,
        emit=emit, span=head, group_span=group.span, views=views, window=window, qualify=qualify,
        grouping_sets=group.sets, order_by=order_by, named_keys=group.names,
    )  # fmt: skip


def _parse_end(cursor: Cursor) -> Emit | None:
    """Parse ``EMIT``, if it comes next; the query must end after it."""
    if cursor.next_word in _REFUSED:
        problem, hint = _REFUSED[cursor.next_word]
        cursor.fail(None, problem, hint)
    emit = stream_clauses.parse_emit(cursor)
    if not cursor.is_at_end and not cursor.peek_kind(TokenType.R_PAREN, TokenType.UNION):
        hint = f"the clauses are {_CLAUSE_ORDER} and EMIT, in this order"
        cursor.fail(None, f"{cursor.next_text} isn't understood here", hint)
    return emit


def _skip_stream(cursor: Cursor) -> None:
    """Skip Calcite's ``STREAM``, which changes nothing, unless it is the name of a column."""
    if cursor.next_word != "STREAM" or cursor.second_word in ("", ",", "AS", "FROM", ".", "[", "("):
        return
    following = cursor.token_at(1)
    begins_column = (TokenType.STAR, TokenType.VAR, TokenType.IDENTIFIER, TokenType.DISTINCT)
    if following is not None and following.token_type in begins_column:
        cursor.accept("STREAM")


def _parse_joins(cursor: Cursor, after: int) -> tuple[Join, ...]:
    """Parse the joins after a table that ends at ``after``."""
    joins = []
    left_over = _parse_over(cursor)
    while (join := _parse_join(cursor, left_over)) is not None:
        joins.append(join)
        left_over = None
    if left_over is not None:
        span = cursor.span_from(after)
        hint = "write an aggregate OVER (...), or JOIN a table"
        cursor.fail(span, "a table without an aggregate has no OVER", hint)
    return tuple(joins)


def _parse_item(cursor: Cursor) -> SelectItem:
    start = cursor.position
    if cursor.accept_kind(TokenType.STAR):
        return SelectItem(None, None, cursor.span_from(start))
    if cursor.next_word in ("FROM", "WHERE", "GROUP BY", "HAVING", "AS"):
        cursor.fail(None, f"{cursor.next_word} stands in place of a column", "name a column")
    qualifier = _parse_qualified_star(cursor)
    if qualifier is not None:
        return SelectItem(None, None, cursor.span_from(start), qualifier)
    scalar = cursor.parse_scalar("a column")
    span = cursor.span_from(start)
    return SelectItem(scalar, _parse_alias(cursor, "a column"), span)


def _parse_qualified_star(cursor: Cursor) -> str | None:
    """Parse ``w.*``, if it comes next; return the ``w``."""
    index = cursor.index
    if cursor.peek_kind(*_NAMES) and cursor.second_word == ".":
        name, _ = cursor.parse_name("a table")
        if cursor.accept_kind(TokenType.DOT) and cursor.accept_kind(TokenType.STAR):
            return name
        cursor.rewind(index)
    return None


def _parse_alias(cursor: Cursor, what: str) -> str | None:
    if cursor.accept("AS"):
        return cursor.parse_name(what)[0]
    if cursor.peek_kind(*_NAMES) and cursor.next_word not in _CLAUSES:
        return cursor.parse_name(what)[0]
    return None


def _parse_source(cursor: Cursor) -> FromItem:
    _refuse_lateral(cursor)
    start = cursor.position
    if cursor.second_word not in ("", ",", ")"):
        cursor.accept("STREAM")  # Calcite's word changes nothing
    table = _parse_table(cursor)
    watermark = stream_clauses.parse_source_watermark(cursor)
    offset = stream_clauses.parse_offset_columns(cursor)
    as_of, alias = _parse_as_of(cursor), None
    if cursor.next_word != "MATCH_RECOGNIZE":
        alias = _parse_alias(cursor, "a table")
    if isinstance(table, Values) and alias:
        table = replace(table, columns=tuple(name for name, _ in parse_column_names(cursor)))
    watermark = watermark or stream_clauses.parse_source_watermark(cursor)
    offset = offset or stream_clauses.parse_offset_columns(cursor)
    return FromItem(table, alias, watermark, cursor.span_from(start), offset, as_of)


def _parse_table(cursor: Cursor) -> TableExpression | WindowCall:
    """Parse a window function, a query or rows in parentheses, or a table's name."""
    if cursor.next_word == "TABLE" and cursor.second_word == "(":
        cursor.skip(2)
        call = _parse_table_function(cursor)
        cursor.expect_close("TABLE")
        return call
    if cursor.next_word in TABLE_FUNCTIONS and cursor.second_word == "(":
        return _parse_table_function(cursor)
    if cursor.accept_kind(TokenType.L_PAREN):
        table = _parse_values(cursor) if cursor.accept("VALUES") else parse_query(cursor)
        cursor.expect_close("the query")
        return table
    name = cursor.parse_path("a table")
    if cursor.peek_kind(TokenType.L_PAREN):
        hint = f"the window functions are {', '.join(TABLE_FUNCTIONS)}: {USAGE['TUMBLE']}"
        cursor.fail(None, f"{name} isn't a table function", hint)
    return name


def _refuse_lateral(cursor: Cursor) -> None:
    """Refuse a table that is computed from each row of another."""
    if cursor.next_word == "LATERAL" or (
        cursor.next_word == "UNNEST" and cursor.second_word == "("
    ):
        problem, hint = _REFUSED["LATERAL"]
        cursor.fail(None, problem.replace("LATERAL", cursor.next_word), hint)


def _parse_values(cursor: Cursor) -> Values:
    """Parse the rows after ``VALUES``."""

    def parse_row() -> None:
        if cursor.accept_kind(TokenType.L_PAREN):
            cursor.parse_list(lambda: cursor.parse_scalar("a value"))
            cursor.expect_close("the row")
        else:
            cursor.parse_scalar("a value")

    start = cursor.position
    cursor.parse_list(parse_row)
    return Values(cursor.sql[slice(*cursor.span_from(start))])


def _parse_as_of(cursor: Cursor) -> exp.Expr | None:
    """Parse ``FOR SYSTEM_TIME AS OF orders.at``, if it comes next; return the time."""
    if (
        not cursor.next_word.startswith("FOR")
        or "SYSTEM" not in f"{cursor.next_word} {cursor.second_word}"
    ):
        return None
    cursor.skip(2 if cursor.next_word == "FOR" else 1)
    if not (cursor.accept("AS", "OF") or cursor.accept("AS OF")):
        cursor.fail(None, "AS OF is missing", "write FOR SYSTEM_TIME AS OF orders.at")
    return cursor.parse_scalar("a time")


def _parse_table_function(cursor: Cursor) -> WindowCall:
    start, name = cursor.position, cursor.next_word
    if name not in TABLE_FUNCTIONS or cursor.second_word != "(":
        hint = f"write one of {', '.join(TABLE_FUNCTIONS)}: TABLE({USAGE['TUMBLE']})"
        cursor.fail(None, f"{name or 'this'} isn't a window function", hint)
    cursor.skip(2)
    call = parse_window_call(cursor, name, start, parse_query)
    cursor.expect_close(name)
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
    start = cursor.position
    for words, how in _JOIN_KINDS.items():
        if cursor.accept(*words):
            source = _parse_source(cursor)
            over = _parse_over(cursor)
            within = ksql.parse_within(cursor)
            on: exp.Expr | None = None
            using: tuple[str, ...] = ()
            if cursor.accept_kind(TokenType.ON):
                on = cursor.parse_scalar("a condition")
            elif cursor.accept("USING", "("):
                using = tuple(cursor.parse_list(lambda: cursor.parse_name("a column")[0]))
                cursor.expect_close("the list")
            else:
                hint = "write ON Orders.id = Shipments.id, or USING (id)"
                cursor.fail(None, "the join has no condition", hint)
            span = cursor.span_from(start)
            is_asof = words[0] == "ASOF"
            return Join(
                how, source, over, left_over, on, using, span, within=within, is_asof=is_asof
            )
    is_cross = cursor.accept("CROSS", "JOIN")
    if is_cross:
        _refuse_lateral(cursor)
    if is_cross or cursor.accept_kind(TokenType.COMMA):
        source = _parse_source(cursor)
        over = _parse_over(cursor)
        span = cursor.span_from(start)
        return Join("inner", source, over, left_over, None, (), span, is_comma_join=True)
    if cursor.next_word in ("CROSS", "NATURAL"):
        hint = "write JOIN ... ON a.id = b.id"
        cursor.fail(cursor.next_span, "a join needs equal columns", hint)
    return None


def _parse_over(cursor: Cursor) -> exp.Window | None:
    """Parse ``OVER (...)`` after a table, as in the Samza design, if it comes next."""
    if cursor.next_word != "OVER":
        return None
    start = cursor.position
    window = cursor.parse_window()
    if window is None:
        hint = "write OVER (ROWS 3 PRECEDING)"
        cursor.fail(cursor.span_from(start), "this isn't OVER (...)", hint)
    window.meta["span"] = cursor.span_from(start)
    return window


def _parse_named_windows(cursor: Cursor) -> dict[str, exp.Window]:
    """Parse ``WINDOW w AS (...)``, if it comes next; return the windows by name in lower case."""
    windows: dict[str, exp.Window] = {}
    start = cursor.position

    def parse_one() -> None:
        name, span = cursor.parse_name("a window")
        window = cursor.parse_window(named=True)
        if window is None or name.lower() in windows:
            cursor.fail(span, "this isn't a named window", "write WINDOW w AS (...)")
        windows[name.lower()] = window

    if cursor.next_word == "WINDOW" and ksql.parse_window(cursor) is not None:
        hint = "write it directly behind the table, in front of WHERE and GROUP BY"
        cursor.fail(cursor.span_from(start), "WINDOW stands behind another clause", hint)
    if cursor.accept("WINDOW"):
        cursor.parse_list(parse_one)
    return windows
