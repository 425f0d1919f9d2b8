"""Parses and lowers ``ORDER BY ... LIMIT ...``, which only queries over finite tables may have."""

from __future__ import annotations

from typing import Literal, NoReturn

from sqlglot import exp
from sqlglot.tokens import TokenType

from muntin.model.pipeline import Order, SortOrder, quote_name
from muntin.sql.cursor import Cursor
from muntin.sql.expressions import Scope
from muntin.sql.select_list import END, START, find_item_by_ordinal
from muntin.sql.syntax import OrderBy, Select, SelectItem, SortKey
from muntin.sql.window_functions import SPARK_FUNCTIONS

_HINT = "order the table that you write to, or read a table WITH (..., mode = 'batch')"


def parse_order_by(cursor: Cursor) -> OrderBy | None:
    """Parse ``ORDER BY a DESC NULLS LAST, b LIMIT 10``, or one of the two, if it comes next."""
    start = cursor.position
    keys: list[SortKey] = []
    if cursor.next_word == "ORDER BY":
        cursor.skip()
        keys = cursor.parse_list(lambda: _parse_sort_key(cursor))
    limit = None
    if cursor.accept("LIMIT"):
        token = cursor.accept_kind(TokenType.NUMBER)
        if token is None or not token.text.isdigit():
            cursor.fail(token, "LIMIT takes a number of rows", "write LIMIT 10")
        limit = int(token.text)
    if not keys and limit is None:
        return None
    return OrderBy(tuple(keys), limit, cursor.span_from(start))


def _parse_sort_key(cursor: Cursor) -> SortKey:
    scalar = cursor.parse_scalar("a column")
    is_descending = not cursor.accept("ASC") and cursor.accept("DESC")
    nulls: Literal["first", "last"] | None = None
    if cursor.accept("NULLS", "FIRST"):
        nulls = "first"
    elif cursor.accept("NULLS", "LAST"):
        nulls = "last"
    return SortKey(scalar, bool(is_descending), nulls)


def refuse_order(cursor: Cursor, order_by: OrderBy) -> NoReturn:
    """Refuse ``ORDER BY`` or ``LIMIT`` on a stream."""
    word = "ORDER BY would never end" if order_by.keys else "LIMIT would end"
    cursor.fail(order_by.span, f"{word} on a stream", _HINT)


def lower_order_by(cursor: Cursor, select: Select, order_by: OrderBy) -> Order:
    """Return the order and limit of a query's rows, over its output columns."""
    scope = Scope(cursor, frozenset({(select.source.alias or "").lower()}))
    return Order(
        tuple(_lower_sort_key(scope, select, one) for one in order_by.keys), order_by.limit
    )


def _lower_sort_key(scope: Scope, select: Select, sort_key: SortKey) -> SortOrder:
    node = sort_key.scalar
    item = find_item_by_ordinal(scope, select, node)
    item = item or next((item for item in select.items if _shows(item, node)), None)
    bound = _find_bound(node) if item is None else None
    if bound is not None:
        return SortOrder(bound, sort_key.is_descending, sort_key.nulls)
    if item is None:
        return SortOrder(scope.render(node), sort_key.is_descending, sort_key.nulls)
    if item.alias is None and not isinstance(item.scalar, exp.Column):
        hint = "name it with AS, and order by the name"
        scope.fail(node, "this column has no name to order by", hint)
    assert item.scalar is not None
    return SortOrder(
        quote_name(item.alias or item.scalar.name), sort_key.is_descending, sort_key.nulls
    )


def _find_bound(node: exp.Expr) -> str | None:
    """Return the bound that Spark's ``window.start`` means; ``None`` for any other expression."""
    parts = [part.name.lower() for part in node.parts] if isinstance(node, exp.Column) else []
    if len(parts) != 2 or parts[0].upper() not in SPARK_FUNCTIONS:
        return None
    return {"start": START, "end": END}.get(parts[1])


def _shows(item: SelectItem, node: exp.Expr) -> bool:
    """Return whether an item has the name or the expression of a sort key."""
    if isinstance(node, exp.Column):
        column_name = item.scalar.name if isinstance(item.scalar, exp.Column) else ""
        return node.name.lower() in ((item.alias or column_name).lower(), column_name.lower())
    return item.scalar == node
