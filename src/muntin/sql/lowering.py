"""Lowers a parsed query to the same value as the equivalent Python query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from sqlglot import exp

from muntin.model.errors import OptionError, SqlError
from muntin.model.inputs import InputOptions
from muntin.model.pipeline import Column, Order, QueryRelation, Values, WindowRelation
from muntin.sql import ksql, over_aggregates, row_number
from muntin.sql.aggregates import find_aggregate_name
from muntin.sql.catalog import Catalog, ResolvedRelation, makes_rows, merge_input_options
from muntin.sql.cursor import Cursor, Span, WindowNode, window_call_of
from muntin.sql.expressions import Scope, walk
from muntin.sql.foreign_functions import (
    LOOK_BACK_ERROR,
    find_misspelt_window,
    find_rounded_time,
    is_now,
)
from muntin.sql.grouped_join import split_grouped_join
from muntin.sql.grouped_select import GroupedSelectList, lower_regrouping
from muntin.sql.joins import ResolveTable, lower_join
from muntin.sql.lookups import is_input, lower_lookups
from muntin.sql.order_by import lower_order_by
from muntin.sql.outer_query import check_qualified_stars, lower_outer_query
from muntin.sql.select_list import END, START, SelectList, list_group
from muntin.sql.stream_clauses import refuse_watermark
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
    """A windowed query or a join, and the spans of its parts.

    Attributes:
        spans: Spans of the clauses, by the names of the Python options that they set.
        expression_spans: Spans of the expressions that Spark is handed, by their text.
        order: Order and limit of the rows, if the query has them.
    """

    query: QueryRelation
    spans: dict[str, Span]
    expression_spans: Mapping[str, Span] = field(default_factory=dict)
    order: Order | None = None

    def locate(self, error: OptionError) -> Span:
        """Return the span of the clause that an error concerns."""
        return find_option_span(self.spans, error)


def find_option_span(spans: Mapping[str, Span], error: OptionError) -> Span:
    """Return the span of the key, aggregate or option that an error concerns.

    The span of the query stands in for one that no clause sets.
    """
    # The error's value begins with the aggregate's name, which may be a prefix of another name.
    prefix_of_value = f"{error.option} {error.value}="
    names = (part for part in spans if prefix_of_value.startswith(f"{part}="))
    return spans.get(max(names, key=len, default=error.option)) or spans["select"]


def lower_query(
    cursor: Cursor, select: Select, catalog: Catalog, *, is_outermost: bool = False
) -> LoweredQuery | ResolvedRelation:
    """Lower a query. Only the rows of the outermost query are emitted.

    Returns:
        A windowed query or a join; a relation if the query only selects and computes rows.
    """
    catalog = catalog.copy()
    for view in select.views:
        add_view(cursor, view, catalog)
    lowered: LoweredQuery | ResolvedRelation
    if select.unions:
        lower_part = partial(lower_query, cursor, catalog=catalog)
        lowered = lower_union(cursor, select, lower_part, is_outermost)
    else:
        lowered = _lower_one(cursor, select, catalog, is_outermost)
    if select.order_by is None:
        return lowered
    return _apply_order(cursor, select, select.order_by, lowered, is_outermost)


def _lower_one(
    cursor: Cursor, select: Select, catalog: Catalog, is_outermost: bool
) -> LoweredQuery | ResolvedRelation:
    """Lower a query that isn't a union, without its order."""
    resolve_source = partial(_resolve_source, cursor, select.source, catalog)
    resolve_table = partial(_resolve_join_side, cursor, catalog)
    source = (
        lower_lookups(cursor, select, catalog, resolve_table, resolve_source)
        if select.joins
        else resolve_source()
    )
    if source is None:
        return _lower_pairs(cursor, select, resolve_table, is_outermost)
    return _lower_over_relation(cursor, select, *source, is_outermost)


