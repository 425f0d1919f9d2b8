"""Joins with tables that don't change: each message with the rows that it meets there.

Such a join has no state and no bound in time: a message is joined when it comes, before its
windows are formed. Which tables change is known when the query runs; here it is what nothing
bounds in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from muntin.model.pipeline import (
    SIDE_COLUMNS,
    Derived,
    Lookup,
    LookupHow,
    Reading,
    Relation,
    quoted,
    tables_of,
)
from muntin.sql.catalog import Catalog, Resolved
from muntin.sql.cursor import Cursor
from muntin.sql.expressions import Scope, Swaps, walk
from muntin.sql.joins import Resolve, conditions_of
from muntin.sql.nearness import nearness
from muntin.sql.syntax import Join, Select, WindowCall
from muntin.sql.windowcalls import meaning

_KINDS: dict[str, LookupHow] = {"inner": "inner", "left": "left", "semi": "semi", "anti": "anti"}
_FIRST = "join in a view, and form the windows of its rows"

Rows = Callable[[], tuple[WindowCall | None, Resolved]]
"""Finds what stands behind ``FROM``."""


def looked_up(
    cursor: Cursor, select: Select, catalog: Catalog, resolve: Resolve, rows: Rows
) -> tuple[WindowCall | None, Resolved] | None:
    """What stands behind ``FROM``, and what its rows meet; ``None`` where streams are joined."""
    known = [_table(cursor, select, join, catalog, resolve) for join in select.joins]
    tables = [one for one in known if one is not None]
    if len(tables) < len(known):
        return None
    call, found = rows()
    if not _is_input(found.relation):
        return None
    if call is not None:
        windows = meaning(cursor.sql, call).windows
        if windows.retracts or windows.axis == "rows":
            cursor.fail(select.source.span, "these windows are formed before JOIN", _FIRST)
    for join, table in zip(select.joins, tables, strict=True):
        found = _joined(cursor, select, join, found, table)
    return call, found


def _table(
    cursor: Cursor, select: Select, join: Join, catalog: Catalog, resolve: Resolve
) -> Resolved | None:
    """What a join looks up, unless it is bounded as one of streams is."""
    item = join.source.item
    if isinstance(item, WindowCall) or join.over or join.left_over or join.within or join.by_where:
        return None
    found = resolve(item, join.source.alias)
    if join.source.watermark is not None or found.marks.time is not None:
        return None
    declared = [catalog.tables.get(name) for name in tables_of(found.relation)]
    if not _is_input(found.relation) or any(one is not None and one.stream for one in declared):
        return None
    left = select.source.alias or str(select.source.item).rpartition(".")[2]
    names = left.lower(), next(iter(found.qualifiers), "")
    near, _ = nearness(cursor, conditions_of(select, join), names)
    return None if near is not None else found


def _is_input(relation: Relation) -> bool:
    """Whether rows are a table's, and not what a query emits."""
    if isinstance(relation, Derived | Lookup):
        return _is_input(relation.source)
    return isinstance(relation, Reading)


def _joined(
    cursor: Cursor, select: Select, join: Join, found: Resolved, table: Resolved
) -> Resolved:
    """Rows with those that they meet in a table."""
    name = join.source.alias or str(join.source.item).rpartition(".")[2]
    if table.qualifiers & found.qualifiers:
        hint = "give one of them another name, as in JOIN t AS other"
        cursor.fail(join.source.span, f"both sides are called {name}", hint)
    if join.how not in _KINDS:
        problem = f"rows of {name} that no message has met yet would wait without end"
        cursor.fail(join.span, problem, "write JOIN, or LEFT JOIN")
    how = _KINDS[join.how]
    shared = [*join.using, *_same(select, join, found, table)]
    if how == "left":
        _check_shared(cursor, select, table, shared)
    scope = Scope(cursor, frozenset())
    texts = [_text(scope, part, found, table) for part in conditions_of(select, join)]
    whole = " AND ".join(texts if len(texts) < 2 else [f"({text})" for text in texts])
    on = scope.noted(whole, join.span) if whole else None
    relation = Lookup(found.relation, table.relation, name, how, on, join.using, tuple(shared))
    shown = frozenset() if how in ("semi", "anti") else table.qualifiers
    return replace(found, relation=relation, qualifiers=found.qualifiers | shown)


def _text(scope: Scope, part: exp.Expr, found: Resolved, table: Resolved) -> str:
    """A condition, with the sides' names as they are called when it runs."""
    columns = [*_sided(part, found, table)]
    sided = dict(columns)
    if isinstance(part, exp.EQ) and {part.this, part.expression} == sided.keys():
        # The columns of ``IN`` needn't say whose they are.
        return " = ".join(
            ".".join([SIDE_COLUMNS[sided[column]], *(quoted(p.name) for p in column.parts[1:])])
            for column in (part.this, part.expression)
        )
    swaps: Swaps = {}
    for column, side in columns:
        start, end = scope.standing(column)[0], scope.span(column.parts[0])[1]
        swaps[start, end] = SIDE_COLUMNS[side]
    return scope.rendered(part, swaps)


def _sided(node: exp.Expr, found: Resolved, table: Resolved) -> Iterator[tuple[exp.Column, int]]:
    """The columns that say whose they are, and on which side that is."""
    for column in walk(node):
        if isinstance(column, exp.Column) and len(column.parts) > 1:
            name = column.parts[0].name.lower()
            if name in found.qualifiers | table.qualifiers:
                yield column, int(name in table.qualifiers)


def _same(select: Select, join: Join, found: Resolved, table: Resolved) -> Iterator[str]:
    """The columns of one name that a condition says are equal."""
    for part in conditions_of(select, join):
        if not isinstance(part, exp.EQ):
            continue
        sides = {side: column for column, side in _sided(part, found, table)}
        both = {part.this, part.expression} == set(sides.values())
        if both and len(sides) == 2 and sides[0].name.lower() == sides[1].name.lower():
            yield sides[0].name


def _check_shared(cursor: Cursor, select: Select, table: Resolved, shared: Sequence[str]) -> None:
    """Refuse a column of the table that is the message's where nothing is met, too."""
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
