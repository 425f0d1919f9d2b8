"""Lowers joins of two streams to the same value as Python's ``join``.

``SELECT id, value, cost FROM Shipments JOIN Orders OVER (ROWS 3 PRECEDING) ON Orders.id =
Shipments.id`` is the first statement of the Samza SQL window operator design. In that design, a
side without a window keeps its rows forever. Here, the window of the other side bounds it too: its
partners are at most that far away, in either direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from muntin.model.bounds import Bound
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
_FILTERED = "filter a side before it is joined: JOIN (SELECT ... WHERE ...) AS one ON ..."

ResolveTable = Callable[[TableExpression, str | None], ResolvedRelation]
"""Resolves one side of a join from its table or query, and its alias."""


def lower_join(
    cursor: Cursor, select: Select, resolve: ResolveTable
) -> tuple[Joining, dict[str, Span]]:
    """Return a join and the spans of its clauses.

    Args:
        cursor: Cursor that parsed the text.
        select: Query of the join.
        resolve: Resolves a side.

    Raises:
        SqlError: When the join has no bound, no equal columns, or a clause that it can't have.
    """
    _check_clauses(cursor, select)
    join = select.joins[0]
    grace = None if join.within is None else join.within.grace
    emit = ksql.add_intervals(cursor, select.emit, "WITHIN", grace=grace)
    left = _lower_side(cursor, select.source, resolve, join.left_over)
    right = _lower_side(cursor, join.source, resolve, join.over)
    sides = {left.name.lower(): 0, right.name.lower(): 1}
    if len(sides) < 2:
        hint = "give one of them another name, as in JOIN t AS other"
        cursor.fail(join.source.span, f"both sides are called {left.name}", hint)
    pair = lower_join_bound(
        cursor, join, collect_conditions(select, join), left, right, changes=emit.changes
    )
    equal_columns, filters, version_conditions = _split_conditions(
        cursor, select, join, pair.rest, (left, right)
    )
    firing = set_default_policies(lower_emit(cursor.sql, emit, pair.bound.axis, is_join=True))
    parts = zip((left, right), zip(*equal_columns, strict=True), pair.times, strict=True)
    left_spec, right_spec = (
        Side(keys, time, firing=firing, **side.resolved.input_options.on(pair.bound.axis).options)
        for side, keys, time in parts
    )
    spans = _collect_spans(select, join)
    spec = _build_spec(cursor, join, left_spec, right_spec, pair.bound, spans)
    scope = Scope(cursor)
    version_condition = _render_all(scope, version_conditions, sides)
    conditions = [*filters, *version_conditions]
    outputs, unqualified = _lower_select_list(cursor, select, conditions, sides, version_condition)
    if isinstance(pair.bound, Newest):
        _check_identity(cursor, select, filters, outputs)
    joining = Joining(
        left.resolved.relation,
        right.resolved.relation,
        (left.name, right.name),
        spec,
        outputs,
        _render_all(scope, filters, sides, version_condition),
        unqualified,
        merged=bool(join.using),
        clocks=(left.resolved.input_options.clock, right.resolved.input_options.clock),
    )
    return joining, spans


def _build_spec(
    cursor: Cursor, join: Join, left: Side, right: Side, bound: Bound, spans: dict[str, Span]
) -> JoinSpec:
    how: How = join.how  # type: ignore[assignment]
    rejects_nulls = isinstance(bound, Newest) or how in ("inner", "semi")
    nulls: JoinNulls = "reject" if rejects_nulls else "unmatched"
    try:
        return JoinSpec(left, right, bound, how, nulls=nulls)
    except OptionError as error:
        span = spans.get(error.option, join.span)
        problem = f"{error.option} {error.problem}"
        raise SqlError(cursor.sql, span, problem, _find_hint(error)) from error


def _collect_spans(select: Select, join: Join) -> dict[str, Span]:
    """Return the spans of the clauses of a join."""
    sources = {f"FROM {source.table}": source.span for source in (select.source, join.source)}
    named = {"select": select.span, "within": join.span, "on": join.span}
    return {**named, "FROM": select.source.span, **sources, **collect_emit_spans(select.emit)}


def _find_hint(error: OptionError) -> str:
    if error.option == "within":
        return "write OFFSET FOR (partition, offset) behind each table"
    if error.option == "time":
        return "write WATERMARK ts DELAY OF INTERVAL '1' MINUTE behind each table"
    return error.hint


def _check_clauses(cursor: Cursor, select: Select) -> None:
    if select.joins[0].is_not_in:
        hint = "write NOT EXISTS (SELECT ... WHERE a.id = b.id AND ...)"
        problem = "NOT IN is NULL as soon as one value is NULL, which a stream can't know"
        cursor.fail(select.joins[0].span, problem, hint)
    if len(select.joins) > 1:
        hint = "join two streams here, and the third in a query of its own"
        cursor.fail(select.joins[1].span, "three streams aren't joined at once", hint)
    if select.group or select.having is not None:
        hint = "name the pairs with WITH or CREATE VIEW, and group those"
        cursor.fail(select.group_span, "GROUP BY can't stand beside JOIN", hint)
    if select.distinct:
        cursor.fail(select.span, "DISTINCT can't stand beside JOIN", "leave it out")


def _lower_side(
    cursor: Cursor, source: FromItem, resolve: ResolveTable, over: exp.Window | None
) -> JoinSide:
    if isinstance(source.table, WindowCall):
        hint = "group by its windows in a query in parentheses, and join that"
        cursor.fail(source.span, "a side of a join is a table or a query", hint)
    if isinstance(source.table, Select) and source.alias is None:
        hint = "write (SELECT ...) AS one"
        cursor.fail(source.span, "this side of the join has no name", hint)
    resolved = resolve(source.table, source.alias)
    resolved = replace(
        resolved, input_options=merge_input_options(resolved.input_options, cursor, source)
    )
    if over is None:
        time = resolved.input_options.time or find_bound_column(resolved.relation, END)
        return JoinSide(resolved, source.name, None, None, time)
    scope = Scope(cursor, resolved.qualifiers)
    frame = lower_frame(scope, over)
    kind, length = frame.kind, frame.length
    if not frame.includes_row:
        cursor.fail(scope.locate(over), "the frame doesn't end with its row", OVER_HINT)
    order = find_order_column(scope, over)
    if kind == "RANGE" and order is None:
        cursor.fail(scope.locate(over), "RANGE needs the column of event times", OVER_HINT)
    watermark_time = resolved.input_options.time
    if kind == "RANGE" and watermark_time is not None and order != watermark_time:
        problem = f"the watermark follows {watermark_time}, the window is ordered by {order}"
        cursor.fail(scope.locate(over), problem, f"order by {watermark_time}")
    return JoinSide(resolved, source.name, kind, length, order or watermark_time)


def collect_conditions(select: Select, join: Join, *, where: bool = True) -> list[exp.Expr]:
    """Return the conditions of a pair, split at ``AND``.

    For ``FROM a, b`` these are the conditions in ``WHERE``. For an inner join they are those in
    ``ON`` and ``WHERE``, which mean the same.

    Args:
        select: Query of the join.
        join: One join of the query.
        where: Whether to include ``WHERE``, unless it filters the rows that the join emits.
    """
    conditions = [select.where] if join.is_comma_join else [join.on]
    if where and _where_bounds_pairs(select, join):
        conditions.append(select.where)
    parts: list[exp.Expr] = []
    for condition in filter(None, conditions):
        whole = condition.unnest()
        parts += whole.flatten() if isinstance(whole, exp.And) else [whole]
    return parts


def _where_bounds_pairs(select: Select, join: Join) -> bool:
    """Return whether ``WHERE`` bounds the pairs like ``ON``, rather than filters its rows."""
    of_versions = join.is_asof or join.source.as_of is not None
    return join.how == "inner" and not (join.is_comma_join or join.using or of_versions)


def _check_identity(
    cursor: Cursor, select: Select, filters: Sequence[exp.Expr], shown: tuple[Column, ...] | None
) -> None:
    """Refuse a join that emits pairs again unless each row shows its key and isn't filtered."""
    join = select.joins[0]
    if not join.using:
        hint = "write USING (k, window_start, window_end): each row shows its key, once"
        cursor.fail(join.span, "a pair that is emitted again is identified by its key", hint)
    if filters:
        span = Scope(cursor).locate(filters[0])
        problem = "WHERE couldn't remove a pair that it doesn't select any more"
        cursor.fail(span, problem, "filter the rows of the table that you write to")
    if shown is None:
        return
    shown_names = {
        c.name.lower() for c in shown if c.text.rpartition(".")[2].lower() == c.name.lower()
    }
    for name in join.using:
        if name.lower() not in shown_names:
            hint = "add it to the select list"
            cursor.fail(select.span, f"a pair is identified by {name}, which isn't shown", hint)