def _apply_order(
    cursor: Cursor,
    select: Select,
    order_by: OrderBy,
    lowered: LoweredQuery | ResolvedRelation,
    is_outermost: bool,
) -> LoweredQuery | ResolvedRelation:
    """Add ``ORDER BY`` and ``LIMIT`` to a query; refuse them anywhere but outermost."""
    if not is_outermost:
        hint = (
            "write it after the outermost query; ROW_NUMBER selects the first rows of each window"
        )
        cursor.fail(order_by.span, "ORDER BY and LIMIT aren't supported within a query", hint)
    if not isinstance(lowered, LoweredQuery):
        return lowered
    spans = {**lowered.spans, "ORDER BY": order_by.span}
    return replace(lowered, spans=spans, order=lower_order_by(cursor, select, order_by))


def _lower_pairs(
    cursor: Cursor, select: Select, resolve_table: ResolveTable, is_outermost: bool
) -> LoweredQuery | ResolvedRelation:
    """Lower a join of two streams, and the groups of its pairs if the query has some."""
    parts = split_grouped_join(cursor, select)
    if parts is None:
        return LoweredQuery(*lower_join(cursor, select, resolve_table), cursor.expression_spans)
    joined, _ = lower_join(cursor, parts.join, resolve_table)
    pairs = ResolvedRelation(
        parts.add_time(joined), InputOptions(max_ahead=None), parts.qualifiers, parts.names
    )
    return _lower_over_relation(cursor, parts.grouping, parts.call, pairs, is_outermost)


def _lower_over_relation(
    cursor: Cursor,
    select: Select,
    call: WindowCall | None,
    resolved: ResolvedRelation,
    is_outermost: bool,
) -> LoweredQuery | ResolvedRelation:
    scope = Scope(cursor, resolved.qualifiers, resolved.column_names)
    check_qualified_stars(scope, select, resolved.relation, call)
    if row_number.lacks_limit(resolved.relation):
        return _lower_limit(scope, select, resolved, call)
    numbering = row_number.find_numbering(scope, select)
    if select.qualify is not None and numbering is None:
        hint = "write HAVING, or QUALIFY ROW_NUMBER() OVER (...) <= 3"
        scope.fail(select.qualify, "QUALIFY needs row_number or rank", hint)
    if numbering is not None:
        return _lower_numbering(scope, select, resolved, call, numbering)
    if select.window is not None:
        return _lower_ksql_window(cursor, select, select.window, resolved)
    if call is not None and row_number.selects_only_rows(select):
        windowing, binding = row_number.lower_all_rows(scope, select, resolved, call)
        result = row_number.add_choice(
            windowing, row_number.lower_select_list(scope, select, windowing, None)
        )
        return _finish_query(scope, select, result, binding)
    over = any(isinstance(node, exp.Window) for node in walk(*select.scalars))
    if over and call is None:
        return _build_windowing(
            scope, select, resolved, *over_aggregates.lower_over_aggregates(scope, select, resolved)
        )
    grouping_call = call or _find_grouping_call(scope, select)
    if grouping_call is None:
        groups = lower_regrouping(scope, select, resolved) if select.group else None
        if groups is not None:
            return _build_windowing(scope, select, resolved, *groups)
        return _lower_ungrouped(scope, select, resolved, is_outermost)
    return _lower_grouped(scope, select, resolved, grouping_call, from_call=call is not None)


def _lower_ungrouped(
    scope: Scope, select: Select, resolved: ResolvedRelation, is_outermost: bool
) -> LoweredQuery | ResolvedRelation:
    """Lower a query without groups, which selects and computes rows or results of windows."""
    relation = resolved.relation
    rows = _lower_projection(scope, select, resolved)
    if isinstance(relation, WindowRelation) and (is_outermost or relation.lookups):
        return _finish_query(scope, select, lower_outer_query(scope, select, relation))
    return rows


def _lower_numbering(
    scope: Scope,
    select: Select,
    resolved: ResolvedRelation,
    call: WindowCall | None,
    numbering: row_number.NumberingCall,
) -> LoweredQuery | ResolvedRelation:
    if select.group or select.window or select.having or select.distinct:
        hint = "number the rows of the grouped query, in a query around it"
        problem = f"{numbering.function.lower()} can't be combined with GROUP BY or DISTINCT"
        scope.fail(numbering.node, problem, hint)
    windowing, binding = row_number.lower_numbering(scope, select, resolved, call, numbering)
    choice = row_number.lower_select_list(scope, select, windowing, numbering)
    if select.qualify is not None:
        return _finish_query(
            scope,
            select,
            row_number.add_choice(row_number.limit_rows(scope, windowing, select.qualify), choice),
            binding,
        )
    return replace(
        resolved,
        relation=row_number.add_choice(windowing, choice),
        input_options=InputOptions(max_ahead=None),
        star=(),
    )


