"""``ORDER BY ... LIMIT ...`` after a query over tables that end."""

from __future__ import annotations

from typing import Literal, NoReturn

from sqlglot import exp
from sqlglot.tokens import TokenType

from muntin.model.pipeline import Order, Ordered, quote_name
from muntin.sql.cursor import Cursor
from muntin.sql.expressions import Scope
from muntin.sql.selectlist import item_at
from muntin.sql.syntax import Item, OrderedBy, Ordering, Select

_HINT = "order the table that you write to, or read a table WITH (..., mode = 'batch')"


def ordering(cursor: Cursor) -> Ordering | None:
    """Read ``ORDER BY a DESC NULLS LAST, b LIMIT 10``, or a part of it, if it comes next."""
    start = cursor.here
    by: list[OrderedBy] = []
    if cursor.word == "ORDER BY":
        cursor._advance()
        by = cursor.several(lambda: _ordered(cursor))
    limit = None
    if cursor.takes("LIMIT"):
        token = cursor.takes_kind(TokenType.NUMBER)
        if token is None or not token.text.isdigit():
            cursor.fail(token, "LIMIT takes a number of rows", "write LIMIT 10")
        limit = int(token.text)
    if not by and limit is None:
        return None
    return Ordering(tuple(by), limit, cursor.since(start))


def _ordered(cursor: Cursor) -> OrderedBy:
    scalar = cursor.scalar("a column")
    descends = not cursor.takes("ASC") and cursor.takes("DESC")
    nulls: Literal["first", "last"] | None = None
    if cursor.takes("NULLS", "FIRST"):
        nulls = "first"
    elif cursor.takes("NULLS", "LAST"):
        nulls = "last"
    return OrderedBy(scalar, bool(descends), nulls)


def refuse_order(cursor: Cursor, ordering: Ordering) -> NoReturn:
    """Refuse an order or limit of rows that have no end."""
    word = "ORDER BY would never end" if ordering.by else "LIMIT would end"
    cursor.fail(ordering.span, f"{word} on a stream", _HINT)


def order(cursor: Cursor, select: Select, ordering: Ordering) -> Order:
    """Return the order and limit of a query's rows, over its output columns."""
    scope = Scope(cursor, frozenset({(select.source.alias or "").lower()}))
    return Order(tuple(_of(scope, select, one) for one in ordering.by), ordering.limit)


def _of(scope: Scope, select: Select, one: OrderedBy) -> Ordered:
    node = one.scalar
    item = item_at(scope, select, node)
    item = item or next((item for item in select.items if _shows(item, node)), None)
    if item is None:
        return Ordered(scope.plain(node), one.descends, one.nulls)
    if item.alias is None and not isinstance(item.scalar, exp.Column):
        hint = "name it with AS, and order by the name"
        scope.fail(scope.span(node), "this column has no name to order by", hint)
    assert item.scalar is not None
    return Ordered(quote_name(item.alias or item.scalar.name), one.descends, one.nulls)


def _shows(item: Item, node: exp.Expr) -> bool:
    """Return whether a column of the select list is the one ordered by, by name or expression."""
    if isinstance(node, exp.Column):
        own = item.scalar.name if isinstance(item.scalar, exp.Column) else ""
        return node.name.lower() in ((item.alias or own).lower(), own.lower())
    return item.scalar == node
