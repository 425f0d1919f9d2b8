"""Joins of streams as they were written, ready to become a query once streams can be joined.

``SELECT id, value, cost FROM Shipments JOIN Orders OVER (ROWS 3 PRECEDING) ON Orders.id =
Shipments.id`` is the first statement of the Samza SQL window operator design.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from muntin.model.errors import SqlError
from muntin.model.pipeline import Column
from muntin.sql.catalog import Catalog, Marks, Resolved
from muntin.sql.cursor import Cursor, Span
from muntin.sql.expressions import Scope
from muntin.sql.overs import frame_of, order_of
from muntin.sql.syntax import Emit, Join, Select, Source

_ON = "write ON Orders.id = Shipments.id"


@dataclass(frozen=True)
class JoinSide:
    """One side of a join.

    Attributes:
        resolved: Its rows.
        name: What its columns are qualified by.
        kind: ``ROWS``, ``RANGE``, or ``None`` where it has no window.
        length: How far the window reaches: rows, or microseconds.
        time: The column that the window is ordered by.
    """

    resolved: Resolved
    name: str
    kind: str | None = None
    length: int | None = None
    time: str | None = None


@dataclass(frozen=True)
class JoinSelect:
    """A join of two streams.

    Attributes:
        left: The side behind ``FROM``.
        right: The side behind ``JOIN``.
        how: ``inner``, ``left``, ``right``, ``full``, ``semi`` or ``anti``.
        on: Pairs of columns that are equal, left and right.
        columns: What is shown of a pair; ``None`` is everything.
        where: Which pairs.
        emit: When they are told.
        span: Where the join stands.
    """

    left: JoinSide
    right: JoinSide
    how: str
    on: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...] | None
    where: str | None
    emit: Emit | None
    span: Span


def join_of(cursor: Cursor, select: Select, catalog: Catalog) -> JoinSelect:
    """A join as it was written.

    Args:
        cursor: The text.
        select: The query.
        catalog: What has been named so far.

    Raises:
        SqlError: When it isn't one of two streams over equal columns.
    """
    if len(select.joins) > 1:
        cure = "join two streams here, and the third in a query of its own"
        raise SqlError(
            cursor.sql, select.joins[1].span, "three streams aren't joined at once", cure
        )
    if select.group or select.having is not None:
        cure = "write the pairs to a table, and group that"
        raise SqlError(cursor.sql, select.group_span, "GROUP BY can't stand beside JOIN", cure)
    join = select.joins[0]
    left = _side(cursor, select.source, catalog, join.left_over)
    right = _side(cursor, join.source, catalog, join.over)
    if left.name.lower() == right.name.lower():
        cure = "give one of them another name, as in JOIN t AS other"
        raise SqlError(cursor.sql, join.source.span, f"both sides are called {left.name}", cure)
    scope = Scope(cursor, frozenset())
    shown: tuple[Column, ...] | None = None
    if not (len(select.items) == 1 and select.items[0].scalar is None):
        shown = tuple(_shown(scope, select))
    where = None if select.where is None else scope.rendered(select.where, {})
    pairs = _pairs(cursor, join, left, right)
    return JoinSelect(left, right, join.how, pairs, shown, where, select.emit, join.span)


def _shown(scope: Scope, select: Select) -> list[Column]:
    found = []
    for item in select.items:
        if item.scalar is None:
            scope.fail(item.span, "* stands beside other columns", "name the columns")
        text = scope.rendered(item.scalar, {})
        last = item.scalar.name if isinstance(item.scalar, exp.Column) else text
        found.append(Column(item.alias or last, text))
    return found


def _side(cursor: Cursor, source: Source, catalog: Catalog, over: exp.Window | None) -> JoinSide:
    if not isinstance(source.item, str):
        cure = "name it with CREATE VIEW, and join that"
        raise SqlError(cursor.sql, source.span, "a side of a join is a table or a view", cure)
    resolved = catalog.resolve(source.item, source.alias)
    marks: Marks = resolved.marks.marked(cursor.sql, source.watermark)
    side = JoinSide(replace(resolved, marks=marks), source.alias or source.item, time=marks.time)
    if over is None:
        return side
    scope = Scope(cursor, resolved.qualifiers)
    kind, length = frame_of(scope, over)
    order = order_of(scope, over)
    if kind == "RANGE" and order is None:
        cure = "write OVER (ORDER BY time RANGE INTERVAL '2' MINUTE PRECEDING)"
        raise SqlError(cursor.sql, scope.span(over), "RANGE needs the column of event times", cure)
    return replace(side, kind=kind, length=length.value, time=order or side.time)


def _pairs(
    cursor: Cursor, join: Join, left: JoinSide, right: JoinSide
) -> tuple[tuple[str, str], ...]:
    if join.using:
        return tuple((name, name) for name in join.using)
    assert join.on is not None
    found = []
    for part in join.on.flatten() if isinstance(join.on, exp.And) else [join.on]:
        pair = _pair(cursor, part, left, right)
        if pair is None:
            scope = Scope(cursor, frozenset())
            problem = "a join is one of equal columns, one of each side"
            raise SqlError(cursor.sql, scope.span(part), problem, _ON)
        found.append(pair)
    return tuple(found)


def _pair(
    cursor: Cursor, node: exp.Expr, left: JoinSide, right: JoinSide
) -> tuple[str, str] | None:
    if not isinstance(node, exp.EQ):
        return None
    sides = {left.name.lower(): 0, right.name.lower(): 1}
    found: dict[int, str] = {}
    for column in (node.this, node.expression):
        parts = [p.name for p in column.parts] if isinstance(column, exp.Column) else []
        if len(parts) == 2 and parts[0].lower() in sides:
            found[sides[parts[0].lower()]] = parts[1]
    return (found[0], found[1]) if len(found) == 2 else None
