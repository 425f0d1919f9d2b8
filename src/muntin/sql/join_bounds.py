"""The bound of a pair in a join: a distance in time, windows of each side, or a row's versions.

Versions are joined as in the SQL of Flink and DuckDB: ``JOIN rates FOR SYSTEM_TIME AS OF orders.at
ON orders.currency = rates.currency``, and ``ASOF JOIN rates ON orders.currency = rates.currency AND
orders.at >= rates.at``. ``FOR SYSTEM_TIME AS OF PROCTIME()`` is the newest row by arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp

from muntin.model.bounds import AsOf, Bound, ByArrival, Newest, Within
from muntin.model.pipeline import Windowing
from muntin.sql.catalog import ResolvedRelation, resolve_bound_alias
from muntin.sql.cursor import Cursor, Span
from muntin.sql.expressions import Scope
from muntin.sql.intervals import Interval
from muntin.sql.syntax import Join
from muntin.sql.time_bounds import (
    Sides,
    TimeBounds,
    extract_time_bounds,
    find_compared_times,
    find_equated_columns,
)

OVER_HINT = "write JOIN Orders OVER (ORDER BY time RANGE INTERVAL '2' MINUTE PRECEDING) ON ..."
_NEAR = (
    "write ON a.id = b.id AND a.ts BETWEEN b.ts - INTERVAL '4' HOUR AND b.ts, "
    "or JOIN b OVER (ORDER BY ts RANGE INTERVAL '4' HOUR PRECEDING) ON ..."
)
_COMPARED = "write ASOF JOIN rates ON orders.currency = rates.currency AND orders.at >= rates.at"
_TIME = "write FOR SYSTEM_TIME AS OF orders.at"

TimeColumns = tuple[str | None, str | None]


@dataclass(frozen=True)
class JoinSide:
    """One side of a join, as it was written.

    Attributes:
        resolved: Its rows.
        name: Qualifier of its columns.
        kind: ``ROWS`` or ``RANGE``, where it has a window.
        length: Length of its window, which ends at the row.
        time: Its event-time column, if it is known.
    """

    resolved: ResolvedRelation
    name: str
    kind: str | None
    length: Interval | None
    time: str | None

    def own(self, name: str) -> str:
        """Return the name of a column in its rows; the alias of a bound becomes the bound."""
        return resolve_bound_alias(self.resolved.relation, name)


@dataclass(frozen=True)
class PairBound:
    """The bound, event times and other conditions of a pair, besides its equal columns.

    Attributes:
        bound: Bound of the pair.
        times: Event-time columns, left and right.
        rest: Other parts of the condition.
    """

    bound: Bound
    times: TimeColumns
    rest: list[exp.Expr]


def lower_join_bound(
    cursor: Cursor,
    join: Join,
    conditions: Sequence[exp.Expr],
    left: JoinSide,
    right: JoinSide,
    *,
    changes: bool,
) -> PairBound:
    """Return the bound of a join's pairs; a join without any bound is refused.

    With ``changes``, a window that is emitted again also emits its pair again.
    """
    sides = {left.name.lower(): 0, right.name.lower(): 1}
    near, rest = extract_time_bounds(cursor, conditions, sides)
    if near is not None:
        near.columns = {side: (left, right)[side].own(name) for side, name in near.columns.items()}
    named: TimeColumns = (None, None) if near is None else (near.columns[0], near.columns[1])
    if join.as_of or join.source.as_of is not None:
        bound, named, rest = _lower_version_bound(cursor, join, near, rest, (left, right), sides)
    elif _have_equal_times(join, rest, left, right, sides):
        bound = (
            Newest() if changes and (_emits_again(left) or _emits_again(right)) else Within(0, 0)
        )
    else:
        bound = _lower_bound(cursor, join, near, left, right)
    span = join.span if near is None else near.span
    one, other = (
        _choose_time(cursor, half, time, span)
        for half, time in zip((left, right), named, strict=True)
    )
    # The design's implicit condition: both sides have an event-time column of the same name.
    times = (one or other, other or one) if bound.axis == "time" else (None, None)
    return PairBound(bound, times, rest)


def _choose_time(cursor: Cursor, half: JoinSide, time: str | None, span: Span) -> str | None:
    """Return the event-time column of a side, which a condition may have named."""
    marked = half.resolved.marks.time
    if time is None:
        return half.time
    if marked is not None and marked.lower() != time.lower():
        problem = f"the watermark of {half.name} is one of {marked}, and {time} is compared"
        cursor.fail(span, problem, f"compare {half.name}.{marked}")
    return marked or time


def _have_equal_times(
    join: Join, conditions: Sequence[exp.Expr], left: JoinSide, right: JoinSide, sides: Sides
) -> bool:
    """Return whether equal event times are the only bound of a pair."""
    if left.time is None or right.time is None or left.length or right.length or join.within:
        return False
    pairs = [(name, name) for name in join.using]
    equal = filter(None, (find_equated_columns(part, sides) for part in conditions))
    pairs += [(left.own(one), right.own(other)) for one, other in equal]
    times = left.time.lower(), right.time.lower()
    return times in [(one.lower(), other.lower()) for one, other in pairs]


def _emits_again(half: JoinSide) -> bool:
    """Return whether a side consists of windows that are emitted more than once."""
    windows = half.resolved.relation
    if not isinstance(windows, Windowing):
        return False
    return windows.spec.firing.early is not None or windows.spec.firing.grace > 0


def _lower_bound(
    cursor: Cursor, join: Join, near: TimeBounds | None, left: JoinSide, right: JoinSide
) -> Bound:
    lengths = [half.length for half in (left, right) if half.length is not None]
    if join.within is not None:
        if lengths or near is not None:
            hint = "leave WITHIN out, or the other bound"
            cursor.fail(join.within.span, "the pair is bounded twice", hint)
        return Within(join.within.before, join.within.after)
    if near is not None:
        if lengths:
            hint = "leave OVER out, or the comparison of times"
            cursor.fail(near.span, "OVER bounds a pair already", hint)
        assert near.least is not None
        assert near.most is not None
        if near.least > near.most:
            hint = "let the first bound lie before the second one"
            cursor.fail(near.span, "no time lies between these bounds", hint)
        return Within(-near.least, near.most)
    if not lengths:
        refuse_unbounded_join(cursor, join)
    kinds = {half.kind for half in (left, right) if half.kind is not None}
    if len(kinds) > 1:
        cursor.fail(lengths[1].span, "one side has ROWS, the other RANGE", OVER_HINT)
    # A partner on one side is at most as old as the length of that side's window.
    before = right.length or lengths[0]
    after = left.length or lengths[0]
    return Within(before.value, after.value, "rows" if kinds == {"ROWS"} else "time")


def refuse_unbounded_join(cursor: Cursor, join: Join) -> NoReturn:
    """Refuse a join of two streams that would keep all of their messages."""
    cursor.fail(join.span, "nothing bounds a pair in time or rows", _NEAR)


def _lower_version_bound(
    cursor: Cursor,
    join: Join,
    near: TimeBounds | None,
    rest: list[exp.Expr],
    halves: tuple[JoinSide, JoinSide],
    sides: Sides,
) -> tuple[Bound, TimeColumns, list[exp.Expr]]:
    """Return the bound of a join with the right row's version valid at the left row's time."""
    asked = join.source.as_of
    if asked is not None and is_processing_time(asked):
        return _build_arrival_bound(cursor, join, near, halves), (None, None), rest
    times: TimeColumns = (
        (None, None) if asked is None else (_find_as_of_column(cursor, asked, sides), None)
    )
    most = None
    if near is not None:
        if near.most != 0 or near.least is None or near.least > 0:
            problem = "a version is as old as the row it is joined with, or older"
            hint = "write AND a.at >= b.at AND b.at >= a.at - INTERVAL '1' HOUR"
            cursor.fail(near.span, problem, hint)
        most, times = -near.least, (near.columns[0], near.columns[1])
    elif join.as_of:
        rest, times = _split_as_of_condition(cursor, join, rest, sides)
    else:
        _check_has_time(cursor, join, halves[1])
    if join.within or any(half.length for half in halves):
        hint = "leave OVER or WITHIN out; AND b.at >= a.at - INTERVAL '1' HOUR bounds its age"
        cursor.fail(join.span, "a version is bounded by nothing else", hint)
    return AsOf(most), times, rest


def _check_has_time(cursor: Cursor, join: Join, right: JoinSide) -> None:
    """Refuse versions or rows of a table without an event time."""
    if right.time is None:
        problem = f"the rows of {right.name} are no versions: they have no event time"
        hint = "write WATERMARK at DELAY OF ... behind it, or JOIN ... ON where it doesn't change"
        cursor.fail(join.source.span, problem, hint)


def is_processing_time(time: exp.Expr) -> bool:
    """Return whether an expression is Flink's ``PROCTIME()``."""
    return isinstance(time, exp.Anonymous) and time.name.upper() == "PROCTIME"