def render_sides(
    scope: Scope, node: exp.Expr, sides: Sides, version_condition: str | None = None
) -> str:
    """Return the text of an expression, with columns qualified by the names of their sides.

    With ``version_condition``, columns of the right side are NULL where it isn't true.
    """

    def render_part(part: exp.Expr) -> str | None:
        first = part.parts[0] if isinstance(part, exp.Column) and len(part.parts) > 1 else None
        if first is None or first.name.lower() not in sides:
            return None
        rest = scope.locate(first)[1], scope.locate_separable(part)[1]
        side = sides[first.name.lower()]
        text = SIDE_COLUMNS[side] + scope.text[slice(*rest)]
        if side == 0 or version_condition is None:
            return text
        return f"CASE WHEN {version_condition} THEN {text} END"

    return scope.rewrite(node, render_part)


def _render_all(
    scope: Scope, parts: Sequence[exp.Expr], sides: Sides, version_condition: str | None = None
) -> str | None:
    """Return the text of several conditions, all of which hold; ``None`` without any."""
    texts = [render_sides(scope, part, sides, version_condition) for part in parts]
    return " AND ".join(texts if len(texts) < 2 else [f"({text})" for text in texts]) or None


def _lower_select_list(
    cursor: Cursor,
    select: Select,
    conditions: Sequence[exp.Expr],
    sides: Sides,
    version_condition: str | None,
) -> tuple[tuple[Column, ...] | None, tuple[str, ...]]:
    """Return the output columns, and the names of unqualified columns in them and in conditions."""
    scope = Scope(cursor)
    unqualified = []
    for node in walk(*select.scalars, *conditions):
        if isinstance(node, exp.Column) and node.parts[0].name.lower() not in sides:
            unqualified.append(node.parts[0].name)
            if version_condition is not None:
                hint = "write the side before its name, as in rates.price"
                problem = "a condition beside AS OF needs to know the side of each column"
                scope.fail(scope.locate(node), problem, hint)
        if isinstance(node, exp.Window):
            hint = "compute it from the pairs"
            scope.fail(scope.locate(node), "OVER can't stand beside JOIN", hint)
    for item in select.items:
        if item.qualifier is not None:
            refuse_side_star(scope, item)
    if len(select.items) == 1 and select.items[0].scalar is None:
        if version_condition is not None:
            problem = "* doesn't show which columns a condition beside AS OF leaves NULL"
            scope.fail(select.items[0].span, problem, "name the columns")
        return None, tuple(unqualified)
    columns: list[Column] = []
    for item in select.items:
        if item.scalar is None:
            scope.fail(item.span, "* stands beside other columns", "name the columns")
        text = render_sides(scope, item.scalar, sides, version_condition)
        last = item.scalar.name if isinstance(item.scalar, exp.Column) else None
        name = item.alias or last or scope.render_with(item.scalar, {})
        if any(name.lower() == column.name.lower() for column in columns):
            hint = "give it another name with AS"
            scope.fail(item.span, f"two columns are called {name}", hint)
        columns.append(Column(name, text))
    return tuple(columns), tuple(unqualified)


