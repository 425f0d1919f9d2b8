"""Lowers joins of two streams to the same value as Python's ``join``.

``SELECT id, value, cost FROM Shipments JOIN Orders OVER (ROWS 3 PRECEDING) ON Orders.id =
Shipments.id`` is the first statement of the Samza SQL window operator design. In that design, a
side without a window keeps its rows forever. Here, the window of the other side bounds it too: its
partners are at most that far away, in either direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from muntin.model.bounds import AsOf, Bound, ByArrival
from muntin.model.errors import OptionError, SqlError
from muntin.model.joins import How, JoinNulls, JoinSpec, Side, set_default_policies
from muntin.model.pipeline import SIDE_COLUMNS, SUFFIX, Column, JoinRelation, quote_name
from muntin.sql import ksql
from muntin.sql.catalog import ResolvedRelation, find_bound_column, merge_input_options
from muntin.sql.cursor import Cursor, Span, find_span
from muntin.sql.expressions import Scope, walk
from muntin.sql.join_bounds import OVER_HINT, JoinSide, PairBound, lower_join_bound
from muntin.sql.join_conditions import (
    JOIN_KEY,
    BothSides,
    add_constant_key,
    apply_side_conditions,
    check_named_columns,
)
from muntin.sql.outer_query import refuse_side_star
from muntin.sql.over_aggregates import find_order_column, lower_frame
from muntin.sql.row_number import has_rows_of_windows
from muntin.sql.select_list import END, FLINK_ROWTIME, START
from muntin.sql.syntax import FromItem, Join, Select, SelectItem, TableExpression, WindowCall
from muntin.sql.time_bounds import Sides, find_equated_columns
from muntin.sql.triggers import collect_emit_spans, lower_emit

_ON = "write ON Orders.id = Shipments.id"

ResolveTable = Callable[[TableExpression, str | None], ResolvedRelation]
"""Resolves one side of a join from its table or query, and its alias."""


def lower_join(
    cursor: Cursor, select: Select, resolve: ResolveTable
) -> tuple[JoinRelation, dict[str, Span]]:
    """Return a join and the spans of its clauses.

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
    conditions = _split_conditions(cursor, select, pair, (left, right))
    (left, right), equal_columns = conditions.sides, conditions.equal_columns
    firing = set_default_policies(lower_emit(cursor.sql, emit, pair.bound.axis, is_join=True))
    parts = zip((left, right), zip(*equal_columns, strict=True), pair.times, strict=True)
    left_spec, right_spec = (
        Side(keys, time, firing=firing, **side.resolved.input_options.on(pair.bound.axis).options)
        for side, keys, time in parts
    )
    spans = _collect_spans(select, join)
    nulls = _choose_nulls(join, pair.bound, conditions)
    spec = _build_spec(cursor, left_spec, right_spec, pair.bound, join, nulls, spans)
    renderer, filters = _make_renderer(cursor, select, conditions), conditions.filters
    outputs, unqualified = _lower_select_list(cursor, select, conditions, renderer, pair.bound)
    if pair.bound.revises:
        _check_identity(cursor, select, filters, outputs)
    texts = [renderer.render(part) for part in filters]
    where = " AND ".join(texts if len(texts) < 2 else [f"({text})" for text in texts]) or None
    joining = JoinRelation(
        left.resolved.relation,
        right.resolved.relation,
        (left.name, right.name),
        spec,
        outputs,
        where,
        unqualified,
        merged=bool(join.using),
        clocks=(left.find_clock(spec.left), right.find_clock(spec.right)),
    )
    return joining, spans


def _check_primary_key(
    cursor: Cursor, join: Join, side: JoinSide, bound: Bound, keys: Sequence[str]
) -> None:
    """Refuse a join with the versions of a table by other columns than its primary key."""
    primary_key = side.resolved.primary_key if isinstance(bound, AsOf | ByArrival) else ()
    if primary_key and {*map(str.lower, primary_key)} != {*map(str.lower, keys)}:
        problem = (
            f"a row is identified by ({', '.join(primary_key)}), the primary key of "
            f"{join.source.name}, and ON compares ({', '.join(keys)})"
        )
        cursor.fail(join.span, problem, "compare the whole key, or correct PRIMARY KEY")


def _build_spec(
    cursor: Cursor,
    left: Side,
    right: Side,
    bound: Bound,
    join: Join,
    nulls: JoinNulls,
    spans: dict[str, Span],
) -> JoinSpec:
    how: How = join.how  # type: ignore[assignment]
    try:
        return JoinSpec(left, right, bound, how, nulls=nulls)
    except OptionError as error:
        span = spans.get(error.option, join.span)
        problem = f"{error.option} {error.problem}"
        raise SqlError(cursor.sql, span, problem, _find_hint(error)) from error


