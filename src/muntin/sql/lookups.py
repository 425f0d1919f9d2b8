"""Joins with tables that don't change: each message or window is joined with their rows.

Such a join has no state and no bound in time: a message is joined when it arrives, before its
windows are formed, and a window is joined when it emits. Only a running query knows which tables
change; here, a join without a bound in time is taken for a lookup.
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
    Reading,
    Relation,
    Union,
    Values,
    Windowing,
    WindowLookup,
    find_tables,
    quote_name,
)
from muntin.sql.catalog import Catalog, ResolvedRelation
from muntin.sql.cursor import Cursor
from muntin.sql.expressions import Scope, walk
from muntin.sql.joins import ResolveTable, collect_conditions, render_sides
from muntin.sql.outer_query import InnerColumns, list_columns
from muntin.sql.select_list import END, START
from muntin.sql.syntax import Join, Select, WindowCall
from muntin.sql.time_bounds import extract_time_bounds, find_equated_columns
from muntin.sql.window_functions import bind_window_call

_KINDS: dict[str, LookupHow] = {"inner": "inner", "left": "left", "semi": "semi", "anti": "anti"}
_FIRST = "join in a view, and form the windows of its rows"

ResolveSource = Callable[[], tuple[WindowCall | None, ResolvedRelation]]
"""Reads the relation after ``FROM``, and the window call around it."""


def lower_lookups(
    cursor: Cursor,
    select: Select,
    catalog: Catalog,
    resolve: ResolveTable,
    resolve_source: ResolveSource,
) -> tuple[WindowCall | None, ResolvedRelation] | None:
    """Return the relation after ``FROM`` with its lookups; ``None`` if streams are joined."""
    tables_or_none = [
        _find_lookup_table(cursor, select, join, catalog, resolve) for join in select.joins
    ]
    tables = [one for one in tables_or_none if one is not None]
    if len(tables) < len(tables_or_none):
        return None
    call, resolved = resolve_source()
    _check_source(cursor, select, resolved.relation)
    if call is not None:
        windows = bind_window_call(cursor.sql, call).windows
        if windows.retracts or windows.axis == "rows":
            cursor.fail(select.source.span, "these windows are formed before JOIN", _FIRST)
    for join, table in zip(select.joins, tables, strict=True):
        look_up = (
            _look_up_windows if isinstance(resolved.relation, Windowing) else _look_up_messages
        )
        resolved = look_up(cursor, select, join, resolved, table)
    return call, resolved


def _check_source(cursor: Cursor, select: Select, relation: Relation) -> None:
    """Refuse a relation that can't look rows up: results, except those of aggregating windows."""
    if is_input(relation):
        return
    if not isinstance(relation, Windowing) or relation.ranking is not None:
        hint = "join in the query within, whose windows or messages these are"
        cursor.fail(select.joins[0].span, "these rows aren't looked up in a table", hint)


def _find_lookup_table(
    cursor: Cursor, select: Select, join: Join, catalog: Catalog, resolve: ResolveTable
) -> ResolvedRelation | None:
    """Return the table that a join looks up; ``None`` if the join may be one of streams."""
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
    """Return whether rows come from a table, rather than from a query's results."""
    if isinstance(relation, Derived | Lookup):
        return is_input(relation.source)
    return isinstance(relation, Reading | Values | Union)


def _look_up_messages(
    cursor: Cursor, select: Select, join: Join, resolved: ResolvedRelation, table: ResolvedRelation
) -> ResolvedRelation:
    """Return messages joined with the rows of a table."""
    name, how = _name_table(cursor, join, resolved, table)
    sides = dict.fromkeys(resolved.qualifiers, 0) | dict.fromkeys(table.qualifiers, 1)
    conditions = collect_conditions(select, join)
    pairs = [(name, name) for name in join.using]
    pairs += filter(None, (find_equated_columns(part, sides) for part in conditions))
    shared = [left for left, right in pairs if left.lower() == right.lower()]
    if how == "left":
        _check_shared(cursor, select, table, shared)
    scope = Scope(cursor, frozenset())
    ends = [
        [f"{s}.{quote_name(n)}" for s, n in zip(SIDE_COLUMNS, pair, strict=True)] for pair in pairs
    ]
    texts = [" = ".join(pair) for pair in ends]
    # The columns of ``IN`` needn't be qualified, so their condition isn't taken from the text.
    others = [
        render_sides(scope, part, sides)
        for part in conditions
        if find_equated_columns(part, sides) is None
    ]
    if join.is_not_in:
        # A condition that is NULL keeps a row out, as one that is true does.
        others.insert(0, f"{texts[0]}" + "".join(f" OR {end} IS NULL" for end in ends[0]))
        del texts[0], pairs[0]
    on = scope.note_span(_join_with_and([*texts, *others]), join.span)
    rest = scope.note_span(_join_with_and(others), join.span) if others else None
    relation = Lookup(
        resolved.relation, table.relation, name, how, on, tuple(shared), tuple(pairs), rest
    )
    shown = frozenset() if how in ("semi", "anti") else table.qualifiers
    return replace(resolved, relation=relation, qualifiers=resolved.qualifiers | shown)