def _split_conditions(
    cursor: Cursor,
    select: Select,
    join: Join,
    conditions: Sequence[exp.Expr],
    both_sides: tuple[JoinSide, JoinSide],
) -> tuple[list[tuple[str, str]], list[exp.Expr], list[exp.Expr]]:
    """Return the equal columns of a pair, the conditions that filter pairs, and those of versions.

    The version of a left row that fulfils no condition of a left join's versions is NULL.
    """
    has_all_conditions = join.is_comma_join or _where_bounds_pairs(select, join)
    filters = [] if select.where is None or has_all_conditions else [select.where]
    if join.using:
        return [(name, name) for name in join.using], filters, []
    sides = {side.name.lower(): index for index, side in enumerate(both_sides)}
    pairs = [(part, find_equated_columns(part, sides)) for part in conditions]
    equal_columns = [
        (both_sides[0].resolve_column(p[0]), both_sides[1].resolve_column(p[1]))
        for _, p in pairs
        if p is not None
    ]
    others = [part for part, pair in pairs if pair is None]
    if not equal_columns:
        span = Scope(cursor).locate(others[0]) if others else join.span
        cursor.fail(span, "a join compares equal columns, one of each side", _ON)
    if not others or join.how == "inner":
        return equal_columns, [*others, *filters], []
    if join.how != "left" or not (join.is_asof or join.source.as_of is not None):
        span = Scope(cursor).locate(others[0])
        cursor.fail(span, f"a {join.how} join compares equal columns only", _FILTERED)
    return equal_columns, filters, others