def _choose_nulls(join: Join, bound: Bound, conditions: _JoinConditions) -> JoinNulls:
    """Return the treatment of NULL keys that SQL requires."""
    if conditions.groups_nulls:
        return "group"
    rejects = bound.revises or join.how in ("inner", "semi")
    return "reject" if rejects else "unmatched"


def _collect_spans(select: Select, join: Join) -> dict[str, Span]:
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
    if select.qualify is not None:
        hint = "join in a view, and number its windows"
        Scope(cursor).fail(select.qualify, "QUALIFY can't be combined with JOIN", hint)
    if select.distinct:
        cursor.fail(select.span, "DISTINCT can't be combined with JOIN", "leave it out")


def _lower_side(
    cursor: Cursor, source: FromItem, resolve: ResolveTable, over: exp.Window | None
) -> JoinSide:
    if not isinstance(source.table, str) and source.alias is None:
        hint = "write (SELECT ...) AS one"
        if isinstance(source.table, WindowCall):
            hint = f"write TABLE({source.table.name}(...)) AS one"
        cursor.fail(source.span, "this side of the join has no name", hint)
    if isinstance(source.table, WindowCall):
        rows = _select_rows(replace(source, alias=None))
        source = replace(source, table=rows, watermark=None, offset=None)
    assert not isinstance(source.table, WindowCall)
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
        scope.fail(over, "the frame doesn't end with its row", OVER_HINT)
    order = find_order_column(scope, over)
    if kind == "RANGE" and order is None:
        scope.fail(over, "RANGE needs the column of event times", OVER_HINT)
    watermark_time = resolved.input_options.time
    if kind == "RANGE" and watermark_time is not None and order != watermark_time:
        problem = f"the watermark follows {watermark_time}, the window is ordered by {order}"
        scope.fail(over, problem, f"order by {watermark_time}")
    return JoinSide(resolved, source.name, kind, length, order or watermark_time)


def _select_rows(source: FromItem) -> Select:
    """Return ``SELECT *`` over a window function."""
    return Select((SelectItem(None, None, source.span),), source, source.span, source.span)


def collect_conditions(select: Select, join: Join, *, where: bool = True) -> list[exp.Expr]:
    """Return the conditions of a pair, split at ``AND``.

    For ``FROM a, b`` these are the conditions in ``WHERE``. For an inner join they are those in
    ``ON`` and ``WHERE``, which mean the same, unless ``where`` is false.
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
    return join.how == "inner" and not (join.is_comma_join or of_versions)


def _check_identity(
    cursor: Cursor, select: Select, filters: Sequence[exp.Expr], shown: tuple[Column, ...] | None
) -> None:
    """Refuse a join that emits pairs again unless each row shows its key and isn't filtered."""
    join = select.joins[0]
    if not join.using:
        hint = "write USING (k, window_start, window_end): each row shows its key, once"
        cursor.fail(join.span, "EMIT CHANGES needs the keys of both sides under one name", hint)
    if filters:
        hint = "filter the rows of the table that you write to"
        Scope(cursor).fail(filters[0], "WHERE and EMIT CHANGES can't be combined", hint)
    if shown is None:
        return
    shown_names = {
        c.name.lower() for c in shown if c.text.rpartition(".")[2].lower() == c.name.lower()
    }
    for name in join.using:
        if name.lower() not in shown_names:
            hint = "add it to the select list"
            cursor.fail(select.span, f"EMIT CHANGES needs the key {name} in the output", hint)


AdaptColumn = Callable[[int, exp.Expr, str], str]
"""Returns the text for a column of a pair: its side, its node, and its text as it is."""


def render_sides(
    scope: Scope,
    node: exp.Expr,
    sides: Sides,
    adapt: AdaptColumn | None = None,
    *,
    only_left: bool = False,
) -> str:
    """Return the text of an expression, with columns qualified by the names of their sides.

    With ``only_left``, columns without a qualifier belong to the left side.
    """

    def render_part(part: exp.Expr) -> str | None:
        if not isinstance(part, exp.Column):
            return None
        first = part.parts[0]
        if len(part.parts) < 2 or first.name.lower() not in sides:
            if not only_left:
                return None
            text = f"{SIDE_COLUMNS[0]}.{scope.text[slice(*scope.locate_separable(part))]}"
            return text if adapt is None else adapt(0, part, text)
        start, end = scope.locate_separable(part)
        index = sides[first.name.lower()]
        if find_span(first) is None:  # a subquery's column, which has no qualifier in the text
            text = f"{SIDE_COLUMNS[index]}.{scope.text[start:end]}"
        else:
            text = SIDE_COLUMNS[index] + scope.text[scope.locate(first)[1] : end]
        return text if adapt is None else adapt(index, part, text)

    return scope.rewrite(node, render_part)


