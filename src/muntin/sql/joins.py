"""Joins of streams, lowered to the spec that Python's ``join`` creates.

``SELECT id, value, cost FROM Shipments JOIN Orders OVER (ROWS 3 PRECEDING) ON Orders.id =
Shipments.id`` is the first statement of the Samza SQL window operator design. A side without a
window would have to be kept without end there. Here, the other side's window bounds it: its
partners lie at most that far away, in either direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from muntin.model.errors import OptionError, SqlError
from muntin.model.joins import How, JoinNulls, JoinSpec, Newest, Side, set_default_policies
from muntin.model.pipeline import SIDE_COLUMNS, Column, Joining
from muntin.sql import ksql
from muntin.sql.catalog import ResolvedRelation, find_bound_column, merge_input_options
from muntin.sql.cursor import Cursor, Span
from muntin.sql.expressions import Scope, walk
from muntin.sql.join_bounds import OVER_HINT, JoinSide, lower_join_bound
from muntin.sql.outer_query import refuse_side_star
from muntin.sql.over_aggregates import find_order_column, lower_frame
from muntin.sql.select_list import END
from muntin.sql.syntax import FromItem, Join, Select, TableExpression, WindowCall
from muntin.sql.time_bounds import Sides, find_equated_columns
from muntin.sql.triggers import collect_emit_spans, lower_emit

_ON = "write ON Orders.id = Shipments.id"

ResolveTable = Callable[[TableExpression, str | None], ResolvedRelation]
"""Resolves a side's rows, from a table's name or a query, and its alias."""


def lower_join(
    cursor: Cursor, select: Select, resolve: ResolveTable
) -> tuple[Joining, dict[str, Span]]:
    """Return a join, and the spans of its parts."""
    _check_clauses(cursor, select)
    join = select.joins[0]
    grace = None if join.within is None else join.within.grace
    emit = ksql.add_lengths(cursor, select.emit, "WITHIN", grace=grace)
    left = _lower_side(cursor, select.source, resolve, join.left_over)
    right = _lower_side(cursor, join.source, resolve, join.over)
    sides = {left.name.lower(): 0, right.name.lower(): 1}
    if len(sides) < 2:
        hint = "give one of them another name, as in JOIN t AS other"
        cursor.fail(join.source.span, f"both sides are called {left.name}", hint)
    paired = lower_join_bound(
        cursor, join, collect_conditions(select, join), left, right, changes=emit.changes
    )
    equal, chosen = _split_conditions(cursor, select, join, paired.rest, (left, right))
    spans = _collect_spans(select, join)
    policies = set_default_policies(lower_emit(cursor.sql, emit, paired.bound.axis, join=True))
    parts = zip((left, right), zip(*equal, strict=True), paired.times, strict=True)
    one, other = (
        Side(keys, time, firing=policies, **half.resolved.marks.on(paired.bound.axis).options)
        for half, keys, time in parts
    )
    how: How = join.how  # type: ignore[assignment]
    again = isinstance(paired.bound, Newest)
    nulls: JoinNulls = "reject" if again or how in ("inner", "semi") else "unmatched"
    try:
        spec = JoinSpec(one, other, paired.bound, how, nulls=nulls)
    except OptionError as error:
        at = spans.get(error.option, join.span)
        raise SqlError(
            cursor.sql, at, f"{error.option} {error.problem}", _find_hint(error)
        ) from error
    columns, bare = _lower_select_list(cursor, select, chosen, sides)
    if again:
        _check_identity(cursor, select, chosen, columns)
    texts = [render_sides(Scope(cursor), part, sides) for part in chosen]
    where = " AND ".join(texts if len(texts) < 2 else [f"({text})" for text in texts]) or None
    made = Joining(
        left.resolved.relation,
        right.resolved.relation,
        (left.name, right.name),
        spec,
        columns,
        where,
        bare,
        merged=bool(join.using),
        clocks=(left.resolved.marks.clock, right.resolved.marks.clock),
    )
    return made, spans


def _collect_spans(select: Select, join: Join) -> dict[str, Span]:
    """Return the spans of the parts of a join."""
    sources = {f"FROM {source.item}": source.span for source in (select.source, join.source)}
    named = {"select": select.span, "within": join.span, "on": join.span}
    return {**named, "FROM": select.source.span, **sources, **collect_emit_spans(select.emit)}


def _find_hint(error: OptionError) -> str:
    if error.option == "within":
        return "write OFFSET FOR (partition, offset) behind each table"
    if error.option == "time":
        return "write WATERMARK ts DELAY OF INTERVAL '1' MINUTE behind each table"
    return error.hint


def _check_clauses(cursor: Cursor, select: Select) -> None:
    if select.joins[0].not_in:
        hint = "write NOT EXISTS (SELECT ... WHERE a.id = b.id AND ...)"
        problem = "NOT IN is unknown where a value is NULL, which a stream never knows"
        cursor.fail(select.joins[0].span, problem, hint)
    if len(select.joins) > 1:
        hint = "join two streams here, and the third in a query of its own"
        cursor.fail(select.joins[1].span, "three streams aren't joined at once", hint)
    if select.group or select.having is not None:
        hint = "name the pairs by WITH or CREATE VIEW, and group those"
        cursor.fail(select.group_span, "GROUP BY can't stand beside JOIN", hint)
    if select.distinct:
        cursor.fail(select.span, "DISTINCT can't stand beside JOIN", "leave it out")


def _lower_side(
    cursor: Cursor, source: FromItem, resolve: ResolveTable, over: exp.Window | None
) -> JoinSide:
    if isinstance(source.item, WindowCall):
        hint = "group by its windows in a query in parentheses, and join that"
        cursor.fail(source.span, "a side of a join is a table or a query", hint)
    if isinstance(source.item, Select) and source.alias is None:
        hint = "write (SELECT ...) AS one"
        cursor.fail(source.span, "this side of the join has no name", hint)
    resolved = resolve(source.item, source.alias)
    resolved = replace(resolved, marks=merge_input_options(resolved.marks, cursor, source))
    if over is None:
        time = resolved.marks.time or find_bound_column(resolved.relation, END)
        return JoinSide(resolved, source.name, None, None, time)
    scope = Scope(cursor, resolved.qualifiers)
    frame = lower_frame(scope, over)
    kind, length = frame.kind, frame.length
    if not frame.includes_row:
        cursor.fail(scope.span(over), "the frame doesn't end with its row", OVER_HINT)
    order = find_order_column(scope, over)
    if kind == "RANGE" and order is None:
        cursor.fail(scope.span(over), "RANGE needs the column of event times", OVER_HINT)
    marked = resolved.marks.time
    if kind == "RANGE" and marked is not None and order != marked:
        problem = f"the watermark is one of {marked}, the window is ordered by {order}"
        cursor.fail(scope.span(over), problem, f"order by {marked}")
    return JoinSide(resolved, source.name, kind, length, order or marked)


def collect_conditions(select: Select, join: Join, *, where: bool = True) -> list[exp.Expr]:
    """Return the conditions of a pair, part by part.

    For ``FROM a, b`` these are all conditions in ``WHERE``. For an inner join they are those of
    ``ON`` and ``WHERE``, since it makes no difference which clause has them.

    Args:
        select: Query of the join.
        join: One join of the query.
        where: Whether ``WHERE`` counts besides ``ON``. It doesn't if it filters the rows that the
            join emits.
    """
    conditions = [select.where] if join.by_where else [join.on]
    if where and _where_bounds_pairs(select, join):
        conditions.append(select.where)
    parts: list[exp.Expr] = []
    for condition in filter(None, conditions):
        whole = condition.unnest()
        parts += whole.flatten() if isinstance(whole, exp.And) else [whole]
    return parts


def _where_bounds_pairs(select: Select, join: Join) -> bool:
    """Return whether ``WHERE`` bounds the pairs like ``ON``; it filters versions afterwards."""
    of_versions = join.as_of or join.source.as_of is not None
    return join.how == "inner" and not (join.by_where or join.using or of_versions)


def _check_identity(
    cursor: Cursor, select: Select, chosen: Sequence[exp.Expr], shown: tuple[Column, ...] | None
) -> None:
    """Refuse a join at each change if its rows don't say which one replaces another."""
    join = select.joins[0]
    if not join.using:
        hint = "write USING (k, window_start, window_end): each row shows its key, once"
        cursor.fail(join.span, "a pair that is emitted again is known by its key", hint)
    if chosen:
        at = Scope(cursor).span(chosen[0])
        problem = "WHERE would leave a pair as it was that it doesn't choose any more"
        cursor.fail(at, problem, "choose among the rows of the table that they are written to")
    if shown is None:
        return
    there = {c.name.lower() for c in shown if c.text.rpartition(".")[2].lower() == c.name.lower()}
    for name in join.using:
        if name.lower() not in there:
            hint = "show it, as it is"
            cursor.fail(select.span, f"a pair is known by {name}, which isn't shown", hint)


