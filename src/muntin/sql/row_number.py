"""Lowers queries for the rows of windows, and for the first rows by ``ROW_NUMBER``.

``SELECT * FROM TABLE(TUMBLE(...))`` selects the rows of windows. ``ROW_NUMBER() OVER (PARTITION BY
window_start, window_end ORDER BY ...)`` numbers the rows of each window, or the results of windows
that an inner query groups. ``WHERE rownum <= 3`` around it, or ``QUALIFY``, limits how many rows of
a window the state has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from muntin.model.aggregates import Aggregate, collect_list, first_rows
from muntin.model.errors import OptionError, SqlError
from muntin.model.pipeline import (
    FIRST,
    LAST,
    NUMBER,
    ROWS,
    Choice,
    Column,
    Derived,
    Expression,
    Ranking,
    Relation,
    WindowRelation,
    quote_name,
)
from muntin.model.ranking import (
    make_windows_by_end,
    order_by_arrival,
    refuse_delayed,
    refuse_unrankable,
)
from muntin.model.spec import WindowSpec
from muntin.sql.aggregates import find_aggregate_name
from muntin.sql.catalog import ResolvedRelation, find_bound_column
from muntin.sql.cursor import Span
from muntin.sql.expressions import Scope, normalize, walk
from muntin.sql.select_list import END, START
from muntin.sql.syntax import Select, WindowCall
from muntin.sql.triggers import lower_emit
from muntin.sql.window_functions import WindowBinding, bind_window_call

NUMBERING_FUNCTIONS = ("ROW_NUMBER", "RANK", "DENSE_RANK")
"""The functions that number the rows of windows."""
UNLIMITED = -1
"""The limit of a ranking until the query around it, which has the limit, is lowered."""
_WINDOWS_HINT = (
    "number the rows of windows, such as FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), "
    "INTERVAL '1' HOUR)): all rows of a stream would be kept forever"
)
_USAGE = "write ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC)"
_LIMIT_HINT = "write WHERE {name} <= 3 around it, or QUALIFY {name} <= 3"


@dataclass(frozen=True)
class NumberingCall:
    """The one ``ROW_NUMBER``, ``RANK`` or ``DENSE_RANK`` of a query."""

    node: exp.Window
    alias: str
    item: int | None

    @property
    def function(self) -> str:
        """The name of the function, in capitals."""
        return find_aggregate_name(self.node.this)


def find_numbering(scope: Scope, select: Select) -> NumberingCall | None:
    """Return the numbering of a select list or ``QUALIFY``; ``None`` if there is none."""
    numberings: list[NumberingCall] = []
    for index, item in enumerate(select.items):
        for node in _walk_numberings(item.scalar):
            if node is not item.scalar.unnest():  # type: ignore[union-attr]
                hint = "give it a column of its own, and compute in a query around it"
                name = find_aggregate_name(node.this).lower()
                scope.fail(node, f"{name} can't be part of an expression", hint)
            numberings.append(
                NumberingCall(node, item.alias or find_aggregate_name(node.this).lower(), index)
            )
    for node in _walk_numberings(select.qualify):
        if not any(normalize(node, scope) == normalize(one.node, scope) for one in numberings):
            numberings.append(NumberingCall(node, find_aggregate_name(node.this).lower(), None))
    for other in numberings[1:]:
        hint = "number them one after the other, in nested queries"
        scope.fail(other.node, "a query can number its rows only once", hint)
    return numberings[0] if numberings else None


def _walk_numberings(node: exp.Expr | None) -> Iterator[exp.Window]:
    for one in () if node is None else walk(node):
        if isinstance(one, exp.Window) and find_aggregate_name(one.this) in NUMBERING_FUNCTIONS:
            yield one


def lower_numbering(
    scope: Scope,
    select: Select,
    resolved: ResolvedRelation,
    call: WindowCall | None,
    numbering: NumberingCall,
) -> tuple[WindowRelation, WindowBinding | None]:
    """Return the numbered rows of a window function, or of windows that another query emits."""
    window = numbering.node
    name = numbering.function
    if window.args.get("spec") or window.args.get("alias") or window.this.expressions:
        scope.fail(window, f"{name.lower()} takes no frame and no argument", _USAGE)
    sort_texts, ascending = _lower_order(scope, window)
    ranking = Ranking(numbering.alias, sort_texts, ascending, UNLIMITED, (), call is None, name)
    parts = list(window.args.get("partition_by") or [])
    if call is not None:
        ranking = replace(ranking, star=resolved.star)
        partition = _remove_bounds(scope, window, parts, {START, END})
        return _lower_window_rows(scope, select, resolved, call, partition, ranking)
    names = [find_bound_column(resolved.relation, bound) for bound in (START, END)]
    if None in names:
        scope.fail(window, "these rows aren't in windows of time", _WINDOWS_HINT)
    try:
        refuse_delayed(_find_window_spec(resolved.relation))
    except OptionError as error:
        scope.fail(window, f"{error.option} {error.problem}", error.hint)
    start, end = str(names[0]), str(names[1])
    partition = _remove_bounds(scope, window, parts, {start, end})
    if select.emit is not None:
        hint = "leave EMIT out: each row is emitted once, when its windows are complete"
        scope.fail(select.emit.spans["emit"], "numbered windows take no EMIT", hint)
    keys = (Column(FIRST, quote_name(start)), Column(LAST, quote_name(end)), *partition)
    where = None if select.where is None else scope.render(select.where)
    spec = replace(
        make_windows_by_end(end),
        keys=tuple(key.name for key in keys),
        aggregates=_build_aggregates(ranking),
    )
    windowing = WindowRelation(resolved.relation, spec, keys, where, ranking=ranking)
    return windowing, None


def _find_window_spec(relation: Relation) -> object:
    """Return the spec of the windows that a relation shows; ``None`` without windows."""
    while isinstance(relation, Derived):
        relation = relation.source
    return relation.spec if isinstance(relation, WindowRelation) else None


def _lower_window_rows(
    scope: Scope,
    select: Select,
    resolved: ResolvedRelation,
    call: WindowCall,
    partition: tuple[Column, ...],
    ranking: Ranking,
) -> tuple[WindowRelation, WindowBinding]:
    binding = bind_window_call(scope.text, call, scope.qualifiers)
    options, axis = resolved.input_options, binding.windows.axis
    binding.check_time(scope.text, options.on(axis).time, call.span)
    if axis != "time":
        hint = "measure the windows in time, or aggregate: top_k(...), collect_list(...)"
        scope.fail(call.span, "windows measured in rows can't be numbered", hint)
    keys = _collect_keys(scope, select, binding, partition, ranking)
    try:
        spec = WindowSpec(
            keys=tuple(key.name for key in keys),
            time=binding.time,
            windows=binding.windows,
            aggregates={},
            firing=lower_emit(scope.text, select.emit, axis),
            nulls="group",
            **{**options.options, "offset": binding.offset or options.offset},
        )
        refuse_unrankable(spec)
    except OptionError as error:
        raise SqlError(scope.text, call.span, f"{error.value} {error.problem}", error.hint) from (
            error
        )
    where = None if select.where is None else scope.render(select.where)
    ranking = order_by_arrival(ranking, spec)
    spec = replace(spec, aggregates=_build_aggregates(ranking))
    clock = options.find_clock(spec)
    windowing = WindowRelation(
        resolved.relation, spec, tuple(keys), where, clock=clock, ranking=ranking
    )
    return windowing, binding


def _collect_keys(
    scope: Scope,
    select: Select,
    binding: WindowBinding,
    partition: tuple[Column, ...],
    ranking: Ranking,
) -> list[Column]:
    """Return the columns that partition the numbered rows and their sessions."""
    if select.where is not None and binding.windows.retracts:
        hint = "filter before: WITH v AS (SELECT * FROM t WHERE ...), and TABLE v in the call"
        problem = "sessions are formed in FROM, before WHERE, and would change by it"
        scope.fail(select.where, problem, hint)
    keys = list(partition)
    for node in binding.partition:
        column_name = scope.find_column_name(node)
        if column_name is None or column_name.lower() not in {
            key.name.lower() for key in partition
        }:
            if ranking.by:
                hint = f"add it to the PARTITION BY of {ranking.function}"
                scope.fail(node, "this key of the sessions isn't in GROUP BY", hint)
            keys.append(_lower_key(scope, node))
    return keys


def _build_aggregates(ranking: Ranking) -> dict[str, Aggregate]:
    row = Expression("all columns")
    if ranking.most is None:
        return {ROWS: collect_list(row)}
    most = max(ranking.most, 1)
    return {ROWS: first_rows(row, most, ranking.ascending, ranking.function)}


def selects_only_rows(select: Select) -> bool:
    """Return whether a query over a window function selects its rows and aggregates nothing."""
    nodes = walk(*select.scalars)
    computed = any(find_aggregate_name(node) or isinstance(node, exp.Window) for node in nodes)
    return not (select.group or select.distinct or select.having or computed)


def lower_all_rows(
    scope: Scope, select: Select, resolved: ResolvedRelation, call: WindowCall
) -> tuple[WindowRelation, WindowBinding]:
    """Return all rows of windows, for ``SELECT * FROM TABLE(TUMBLE(...))``."""
    ranking = Ranking(NUMBER, star=resolved.star)
    return _lower_window_rows(scope, select, resolved, call, (), ranking)


def _lower_order(scope: Scope, window: exp.Window) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    order = window.args.get("order")
    if order is None:
        scope.fail(window, "ORDER BY is missing", _USAGE)
    sort_texts, ascending = [], []
    for one in order.expressions:
        is_descending = bool(one.args.get("desc"))
        if bool(one.args.get("nulls_first")) == is_descending:
            hint = "leave NULLS out: they are first in ascending order and last in descending order"
            scope.fail(one, "this order of nulls isn't supported", hint)
        sort_texts.append(scope.render(one.this))
        ascending.append(not is_descending)
    return tuple(sort_texts), tuple(ascending)


def _lower_key(scope: Scope, node: exp.Expr) -> Column:
    column_name = scope.find_column_name(node)
    if column_name is None:
        hint = "compute it in a view, and name its column here"
        scope.fail(node, "PARTITION BY needs columns", hint)
    return Column(column_name, quote_name(column_name))


def _remove_bounds(
    scope: Scope, window: exp.Window, parts: list[exp.Expr], bounds: set[str]
) -> tuple[Column, ...]:
    """Return the columns of ``PARTITION BY`` without the bounds of windows; refuse one without."""
    keys = [_lower_key(scope, node) for node in parts]
    low = {bound.lower() for bound in bounds}
    if not low <= {key.name.lower() for key in keys}:
        hint = f"add {' and '.join(sorted(bounds, reverse=True))} to PARTITION BY"
        scope.fail(window, "rows aren't numbered by window", hint)
    return tuple(key for key in keys if key.name.lower() not in low)


def lower_select_list(
    scope: Scope, select: Select, windowing: WindowRelation, numbering: NumberingCall | None
) -> Choice:
    """Return the select list over the rows of windows."""
    reserved = {key.name.lower() for key in windowing.keys} | {START, END}
    columns: list[Column] = []
    for index, item in enumerate(select.items):
        if item.scalar is None:
            columns.append(Column("*", "*"))
        elif numbering is not None and index == numbering.item:
            columns.append(Column(numbering.alias, quote_name(numbering.alias)))
        else:
            text = scope.render(item.scalar)
            own_name = scope.find_column_name(item.scalar)
            column = Column(item.alias or own_name or text, text)
            if column.name.lower() in reserved and (own_name or "").lower() != column.name.lower():
                hint = "give it another name with AS"
                problem = f"{column.name} is a column of the output already"
                scope.fail(item.span, problem, hint)
            columns.append(column)
    alias = None if numbering is None else numbering.alias
    if all(column.text == "*" or column.name == alias for column in columns):
        return Choice()
    return Choice(tuple(columns))


def limit_rows(scope: Scope, windowing: WindowRelation, condition: exp.Expr) -> WindowRelation:
    """Return numbered rows, limited by a condition on their number."""
    ranking = windowing.ranking
    assert ranking is not None
    bounds = _find_limits(scope, condition.unnest(), ranking.number)
    if not bounds:
        refuse_unlimited(scope, scope.locate(condition), ranking)
    row_limit, span = min(bounds)
    if not 1 <= row_limit <= 10_000:
        hint = "give a whole number from 1 to 10000"
        scope.fail(span, "the limit is out of range", hint)
    bounded_ranking = replace(ranking, most=row_limit)
    choices = ranking.choices
    bounds_only_number = isinstance(condition.unnest(), exp.LTE | exp.LT | exp.GTE | exp.GT)
    firing = windowing.spec.firing
    if not bounds_only_number and (firing.early is not None or firing.grace):
        hint = "limit the number alone, or let windows emit once"
        scope.fail(condition, "an emitted row may cease to satisfy this condition", hint)
    if not bounds_only_number:
        text = scope.render_with(condition, _find_replacements(scope, condition, ranking.number))
        choices = (*choices, Choice(None, text))
    bounded_ranking = replace(bounded_ranking, choices=choices)
    spec = replace(windowing.spec, aggregates=_build_aggregates(bounded_ranking))
    return replace(windowing, spec=spec, ranking=bounded_ranking)


def _find_replacements(scope: Scope, condition: exp.Expr, name: str) -> dict[Span, str]:
    """Return replacements for numbering calls and qualified columns in a condition."""
    replacements: dict[Span, str] = {}
    for node in walk(condition):
        if isinstance(node, exp.Window):
            replacements[scope.locate_separable(node)] = quote_name(name)
        elif isinstance(node, exp.Column) and len(node.parts) > 1 and scope.find_column_name(node):
            replacements[scope.locate_separable(node)] = quote_name(
                str(scope.find_column_name(node))
            )
    return replacements


def _find_limits(scope: Scope, node: exp.Expr, name: str) -> list[tuple[int, Span]]:
    """Return the limits that a condition sets on the row number, with their spans."""
    if isinstance(node, exp.And):
        parts = (node.this.unnest(), node.expression.unnest())
        return [one for part in parts for one in _find_limits(scope, part, name)]
    low, high, less = _split_comparison(node)
    if low is None or high is None or not _is_row_number(scope, low, name):
        return []
    if not isinstance(high, exp.Literal) or not high.name.isdigit():
        return []
    return [(int(high.name) - less, scope.locate(high))]


def _split_comparison(node: exp.Expr) -> tuple[exp.Expr | None, exp.Expr | None, int]:
    """Return the smaller and the greater side of a comparison; 1 if it is strict, else 0."""
    if isinstance(node, exp.LTE | exp.EQ):
        return node.this, node.expression, 0
    if isinstance(node, exp.LT):
        return node.this, node.expression, 1
    if isinstance(node, exp.GTE | exp.GT):
        return node.expression, node.this, int(isinstance(node, exp.GT))
    if isinstance(node, exp.Between):
        return node.this, node.args["high"], 0
    return None, None, 0


def _is_row_number(scope: Scope, node: exp.Expr, name: str) -> bool:
    if isinstance(node, exp.Window):
        return find_aggregate_name(node.this) in NUMBERING_FUNCTIONS
    column_name = scope.find_column_name(node)
    return column_name is not None and column_name.lower() == name.lower()


def add_choice(windowing: WindowRelation, choice: Choice) -> WindowRelation:
    """Return the rows of windows with one more select list over them."""
    ranking = windowing.ranking
    assert ranking is not None
    if choice == Choice():
        return windowing
    return replace(windowing, ranking=replace(ranking, choices=(*ranking.choices, choice)))


def refuse_unlimited(scope: Scope, span: Span, ranking: Ranking) -> None:
    """Refuse numbered rows without a limit."""
    hint = _LIMIT_HINT.format(name=ranking.number)
    scope.fail(span, "the number of rows has no limit", hint)


def lacks_limit(relation: Relation) -> bool:
    """Return whether a relation has numbered rows without a limit."""
    ranking = relation.ranking if isinstance(relation, WindowRelation) else None
    return ranking is not None and ranking.most == UNLIMITED


def has_rows_of_windows(relation: Relation) -> bool:
    """Return whether a relation has the rows of a window function, as ``SELECT *`` shows them."""
    ranking = relation.ranking if isinstance(relation, WindowRelation) else None
    return ranking is not None and not ranking.chained
