"""Joins of streams, lowered to the spec that the Python sentence ``join`` makes.

``SELECT id, value, cost FROM Shipments JOIN Orders OVER (ROWS 3 PRECEDING) ON Orders.id =
Shipments.id`` is the first statement of the Samza SQL window operator design. A side without a
window would have to be kept without end there; here its partners lie no farther than the other's
window reaches, either way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot import exp

from muntin.model.errors import OptionError, SqlError
from muntin.model.joins import Bound, How, JoinNulls, JoinSpec, Newest, Side, Within, firing_of
from muntin.model.pipeline import SIDE_COLUMNS, Column, Joining, Windowing
from muntin.model.policies import Firing
from muntin.sql.catalog import Resolved, end_of, marks_of
from muntin.sql.cursor import Cursor, Span, span_of
from muntin.sql.expressions import Scope, Swaps, walk
from muntin.sql.firings import emit_spans, firing
from muntin.sql.lengths import Length
from muntin.sql.nearness import Nearness, nearness
from muntin.sql.overs import frame_of, order_of
from muntin.sql.syntax import Emit, Join, Select, Source, TableItem, WindowCall
from muntin.sql.versions import versioned

_ON = "write ON Orders.id = Shipments.id"
_OVER = "write JOIN Orders OVER (ORDER BY time RANGE INTERVAL '2' MINUTE PRECEDING) ON ..."
_NEAR = (
    "write ON a.id = b.id AND a.ts BETWEEN b.ts - INTERVAL '4' HOUR AND b.ts, "
    "or JOIN b OVER (ORDER BY ts RANGE INTERVAL '4' HOUR PRECEDING) ON ..."
)


@dataclass(frozen=True)
class _Half:
    """One side of a join as it was written."""

    resolved: Resolved
    name: str
    length: Length | None
    kind: str | None
    time: str | None


Resolve = Callable[[TableItem, str | None], Resolved]
"""Finds a side's rows, by a table's name or by a query, and by its alias."""


def join_of(cursor: Cursor, select: Select, resolve: Resolve) -> tuple[Joining, dict[str, Span]]:
    """A join, and where its parts stand."""
    text = cursor.sql
    _check(cursor, select)
    join = select.joins[0]
    emit = _emit(cursor, select, join)
    left = _half(cursor, select.source, resolve, join.left_over)
    right = _half(cursor, join.source, resolve, join.over)
    if left.name.lower() == right.name.lower():
        hint = "give one of them another name, as in JOIN t AS other"
        raise SqlError(text, join.source.span, f"both sides are called {left.name}", hint)
    names = (left.name.lower(), right.name.lower())
    near, conditions = nearness(cursor, conditions_of(select, join), names)
    bound, times, conditions = _bounded(cursor, join, near, conditions, (left, right), emit)
    at = join.span if near is None else near.span
    left, right = (_timed(cursor, *one, at) for one in zip((left, right), times, strict=True))
    # The design's implicit condition: both sides have a time of the same name.
    left = replace(left, time=left.time or right.time)
    right = replace(right, time=right.time or left.time)
    pairs, chosen = _pairs(cursor, select, join, conditions, (left, right))
    spans = _spans(select, join)
    policies = firing_of(firing(text, emit, bound.axis, join=True))
    sides = [
        _side(half, keys, policies, bound)
        for half, keys in zip((left, right), zip(*pairs, strict=True), strict=True)
    ]
    how: How = join.how  # type: ignore[assignment]
    known = how in ("inner", "semi") or isinstance(bound, Newest)
    nulls: JoinNulls = "reject" if known else "unmatched"
    try:
        spec = JoinSpec(sides[0], sides[1], bound, how, nulls=nulls)
    except OptionError as error:
        at = spans.get(error.option, join.span)
        raise SqlError(text, at, f"{error.option} {error.problem}", _hint(error)) from error
    columns, bare = _shown(cursor, select, chosen, names)
    if isinstance(bound, Newest):
        _check_known(cursor, select, chosen, columns)
    scope = Scope(cursor, frozenset())
    places = {name: place for place, name in enumerate(names)}
    texts = [sided(scope, part, places) for part in chosen]
    where = " AND ".join(texts if len(texts) < 2 else [f"({text})" for text in texts]) or None
    relations = left.resolved.relation, right.resolved.relation
    clocks = left.resolved.marks.clock, right.resolved.marks.clock
    shown, merged = (left.name, right.name), bool(join.using)
    made = Joining(*relations, shown, spec, columns, where, bare, merged, clocks)
    return made, spans


def _emit(cursor: Cursor, select: Select, join: Join) -> Emit | None:
    """``EMIT`` with the grace that stands behind ``WITHIN``."""
    if join.within is None or join.within.grace is None:
        return select.emit
    emit, grace = select.emit or Emit(), join.within.grace
    if emit.grace is not None:
        raise SqlError(cursor.sql, emit.spans["grace"], "WITHIN says so already", "say it once")
    return replace(emit, grace=grace, spans={**emit.spans, "grace": grace.span})


def _spans(select: Select, join: Join) -> dict[str, Span]:
    """Where the parts of a join stand."""
    spans = {"select": select.span, "within": join.span, "on": join.span}
    spans["FROM"] = select.source.span
    for source in (select.source, join.source):
        spans[f"FROM {source.item}"] = source.span
    return spans | emit_spans(select.emit)


def _side(half: _Half, keys: tuple[str, ...], policies: Firing, bound: Bound) -> Side:
    marks, timed = half.resolved.marks, bound.axis == "time"
    time, late = (half.time, marks.lateness) if timed else (None, 0)
    idle = marks.idle if timed else None
    return Side(keys, time, None, policies, late, marks.max_ahead, marks.offset, idle=idle)


def _hint(error: OptionError) -> str:
    if error.option == "within":
        return "write OFFSET FOR (partition, offset) behind each table"
    if error.option == "time":
        return "write WATERMARK ts DELAY OF INTERVAL '1' MINUTE behind each table"
    return error.hint


def _check(cursor: Cursor, select: Select) -> None:
    text = cursor.sql
    if select.joins[0].not_in:
        hint = "write NOT EXISTS (SELECT ... WHERE a.id = b.id AND ...)"
        problem = "NOT IN is unknown where a value is NULL, which a stream never knows"
        cursor.fail(select.joins[0].span, problem, hint)
    if len(select.joins) > 1:
        hint = "join two streams here, and the third in a query of its own"
        raise SqlError(text, select.joins[1].span, "three streams aren't joined at once", hint)
    if select.group or select.having is not None:
        hint = "name the pairs by WITH or CREATE VIEW, and group those"
        raise SqlError(text, select.group_span, "GROUP BY can't stand beside JOIN", hint)
    if select.distinct:
        raise SqlError(text, select.span, "DISTINCT can't stand beside JOIN", "leave it out")


def _half(cursor: Cursor, source: Source, resolve: Resolve, over: exp.Window | None) -> _Half:
    if isinstance(source.item, WindowCall):
        hint = "group by its windows in a query in parentheses, and join that"
        raise SqlError(cursor.sql, source.span, "a side of a join is a table or a query", hint)
    if isinstance(source.item, Select) and source.alias is None:
        hint = "write (SELECT ...) AS one"
        raise SqlError(cursor.sql, source.span, "this side of the join has no name", hint)
    resolved = resolve(source.item, source.alias)
    resolved = replace(resolved, marks=marks_of(resolved.marks, cursor.sql, source))
    name = source.alias or str(source.item).rpartition(".")[2]
    if over is None:
        return _Half(resolved, name, None, None, resolved.marks.time or end_of(resolved.relation))
    scope = Scope(cursor, resolved.qualifiers)
    kind, length = frame_of(scope, over)
    order = order_of(scope, over)
    if kind == "RANGE" and order is None:
        raise SqlError(cursor.sql, scope.span(over), "RANGE needs the column of event times", _OVER)
    marked = resolved.marks.time
    if kind == "RANGE" and marked is not None and order != marked:
        problem = f"the watermark is one of {marked}, the window is ordered by {order}"
        raise SqlError(cursor.sql, scope.span(over), problem, f"order by {marked}")
    return _Half(resolved, name, length, kind, order or marked)


def conditions_of(select: Select, join: Join) -> list[exp.Expr]:
    """What must hold of a pair, part by part: of ``FROM a, b`` all that is in ``WHERE``."""
    condition = select.where if join.by_where else join.on
    if condition is None:
        return []
    condition = condition.unnest()
    return list(condition.flatten()) if isinstance(condition, exp.And) else [condition]


def _bounded(
    cursor: Cursor,
    join: Join,
    near: Nearness | None,
    conditions: list[exp.Expr],
    halves: tuple[_Half, _Half],
    emit: Emit | None,
) -> tuple[Bound, tuple[str | None, str | None], list[exp.Expr]]:
    """What bounds a pair, the event times that were named for it, and the other conditions."""
    left, right = halves
    names = (left.name.lower(), right.name.lower())
    version = versioned(cursor, join, near, conditions, names)
    if version is not None:
        if near is None and not join.as_of and right.time is None:
            problem = f"the rows of {right.name} are no versions: they have no event time"
            hint = (
                "write WATERMARK at DELAY OF ... behind it, or JOIN ... ON where it doesn't change"
            )
            raise SqlError(cursor.sql, join.source.span, problem, hint)
        if left.length or right.length or join.within:
            hint = "leave OVER or WITHIN out; AND b.at >= a.at - INTERVAL '1' HOUR bounds its age"
            raise SqlError(cursor.sql, join.span, "a version is bounded by nothing else", hint)
        return version.bound, version.columns, version.rest
    if _at_once(join, conditions, left, right):
        again = emit is not None and emit.changes and (_revises(left) or _revises(right))
        return Newest() if again else Within(0, 0), (None, None), conditions
    times = (None, None) if near is None else (near.columns[0], near.columns[1])
    return _bound(cursor, join, near, left, right), times, conditions


def _revises(half: _Half) -> bool:
    """Whether a side is windows that are emitted again."""
    windows = half.resolved.relation
    if not isinstance(windows, Windowing):
        return False
    return windows.spec.firing.early is not None or windows.spec.firing.grace > 0


def _check_known(
    cursor: Cursor, select: Select, chosen: Sequence[exp.Expr], shown: tuple[Column, ...] | None
) -> None:
    """Refuse a join at each change of whose rows nobody would know which one replaces another."""
    join = select.joins[0]
    if not join.using:
        hint = "write USING (k, window_start, window_end): each row shows its key, once"
        cursor.fail(join.span, "a pair that is emitted again is known by its key", hint)
    if chosen:
        at = Scope(cursor, frozenset()).span(chosen[0])
        problem = "WHERE would leave a pair as it was that it doesn't choose any more"
        cursor.fail(at, problem, "choose among the rows of the table that they are written to")
    if shown is None:
        return
    there = {c.name.lower() for c in shown if c.text.rpartition(".")[2].lower() == c.name.lower()}
    for name in join.using:
        if name.lower() not in there:
            hint = "show it, as it is"
            cursor.fail(select.span, f"a pair is known by {name}, which isn't shown", hint)


def _timed(cursor: Cursor, half: _Half, time: str | None, span: Span) -> _Half:
    """A side whose event time a condition has named, where one has."""
    if time is None:
        return half
    marked = half.resolved.marks.time
    if marked is not None and marked.lower() != time.lower():
        problem = f"the watermark of {half.name} is one of {marked}, and {time} is compared"
        raise SqlError(cursor.sql, span, problem, f"compare {half.name}.{marked}")
    return replace(half, time=marked or time)


def _at_once(join: Join, conditions: Sequence[exp.Expr], left: _Half, right: _Half) -> bool:
    """Whether the times of a pair must be equal, and nothing else bounds it."""
    if left.time is None or right.time is None or left.length or right.length or join.within:
        return False
    pairs = [(name, name) for name in join.using]
    names = {left.name.lower(): 0, right.name.lower(): 1}
    pairs += filter(None, (pair_of(part, names) for part in conditions))
    times = left.time.lower(), right.time.lower()
    return times in [(one.lower(), other.lower()) for one, other in pairs]


def _bound(cursor: Cursor, join: Join, near: Nearness | None, left: _Half, right: _Half) -> Bound:
    lengths = [half.length for half in (left, right) if half.length is not None]
    if join.within is not None:
        if lengths or near is not None:
            hint = "leave WITHIN out, or the other bound"
            raise SqlError(cursor.sql, join.within.span, "the pair is bounded twice", hint)
        return Within(join.within.before, join.within.after)
    if near is not None:
        if lengths:
            hint = "leave OVER out, or the comparison of times"
            raise SqlError(cursor.sql, near.span, "OVER bounds a pair already", hint)
        assert near.least is not None
        assert near.most is not None
        if near.least > near.most:
            hint = "let the first bound lie before the second one"
            raise SqlError(cursor.sql, near.span, "no time lies between these bounds", hint)
        return Within(-near.least, near.most)
    if not lengths:
        unbounded(cursor, join)
    kinds = {half.kind for half in (left, right) if half.kind is not None}
    if len(kinds) > 1:
        raise SqlError(cursor.sql, lengths[1].span, "one side has ROWS, the other RANGE", _OVER)
    # Partners on a side lie as far before as its window reaches back.
    before = right.length or lengths[0]
    after = left.length or lengths[0]
    return Within(before.value, after.value, "rows" if kinds == {"ROWS"} else "time")


def unbounded(cursor: Cursor, join: Join) -> NoReturn:
    """Refuse a join of two streams that would keep all of their messages."""
    raise SqlError(cursor.sql, join.span, "nothing bounds a pair in time or rows", _NEAR)


def sided(scope: Scope, node: exp.Expr, sides: Mapping[str, int]) -> str:
    """An expression over pairs: what a column is qualified by becomes what its side is called.

    Args:
        scope: Where it stands.
        node: The expression.
        sides: The names that columns may be qualified by, each with 0 for the left side, or 1.
    """
    swaps: Swaps = {}
    for found in walk(node):
        if isinstance(found, exp.Column) and len(found.parts) > 1:
            first = found.parts[0]
            if first.name.lower() in sides:
                place = scope.standing(found)
                end = span_of(first)
                assert end is not None
                swaps[place[0], end[1]] = SIDE_COLUMNS[sides[first.name.lower()]]
    return scope.rendered(node, swaps)


def _shown(
    cursor: Cursor, select: Select, chosen: Sequence[exp.Expr], sides: tuple[str, str]
) -> tuple[tuple[Column, ...] | None, tuple[str, ...]]:
    """The select list, and the columns that don't say whose they are, in the conditions too."""
    scope = Scope(cursor, frozenset())
    scalars = [item.scalar for item in select.items if item.scalar is not None]
    scalars += chosen
    bare = []
    for scalar in scalars:
        for node in walk(scalar):
            if isinstance(node, exp.Column) and node.parts[0].name.lower() not in sides:
                bare.append(node.parts[0].name)
            if isinstance(node, exp.Window):
                hint = "compute it from the pairs"
                scope.fail(scope.span(node), "OVER can't stand beside JOIN", hint)
    if len(select.items) == 1 and select.items[0].scalar is None:
        return None, tuple(bare)
    found: list[Column] = []
    for item in select.items:
        if item.scalar is None:
            scope.fail(item.span, "* stands beside other columns", "name the columns")
        text = sided(scope, item.scalar, {name: place for place, name in enumerate(sides)})
        last = item.scalar.name if isinstance(item.scalar, exp.Column) else None
        name = item.alias or last or scope.rendered(item.scalar, {})
        if any(name.lower() == column.name.lower() for column in found):
            hint = "give it another name with AS"
            scope.fail(item.span, f"two columns are called {name}", hint)
        found.append(Column(name, text))
    return tuple(found), tuple(bare)