def _build_arrival_bound(
    cursor: Cursor, join: Join, near: TimeBounds | None, halves: tuple[JoinSide, JoinSide]
) -> Bound:
    """Return the bound of a join with the right side's newest row when the left one arrives."""
    if near is not None or join.within or any(half.length for half in halves):
        span = join.span if near is None else near.span
        cursor.fail(span, "the newest row is bounded by nothing else", "leave the other bound out")
    _check_has_time(cursor, join, halves[1])
    return ByArrival()


def _find_as_of_column(cursor: Cursor, time: exp.Expr, sides: Sides) -> str:
    """Return the left column that ``AS OF`` names."""
    span = Scope(cursor).span(time)
    if not isinstance(time, exp.Column):
        cursor.fail(span, "versions are those of the time of a column", _TIME)
    parts = [part.name for part in time.parts]
    if len(parts) > 1 and sides.get(parts[0].lower()) != 0:
        left = next(iter(sides))
        cursor.fail(span, f"versions are those of a time of {left}", _TIME)
    return parts[-1]


def _split_as_of_condition(
    cursor: Cursor, join: Join, conditions: Sequence[exp.Expr], sides: Sides
) -> tuple[list[exp.Expr], TimeColumns]:
    """Return the conditions besides ``a.at >= b.at``, and the two columns that it compares."""
    found = [(part, find_compared_times(cursor, part, sides)) for part in conditions]
    times = [columns for _, columns in found if columns is not None]
    if len(times) != 1:
        problem = "ASOF compares one time of each side" if not times else "two times are compared"
        cursor.fail(join.span, problem, _COMPARED)
    return [part for part, columns in found if columns is None], times[0]
