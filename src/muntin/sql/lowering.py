"""Lowers a query that was read to the value that the equivalent Python query makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from sqlglot import exp

from muntin.model.errors import OptionError, SqlError
from muntin.model.inputs import InputOptions
from muntin.model.pipeline import Column, Derived, Order, Query, Values, Windowing
from muntin.sql import ksql, over_aggregates, row_number
from muntin.sql.aggregates import find_aggregate_name
from muntin.sql.catalog import Catalog, ResolvedRelation, merge_input_options
from muntin.sql.cursor import Cursor, Span, WindowNode, window_call_of
from muntin.sql.expressions import Scope, walk
from muntin.sql.foreign_functions import find_rounded_time
from muntin.sql.grouped_select import GroupedSelectList
from muntin.sql.join_bounds import refuse_unbounded_join
from muntin.sql.joins import ResolveTable, lower_join
from muntin.sql.lookups import lower_lookups
from muntin.sql.order_by import lower_order_by
from muntin.sql.outer_query import check_qualified_stars, lower_outer_query
from muntin.sql.regrouping import lower_regrouping
from muntin.sql.select_list import END, START, SelectList
from muntin.sql.syntax import (
    CreateView,
    FromItem,
    OrderBy,
    Select,
    TableExpression,
    WindowCall,
    WindowClause,
)
from muntin.sql.triggers import collect_emit_spans, lower_emit
from muntin.sql.unions import lower_union
from muntin.sql.window_functions import WindowBinding, bind_window_call, mean_same_windows

_WINDOWS = (
    "write for example FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) "
    "GROUP BY ..., window_start, window_end"
)


@dataclass(frozen=True)
class LoweredQuery:
    """A windowed query and the spans of its parts.

    Attributes:
        query: Lowered query.
        spans: Spans of the clauses in the text, by the names of the Python options.
        places: Spans of the expressions that Spark is handed, by their text.
        order: Order in which the rows of a batch are shown, if there is one.
    """

    query: Query
    spans: dict[str, Span]
    places: Mapping[str, Span] = field(default_factory=dict)
    order: Order | None = None

    def place(self, error: OptionError) -> Span:
        """Return the span of the clause that an error is about."""
        return find_option_span(self.spans, error)


def find_option_span(spans: Mapping[str, Span], error: OptionError) -> Span:
    """Return the span of a refused key, aggregate or option; the query's if it has none."""
    # The value of an aggregate's error begins with its name, which may be a prefix of another name.
    begun = f"{error.option} {error.value}="
    named = (part for part in spans if begun.startswith(f"{part}="))
    return spans.get(max(named, key=len, default=error.option)) or spans["select"]


def lower_query(
    cursor: Cursor, select: Select, catalog: Catalog, *, outermost: bool = False
) -> LoweredQuery | ResolvedRelation:
    """Lower a query; the rows of the outermost one are emitted.

    Returns:
        A windowed query, rows that are chosen and computed one by one, or a join.
    """
    catalog = catalog.copy()
    for view in select.views:
        add_view(cursor, view, catalog)
    if select.united:
        return lower_union(cursor, select, partial(lower_query, cursor, catalog=catalog), outermost)
    rows = partial(_resolve_source, cursor, select.source, catalog)
    resolve = partial(_resolve_join_side, cursor, catalog)
    read = lower_lookups(cursor, select, catalog, resolve, rows) if select.joins else rows()
    if read is None:
        found: LoweredQuery | ResolvedRelation = _lower_join(cursor, select, resolve)
    else:
        found = _lower_over_relation(cursor, select, *read, outermost)
    if select.ordering is None:
        return found
    return _apply_order(cursor, select, select.ordering, found, outermost)


