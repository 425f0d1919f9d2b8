"""``ORDER BY ... LIMIT ...`` after a query over tables that end."""

from __future__ import annotations

from typing import Literal, NoReturn

from sqlglot import exp
from sqlglot.tokens import TokenType

from muntin.model.pipeline import Order, Ordered, quote_name
from muntin.sql.cursor import Cursor
from muntin.sql.expressions import Scope
from muntin.sql.select_list import find_item_by_ordinal
from muntin.sql.syntax import OrderBy, Select, SelectItem, SortKey

_HINT = "order the table that you write to, or read a table WITH (..., mode = 'batch')"


def parse_order_by(cursor: Cursor) -> OrderBy | None:
    """Read ``ORDER BY a DESC NULLS LAST, b LIMIT 10``, or a part of it, if it comes next."""
    start = cursor.here
    by: list[SortKey] = []
    if cursor.word == "ORDER BY":
        cursor._advance()
        by = cursor.several(lambda: _parse_sort_key(cursor))
    limit = None
    if cursor.takes("LIMIT"):
        token = cursor.takes_kind(TokenType.NUMBER)
        if token is None or not token.text.isdigit():
            cursor.fail(token, "LIMIT takes a number of rows", "write LIMIT 10")
        limit = int(token.text)
    if not by and limit is None:
        return None
    return OrderBy(tuple(by), limit, cursor.since(start))


def _parse_sort_key(cursor: Cursor) -> SortKey:
    scalar = cursor.scalar("a column")
    descends = not cursor.takes("ASC") and cursor.takes("DESC")
    nulls: Literal["first", "last"] | None = None
    if cursor.takes("NULLS", "FIRST"):
        nulls = "first"
    elif cursor.takes("NULLS", "LAST"):
        nulls = "last"
    return SortKey(scalar, bool(descends), nulls)


def refuse_order(cursor: Cursor, ordering: OrderBy) -> NoReturn:
    """Refuse an order or limit of rows that have no end."""
    word = "ORDER BY would never end" if ordering.by else "LIMIT would end"
    cursor.fail(ordering.span, f"{word} on a stream", _HINT)


def lower_order_by(cursor: Cursor, select: Select, ordering: OrderBy) -> Order:
    """Return the order and limit of a query's rows, over its output columns."""
    scope = Scope(cursor, frozenset({(select.source.alias or "").lower()}))
    return Order(tuple(_lower_sort_key(scope, select, one) for one in ordering.by), ordering.limit)


def _lower_sort_key(scope: Scope, select: Select, one: SortKey) -> Ordered:
    node = one.scalar
    item = find_item_by_ordinal(scope, select, node)
    item = item or next((item for item in select.items if _shows(item, node)), None)
    if item is None:
        return Ordered(scope.plain(node), one.descends, one.nulls)
    if item.alias is None and not isinstance(item.scalar, exp.Column):
        hint = "name it with AS, and order by the name"
        scope.fail(scope.span(node), "this column has no name to order by", hint)
    assert item.scalar is not None
    return Ordered(quote_name(item.alias or item.scalar.name), one.descends, one.nulls)


def _shows(item: SelectItem, node: exp.Expr) -> bool:
    """Return whether a column of the select list is the one ordered by, by name or expression."""
    if isinstance(node, exp.Column):
        own = item.scalar.name if isinstance(item.scalar, exp.Column) else ""
        return node.name.lower() in ((item.alias or own).lower(), own.lower())
    return item.scalar == node