def render_sides(scope: Scope, node: exp.Expr, sides: Sides) -> str:
    """Return an expression over pairs, with the columns' qualifiers replaced by the names of sides.

    Args:
        scope: Scope of the expression.
        node: Expression to rewrite.
        sides: Qualifiers of columns, with their sides.
    """

    def named(part: exp.Expr) -> str | None:
        first = part.parts[0] if isinstance(part, exp.Column) and len(part.parts) > 1 else None
        if first is None or first.name.lower() not in sides:
            return None
        rest = scope.span(first)[1], scope.standing(part)[1]
        return SIDE_COLUMNS[sides[first.name.lower()]] + scope.text[slice(*rest)]

    return scope.rewritten(node, named)


def _lower_select_list(
    cursor: Cursor, select: Select, chosen: Sequence[exp.Expr], sides: Sides
) -> tuple[tuple[Column, ...] | None, tuple[str, ...]]:
    """Return the select list, and the unqualified columns in it and in the conditions."""
    scope = Scope(cursor)
    bare = []
    for node in walk(*select.scalars, *chosen):
        if isinstance(node, exp.Column) and node.parts[0].name.lower() not in sides:
            bare.append(node.parts[0].name)
        if isinstance(node, exp.Window):
            hint = "compute it from the pairs"
            scope.fail(scope.span(node), "OVER can't stand beside JOIN", hint)
    for item in select.items:
        if item.of is not None:
            refuse_side_star(scope, item)
    if len(select.items) == 1 and select.items[0].scalar is None:
        return None, tuple(bare)
    found: list[Column] = []
    for item in select.items:
        if item.scalar is None:
            scope.fail(item.span, "* stands beside other columns", "name the columns")
        text = render_sides(scope, item.scalar, sides)
        last = item.scalar.name if isinstance(item.scalar, exp.Column) else None
        name = item.alias or last or scope.rendered(item.scalar, {})
        if any(name.lower() == column.name.lower() for column in found):
            hint = "give it another name with AS"
            scope.fail(item.span, f"two columns are called {name}", hint)
        found.append(Column(name, text))
    return tuple(found), tuple(bare)


def _split_conditions(
    cursor: Cursor,
    select: Select,
    join: Join,
    conditions: Sequence[exp.Expr],
    halves: tuple[JoinSide, JoinSide],
) -> tuple[list[tuple[str, str]], list[exp.Expr]]:
    """Return the equal columns of a pair, and the conditions that filter the pairs.

    An inner join treats conditions in ``ON`` and in ``WHERE`` alike.
    """
    is_among = join.by_where or _where_bounds_pairs(select, join)
    chosen = [] if select.where is None or is_among else [select.where]
    if join.using:
        return [(name, name) for name in join.using], chosen
    sides = {half.name.lower(): place for place, half in enumerate(halves)}
    compared = [(part, find_equated_columns(part, sides)) for part in conditions]
    equal = [(halves[0].own(p[0]), halves[1].own(p[1])) for _, p in compared if p is not None]
    others = [part for part, pair in compared if pair is None]
    if (others and join.how != "inner") or not equal:
        at = Scope(cursor).span(others[0]) if others else join.span
        cursor.fail(at, "a join is one of equal columns, one of each side", _ON)
    return equal, [*others, *chosen]