@dataclass(frozen=True)
class PairRenderer:
    """Renders expressions over the pairs of a join.

    Attributes:
        sides: Side of each qualifier of columns.
        row_windows: Sides with the rows of window functions, where Flink has ``window_time``.
        version: Condition that a left row's version fulfils; otherwise its columns are NULL.
        only_left: Whether the join shows columns of its left side alone.
    """

    cursor: Cursor
    sides: Sides
    row_windows: frozenset[int] = frozenset()
    version: str | None = None
    only_left: bool = False

    def render(self, node: exp.Expr) -> str:
        """Return the text of an expression over pairs."""
        scope = Scope(self.cursor)
        return render_sides(scope, node, self.sides, self._adapt, only_left=self.only_left)

    def is_unclear(self, column: exp.Column) -> bool:
        """Return whether a column may belong to either side, since it isn't qualified."""
        return not self.only_left and column.parts[0].name.lower() not in self.sides

    def _adapt(self, side: int, column: exp.Expr, text: str) -> str:
        if side in self.row_windows and column.name.lower() == "window_time":
            text = FLINK_ROWTIME.replace(END, f"{SIDE_COLUMNS[side]}.{END}")
        if side == 1 and self.version is not None:
            return f"CASE WHEN {self.version} THEN {text} END"
        return text


def _make_renderer(cursor: Cursor, select: Select, conditions: _JoinConditions) -> PairRenderer:
    sides = {side.name.lower(): index for index, side in enumerate(conditions.sides)}
    if conditions.version is not None:
        check_named_columns(cursor, select)
    row_windows = {
        index
        for index, side in enumerate(conditions.sides)
        if has_rows_of_windows(side.resolved.relation)
    }
    only_left = select.joins[0].how in ("semi", "anti")
    return PairRenderer(cursor, sides, frozenset(row_windows), conditions.version, only_left)


def _lower_select_list(
    cursor: Cursor,
    select: Select,
    conditions: _JoinConditions,
    renderer: PairRenderer,
    bound: Bound,
) -> tuple[tuple[Column, ...] | None, tuple[str, ...]]:
    """Return the output columns, and the names of unqualified columns in them and in filters."""
    scope, sides = Scope(cursor), renderer.sides
    unqualified = []
    for node in walk(*select.scalars, *conditions.filters):
        if isinstance(node, exp.Column) and renderer.is_unclear(node):
            unqualified.append(node.parts[0].name)
            if renderer.version is not None:
                hint = f"write {' or '.join(f'{side}.{node.name}' for side in sides)}"
                scope.fail(node, f"{node.name} may be a column of either side", hint)
        if isinstance(node, exp.Window):
            hint = "compute it from the pairs"
            scope.fail(node, "OVER can't be combined with JOIN", hint)
    for item in select.items:
        if item.qualifier is not None:
            refuse_side_star(scope, item)
    if len(select.items) == 1 and select.items[0].scalar is None:
        stars = None if bound.revises else _expand_star(select, conditions)
        return stars, tuple(unqualified)
    columns: list[Column] = []
    for item in select.items:
        if item.scalar is None:
            scope.fail(item.span, "* can't be combined with other columns", "name the columns")
        text = renderer.render(item.scalar)
        last = item.scalar.name if isinstance(item.scalar, exp.Column) else None
        name = item.alias or last or scope.render_with(item.scalar, {})
        if any(name.lower() == column.name.lower() for column in columns):
            hint = "give it another name with AS"
            scope.fail(item.span, f"two columns are called {name}", hint)
        columns.append(Column(name, text))
    return tuple(columns), tuple(unqualified)


def _expand_star(select: Select, conditions: _JoinConditions) -> tuple[Column, ...] | None:
    """Return the declared columns of both sides; ``None`` if some aren't known."""
    join = select.joins[0]
    left, right = (side.resolved.star for side in conditions.sides)
    if not (left and right) or conditions.version is not None:
        return None
    shared = {name.lower() for name in join.using}
    taken = {name.lower() for name in left}
    side = f"{SIDE_COLUMNS[0]}."
    columns = [
        Column(name, f"{'' if name.lower() in shared else side}{quote_name(name)}") for name in left
    ]
    for name in () if join.how in ("semi", "anti") else right:
        if name.lower() not in shared:
            shown = f"{name}{SUFFIX}" if name.lower() in taken else name
            columns.append(Column(shown, f"{SIDE_COLUMNS[1]}.{quote_name(name)}"))
    return tuple(columns)