def _lower_limit(
    scope: Scope, select: Select, resolved: ResolvedRelation, call: WindowCall | None
) -> LoweredQuery:
    """Lower a query around numbered rows, which must limit their number."""
    windowing = resolved.relation
    assert isinstance(windowing, WindowRelation)
    assert windowing.ranking is not None
    has_only_where = not (select.group or select.distinct or select.having or select.qualify)
    if (
        select.where is None
        or not has_only_where
        or call is not None
        or row_number.find_numbering(scope, select)
    ):
        row_number.refuse_unlimited(scope, select.span, windowing.ranking)
    if select.emit is not None:
        hint = "put EMIT into the query that numbers rows"
        scope.fail(select.emit.spans["emit"], "these rows were emitted before", hint)
    assert select.where is not None
    limited = row_number.limit_rows(scope, windowing, select.where)
    return _finish_query(
        scope,
        select,
        row_number.add_choice(
            limited, row_number.lower_select_list(scope, select, windowing, None)
        ),
    )


def _finish_query(
    scope: Scope, select: Select, windowing: WindowRelation, binding: WindowBinding | None = None
) -> LoweredQuery:
    spans = _collect_spans(select)
    if binding is not None:
        spans |= binding.spans
    return LoweredQuery(
        windowing, {**spans, **collect_emit_spans(select.emit)}, scope.cursor.expression_spans
    )


def _collect_spans(select: Select) -> dict[str, Span]:
    """Return the spans of ``SELECT``, ``FROM`` and ``JOIN``."""
    join_spans = {"JOIN": select.joins[0].span} if select.joins else {}
    return {"select": select.span, "FROM": select.source.span, **join_spans}


def _lower_ksql_window(
    cursor: Cursor, select: Select, window: WindowClause, resolved: ResolvedRelation
) -> LoweredQuery:
    call = ksql.build_window_call(window, cursor, resolved)
    options = resolved.input_options
    late = options.lateness + ksql.find_extra_lateness(window, select.emit)
    resolved = replace(resolved, input_options=replace(options, lateness=late))
    select = replace(select, emit=ksql.add_window_intervals(window, cursor, select.emit))
    scope = Scope(cursor, resolved.qualifiers, resolved.column_names)
    return _lower_grouped(scope, select, resolved, call, from_call=False)


def add_view(cursor: Cursor, view: CreateView, catalog: Catalog) -> None:
    """Add a view of a query's rows to the catalog."""
    catalog.add_view(cursor, view, _to_relation(lower_query(cursor, view.select, catalog)))


def _to_relation(lowered: LoweredQuery | ResolvedRelation) -> ResolvedRelation:
    """Return the rows of a query as a relation that another query can read."""
    if isinstance(lowered, ResolvedRelation):
        return lowered
    # The inner query has rejected messages from the future already.
    return ResolvedRelation(lowered.query, InputOptions(max_ahead=None), frozenset())


def _resolve_table(
    cursor: Cursor, catalog: Catalog, table: TableExpression, alias: str | None
) -> ResolvedRelation:
    """Resolve a table, a view, or a query or rows in parentheses."""
    if isinstance(table, str):
        return catalog.resolve(table, alias)
    names = frozenset({alias.lower()} if alias else ())
    if isinstance(table, Values):
        return ResolvedRelation(table, InputOptions(), names)
    return replace(_to_relation(lower_query(cursor, table, catalog)), qualifiers=names)


