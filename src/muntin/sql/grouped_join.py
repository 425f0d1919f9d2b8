"""Splits a query that groups the pairs of a join into the join and the query around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from muntin.model.pipeline import SIDE_COLUMNS, Column, JoinRelation, quote_name
from muntin.sql.aggregates import find_aggregate_name
from muntin.sql.cursor import Cursor, WindowNode, find_span, window_call_of
from muntin.sql.expressions import walk
from muntin.sql.joins import collect_conditions
from muntin.sql.select_list import END, START
from muntin.sql.syntax import FromItem, Select, SelectItem, WindowCall
from muntin.sql.window_functions import SPARK_FUNCTIONS, bind_window_call

ColumnNames = Mapping[tuple[str, str], str]
"""Names of columns by their qualifier and name, both in lower case."""

_BOUNDS = (START, END, "window_time")


@dataclass(frozen=True)
class GroupedJoin:
    """A join, and the query that groups its pairs.

    Attributes:
        join: Query of the join, which shows the columns that the grouping query needs.
        call: Window function around the left side, which the grouping query applies to the pairs.
        time: Time column of that window function.
        qualifiers: Names of both sides, in lower case.
        names: Names of the columns that both sides have, where they differ from their own.
    """

    join: Select
    grouping: Select
    call: WindowCall | None
    time: str | None
    qualifiers: frozenset[str]
    names: ColumnNames

    def add_time(self, joining: JoinRelation) -> JoinRelation:
        """Return the join with the time of the window function among its columns."""
        shown = joining.columns or ()
        if self.time is None or any(self.time.lower() == one.name.lower() for one in shown):
            return joining
        time = Column(self.time, f"{SIDE_COLUMNS[0]}.{quote_name(self.time)}")
        return replace(joining, columns=(*shown, time))


def split_grouped_join(cursor: Cursor, select: Select) -> GroupedJoin | None:
    """Return the parts of a query that groups pairs; ``None`` if a query shows the pairs."""
    aggregates = any(find_aggregate_name(node) for node in walk(*select.scalars))
    if not (select.group or aggregates or select.having is not None):
        return None
    source, call, time = _unwrap_windows(cursor, select)
    sides = (source.name.lower(), select.joins[0].source.name.lower())
    items, names = _select_columns(select, sides, time)
    join = replace(
        select, items=tuple(items), source=source, group=(), having=None, emit=None, views=(),
        grouping_sets=None, order_by=None, distinct=False,
    )  # fmt: skip
    grouping = replace(select, joins=(), where=None, views=())
    return GroupedJoin(join, grouping, call, time, frozenset(sides), names)


def _unwrap_windows(
    cursor: Cursor, select: Select
) -> tuple[FromItem, WindowCall | None, str | None]:
    """Return the left side without its window function, the function, and its time column.

    A window function stays where it is if the condition compares its bounds. Otherwise the windows
    of a pair are those of its left row, whether they are assigned before or after the join.
    """
    source, table = select.source, select.source.table
    conditions = collect_conditions(select, select.joins[0])
    names = {node.name.lower() for node in walk(*conditions) if isinstance(node, exp.Column)}
    names |= {name.lower() for name in select.joins[0].using}
    if not isinstance(table, WindowCall) or not names.isdisjoint(_BOUNDS):
        return source, None, None
    binding = bind_window_call(cursor.sql, table)
    if binding.windows.retracts or binding.windows.axis == "rows":
        hint = "join in a view, and form the windows of its rows"
        cursor.fail(source.span, "these windows are formed before JOIN", hint)
    if binding.table is None:
        return source, None, None
    return replace(source, table=binding.table), table, binding.time


def _select_columns(
    select: Select, sides: tuple[str, str], time: str | None
) -> tuple[list[SelectItem], ColumnNames]:
    """Return the items of the join that the grouping query needs, and the names of columns.

    A column whose name is taken gets the name of its side as a prefix.
    """
    items: dict[tuple[str, str], SelectItem] = {}
    taken = {} if time is None else {time.lower(): (sides[0], time.lower())}
    names: dict[tuple[str, str], str] = {}
    for column in _find_columns(select, sides):
        parts = column.parts
        side = parts[0].name.lower() if len(parts) > 1 else ""
        if side not in sides:
            side = ""
        name = parts[1].name if side else parts[0].name
        key = (side, name.lower())
        if key in items:
            continue
        shown = name
        if taken.setdefault(name.lower(), key) != key:
            shown = names[key] = f"{side or 'pair'}_{name}"
        # A field of a struct is read from the column by the grouping query.
        named = [part.copy() for part in parts[: 2 if side else 1]]
        node = exp.Column(this=named[-1], table=named[0] if side else None)
        items[key] = SelectItem(node, shown, find_span(column) or select.span)
    return list(items.values()), names


def _find_columns(select: Select, sides: tuple[str, str]) -> Iterator[exp.Column]:
    """Yield the columns of both sides that are used behind the join, those of windows first.

    Bounds of windows, and names that the select list defines, are no columns of a side.
    """
    clauses = () if select.emit is None else select.emit.when_clauses
    conditions = [clause.condition for clause in clauses]
    nodes = [*select.group, *select.scalars, select.having, *conditions]
    everything = list(walk(*(node for node in nodes if node is not None)))
    calls = [window_call_of(node) for node in everything if isinstance(node, WindowNode)]
    yield from (
        node
        for call in calls
        for argument in call.arguments
        if isinstance(argument.value, exp.Expr)
        for node in walk(argument.value)
        if isinstance(node, exp.Column)
    )
    own = {
        node.name.lower()
        for scalar in select.scalars
        for node in walk(scalar)
        if isinstance(node, exp.Column) and node is not scalar
    }
    items = (*select.items, *select.named_keys)
    defined = {item.alias.lower() for item in items if item.alias} - own
    has_call = bool(calls) or isinstance(select.source.table, WindowCall)
    if any(call.name in SPARK_FUNCTIONS for call in calls):
        defined |= {name.lower() for name in SPARK_FUNCTIONS}
    for node in everything:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            continue
        first = node.parts[0].name.lower()
        is_qualified = len(node.parts) > 1 and first in sides
        is_bound = has_call and node.name.lower() in _BOUNDS
        if is_qualified or not (first in defined or is_bound):
            yield node
