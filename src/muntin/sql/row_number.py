"""The rows of windows, and the first of them by ``ROW_NUMBER``.

``SELECT * FROM TABLE(TUMBLE(...))`` shows the rows of windows. ``ROW_NUMBER() OVER (PARTITION BY
window_start, window_end ORDER BY ...)`` numbers the rows of each window, in a query by itself or
beside ``GROUP BY``. A bound, ``WHERE rownum <= 3`` around it or ``QUALIFY``, limits how many rows
of a window are kept.
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
    Expression,
    Ranking,
    Relation,
    Windowing,
    quote_name,
)
from muntin.model.ranking import moments, refuse
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
"""The number of rows kept per window while the query that bounds it hasn't been read yet."""
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
                hint = "give it a column of its own, and compute around it"
                name = find_aggregate_name(node.this).lower()
                scope.fail(scope.span(node), f"{name} is part of an expression", hint)
            numberings.append(
                NumberingCall(node, item.alias or find_aggregate_name(node.this).lower(), index)
            )
    for node in _walk_numberings(select.qualify):
        if not any(normalize(node, scope) == normalize(one.node, scope) for one in numberings):
            numberings.append(NumberingCall(node, find_aggregate_name(node.this).lower(), None))
    for other in numberings[1:]:
        hint = "rank them one after the other, in queries over queries"
        scope.fail(scope.span(other.node), "a query numbers its rows once", hint)
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
    number: NumberingCall,
) -> tuple[Windowing, WindowBinding | None]:
    """Return the numbered rows of a window function, or of windows that another query emits."""
    window = number.node
    name = number.function
    if window.args.get("spec") or window.args.get("alias") or window.this.expressions:
        scope.fail(scope.span(window), f"{name.lower()} has no frame and no argument", _USAGE)
    by, ascending = _lower_order(scope, window)
    ranking = Ranking(number.alias, by, ascending, UNLIMITED, (), call is None, name)
    parts = list(window.args.get("partition_by") or [])
    if call is not None:
        per = _remove_bounds(scope, window, parts, {START, END})
        return _lower_window_rows(scope, select, resolved, call, per, ranking)
    names = [find_bound_column(resolved.relation, bound) for bound in (START, END)]
    if None in names:
        hint = "number the rows of windows; of a stream they would have to be kept indefinitely"
        scope.fail(scope.span(window), "these rows are in no windows of time", hint)
    start, end = str(names[0]), str(names[1])
    per = _remove_bounds(scope, window, parts, {start, end})
    if select.emit is not None:
        hint = "leave EMIT out: each row is emitted once, when its windows are full"
        scope.fail(select.emit.spans["emit"], "rows of windows have no policy", hint)
    keys = (Column(FIRST, quote_name(start)), Column(LAST, quote_name(end)), *per)
    where = None if select.where is None else scope.plain(select.where)
    spec = replace(
        moments(end), keys=tuple(key.name for key in keys), aggregates=_build_aggregates(ranking)
    )
    windowing = Windowing(resolved.relation, spec, keys, where, ranking=ranking)
    return windowing, None


def _lower_window_rows(
    scope: Scope,
    select: Select,
    resolved: ResolvedRelation,
    call: WindowCall,
    per: tuple[Column, ...],
    ranking: Ranking,
) -> tuple[Windowing, WindowBinding]:
    meant = bind_window_call(scope.text, call, scope.qualifiers)
    marks, axis = resolved.marks, meant.windows.axis
    if axis == "time" and marks.time is not None and marks.time != meant.time:
        hint = f"measure windows on {marks.time}, or give {meant.time} the watermark"
        problem = f"the watermark is one of {marks.time}, the windows lie on {meant.time}"
        scope.fail(meant.spans.get("timecol", call.span), problem, hint)
    if axis != "time":
        hint = "measure the windows in time, or aggregate: top_k(...), collect_list(...)"
        scope.fail(call.span, "rows of windows that are measured in rows aren't shown", hint)
    keys = _collect_keys(scope, select, meant, per, ranking)
    try:
        spec = WindowSpec(
            keys=tuple(key.name for key in keys),
            time=meant.time,
            windows=meant.windows,
            aggregates=_build_aggregates(ranking),
            firing=lower_emit(scope.text, select.emit, axis),
            nulls="group",
            **{**marks.options, "offset": meant.offset or marks.offset},
        )
        refuse(spec)
    except OptionError as error:
        raise SqlError(scope.text, call.span, f"{error.value} {error.problem}", error.hint) from (
            error
        )
    where = None if select.where is None else scope.plain(select.where)
    windowing = Windowing(
        resolved.relation, spec, tuple(keys), where, clock=marks.clock, ranking=ranking
    )
    return windowing, meant


