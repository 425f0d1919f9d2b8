"""Lowers the bound of a join: a distance in time, a window of each side, or the version of a row.

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
from muntin.model.inputs import InputSpec
from muntin.model.pipeline import WindowRelation
from muntin.sql.catalog import ResolvedRelation, resolve_bound_alias
from muntin.sql.cursor import Cursor, Span
from muntin.sql.expressions import Scope
from muntin.sql.foreign_functions import is_processing_time
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
_DISTANCE_HINT = (
    "write ON a.id = b.id AND a.ts BETWEEN b.ts - INTERVAL '4' HOUR AND b.ts, "
    "or JOIN b OVER (ORDER BY ts RANGE INTERVAL '4' HOUR PRECEDING) ON ..."
)
_ASOF_HINT = "write ASOF JOIN rates ON orders.currency = rates.currency AND orders.at >= rates.at"
_AS_OF_HINT = "write FOR SYSTEM_TIME AS OF orders.at"

TimeColumns = tuple[str | None, str | None]


@dataclass(frozen=True)
class JoinSide:
    """One side of a join.

    Attributes:
        name: Qualifier of its columns.
        kind: ``ROWS`` or ``RANGE``; ``None`` without a window.
        length: Length of its window, which ends at the row; ``None`` without a window.
        time: Event-time column; ``None`` if neither the side nor its window names one.
    """

    resolved: ResolvedRelation
    name: str
    kind: str | None
    length: Interval | None
    time: str | None

    def find_clock(self, spec: InputSpec) -> str | None:
        """Return the column of arrival times, if the side reads it."""
        return self.resolved.input_options.find_clock(spec)

    def resolve_column(self, name: str) -> str:
        """Return the name of a column in the relation; the alias of a bound becomes the bound."""
        return resolve_bound_alias(self.resolved.relation, name)


@dataclass(frozen=True)
class PairBound:
    """The bound of a pair, and the conditions that aren't part of it.

    Attributes:
        times: Event-time columns, left and right.
        rest: Other conditions, including the equal columns.
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
    """Return the bound of the pairs of a join; refuse a join without one.

    With ``changes`` (``EMIT CHANGES``), a pair of windows is emitted again when one of them is.
    """
    sides = {left.name.lower(): 0, right.name.lower(): 1}
    time_bounds, rest = extract_time_bounds(cursor, conditions, sides)
    compared_times: TimeColumns = (None, None)
    if time_bounds is not None:
        left_column = left.resolve_column(time_bounds.columns[0])
        right_column = right.resolve_column(time_bounds.columns[1])
        time_bounds.columns = {0: left_column, 1: right_column}
        compared_times = left_column, right_column
    if join.is_asof or join.source.as_of is not None:
        bound, compared_times, rest = _lower_version_bound(
            cursor, join, time_bounds, rest, (left, right), sides
        )
    elif _have_equal_times(join, rest, left, right, sides):
        emits_again = changes and (_emits_again(left) or _emits_again(right))
        bound = Newest() if emits_again else Within(0, 0)
    else:
        bounded = join.within or time_bounds or left.length or right.length
        if not bounded:
            refuse_unbounded_join(cursor, join, left.name, rest)
        bound = _lower_bound(cursor, join, time_bounds, left, right)
    span = join.span if time_bounds is None else time_bounds.span
    left_time = _choose_time(cursor, left, compared_times[0], span)
    right_time = _choose_time(cursor, right, compared_times[1], span)
    # A side without an event-time column has one of the same name as the other side.
    if bound.axis != "time":
        return PairBound(bound, (None, None), rest)
    return PairBound(bound, (left_time or right_time, right_time or left_time), rest)


def _choose_time(cursor: Cursor, side: JoinSide, time: str | None, span: Span) -> str | None:
    """Return the event-time column of a side; ``time`` is the one that a condition compares."""
    watermark_time = side.resolved.input_options.time
    if time is None:
        return side.time
    if watermark_time is not None and watermark_time.lower() != time.lower():
        problem = f"the watermark of {side.name} follows {watermark_time}, and {time} is compared"
        cursor.fail(span, problem, f"compare {side.name}.{watermark_time}")
    return watermark_time or time


def _have_equal_times(
    join: Join, conditions: Sequence[exp.Expr], left: JoinSide, right: JoinSide, sides: Sides
) -> bool:
    """Return whether the condition bounds a pair only by equal event times."""
    if left.time is None or right.time is None or left.length or right.length or join.within:
        return False
    pairs = [(name, name) for name in join.using]
    equal = filter(None, (find_equated_columns(part, sides) for part in conditions))
    pairs += [(left.resolve_column(one), right.resolve_column(other)) for one, other in equal]
    times = left.time.lower(), right.time.lower()
    return times in [(one.lower(), other.lower()) for one, other in pairs]


def _emits_again(side: JoinSide) -> bool:
    """Return whether a side consists of windows that may be emitted more than once."""
    relation = side.resolved.relation
    if not isinstance(relation, WindowRelation):
        return False
    return relation.spec.firing.early is not None or relation.spec.firing.grace > 0


