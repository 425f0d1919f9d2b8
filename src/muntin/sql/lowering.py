"""Lowers a query that was read to the value that the equivalent Python query makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from sqlglot import exp

from muntin.model.errors import OptionError, SqlError
from muntin.model.inputs import InputOptions
from muntin.model.pipeline import Column, Derived, Order, Query, Values, Windowing
from muntin.sql import ksql, overs, ranked
from muntin.sql.aggregates import name_of
from muntin.sql.around import around, check_whose
from muntin.sql.catalog import Catalog, Resolved, marks_of
from muntin.sql.cursor import Cursor, Span, WindowNode, call_of
from muntin.sql.expressions import Scope, walk
from muntin.sql.firings import emit_spans, firing
from muntin.sql.foreign import find_rounded_time
from muntin.sql.grouping import Grouping
from muntin.sql.joins import Resolve, join_of
from muntin.sql.lookups import looked_up
from muntin.sql.ordering import order
from muntin.sql.pairs import unbounded
from muntin.sql.regrouping import regroup
from muntin.sql.selectlist import END, START, SelectList
from muntin.sql.syntax import (
    CreateView,
    Ordering,
    Select,
    Source,
    TableItem,
    WindowCall,
    WindowClause,
)
from muntin.sql.unions import united
from muntin.sql.windowcalls import Meant, meaning, same_call

_WINDOWS = (
    "write for example FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) "
    "GROUP BY ..., window_start, window_end"
)


@dataclass(frozen=True)
class Lowered:
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
        return place_of(self.spans, error)


def place_of(spans: Mapping[str, Span], error: OptionError) -> Span:
    """Return the span of a refused key, aggregate or option; the query's if it has none."""
    # The value of an aggregate's error begins with its name, which may be a prefix of another name.
    begun = f"{error.option} {error.value}="
    named = (part for part in spans if begun.startswith(f"{part}="))
    return spans.get(max(named, key=len, default=error.option)) or spans["select"]


def lower(
    cursor: Cursor, select: Select, catalog: Catalog, *, outermost: bool = False
) -> Lowered | Resolved:
    """Lower a query; the rows of the outermost one are emitted.

    Returns:
        A windowed query, rows that are chosen and computed one by one, or a join.
    """
    catalog = catalog.inner()
    for view in select.views:
        add_view(cursor, view, catalog)
    if select.united:
        return united(cursor, select, partial(lower, cursor, catalog=catalog), outermost)
    rows = partial(_source, cursor, select.source, catalog)
    resolve = partial(_whole, cursor, catalog)
    read = looked_up(cursor, select, catalog, resolve, rows) if select.joins else rows()
    if read is None:
        found: Lowered | Resolved = _pairs(cursor, select, resolve)
    else:
        found = _of_rows(cursor, select, *read, outermost)
    if select.ordering is None:
        return found
    return _in_order(cursor, select, select.ordering, found, outermost)


def _in_order(
    cursor: Cursor, select: Select, said: Ordering, found: Lowered | Resolved, outermost: bool
) -> Lowered | Resolved:
    """Return a query whose rows are ordered or limited."""
    if not outermost:
        hint = "put it behind the outermost query; the first rows of each window are ROW_NUMBER's"
        cursor.fail(said.span, "ORDER BY and LIMIT aren't taken within a query", hint)
    if not isinstance(found, Lowered):
        return found
    spans = {**found.spans, "ORDER BY": said.span}
    return replace(found, spans=spans, order=order(cursor, select, said))


def _pairs(cursor: Cursor, select: Select, resolve: Resolve) -> Lowered:
    """Lower a join of streams."""
    if select.qualify is not None:
        span = Scope(cursor).span(select.qualify)
        hint = "join in a view, and number its windows"
        cursor.fail(span, "QUALIFY isn't taken beside JOIN", hint)
    return Lowered(*join_of(cursor, select, resolve), cursor.places)


def _of_rows(
    cursor: Cursor, select: Select, call: WindowCall | None, resolved: Resolved, outermost: bool
) -> Lowered | Resolved:
    """Lower a query over resolved rows."""
    scope = Scope(cursor, resolved.qualifiers)
    check_whose(scope, select, resolved.relation, call)
    if ranked.waits(resolved.relation):
        return _bounded(scope, select, resolved, call)
    number = ranked.numbering(scope, select)
    if select.qualify is not None and number is None:
        hint = "write HAVING, or QUALIFY ROW_NUMBER() OVER (...) <= 3"
        scope.fail(scope.span(select.qualify), "QUALIFY is about no row_number or rank", hint)
    if number is not None:
        return _numbered(scope, select, resolved, call, number)
    if select.window is not None:
        return _ksql(cursor, select, select.window, resolved)
    if call is not None and ranked.alone(select):
        made, meant = ranked.every_row(scope, select, resolved, call)
        chosen = ranked.add_choice(made, ranked.read_select_list(scope, select, made, None))
        return _lowered(scope, select, chosen, meant)
    over = any(isinstance(node, exp.Window) for node in walk(*select.scalars))
    if over and call is None:
        return _finished(scope, select, resolved, *overs.per_row(scope, select, resolved))
    found = call or _grouped_by(scope, select)
    if found is None:
        groups = regroup(scope, select, resolved) if select.group else None
        if groups is not None:
            return _finished(scope, select, resolved, *groups)
        return _chosen(scope, select, resolved, outermost)
    return _windowed(scope, select, resolved, found, from_call=call is not None)