def _apply_order(
    cursor: Cursor,
    select: Select,
    said: OrderBy,
    found: LoweredQuery | ResolvedRelation,
    outermost: bool,
) -> LoweredQuery | ResolvedRelation:
    """Return a query whose rows are ordered or limited."""
    if not outermost:
        hint = "put it behind the outermost query; the first rows of each window are ROW_NUMBER's"
        cursor.fail(said.span, "ORDER BY and LIMIT aren't taken within a query", hint)
    if not isinstance(found, LoweredQuery):
        return found
    spans = {**found.spans, "ORDER BY": said.span}
    return replace(found, spans=spans, order=lower_order_by(cursor, select, said))


def _lower_join(cursor: Cursor, select: Select, resolve: ResolveTable) -> LoweredQuery:
    """Lower a join of streams."""
    if select.qualify is not None:
        span = Scope(cursor).span(select.qualify)
        hint = "join in a view, and number its windows"
        cursor.fail(span, "QUALIFY isn't taken beside JOIN", hint)
    return LoweredQuery(*lower_join(cursor, select, resolve), cursor.places)


def _lower_over_relation(
    cursor: Cursor,
    select: Select,
    call: WindowCall | None,
    resolved: ResolvedRelation,
    outermost: bool,
) -> LoweredQuery | ResolvedRelation:
    """Lower a query over resolved rows."""
    scope = Scope(cursor, resolved.qualifiers)
    check_qualified_stars(scope, select, resolved.relation, call)
    if row_number.lacks_limit(resolved.relation):
        return _lower_limit(scope, select, resolved, call)
    number = row_number.find_numbering(scope, select)
    if select.qualify is not None and number is None:
        hint = "write HAVING, or QUALIFY ROW_NUMBER() OVER (...) <= 3"
        scope.fail(scope.span(select.qualify), "QUALIFY is about no row_number or rank", hint)
    if number is not None:
        return _lower_numbering(scope, select, resolved, call, number)
    if select.window is not None:
        return _lower_ksql_window(cursor, select, select.window, resolved)
    if call is not None and row_number.selects_only_rows(select):
        made, meant = row_number.lower_all_rows(scope, select, resolved, call)
        chosen = row_number.add_choice(
            made, row_number.lower_select_list(scope, select, made, None)
        )
        return _finish_query(scope, select, chosen, meant)
    over = any(isinstance(node, exp.Window) for node in walk(*select.scalars))
    if over and call is None:
        return _build_windowing(
            scope, select, resolved, *over_aggregates.lower_over_aggregates(scope, select, resolved)
        )
    found = call or _find_grouping_call(scope, select)
    if found is None:
        groups = lower_regrouping(scope, select, resolved) if select.group else None
        if groups is not None:
            return _build_windowing(scope, select, resolved, *groups)
        return _lower_ungrouped(scope, select, resolved, outermost)
    return _lower_grouped(scope, select, resolved, found, from_call=call is not None)


def _lower_ungrouped(
    scope: Scope, select: Select, resolved: ResolvedRelation, outermost: bool
) -> LoweredQuery | ResolvedRelation:
    """Lower a query that groups nothing: it chooses and computes rows, or results of windows."""
    made = resolved.relation
    if select.joins and outermost and not isinstance(made, Windowing):
        # The query joins streams, so what it lacks is a bound rather than a window.
        refuse_unbounded_join(scope.cursor, select.joins[0])
    rows = _lower_projection(scope, select, resolved)
    if isinstance(made, Windowing) and (outermost or made.lookups):
        return _finish_query(scope, select, lower_outer_query(scope, select, made))
    return rows


def _lower_numbering(
    scope: Scope,
    select: Select,
    resolved: ResolvedRelation,
    call: WindowCall | None,
    number: row_number.NumberingCall,
) -> LoweredQuery | ResolvedRelation:
    """Lower a query that numbers the rows of windows."""
    if select.group or select.window or select.having or select.distinct:
        hint = "number the rows of the grouped query, in a query around it"
        problem = f"{number.function.lower()} can't stand beside GROUP BY or DISTINCT"
        scope.fail(scope.span(number.node), problem, hint)
    made, meant = row_number.lower_numbering(scope, select, resolved, call, number)
    choice = row_number.lower_select_list(scope, select, made, number)
    if select.qualify is not None:
        return _finish_query(
            scope,
            select,
            row_number.add_choice(row_number.limit_rows(scope, made, select.qualify), choice),
            meant,
        )
    return replace(
        resolved, relation=row_number.add_choice(made, choice), marks=InputOptions(max_ahead=None)
    )


