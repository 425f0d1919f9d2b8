"""Lowers joins with tables that don't change, whose rows are looked up.

A lookup has no state and no bound in time. A message is joined when it arrives, before its windows
are assigned, and a window is joined when it emits. Only a running query knows which tables change;
here, every join without a bound in time is a lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from muntin.model.pipeline import (
    SIDE_COLUMNS,
    Column,
    Derived,
    Lookup,
    LookupHow,
    Relation,
    TableRelation,
    Union,
    Values,
    WindowLookup,
    WindowRelation,
    find_tables,
    quote_name,
)
from muntin.sql.catalog import Catalog, ResolvedRelation
from muntin.sql.cursor import Cursor
from muntin.sql.expressions import Scope, walk
from muntin.sql.joins import ResolveTable, collect_conditions, render_sides
from muntin.sql.outer_query import InnerColumns, list_window_columns
from muntin.sql.select_list import END, START
from muntin.sql.syntax import Join, Select, WindowCall
from muntin.sql.time_bounds import extract_time_bounds, find_equated_columns
from muntin.sql.window_functions import bind_window_call

_KINDS: dict[str, LookupHow] = {"inner": "inner", "left": "left", "semi": "semi", "anti": "anti"}
_VIEW_HINT = "join in a view, and form the windows of its rows"

ResolveSource = Callable[[], tuple[WindowCall | None, ResolvedRelation]]
"""Resolves the relation after ``FROM``, and the window function around it."""


def lower_lookups(
    cursor: Cursor,
    select: Select,
    catalog: Catalog,
    resolve: ResolveTable,
    resolve_source: ResolveSource,
) -> tuple[WindowCall | None, ResolvedRelation] | None:
    """Return the relation after ``FROM`` with its lookups; ``None`` if a join is one of streams."""
    candidates = [
        _find_lookup_table(cursor, select, join, catalog, resolve) for join in select.joins
    ]
    tables = [one for one in candidates if one is not None]
    if len(tables) < len(candidates):
        return None
    call, resolved = resolve_source()
    _check_source(cursor, select, resolved.relation)
    if call is not None:
        windows = bind_window_call(cursor.sql, call).windows
        if windows.retracts or windows.axis == "rows":
            cursor.fail(select.source.span, "these windows are formed before JOIN", _VIEW_HINT)
    for join, table in zip(select.joins, tables, strict=True):
        look_up = (
            _look_up_windows if isinstance(resolved.relation, WindowRelation) else _look_up_messages
        )
        resolved = look_up(cursor, select, join, resolved, table)
    return call, resolved


def _check_source(cursor: Cursor, select: Select, relation: Relation) -> None:
    """Refuse results, except those of aggregating windows, as the left side of a lookup."""
    if is_input(relation):
        return
    if not isinstance(relation, WindowRelation) or relation.ranking is not None:
        hint = "join inside the inner query"
        cursor.fail(select.joins[0].span, "these rows can't be joined with a table", hint)


def _find_lookup_table(
    cursor: Cursor, select: Select, join: Join, catalog: Catalog, resolve: ResolveTable
) -> ResolvedRelation | None:
    """Return the table that a join looks up; ``None`` if the join is one of streams."""
    item = join.source.table
    if (
        isinstance(item, WindowCall)
        or join.over
        or join.left_over
        or join.within
        or join.is_comma_join
    ):
        return None
    if join.is_asof or join.source.as_of is not None:
        return None
    table = resolve(item, join.source.alias)
    if join.source.watermark is not None or table.input_options.time is not None:
        return None
    declared = [catalog.tables.get(name) for name in find_tables(table.relation)]
    if not is_input(table.relation) or any(one is not None and one.stream for one in declared):
        return None
    sides = {select.source.name.lower(): 0} | dict.fromkeys(table.qualifiers, 1)
    time_bounds, _ = extract_time_bounds(cursor, collect_conditions(select, join), sides)
    return None if time_bounds is not None else table


def is_input(relation: Relation) -> bool:
    """Return whether a relation has the messages of tables, rather than results of a query."""
    if isinstance(relation, Derived | Lookup):
        return is_input(relation.source)
    return isinstance(relation, TableRelation | Values | Union)


def _look_up_messages(
    cursor: Cursor, select: Select, join: Join, resolved: ResolvedRelation, table: ResolvedRelation
) -> ResolvedRelation:
    """Return messages that are joined with the rows of a table as they arrive."""
    name, how = _name_table(cursor, join, resolved, table)
    sides = dict.fromkeys(resolved.qualifiers, 0) | dict.fromkeys(table.qualifiers, 1)
    conditions = collect_conditions(select, join)
    pairs = [(name, name) for name in join.using]
    pairs += filter(None, (find_equated_columns(part, sides) for part in conditions))
    shared = [left for left, right in pairs if left.lower() == right.lower()]
    if how == "left":
        _check_shared(cursor, select, table, shared)
    scope = Scope(cursor)
    sides_of_pairs = [
        [f"{s}.{quote_name(n)}" for s, n in zip(SIDE_COLUMNS, pair, strict=True)] for pair in pairs
    ]
    equalities = [" = ".join(pair) for pair in sides_of_pairs]
    # Equal columns are rendered by their sides, since the columns of ``IN`` may be unqualified.
    others = [
        render_sides(scope, part, sides)
        for part in conditions
        if find_equated_columns(part, sides) is None
    ]
    if join.is_not_in:
        # NOT IN leaves out a row if the comparison is true or NULL.
        others.insert(
            0, f"{equalities[0]}" + "".join(f" OR {end} IS NULL" for end in sides_of_pairs[0])
        )
        del equalities[0], pairs[0]
    on = scope.note_span(_join_with_and([*equalities, *others]), join.span)
    rest = scope.note_span(_join_with_and(others), join.span) if others else None
    relation = Lookup(
        resolved.relation, table.relation, name, how, on, tuple(shared), tuple(pairs), rest
    )
    shown = frozenset() if how in ("semi", "anti") else table.qualifiers
    star = resolved.star
    if shown:
        star = tuple(dict.fromkeys((*star, *table.star))) if star and table.star else ()
    return replace(resolved, relation=relation, qualifiers=resolved.qualifiers | shown, star=star)


def _join_with_and(texts: Sequence[str]) -> str:
    return " AND ".join(f"({text})" for text in texts)


def _name_table(
    cursor: Cursor, join: Join, resolved: ResolvedRelation, table: ResolvedRelation
) -> tuple[str, LookupHow]:
    """Return the name of the joined table and the kind of the join; refuse other kinds."""
    name = join.source.name
    if table.qualifiers & resolved.qualifiers:
        hint = "give one of them another name, as in JOIN t AS other"
        cursor.fail(join.source.span, f"both sides are called {name}", hint)
    if join.how not in _KINDS:
        one = "window" if isinstance(resolved.relation, WindowRelation) else "message"
        problem = f"rows of {name} that match no {one} yet would wait forever"
        cursor.fail(join.span, problem, "write JOIN, or LEFT JOIN")
    return name, _KINDS[join.how]


def _look_up_windows(
    cursor: Cursor, select: Select, join: Join, resolved: ResolvedRelation, table: ResolvedRelation
) -> ResolvedRelation:
    """Return windows that are joined with the rows of a table when they emit."""
    table_name, how = _name_table(cursor, join, resolved, table)
    windowing = resolved.relation
    assert isinstance(windowing, WindowRelation)
    if how not in ("inner", "left"):
        hint = "join the messages before their windows, or write JOIN or LEFT JOIN"
        cursor.fail(join.span, "windows take only JOIN and LEFT JOIN", hint)
    scope = Scope(cursor, resolved.qualifiers)
    inner = InnerColumns.from_windows(windowing, select.joins.index(join))
    sides = dict.fromkeys(resolved.qualifiers, 0) | dict.fromkeys(table.qualifiers, 1)
    for name in join.using:
        if name.lower() not in inner.columns_by_name:
            hint = f"give some of {', '.join(inner.columns_by_name)}"
            scope.fail(join.span, f"the windows have no column {name}", hint)
    pairs: list[tuple[exp.Column, str]] = [(exp.column(one), one) for one in join.using]
    for part in collect_conditions(select, join, where=False):
        pair = find_equated_columns(part, sides)
        if pair is None:
            hint = "write ON w.k = t.k AND ..., and put other conditions into WHERE"
            scope.fail(part, "windows are joined by equal columns only", hint)
        left = part.this if sides[part.this.parts[0].name.lower()] == 0 else part.expression
        pairs.append((left, pair[1]))
    row = f"__muntin_table{len(windowing.lookups)}"
    equal = tuple(
        (_check_stable(scope, join, windowing, inner.find_column(scope, o)).text, t)
        for o, t in pairs
    )
    shared = tuple(other for one, other in pairs if one.name.lower() == other.lower())
    lookup = WindowLookup(table.relation, table_name.lower(), how, equal, shared, row)
    columns, lookups = (*list_window_columns(windowing), lookup.all), (*windowing.lookups, lookup)
    relation = replace(windowing, columns=columns, lookups=lookups)
    return replace(resolved, relation=relation, qualifiers=resolved.qualifiers | table.qualifiers)


def _check_stable(scope: Scope, join: Join, windowing: WindowRelation, column: Column) -> Column:
    """Return a compared column of windows; refuse one that another emission may change."""
    firing, identity = windowing.spec.firing, (*windowing.spec.keys, START, END)
    stable_texts = {*identity, *map(quote_name, identity)}
    is_of_table = any(column.text.startswith(f"{one.row}.") for one in windowing.lookups)
    emits_again = firing.early is not None or firing.grace > 0
    if emits_again and column.text not in stable_texts and not is_of_table:
        hint = "compare a key, window_start or window_end, or let windows emit once"
        scope.fail(join.span, f"{column.name} may change when a window emits again", hint)
    return column


def _check_shared(
    cursor: Cursor, select: Select, table: ResolvedRelation, shared: Sequence[str]
) -> None:
    """Refuse a use of the table's column in a left join if the message has one of that name.

    The joined row has only the message's column, which isn't NULL if no row matches.
    """
    nodes = [*select.scalars, select.where, select.having, select.qualify, *select.group]
    names = {name.lower() for name in shared}
    for column in (part for node in nodes if node is not None for part in walk(node)):
        if isinstance(column, exp.Column) and len(column.parts) > 1:
            of_table = column.parts[0].name.lower() in table.qualifiers
            if of_table and column.parts[1].name.lower() in names:
                hint = "give it a name of its own: LEFT JOIN (SELECT id AS other_id, ... FROM t) t"
                problem = "both sides have this column, and only one of them may be NULL"
                Scope(cursor).fail(column, problem, hint)
