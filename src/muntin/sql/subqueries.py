"""``WHERE EXISTS (SELECT ...)`` and ``WHERE a.id IN (SELECT ...)``: semi and anti joins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokens import TokenType

from muntin.sql.cursor import Cursor, Span
from muntin.sql.syntax import FromItem, Join, Select

ParseQuery = Callable[[Cursor], Select]
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)


def parse_where(
    cursor: Cursor, source: FromItem, query: ParseQuery
) -> tuple[exp.Expr | None, Join | None]:
    """Read ``WHERE ...``, if it comes next; return its condition and the join of a subquery."""
    if not cursor.takes_kind(TokenType.WHERE):
        return None, None
    found = _parse_membership(cursor, source, query)
    if found is None or cursor.takes("AND"):
        return cursor.scalar("a condition"), found
    return None, found


def _parse_membership(cursor: Cursor, source: FromItem, query: ParseQuery) -> Join | None:
    start, index = cursor.here, cursor._index
    negated = cursor.takes("NOT")
    if cursor.takes("EXISTS") and _starts_subquery(cursor):
        inner = _parse_subquery(cursor, query, start)
        return _build_join(cursor, "anti" if negated else "semi", inner, None, start)
    cursor._retreat(index)
    if not any(map(cursor.sees_kind, _NAMES)):
        return None
    column = cursor._parse_column()
    negated = cursor.takes("NOT")
    if not isinstance(column, exp.Column) or not cursor.takes("IN") or not _starts_subquery(cursor):
        cursor._retreat(index)
        return None
    inner = _parse_subquery(cursor, query, start)
    item = inner.items[0].scalar
    if len(inner.items) != 1 or not isinstance(item, exp.Column):
        cursor.fail(cursor.since(start), "IN compares one column", "select one column there")
    equal = exp.EQ(this=_qualify(column, source), expression=_qualify(item, inner.source))
    made = _build_join(cursor, "anti" if negated else "semi", inner, equal, start)
    return replace(made, not_in=bool(negated))


def _starts_subquery(cursor: Cursor) -> bool:
    return cursor.sees_kind(TokenType.L_PAREN) and cursor.second in ("SELECT", "WITH")


def _parse_subquery(cursor: Cursor, query: ParseQuery, start: int) -> Select:
    cursor._advance()
    inner = query(cursor)
    cursor.closes("the query")
    more = (inner.joins, inner.group, inner.having, inner.window, inner.qualify, inner.emit)
    if any(more) or inner.distinct or inner.views:
        hint = "put it into a query in parentheses: EXISTS (SELECT * FROM (SELECT ...) r WHERE ...)"
        cursor.fail(cursor.since(start), "this query does more than compare", hint)
    return inner


def _build_join(
    cursor: Cursor, how: str, inner: Select, equal: exp.Expr | None, start: int
) -> Join:
    span: Span = cursor.since(start)
    parts = [part for part in (equal, inner.where) if part is not None]
    if not parts:
        hint = "compare the columns of both, as in WHERE a.id = b.id AND ..."
        cursor.fail(span, "nothing is compared with the outer query", hint)
    on = parts[0] if len(parts) == 1 else exp.And(this=parts[0], expression=parts[1])
    return Join(how, inner.source, None, None, on, (), span)


def _qualify(column: exp.Column, source: FromItem) -> exp.Column:
    """Return a column with its qualifier; an unqualified column belongs to the source."""
    if len(column.parts) > 1:
        return column
    name = source.alias or str(source.item).rpartition(".")[2]
    return exp.Column(this=column.this, table=exp.to_identifier(name, quoted=True))