def _lower_limit(
    scope: Scope, select: Select, resolved: ResolvedRelation, call: WindowCall | None
) -> LoweredQuery:
    """Lower a query around numbered rows, which bounds their number."""
    made = resolved.relation
    assert isinstance(made, Windowing)
    assert made.ranking is not None
    plain = not (select.group or select.distinct or select.having or select.qualify)
    if (
        select.where is None
        or not plain
        or call is not None
        or row_number.find_numbering(scope, select)
    ):
        row_number.refuse_unlimited(scope, select.span, made.ranking)
    if select.emit is not None:
        hint = "put EMIT into the query that numbers rows"
        scope.fail(select.emit.spans["emit"], "these rows were emitted before", hint)
    assert select.where is not None
    bounded = row_number.limit_rows(scope, made, select.where)
    return _finish_query(
        scope,
        select,
        row_number.add_choice(bounded, row_number.lower_select_list(scope, select, made, None)),
    )


def _finish_query(
    scope: Scope, select: Select, made: Windowing, meant: WindowBinding | None = None
) -> LoweredQuery:
    spans = _collect_spans(select)
    if meant is not None:
        spans |= meant.spans
    return LoweredQuery(made, {**spans, **collect_emit_spans(select.emit)}, scope.cursor.places)


def _collect_spans(select: Select) -> dict[str, Span]:
    """Return the spans of the parts that every query may have."""
    joined = {"JOIN": select.joins[0].span} if select.joins else {}
    return {"select": select.span, "FROM": select.source.span, **joined}


def _lower_ksql_window(
    cursor: Cursor, select: Select, window: WindowClause, resolved: ResolvedRelation
) -> LoweredQuery:
    """Lower a query with ksqlDB's ``WINDOW``."""
    call = ksql.build_window_call(window, cursor, resolved)
    marks = resolved.marks
    late = marks.lateness + ksql.find_extra_lateness(window, select.emit)
    resolved = replace(resolved, marks=replace(marks, lateness=late))
    select = replace(select, emit=ksql.add_window_lengths(window, cursor, select.emit))
    return _lower_grouped(
        Scope(cursor, resolved.qualifiers), select, resolved, call, from_call=False
    )


def add_view(cursor: Cursor, view: CreateView, catalog: Catalog) -> None:
    """Define a view of a query's rows."""
    catalog.add_view(cursor, view, _to_relation(lower_query(cursor, view.select, catalog)))


def _to_relation(found: LoweredQuery | ResolvedRelation) -> ResolvedRelation:
    """Return a query's rows as a relation that another query reads."""
    if isinstance(found, ResolvedRelation):
        return found
    # The inner query has judged its messages already.
    return ResolvedRelation(found.query, InputOptions(max_ahead=None), frozenset())


def _resolve_table(
    cursor: Cursor, catalog: Catalog, item: TableExpression, alias: str | None
) -> ResolvedRelation:
    """Resolve a table, a view, or a query or rows in parentheses."""
    if isinstance(item, str):
        return catalog.resolve(item, alias)
    names = frozenset({alias.lower()} if alias else ())
    if isinstance(item, Values):
        return ResolvedRelation(item, InputOptions(), names)
    return replace(_to_relation(lower_query(cursor, item, catalog)), qualifiers=names)


