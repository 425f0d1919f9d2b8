"""Parses ``WHERE EXISTS (SELECT ...)`` and ``a.id IN (SELECT ...)`` as semi and anti joins."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.tokens import TokenType

from muntin.sql.cursor import Cursor
from muntin.sql.syntax import FromItem, Join, Select

ParseQuery = Callable[[Cursor], Select]
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)


def parse_where(
    cursor: Cursor, source: FromItem, parse_query: ParseQuery
) -> tuple[exp.Expr | None, Join | None]:
    """Parse ``WHERE ...``, if it comes next; return its condition and the join of a subquery."""
    if not cursor.accept_kind(TokenType.WHERE):
        return None, None
    join = _parse_membership(cursor, source, parse_query)
    if join is None or cursor.accept("AND"):
        return cursor.parse_scalar("a condition"), join
    return None, join


def _parse_membership(cursor: Cursor, source: FromItem, parse_query: ParseQuery) -> Join | None:
    """Parse ``EXISTS (...)`` or ``a.id IN (...)``, if one comes next."""
    start, index = cursor.position, cursor.index
    is_negated = cursor.accept("NOT")
    if cursor.accept("EXISTS") and _starts_subquery(cursor):
        subquery = _parse_subquery(cursor, parse_query, start)
        return _build_join(cursor, subquery, None, start, is_negated=is_negated)
    cursor.rewind(index)
    if not cursor.peek_kind(*_NAMES):
        return None
    column = cursor.parse_column()
    is_negated = cursor.accept("NOT")
    if not (isinstance(column, exp.Column) and cursor.accept("IN") and _starts_subquery(cursor)):
        cursor.rewind(index)
        return None
    subquery = _parse_subquery(cursor, parse_query, start)
    item = subquery.items[0].scalar
    if len(subquery.items) != 1 or not isinstance(item, exp.Column):
        cursor.fail(cursor.span_from(start), "IN compares one column", "select one column there")
    equal = exp.EQ(this=_qualify(column, source), expression=_qualify(item, subquery.source))
    return _build_join(cursor, subquery, equal, start, is_negated=is_negated)


def _starts_subquery(cursor: Cursor) -> bool:
    return cursor.peek_kind(TokenType.L_PAREN) and cursor.second_word in ("SELECT", "WITH")


def _parse_subquery(cursor: Cursor, parse_query: ParseQuery, start: int) -> Select:
    """Parse a query in parentheses, which may have nothing but ``WHERE``."""
    cursor.skip()
    subquery = parse_query(cursor)
    cursor.expect_close("the query")
    refused = (
        subquery.joins, subquery.group, subquery.having, subquery.window, subquery.qualify,
        subquery.emit, subquery.distinct, subquery.views,
    )  # fmt: skip
    if any(refused):
        hint = "put it into a query in parentheses: EXISTS (SELECT * FROM (SELECT ...) r WHERE ...)"
        cursor.fail(cursor.span_from(start), "this query does more than compare", hint)
    return subquery


def _build_join(
    cursor: Cursor, subquery: Select, equal: exp.Expr | None, start: int, *, is_negated: bool
) -> Join:
    """Return the join with a subquery; ``equal`` is the comparison of ``IN``."""
    span = cursor.span_from(start)
    # Within a subquery, columns without a qualifier belong to its own table.
    for column in [*subquery.where.find_all(exp.Column)] if subquery.where is not None else ():
        if len(column.parts) == 1:
            column.set("table", exp.to_identifier(subquery.source.name, quoted=True))
    conditions = [part for part in (equal, subquery.where) if part is not None]
    if not conditions:
        hint = "compare the columns of both, as in WHERE a.id = b.id AND ..."
        cursor.fail(span, "nothing is compared with the outer query", hint)
    on = (
        conditions[0]
        if len(conditions) == 1
        else exp.And(this=conditions[0], expression=conditions[1])
    )
    is_not_in = is_negated and equal is not None
    how = "anti" if is_negated else "semi"
    return Join(how, subquery.source, None, None, on, (), span, is_not_in=is_not_in)


def _qualify(column: exp.Column, source: FromItem) -> exp.Column:
    """Return a column with its qualifier; an unqualified column belongs to the source."""
    if len(column.parts) > 1:
        return column
    return exp.Column(this=column.this, table=exp.to_identifier(source.name, quoted=True))