def _collect_keys(
    scope: Scope, select: Select, meant: WindowBinding, per: tuple[Column, ...], ranking: Ranking
) -> list[Column]:
    """Return the columns that partition the numbered rows and, for sessions, their windows."""
    if select.where is not None and meant.windows.retracts:
        hint = "filter before: WITH v AS (SELECT * FROM t WHERE ...), and TABLE v in the call"
        problem = "sessions are formed in FROM, before WHERE, and would change by it"
        scope.fail(scope.span(select.where), problem, hint)
    keys = list(per)
    for node in meant.partition:
        own = scope.own(node) if isinstance(node, exp.Column) else None
        if own is None or own.lower() not in {key.name.lower() for key in per}:
            if ranking.by:
                hint = f"add it to the PARTITION BY of {ranking.function}"
                scope.fail(scope.span(node), "sessions are partitioned by this", hint)
            keys.append(_lower_key(scope, node))
    return keys


def _build_aggregates(ranking: Ranking) -> dict[str, Aggregate]:
    row = Expression("all columns")
    if ranking.most is None:
        return {ROWS: collect_list(row)}
    most = max(ranking.most, 1)
    return {ROWS: first_rows(row, most, ranking.ascending, ranking.function)}


def selects_only_rows(select: Select) -> bool:
    """Return whether a query over a window function shows its rows and aggregates nothing."""
    scalars = [item.scalar for item in select.items if item.scalar is not None]
    computed = any(
        find_aggregate_name(node) or isinstance(node, exp.Window)
        for s in scalars
        for node in walk(s)
    )
    return not (select.group or select.distinct or select.having or computed)


def lower_all_rows(
    scope: Scope, select: Select, resolved: ResolvedRelation, call: WindowCall
) -> tuple[Windowing, WindowBinding]:
    """Return all rows of windows, for ``SELECT * FROM TABLE(TUMBLE(...))``."""
    return _lower_window_rows(scope, select, resolved, call, (), Ranking(NUMBER))


def _lower_order(scope: Scope, window: exp.Window) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    order = window.args.get("order")
    if order is None:
        scope.fail(scope.span(window), "rows are numbered in no order", _USAGE)
    by, ascending = [], []
    for one in order.expressions:
        down = bool(one.args.get("desc"))
        if bool(one.args.get("nulls_first")) == down:
            hint = "leave NULLS out: ascending they are first, descending last"
            scope.fail(scope.span(one), "nulls have their own place", hint)
        by.append(scope.plain(one.this))
        ascending.append(not down)
    return tuple(by), tuple(ascending)


def _lower_key(scope: Scope, node: exp.Expr) -> Column:
    own = scope.own(node) if isinstance(node, exp.Column) else None
    if own is None:
        hint = "compute it in a view, and name its column here"
        scope.fail(scope.span(node), "rows are partitioned by columns", hint)
    return Column(own, quote_name(own))


def _remove_bounds(
    scope: Scope, window: exp.Window, parts: list[exp.Expr], bounds: set[str]
) -> tuple[Column, ...]:
    """Return the columns of ``PARTITION BY`` without the bounds of windows, which it must have."""
    keys = [_lower_key(scope, node) for node in parts]
    low = {bound.lower() for bound in bounds}
    if not low <= {key.name.lower() for key in keys}:
        hint = f"add {' and '.join(sorted(bounds, reverse=True))} to PARTITION BY"
        scope.fail(scope.span(window), "rows aren't numbered by window", hint)
    return tuple(key for key in keys if key.name.lower() not in low)