def _resolve_join_side(
    cursor: Cursor, catalog: Catalog, item: TableExpression, alias: str | None
) -> ResolvedRelation:
    """Resolve a side of a join."""
    found = _resolve_table(cursor, catalog, item, alias)
    if row_number.lacks_limit(found.relation):
        hint = "bound the number first, as in WHERE rownum <= 3"
        span = item.span if isinstance(item, Select) else (0, 1)
        cursor.fail(span, f"of {alias or item} every row of a window would be kept", hint)
    return found


def _resolve_source(
    cursor: Cursor, source: FromItem, catalog: Catalog
) -> tuple[WindowCall | None, ResolvedRelation]:
    """Resolve the relation after ``FROM``; return it with the window function around it."""
    item, call = source.item, None
    if isinstance(item, WindowCall):
        call = item
        meant = bind_window_call(cursor.sql, item)
        if meant.table is None:
            hint = f"write {item.name}(TABLE t, DESCRIPTOR(ts), ...)"
            cursor.fail(item.span, f"{item.name} names no table", hint)
        resolved = _resolve_table(cursor, catalog, meant.table, None)
        qualifiers = resolved.qualifiers | ({source.alias.lower()} if source.alias else set())
        resolved = replace(resolved, qualifiers=qualifiers)
    else:
        resolved = _resolve_table(cursor, catalog, item, source.alias)
    return call, replace(resolved, marks=merge_input_options(resolved.marks, cursor, source))


def _find_grouping_call(scope: Scope, select: Select) -> WindowCall | None:
    """Return the one window function that a query groups by; ``None`` if it has none."""
    places = [*select.group, *select.scalars, *([select.having] if select.having else ())]
    calls = [window_call_of(n) for n in walk(*places) if isinstance(n, WindowNode)]
    if not calls:
        return None
    for other in calls[1:]:
        if not mean_same_windows(calls[0], other, scope.text, scope.qualifiers):
            hint = "give all of them the same column and lengths"
            scope.fail(other.span, "a query has windows of one kind", hint)
    found: WindowCall = calls[0]
    return found


def _lower_projection(scope: Scope, select: Select, resolved: ResolvedRelation) -> ResolvedRelation:
    """Lower a query that chooses and computes rows one by one."""
    rounded = find_rounded_time([node.unnest() for node in select.group])
    if rounded is not None:
        node, hint = rounded
        scope.fail(scope.span(node), "this rounds a time, and groups of a stream are windows", hint)
    for node in walk(*select.scalars):
        if find_aggregate_name(node):
            scope.fail(scope.span(node), "a stream doesn't end, so this needs windows", _WINDOWS)
    for part, what in ((select.having, "HAVING"), (select.group or None, "GROUP BY")):
        if part is not None:
            scope.fail(select.group_span, f"{what} needs windows here", _WINDOWS)
    if select.emit is not None:
        scope.fail(select.emit.spans["emit"], "rows without windows aren't emitted", _WINDOWS)
    if select.distinct:
        scope.fail(select.span, "DISTINCT would remember every row", "group by windows")
    where = None if select.where is None else scope.plain(select.where)
    if len(select.items) == 1 and select.items[0].scalar is None:
        if where is None:
            return resolved
        return replace(resolved, relation=Derived(resolved.relation, None, where))
    columns = []
    for item in select.items:
        if item.scalar is None:
            columns.append(Column("*", "*"))
            continue
        text = scope.plain(item.scalar)
        columns.append(Column(item.alias or _name_column(scope, item.scalar) or text, text))
    return replace(resolved, relation=Derived(resolved.relation, tuple(columns), where))


def _name_column(scope: Scope, node: exp.Expr) -> str | None:
    """Return the name of a column or a struct's field; ``None`` for a computed expression."""
    is_field = isinstance(node, exp.Column | exp.Dot)
    return scope.own(node) or (node.name if is_field else None)