def _resolve_join_side(
    cursor: Cursor, catalog: Catalog, table: TableExpression, alias: str | None
) -> ResolvedRelation:
    """Resolve one side of a join; refuse numbered rows without a limit."""
    resolved = _resolve_table(cursor, catalog, table, alias)
    if row_number.lacks_limit(resolved.relation):
        hint = "bound the number first, as in WHERE rownum <= 3"
        span = table.span if isinstance(table, Select) else (0, 1)
        cursor.fail(span, f"{alias or table} would keep every row of a window", hint)
    return resolved


def _resolve_source(
    cursor: Cursor, source: FromItem, catalog: Catalog
) -> tuple[WindowCall | None, ResolvedRelation]:
    """Return the relation after ``FROM``, and the window function around it if there is one."""
    table, call = source.table, None
    if isinstance(table, WindowCall):
        call = table
        binding = bind_window_call(cursor.sql, table)
        if binding.table is None:
            hint = f"write {table.name}(TABLE t, DESCRIPTOR(ts), ...)"
            cursor.fail(table.span, f"{table.name} names no table", hint)
        resolved = _resolve_table(cursor, catalog, binding.table, None)
        qualifiers = resolved.qualifiers | ({source.alias.lower()} if source.alias else set())
        resolved = replace(resolved, qualifiers=qualifiers)
    else:
        resolved = _resolve_table(cursor, catalog, table, source.alias)
    options = merge_input_options(resolved.input_options, cursor, source)
    if options.offset is not None and makes_rows(resolved.relation):
        problem = "the rows of one message share its offset, and would look like repeats of it"
        cursor.fail(source.span, problem, "leave OFFSET FOR out")
    return call, replace(resolved, input_options=options)


def _find_grouping_call(scope: Scope, select: Select) -> WindowCall | None:
    """Return the window function that a query groups by; ``None`` if it has none."""
    nodes = [*select.group, *select.scalars, *([select.having] if select.having else ())]
    calls = [window_call_of(n) for n in walk(*nodes) if isinstance(n, WindowNode)]
    if not calls:
        return None
    for other in calls[1:]:
        if not mean_same_windows(calls[0], other, scope.text, scope.qualifiers):
            hint = "give all of them the same column and lengths"
            scope.fail(other.span, "a query has one kind of windows", hint)
    grouping_call: WindowCall = calls[0]
    return grouping_call


def _lower_projection(scope: Scope, select: Select, resolved: ResolvedRelation) -> ResolvedRelation:
    rounded = find_rounded_time(list_group(scope, select))
    if rounded is not None:
        node, hint = rounded
        scope.fail(node, "this rounds a time, but a stream is grouped by windows", hint)
    if (misspelt := find_misspelt_window(select.group)) is not None:
        scope.fail(*misspelt)
    for node in walk(*select.scalars):
        if find_aggregate_name(node):
            if select.where is not None and any(map(is_now, walk(select.where))):
                scope.fail(select.where, *LOOK_BACK_ERROR)
            scope.fail(node, "a stream doesn't end, so this needs windows", _WINDOWS)
    for part, clause in ((select.having, "HAVING"), (select.group or None, "GROUP BY")):
        if part is not None:
            scope.fail(select.group_span, f"{clause} needs windows here", _WINDOWS)
    emit = select.emit
    if emit is not None and not (emit.has_only_changes and is_input(resolved.relation)):
        scope.fail(emit.spans["emit"], "rows without windows have no trigger", _WINDOWS)
    if select.distinct:
        scope.fail(select.span, "DISTINCT would remember every row", "group by windows")
    where = None if select.where is None else scope.render(select.where)
    if len(select.items) == 1 and select.items[0].scalar is None:
        if where is None:
            return resolved
        return resolved.derive(None, where)
    columns = []
    for item in select.items:
        if item.scalar is None:
            columns.append(Column("*", "*"))
            continue
        text = scope.render(item.scalar)
        columns.append(Column(item.alias or _name_column(scope, item.scalar) or text, text))
    return resolved.derive(tuple(columns), where)


def _name_column(scope: Scope, node: exp.Expr) -> str | None:
    """Return the name of a column or a struct's field; ``None`` for a computed expression."""
    is_field = isinstance(node, exp.Column | exp.Dot)
    return scope.find_column_name(node) or (node.name if is_field else None)