def _join_with_and(texts: Sequence[str]) -> str:
    return " AND ".join(f"({text})" for text in texts)


def _name_table(
    cursor: Cursor, join: Join, resolved: ResolvedRelation, table: ResolvedRelation
) -> tuple[str, LookupHow]:
    """Return the name of a table in a join, and the kind of the join."""
    name = join.source.alias or str(join.source.table).rpartition(".")[2]
    if table.qualifiers & resolved.qualifiers:
        hint = "give one of them another name, as in JOIN t AS other"
        cursor.fail(join.source.span, f"both sides are called {name}", hint)
    if join.how not in _KINDS:
        one = "window" if isinstance(resolved.relation, Windowing) else "message"
        problem = f"rows of {name} that no {one} has met yet would wait without end"
        cursor.fail(join.span, problem, "write JOIN, or LEFT JOIN")
    return name, _KINDS[join.how]


def _look_up_windows(
    cursor: Cursor, select: Select, join: Join, resolved: ResolvedRelation, table: ResolvedRelation
) -> ResolvedRelation:
    """Return windows that are joined with the rows of a table when they emit."""
    table_name, how = _name_table(cursor, join, resolved, table)
    windowing = resolved.relation
    assert isinstance(windowing, Windowing)
    if how not in ("inner", "left"):
        hint = "look messages up in it, before their windows, or write JOIN or LEFT JOIN"
        cursor.fail(join.span, "windows are looked up by JOIN and LEFT JOIN", hint)
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
            hint = "write ON w.k = t.k AND ..., and compare all else in WHERE"
            scope.fail(scope.locate(part), "windows are looked up by equal columns", hint)
        left = part.this if sides[part.this.parts[0].name.lower()] == 0 else part.expression
        pairs.append((left, pair[1]))
    row = f"__muntin_table{len(windowing.lookups)}"
    equal = tuple(
        (_check_stable(scope, join, windowing, inner.find_column(scope, o)).text, t)
        for o, t in pairs
    )
    shared = tuple(other for one, other in pairs if one.name.lower() == other.lower())
    lookup = WindowLookup(table.relation, table_name.lower(), how, equal, shared, row)
    columns, lookups = (*list_columns(windowing), lookup.all), (*windowing.lookups, lookup)
    relation = replace(windowing, columns=columns, lookups=lookups)
    return replace(resolved, relation=relation, qualifiers=resolved.qualifiers | table.qualifiers)


def _check_stable(scope: Scope, join: Join, windowing: Windowing, column: Column) -> Column:
    """Return a column that windows are looked up by; it must stay the same in each emission."""
    firing, identity = windowing.spec.firing, (*windowing.spec.keys, START, END)
    stable_texts = {*identity, *map(quote_name, identity)}
    of_table = any(column.text.startswith(f"{one.row}.") for one in windowing.lookups)
    emits_again = firing.early is not None or firing.grace > 0
    if emits_again and column.text not in stable_texts and not of_table:
        hint = "compare a key, window_start or window_end, or let windows emit once"
        scope.fail(join.span, f"{column.name} may be another when a window emits again", hint)
    return column


def _check_shared(
    cursor: Cursor, select: Select, table: ResolvedRelation, shared: Sequence[str]
) -> None:
    """Refuse a column that both sides share, and that is the message's if no row matches."""
    nodes = [item.scalar for item in select.items]
    nodes += [select.where, select.having, select.qualify, *select.group]
    names = {name.lower() for name in shared}
    for column in (part for node in nodes if node is not None for part in walk(node)):
        if isinstance(column, exp.Column) and len(column.parts) > 1:
            of_table = column.parts[0].name.lower() in table.qualifiers
            if of_table and column.parts[1].name.lower() in names:
                hint = "give it a name of its own: LEFT JOIN (SELECT id AS other_id, ... FROM t) t"
                problem = "both sides have this column, and here one of them may be NULL"
                cursor.fail(Scope(cursor, frozenset()).locate(column), problem, hint)