def lower_select_list(
    scope: Scope, select: Select, windowing: Windowing, number: NumberingCall | None
) -> Choice:
    """Return the select list over the rows of windows."""
    own = {key.name.lower() for key in windowing.keys} | {START, END}
    columns: list[Column] = []
    for index, item in enumerate(select.items):
        if item.scalar is None:
            columns.append(Column("*", "*"))
        elif number is not None and index == number.item:
            columns.append(Column(number.alias, quote_name(number.alias)))
        else:
            text = scope.plain(item.scalar)
            bare = scope.own(item.scalar) if isinstance(item.scalar, exp.Column) else None
            column = Column(item.alias or bare or text, text)
            if column.name.lower() in own and (bare or "").lower() != column.name.lower():
                hint = "give it another name with AS"
                problem = f"{column.name} is a column of the output already"
                scope.fail(item.span, problem, hint)
            columns.append(column)
    if all(column.text == "*" or column.name == _alias(number) for column in columns):
        return Choice()
    return Choice(tuple(columns))


def _alias(number: NumberingCall | None) -> str | None:
    return None if number is None else number.alias


def limit_rows(scope: Scope, windowing: Windowing, condition: exp.Expr) -> Windowing:
    """Return numbered rows, limited to as many as a condition allows."""
    ranking = windowing.ranking
    assert ranking is not None
    bounds = _find_limits(scope, condition.unnest(), ranking.number)
    if not bounds:
        refuse_unlimited(scope, scope.span(condition), ranking)
    most, span = min(bounds)
    if not 1 <= most <= 10_000:
        hint = "give a whole number from 1 to 10000"
        scope.fail(span, "so many rows aren't kept of a window", hint)
    bounded_ranking = replace(ranking, most=most)
    choices = ranking.choices
    only = isinstance(condition.unnest(), exp.LTE | exp.LT | exp.GTE | exp.GT)
    firing = windowing.spec.firing
    if not only and (firing.early is not None or firing.grace):
        hint = "bound the number alone, or let windows emit once"
        scope.fail(scope.span(condition), "a row that was emitted may hold no more", hint)
    if not only:
        text = scope.rendered(condition, _find_replacements(scope, condition, ranking.number))
        choices = (*choices, Choice(None, text))
    bounded_ranking = replace(bounded_ranking, choices=choices)
    spec = replace(windowing.spec, aggregates=_build_aggregates(bounded_ranking))
    return replace(windowing, spec=spec, ranking=bounded_ranking)


def _find_replacements(scope: Scope, condition: exp.Expr, name: str) -> dict[Span, str]:
    """Return replacements for ``ROW_NUMBER`` and qualified columns in a condition over its rows."""
    swaps: dict[Span, str] = {}
    for node in walk(condition):
        if isinstance(node, exp.Window):
            swaps[scope.standing(node)] = quote_name(name)
        elif isinstance(node, exp.Column) and len(node.parts) > 1 and scope.own(node):
            swaps[scope.standing(node)] = quote_name(str(scope.own(node)))
    return swaps


def _find_limits(scope: Scope, node: exp.Expr, name: str) -> list[tuple[int, Span]]:
    """Return the upper bounds that a condition sets on the row number, with their spans."""
    if isinstance(node, exp.And):
        parts = (node.this.unnest(), node.expression.unnest())
        return [one for part in parts for one in _find_limits(scope, part, name)]
    low, high, less = _split_comparison(node)
    if low is None or high is None or not _is_row_number(scope, low, name):
        return []
    if not isinstance(high, exp.Literal) or not high.name.isdigit():
        return []
    return [(int(high.name) - less, scope.span(high))]


def _split_comparison(node: exp.Expr) -> tuple[exp.Expr | None, exp.Expr | None, int]:
    """Return the bounded expression, its bound, and 1 if the bound itself is excluded."""
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
    own = scope.own(node) if isinstance(node, exp.Column) else None
    return own is not None and own.lower() == name.lower()


def add_choice(windowing: Windowing, choice: Choice) -> Windowing:
    """Return the rows of windows with one more select list over them."""
    ranking = windowing.ranking
    assert ranking is not None
    if choice == Choice():
        return windowing
    return replace(windowing, ranking=replace(ranking, choices=(*ranking.choices, choice)))


def refuse_unlimited(scope: Scope, span: Span, ranking: Ranking) -> None:
    """Refuse numbered rows without a bound."""
    hint = _LIMIT_HINT.format(name=ranking.number)
    scope.fail(span, "every row of a window would be kept", hint)


def lacks_limit(relation: Relation) -> bool:
    """Return whether rows are numbered and have no bound yet."""
    ranking = relation.ranking if isinstance(relation, Windowing) else None
    return ranking is not None and ranking.most == UNLIMITED