@dataclass(frozen=True)
class _JoinConditions:
    """The conditions of a join by what they do.

    Attributes:
        sides: Both sides, with their own conditions where the join isn't an inner one.
        equal_columns: Equal columns, left and right.
        version: Condition of a left join with versions; see ``PairRenderer``.
        groups_nulls: Whether NULL equals NULL, as with ``IS NOT DISTINCT FROM``.
    """

    sides: BothSides
    equal_columns: list[tuple[str, str]]
    filters: list[exp.Expr]
    version: str | None = None
    groups_nulls: bool = False


def _split_conditions(
    cursor: Cursor, select: Select, pair: PairBound, both_sides: BothSides
) -> _JoinConditions:
    """Split the conditions of a pair beside its bound by what they do."""
    join = select.joins[0]
    has_all_conditions = join.is_comma_join or _where_bounds_pairs(select, join)
    filters = [] if select.where is None or has_all_conditions else [select.where]
    if join.using:
        _check_primary_key(cursor, join, both_sides[1], pair.bound, join.using)
        filters = [*pair.rest, *filters] if has_all_conditions else filters
        return _JoinConditions(both_sides, [(name, name) for name in join.using], filters)
    sides = {side.name.lower(): index for index, side in enumerate(both_sides)}
    equal_columns, others, nulls = _find_equal_columns(pair, both_sides, sides)
    right_keys = [name for _, name in equal_columns]
    _check_primary_key(cursor, join, both_sides[1], pair.bound, right_keys)
    if not equal_columns:
        unclear = [part for part in others if isinstance(part, exp.EQ | exp.NullSafeEQ)]
        if unclear or join.source.as_of is not None:
            span = Scope(cursor).locate(unclear[0]) if unclear else join.span
            cursor.fail(span, "a join compares equal columns, one of each side", _ON)
        both_sides = add_constant_key(cursor, select, both_sides)
        equal_columns = [(JOIN_KEY, JOIN_KEY)]
    groups_nulls = nulls is not None
    if join.how == "inner":
        filters, others = [*others, *filters], []
    if not (others or nulls):
        return _JoinConditions(both_sides, equal_columns, filters, groups_nulls=groups_nulls)
    if isinstance(pair.bound, AsOf | ByArrival):
        texts = [f"({render_sides(Scope(cursor), part, sides)})" for part in others]
        return _JoinConditions(both_sides, equal_columns, filters, " AND ".join(texts))
    both_sides, has_key = apply_side_conditions(cursor, select, others, both_sides, nulls or ())
    if has_key:
        equal_columns = [*equal_columns, (JOIN_KEY, JOIN_KEY)]
    return _JoinConditions(both_sides, equal_columns, filters, groups_nulls=groups_nulls)


def _find_equal_columns(
    pair: PairBound, both_sides: BothSides, sides: Sides
) -> tuple[list[tuple[str, str]], list[exp.Expr], list[tuple[str, str]] | None]:
    """Return the equal columns of a pair, the other conditions, and the treatment of NULL.

    The last is ``None`` where NULL equals nothing. With ``IS NOT DISTINCT FROM``, NULL equals NULL
    in all keys, and it is the list of those compared by ``=``, where NULL still has no partner. The
    bounds and times of windows are never NULL.
    """
    equal: list[tuple[str, str]] = []
    null_safe: list[tuple[str, str]] = []
    others: list[exp.Expr] = []
    for part in pair.rest:
        names = find_equated_columns(part, sides)
        safe_names = find_equated_columns(part, sides, exp.NullSafeEQ)
        equated = names or safe_names
        if equated is None:
            others.append(part)
            continue
        columns = both_sides[0].resolve_column(equated[0]), both_sides[1].resolve_column(equated[1])
        if names is None:
            null_safe.append(columns)
        elif columns not in equal:
            equal.append(columns)
    if null_safe and pair.bound.has_range:
        times = {(START, START), (END, END), (both_sides[0].time, both_sides[1].time)}
        return (
            [*equal, *dict.fromkeys(null_safe)],
            others,
            [columns for columns in equal if columns not in times],
        )
    distinct = [part for part in pair.rest if isinstance(part, exp.NullSafeEQ)]
    return equal, [*others, *(part for part in distinct if part not in others)], None
