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
    cursor: Cursor, select: Select, catalog: Catalog, resolve: ResolveTable, rows: ResolveSource
) -> tuple[WindowCall | None, ResolvedRelation] | None:
    """Return the relation after ``FROM`` with its lookups; ``None`` if streams are joined."""
    known = [_find_lookup_table(cursor, select, join, catalog, resolve) for join in select.joins]
    tables = [one for one in known if one is not None]
    if len(tables) < len(known):
        return None
    call, found = rows()
    _check_source(cursor, select, found.relation)
    if call is not None:
        windows = bind_window_call(cursor.sql, call).windows
        if windows.retracts or windows.axis == "rows":
            cursor.fail(select.source.span, "these windows are formed before JOIN", _FIRST)
    for join, table in zip(select.joins, tables, strict=True):
        look_up = _look_up_windows if isinstance(found.relation, Windowing) else _look_up_messages
        found = look_up(cursor, select, join, found, table)
    return call, found


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
    item = join.source.item
    if isinstance(item, WindowCall) or join.over or join.left_over or join.within or join.by_where:
        return None
    if join.as_of or join.source.as_of is not None:
        return None
    found = resolve(item, join.source.alias)
    if join.source.watermark is not None or found.marks.time is not None:
        return None
    declared = [catalog.tables.get(name) for name in find_tables(found.relation)]
    if not is_input(found.relation) or any(one is not None and one.stream for one in declared):
        return None
    sides = {select.source.name.lower(): 0} | dict.fromkeys(found.qualifiers, 1)
    near, _ = extract_time_bounds(cursor, collect_conditions(select, join), sides)
    return None if near is not None else found


def is_input(relation: Relation) -> bool:
    """Return whether rows come from a table, rather than from a query's results."""
    if isinstance(relation, Derived | Lookup):
        return is_input(relation.source)
    return isinstance(relation, Reading | Values | Union)


def _look_up_messages(
    cursor: Cursor, select: Select, join: Join, found: ResolvedRelation, table: ResolvedRelation
) -> ResolvedRelation:
    """Return messages joined with the rows of a table."""
    name, how = _name_table(cursor, join, found, table)
    sides = dict.fromkeys(found.qualifiers, 0) | dict.fromkeys(table.qualifiers, 1)
    conditions = collect_conditions(select, join)
    pairs = [(name, name) for name in join.using]
    pairs += filter(None, (find_equated_columns(part, sides) for part in conditions))
    shared = [one for one, other in pairs if one.lower() == other.lower()]
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
    if join.not_in:
        # A condition that is NULL keeps a row out, as one that is true does.
        others.insert(0, f"{texts[0]}" + "".join(f" OR {end} IS NULL" for end in ends[0]))
        del texts[0], pairs[0]
    on = scope.noted(_join_with_and([*texts, *others]), join.span)
    rest = scope.noted(_join_with_and(others), join.span) if others else None
    relation = Lookup(
        found.relation, table.relation, name, how, on, tuple(shared), tuple(pairs), rest
    )
    shown = frozenset() if how in ("semi", "anti") else table.qualifiers
    return replace(found, relation=relation, qualifiers=found.qualifiers | shown)


def _join_with_and(texts: Sequence[str]) -> str:
    return " AND ".join(f"({text})" for text in texts)


def _name_table(
    cursor: Cursor, join: Join, found: ResolvedRelation, table: ResolvedRelation
) -> tuple[str, LookupHow]:
    """Return the name of a table in a join, and the kind of the join."""
    name = join.source.alias or str(join.source.item).rpartition(".")[2]
    if table.qualifiers & found.qualifiers:
        hint = "give one of them another name, as in JOIN t AS other"
        cursor.fail(join.source.span, f"both sides are called {name}", hint)
    if join.how not in _KINDS:
        one = "window" if isinstance(found.relation, Windowing) else "message"
        problem = f"rows of {name} that no {one} has met yet would wait without end"
        cursor.fail(join.span, problem, "write JOIN, or LEFT JOIN")
    return name, _KINDS[join.how]


def _look_up_windows(
    cursor: Cursor, select: Select, join: Join, found: ResolvedRelation, table: ResolvedRelation
) -> ResolvedRelation:
    """Return windows that are joined with the rows of a table when they emit."""
    called, how = _name_table(cursor, join, found, table)
    made = found.relation
    assert isinstance(made, Windowing)
    if how not in ("inner", "left"):
        hint = "look messages up in it, before their windows, or write JOIN or LEFT JOIN"
        cursor.fail(join.span, "windows are looked up by JOIN and LEFT JOIN", hint)
    scope = Scope(cursor, found.qualifiers)
    shown = InnerColumns.of(made, select.joins.index(join))
    sides = dict.fromkeys(found.qualifiers, 0) | dict.fromkeys(table.qualifiers, 1)
    for name in join.using:
        if name.lower() not in shown.known:
            hint = f"give some of {', '.join(shown.known)}"
            scope.fail(join.span, f"the windows have no column {name}", hint)
    pairs: list[tuple[exp.Column, str]] = [(exp.column(one), one) for one in join.using]
    for part in collect_conditions(select, join, where=False):
        pair = find_equated_columns(part, sides)
        if pair is None:
            hint = "write ON w.k = t.k AND ..., and compare all else in WHERE"
            scope.fail(scope.span(part), "windows are looked up by equal columns", hint)
        left = part.this if sides[part.this.parts[0].name.lower()] == 0 else part.expression
        pairs.append((left, pair[1]))
    row = f"__muntin_table{len(made.lookups)}"
    equal = tuple(
        (_check_stable(scope, join, made, shown.column(scope, o)).text, t) for o, t in pairs
    )
    shared = tuple(other for one, other in pairs if one.name.lower() == other.lower())
    lookup = WindowLookup(table.relation, called.lower(), how, equal, shared, row)
    columns, lookups = (*list_columns(made), lookup.all), (*made.lookups, lookup)
    relation = replace(made, columns=columns, lookups=lookups)
    return replace(found, relation=relation, qualifiers=found.qualifiers | table.qualifiers)


def _check_stable(scope: Scope, join: Join, made: Windowing, column: Column) -> Column:
    """Return a column that windows are looked up by; it must stay the same in each emission."""
    firing, identity = made.spec.firing, (*made.spec.keys, START, END)
    same = {*identity, *map(quote_name, identity)}
    of_table = any(column.text.startswith(f"{one.row}.") for one in made.lookups)
    again = firing.early is not None or firing.grace > 0
    if again and column.text not in same and not of_table:
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
    for column in (found for node in nodes if node is not None for found in walk(node)):
        if isinstance(column, exp.Column) and len(column.parts) > 1:
            of_table = column.parts[0].name.lower() in table.qualifiers
            if of_table and column.parts[1].name.lower() in names:
                hint = "give it a name of its own: LEFT JOIN (SELECT id AS other_id, ... FROM t) t"
                problem = "both sides have this column, and here one of them may be NULL"
                cursor.fail(Scope(cursor, frozenset()).span(column), problem, hint)