def _lower_bound(
    cursor: Cursor, join: Join, time_bounds: TimeBounds | None, left: JoinSide, right: JoinSide
) -> Bound:
    intervals = [side.length for side in (left, right) if side.length is not None]
    if join.within is not None:
        if intervals or time_bounds is not None:
            hint = "leave out WITHIN, or the other bound"
            cursor.fail(join.within.span, "the join has two bounds", hint)
        return Within(join.within.before, join.within.after)
    if time_bounds is not None:
        if intervals:
            hint = "leave out OVER, or the comparison of times"
            cursor.fail(time_bounds.span, "OVER bounds the join already", hint)
        assert time_bounds.least is not None
        assert time_bounds.most is not None
        if time_bounds.least > time_bounds.most:
            cursor.fail(time_bounds.span, "no time lies between these bounds", "swap the bounds")
        return Within(-time_bounds.least, time_bounds.most)
    kinds = {side.kind for side in (left, right) if side.kind is not None}
    if len(kinds) > 1:
        cursor.fail(intervals[1].span, "one side has ROWS, the other RANGE", OVER_HINT)
    # A partner on one side is at most as old as the length of that side's window.
    before = right.length or intervals[0]
    after = left.length or intervals[0]
    return Within(before.value, after.value, "rows" if kinds == {"ROWS"} else "time")


def refuse_unbounded_join(
    cursor: Cursor, join: Join, left: str, conditions: Sequence[exp.Expr]
) -> NoReturn:
    """Refuse a join of two streams that would keep all of their messages.

    If its ``conditions`` have several equal columns, the last one may be the event time.
    """
    right, hint = join.source.name, _DISTANCE_HINT
    sides = {left.lower(): 0, right.lower(): 1}
    equal = [*filter(None, (find_equated_columns(part, sides) for part in conditions))]
    if len(equal) > 1:
        one, other = equal[-1]
        clauses = [
            f"{name} WATERMARK {time} DELAY OF INTERVAL '1' MINUTE"
            for name, time in ((left, one), (right, other))
        ]
        hint = f"if {one} and {other} are event times, write {' and '.join(clauses)}; or {hint}"
    cursor.fail(join.span, "the join has no bound in time or rows", hint)


def _lower_version_bound(
    cursor: Cursor,
    join: Join,
    time_bounds: TimeBounds | None,
    rest: list[exp.Expr],
    both_sides: tuple[JoinSide, JoinSide],
    sides: Sides,
) -> tuple[Bound, TimeColumns, list[exp.Expr]]:
    """Return the bound of a join with the version of a right row at the time of the left row."""
    time = join.source.as_of
    if time is not None and is_processing_time(time):
        return _build_arrival_bound(cursor, join, time_bounds, both_sides), (None, None), rest
    times: TimeColumns = (
        (None, None) if time is None else (_find_as_of_column(cursor, time, sides), None)
    )
    most = None
    if time_bounds is not None:
        if time_bounds.most != 0 or time_bounds.least is None or time_bounds.least > 0:
            problem = "a version can't be newer than the row that it is joined with"
            hint = "write AND a.at >= b.at AND b.at >= a.at - INTERVAL '1' HOUR"
            cursor.fail(time_bounds.span, problem, hint)
        most, times = -time_bounds.least, (time_bounds.columns[0], time_bounds.columns[1])
    elif join.is_asof:
        rest, times = _split_as_of_condition(cursor, join, rest, sides)
    else:
        _check_has_time(cursor, join, both_sides[1])
    if join.within or any(side.length for side in both_sides):
        hint = "write AND b.at >= a.at - INTERVAL '1' HOUR to bound its age"
        cursor.fail(join.span, "a join with a version takes no OVER or WITHIN", hint)
    return AsOf(most), times, rest


def _check_has_time(cursor: Cursor, join: Join, right: JoinSide) -> None:
    """Refuse a right side without an event time, whose rows can't be versions."""
    if right.time is None:
        problem = f"the rows of {right.name} aren't versions: they have no event time"
        hint = (
            f"write WATERMARK ts DELAY OF INTERVAL '1' MINUTE after it, with {right.name}'s own "
            "time as ts; or JOIN ... ON if it doesn't change"
        )
        cursor.fail(join.source.span, problem, hint)


def _build_arrival_bound(
    cursor: Cursor,
    join: Join,
    time_bounds: TimeBounds | None,
    both_sides: tuple[JoinSide, JoinSide],
) -> Bound:
    """Return the bound of a join with the right row that is newest when the left row arrives."""
    if time_bounds is not None or join.within or any(side.length for side in both_sides):
        span = join.span if time_bounds is None else time_bounds.span
        cursor.fail(span, "a join with the newest row takes no bound", "leave the bound out")
    _check_has_time(cursor, join, both_sides[1])
    return ByArrival()


def _find_as_of_column(cursor: Cursor, time: exp.Expr, sides: Sides) -> str:
    """Return the column of the left side that ``AS OF`` names."""
    span = Scope(cursor).locate(time)
    if not isinstance(time, exp.Column):
        cursor.fail(span, "AS OF needs a column with the time", _AS_OF_HINT)
    parts = [part.name for part in time.parts]
    if len(parts) > 1 and sides.get(parts[0].lower()) != 0:
        left = next(iter(sides))
        cursor.fail(span, f"AS OF needs a time of {left}", _AS_OF_HINT)
    return parts[-1]


def _split_as_of_condition(
    cursor: Cursor, join: Join, conditions: Sequence[exp.Expr], sides: Sides
) -> tuple[list[exp.Expr], TimeColumns]:
    """Return the conditions without ``a.at >= b.at``, and the two columns that it compares."""
    comparisons = [(part, find_compared_times(cursor, part, sides)) for part in conditions]
    times = [columns for _, columns in comparisons if columns is not None]
    if len(times) != 1:
        problem = "ASOF compares one time of each side" if not times else "two times are compared"
        cursor.fail(join.span, problem, _ASOF_HINT)
    return [part for part, columns in comparisons if columns is None], times[0]