def _chosen(
    scope: Scope, select: Select, resolved: Resolved, outermost: bool
) -> Lowered | Resolved:
    """Lower a query that groups nothing: it chooses and computes rows, or results of windows."""
    made = resolved.relation
    if select.joins and outermost and not isinstance(made, Windowing):
        # The query joins streams, so what it lacks is a bound rather than a window.
        unbounded(scope.cursor, select.joins[0])
    rows = _rows(scope, select, resolved)
    if isinstance(made, Windowing) and (outermost or made.lookups):
        return _lowered(scope, select, around(scope, select, made))
    return rows


def _numbered(
    scope: Scope,
    select: Select,
    resolved: Resolved,
    call: WindowCall | None,
    number: ranked.Numbered,
) -> Lowered | Resolved:
    """Lower a query that numbers the rows of windows."""
    if select.group or select.window or select.having or select.distinct:
        hint = "number the rows of the grouped query, in a query around it"
        problem = f"{number.function.lower()} can't stand beside GROUP BY or DISTINCT"
        scope.fail(scope.span(number.node), problem, hint)
    made, meant = ranked.number_rows(scope, select, resolved, call, number)
    choice = ranked.read_select_list(scope, select, made, number)
    if select.qualify is not None:
        return _lowered(
            scope,
            select,
            ranked.add_choice(ranked.bound_rows(scope, made, select.qualify), choice),
            meant,
        )
    return replace(
        resolved, relation=ranked.add_choice(made, choice), marks=InputOptions(max_ahead=None)
    )


def _bounded(scope: Scope, select: Select, resolved: Resolved, call: WindowCall | None) -> Lowered:
    """Lower a query around numbered rows, which bounds their number."""
    made = resolved.relation
    assert isinstance(made, Windowing)
    assert made.ranking is not None
    plain = not (select.group or select.distinct or select.having or select.qualify)
    if select.where is None or not plain or call is not None or ranked.numbering(scope, select):
        ranked.refuse_unbounded(scope, select.span, made.ranking)
    if select.emit is not None:
        hint = "put EMIT into the query that numbers rows"
        scope.fail(select.emit.spans["emit"], "these rows were emitted before", hint)
    assert select.where is not None
    bounded = ranked.bound_rows(scope, made, select.where)
    return _lowered(
        scope,
        select,
        ranked.add_choice(bounded, ranked.read_select_list(scope, select, made, None)),
    )


def _lowered(scope: Scope, select: Select, made: Windowing, meant: Meant | None = None) -> Lowered:
    spans = _places(select)
    if meant is not None:
        spans |= meant.spans
    return Lowered(made, {**spans, **emit_spans(select.emit)}, scope.cursor.places)


def _places(select: Select) -> dict[str, Span]:
    """Return the spans of the parts that every query may have."""
    joined = {"JOIN": select.joins[0].span} if select.joins else {}
    return {"select": select.span, "FROM": select.source.span, **joined}


def _ksql(cursor: Cursor, select: Select, window: WindowClause, resolved: Resolved) -> Lowered:
    """Lower a query with ksqlDB's ``WINDOW``."""
    call = ksql.over(window, cursor, resolved)
    marks = resolved.marks
    late = marks.lateness + ksql.lateness(window, select.emit)
    resolved = replace(resolved, marks=replace(marks, lateness=late))
    select = replace(select, emit=ksql.with_window(window, cursor, select.emit))
    return _windowed(Scope(cursor, resolved.qualifiers), select, resolved, call, from_call=False)


def add_view(cursor: Cursor, view: CreateView, catalog: Catalog) -> None:
    """Define a view of a query's rows."""
    catalog.add_view(cursor, view, _relation(lower(cursor, view.select, catalog)))


def _relation(found: Lowered | Resolved) -> Resolved:
    """Return a query's rows as a relation that another query reads."""
    if isinstance(found, Resolved):
        return found
    # The inner query has judged its messages already.
    return Resolved(found.query, InputOptions(max_ahead=None), frozenset())


def _resolved(cursor: Cursor, catalog: Catalog, item: TableItem, alias: str | None) -> Resolved:
    """Resolve a table, a view, or a query or rows in parentheses."""
    if isinstance(item, str):
        return catalog.resolve(item, alias)
    names = frozenset({alias.lower()} if alias else ())
    if isinstance(item, Values):
        return Resolved(item, InputOptions(), names)
    return replace(_relation(lower(cursor, item, catalog)), qualifiers=names)