def _lower_grouped(
    scope: Scope, select: Select, resolved: ResolvedRelation, call: WindowCall, from_call: bool
) -> LoweredQuery:
    if select.distinct:
        scope.fail(select.span, "DISTINCT isn't needed: a group is one row", "leave it out")
    binding = _use_window_time(bind_window_call(scope.text, call, scope.qualifiers), resolved)
    grouping = GroupedSelectList(scope, select, call, from_call, binding.partition)
    if from_call:
        _check_where_order(scope, select, resolved, binding, grouping)
    return _build_windowing(scope, select, resolved, binding, grouping)


def _use_window_time(binding: WindowBinding, resolved: ResolvedRelation) -> WindowBinding:
    """Return a binding to the time of Spark's ``window`` column, the last one in each window."""
    columns = resolved.relation.columns if isinstance(resolved.relation, WindowRelation) else None
    texts = {column.name.lower(): column.text for column in columns or ()}
    if texts.get((binding.time or "").lower(), "").startswith("named_struct("):
        return replace(binding, time="window_time")
    return binding


def _check_where_order(
    scope: Scope,
    select: Select,
    resolved: ResolvedRelation,
    binding: WindowBinding,
    grouping: GroupedSelectList,
) -> None:
    """Refuse a ``WHERE`` that would change the windows, which SQL forms before it.

    Other messages don't change which windows of the clock or of offsets a message belongs to. They
    do change sessions and rows counted by arrival, but only within the same key.
    """
    if select.where is None:
        return
    columns = [node for node in walk(select.where) if isinstance(node, exp.Column)]
    for column in columns:
        if (scope.find_column_name(column) or "").lower() in (START, END):
            hint = "put this condition into HAVING"
            scope.fail(column, "WHERE filters messages, which have no window", hint)
    counts_arrivals = (
        binding.windows.axis == "rows" and (binding.offset or resolved.input_options.offset) is None
    )
    is_session = binding.windows.retracts
    are_all_keys = all(grouping.find_key(column) is not None for column in columns)
    if (is_session or counts_arrivals) and not (columns and are_all_keys):
        subject = "sessions are formed" if is_session else "rows are counted"
        problem = f"{subject} in FROM, before WHERE, and would change by it"
        name = binding.table if isinstance(binding.table, str) else "t"
        hint = f"filter before: WITH v AS (SELECT * FROM {name} WHERE ...), and TABLE v in the call"
        scope.fail(select.where, problem, hint)


def _build_windowing(
    scope: Scope,
    select: Select,
    resolved: ResolvedRelation,
    binding: WindowBinding,
    select_list: SelectList,
) -> LoweredQuery:
    """Return the lowered query with the spans of its clauses."""
    options = resolved.input_options.on(binding.windows.axis)
    spans = {
        **_collect_spans(select),
        **binding.spans,
        **select_list.spans,
        **collect_emit_spans(select.emit),
    }
    binding.check_time(scope.text, options.time, select.span)
    refuse_watermark(scope.cursor, select.source, binding.windows.axis)
    options = replace(options, offset=binding.offset or options.offset)
    where = None if select.where is None else scope.render(select.where)
    if select.where is not None:
        spans["where"] = scope.locate(select.where)
    try:
        # Trigger policies may add aggregates that no output column shows.
        policies = lower_emit(
            scope.text, select.emit, binding.windows.axis, select_list.render_over_results
        )
        select_list.add_engine_columns(options.offset if binding.windows.axis == "rows" else None)
        spec = select_list.build_spec(binding, policies, **options.options)
    except OptionError as error:
        subject = error.value if error.option in ("agg", "key", "when") else error.option
        span = find_option_span(spans, error)
        raise SqlError(scope.text, span, f"{subject} {error.problem}", error.hint) from error
    windowing = WindowRelation(
        resolved.relation,
        spec,
        tuple(select_list.keys),
        where,
        select_list.build_columns(),
        select_list.having,
        options.find_clock(spec),
        each=select_list.each,
    )
    return LoweredQuery(windowing, spans, scope.cursor.expression_spans)