def _lower_grouped(
    scope: Scope, select: Select, resolved: ResolvedRelation, call: WindowCall, from_call: bool
) -> LoweredQuery:
    if select.distinct:
        scope.fail(select.span, "DISTINCT isn't needed: a group is one row", "leave it out")
    meant = _use_window_time(bind_window_call(scope.text, call, scope.qualifiers), resolved)
    grouping = GroupedSelectList(scope, select, call, from_call, meant.partition)
    if from_call:
        _check_where_order(scope, select, resolved, meant, grouping)
    return _build_windowing(scope, select, resolved, meant, grouping)


def _use_window_time(meant: WindowBinding, resolved: ResolvedRelation) -> WindowBinding:
    """Return windows that go by the last moment of the ``window`` column, as in Spark."""
    inner = resolved.relation.columns if isinstance(resolved.relation, Windowing) else None
    shown = {column.name.lower(): column.text for column in inner or ()}
    if shown.get((meant.time or "").lower(), "").startswith("named_struct("):
        return replace(meant, time="window_time")
    return meant


def _check_where_order(
    scope: Scope,
    select: Select,
    resolved: ResolvedRelation,
    meant: WindowBinding,
    grouping: GroupedSelectList,
) -> None:
    """Refuse a ``WHERE`` that would filter messages before the windows that SQL forms first.

    Windows of the clock or of offsets take a message whatever other messages there are. Sessions
    and rows counted by arrival depend on other messages, but only on those of the same key.
    """
    if select.where is None:
        return
    columns = [node for node in walk(select.where) if isinstance(node, exp.Column)]
    for column in columns:
        if (scope.own(column) or "").lower() in (START, END):
            hint = "put this condition into HAVING"
            scope.fail(scope.span(column), "WHERE chooses messages, which have no window", hint)
    counted = meant.windows.axis == "rows" and (meant.offset or resolved.marks.offset) is None
    session = meant.windows.retracts
    alone = all(grouping.key_of(column) is not None for column in columns)
    if (session or counted) and not (columns and alone):
        what = "sessions are formed" if session else "rows are counted"
        problem = f"{what} in FROM, before WHERE, and would change by it"
        name = meant.table if isinstance(meant.table, str) else "t"
        hint = f"filter before: WITH v AS (SELECT * FROM {name} WHERE ...), and TABLE v in the call"
        scope.fail(scope.span(select.where), problem, hint)


def _build_windowing(
    scope: Scope,
    select: Select,
    resolved: ResolvedRelation,
    meant: WindowBinding,
    listed: SelectList,
) -> LoweredQuery:
    """Return the lowered query, with all of its spans."""
    marks = resolved.marks.on(meant.windows.axis)
    spans = {
        **_collect_spans(select),
        **meant.spans,
        **listed.spans,
        **collect_emit_spans(select.emit),
    }
    if marks.time not in (None, meant.time):
        hint = f"measure windows on {marks.time}, or give {meant.time} the watermark"
        problem = f"the watermark is one of {marks.time}, the windows lie on {meant.time}"
        scope.fail(spans.get("timecol", select.span), problem, hint)
    marks = replace(marks, offset=meant.offset or marks.offset)
    where = None if select.where is None else scope.plain(select.where)
    if select.where is not None:
        spans["where"] = scope.span(select.where)
    try:
        # The firing policies may add aggregates that no output column shows.
        policies = lower_emit(scope.text, select.emit, meant.windows.axis, listed.over_results)
        listed.finish(marks.offset if meant.windows.axis == "rows" else None)
        spec = listed.spec(meant, policies, **marks.options)
    except OptionError as error:
        named = error.value if error.option in ("agg", "key", "when") else error.option
        at = find_option_span(spans, error)
        raise SqlError(scope.text, at, f"{named} {error.problem}", error.hint) from error
    windowing = Windowing(
        resolved.relation, spec, tuple(listed.keys), where, listed.shown(), listed.having,
        marks.clock, each=listed.each,
    )  # fmt: skip
    return LoweredQuery(windowing, spans, scope.cursor.places)