def _whole(cursor: Cursor, catalog: Catalog, item: TableItem, alias: str | None) -> Resolved:
    """Resolve a side of a join."""
    found = _resolved(cursor, catalog, item, alias)
    if ranked.waits(found.relation):
        hint = "bound the number first, as in WHERE rownum <= 3"
        span = item.span if isinstance(item, Select) else (0, 1)
        cursor.fail(span, f"of {alias or item} every row of a window would be kept", hint)
    return found


def _source(cursor: Cursor, source: Source, catalog: Catalog) -> tuple[WindowCall | None, Resolved]:
    """Resolve the relation after ``FROM``; return it with the window function around it."""
    item, call = source.item, None
    if isinstance(item, WindowCall):
        call = item
        meant = meaning(cursor.sql, item)
        if meant.table is None:
            hint = f"write {item.name}(TABLE t, DESCRIPTOR(ts), ...)"
            cursor.fail(item.span, f"{item.name} names no table", hint)
        resolved = _resolved(cursor, catalog, meant.table, None)
        qualifiers = resolved.qualifiers | ({source.alias.lower()} if source.alias else set())
        resolved = replace(resolved, qualifiers=qualifiers)
    else:
        resolved = _resolved(cursor, catalog, item, source.alias)
    return call, replace(resolved, marks=marks_of(resolved.marks, cursor, source))


def _grouped_by(scope: Scope, select: Select) -> WindowCall | None:
    """Return the one window function that a query groups by; ``None`` if it has none."""
    places = [*select.group, *select.scalars, *([select.having] if select.having else ())]
    calls = [call_of(n) for n in walk(*places) if isinstance(n, WindowNode)]
    if not calls:
        return None
    for other in calls[1:]:
        if not same_call(calls[0], other, scope.text, scope.qualifiers):
            hint = "give all of them the same column and lengths"
            scope.fail(other.span, "a query has windows of one kind", hint)
    found: WindowCall = calls[0]
    return found


def _rows(scope: Scope, select: Select, resolved: Resolved) -> Resolved:
    """Lower a query that chooses and computes rows one by one."""
    rounded = find_rounded_time([node.unnest() for node in select.group])
    if rounded is not None:
        node, hint = rounded
        scope.fail(scope.span(node), "this rounds a time, and groups of a stream are windows", hint)
    for node in walk(*select.scalars):
        if name_of(node):
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
        columns.append(Column(item.alias or _named(scope, item.scalar) or text, text))
    return replace(resolved, relation=Derived(resolved.relation, tuple(columns), where))


def _named(scope: Scope, node: exp.Expr) -> str | None:
    """Return the name of a column or a struct's field; ``None`` for a computed expression."""
    is_field = isinstance(node, exp.Column | exp.Dot)
    return scope.own(node) or (node.name if is_field else None)


def _windowed(
    scope: Scope, select: Select, resolved: Resolved, call: WindowCall, from_call: bool
) -> Lowered:
    if select.distinct:
        scope.fail(select.span, "DISTINCT isn't needed: a group is one row", "leave it out")
    meant = _over_windows(meaning(scope.text, call, scope.qualifiers), resolved)
    grouping = Grouping(scope, select, call, from_call, meant.partition)
    if from_call:
        _check_order(scope, select, resolved, meant, grouping)
    return _finished(scope, select, resolved, meant, grouping)


def _over_windows(meant: Meant, resolved: Resolved) -> Meant:
    """Return windows that go by the last moment of the ``window`` column, as in Spark."""
    inner = resolved.relation.columns if isinstance(resolved.relation, Windowing) else None
    shown = {column.name.lower(): column.text for column in inner or ()}
    if shown.get((meant.time or "").lower(), "").startswith("named_struct("):
        return replace(meant, time="window_time")
    return meant


def _check_order(
    scope: Scope, select: Select, resolved: Resolved, meant: Meant, grouping: Grouping
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


def _finished(
    scope: Scope, select: Select, resolved: Resolved, meant: Meant, listed: SelectList
) -> Lowered:
    """Return the lowered query, with all of its spans."""
    marks = resolved.marks.on(meant.windows.axis)
    spans = {**_places(select), **meant.spans, **listed.spans, **emit_spans(select.emit)}
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
        policies = firing(scope.text, select.emit, meant.windows.axis, listed.over_results)
        listed.finish(marks.offset if meant.windows.axis == "rows" else None)
        spec = listed.spec(meant, policies, **marks.options)
    except OptionError as error:
        named = error.value if error.option in ("agg", "key", "when") else error.option
        at = place_of(spans, error)
        raise SqlError(scope.text, at, f"{named} {error.problem}", error.hint) from error
    windowing = Windowing(
        resolved.relation, spec, tuple(listed.keys), where, listed.shown(), listed.having,
        marks.clock, each=listed.each,
    )  # fmt: skip
    return Lowered(windowing, spans, scope.cursor.places)