def _pairs(
    cursor: Cursor,
    select: Select,
    join: Join,
    conditions: Sequence[exp.Expr],
    halves: tuple[_Half, _Half],
) -> tuple[tuple[tuple[str, str], ...], list[exp.Expr]]:
    """The equal columns of a pair, and what chooses among the pairs.

    Of an inner join it is the same whether a condition stands behind ``ON`` or ``WHERE``.
    """
    chosen = [] if select.where is None or join.by_where else [select.where]
    if join.using:
        return tuple((name, name) for name in join.using), chosen
    equal, others = [], []
    names = {half.name.lower(): place for place, half in enumerate(halves)}
    for part in conditions:
        pair = pair_of(part, names)
        if pair is None:
            others.append(part)
        else:
            equal.append(pair)
    if (others and join.how != "inner") or not equal:
        at = Scope(cursor, frozenset()).span(others[0]) if others else join.span
        problem = "a join is one of equal columns, one of each side"
        raise SqlError(cursor.sql, at, problem, _ON)
    return tuple(equal), [*others, *chosen]


def pair_of(node: exp.Expr, sides: Mapping[str, int]) -> tuple[str, str] | None:
    """The columns, left and right, that a condition says are equal; ``sides`` as of ``sided``."""
    if not isinstance(node, exp.EQ):
        return None
    found: dict[int, str] = {}
    for column in (node.this, node.expression):
        parts = [p.name for p in column.parts] if isinstance(column, exp.Column) else []
        if len(parts) == 2 and parts[0].lower() in sides:
            found[sides[parts[0].lower()]] = parts[1]
    return (found[0], found[1]) if len(found) == 2 else None
