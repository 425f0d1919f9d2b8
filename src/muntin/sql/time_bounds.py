"""Finds the bounds in time that the conditions of a join set, as in Flink and Spark.

``a.ts BETWEEN b.ts - INTERVAL '4' HOUR AND b.ts`` and comparisons like ``a.ts >= b.ts - INTERVAL
'4' HOUR`` bound the distance between the event times of both sides. Times are whole microseconds,
so a strict comparison allows one microsecond less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from sqlglot import exp

from muntin.model.errors import SqlError
from muntin.sql.cursor import Cursor, Span
from muntin.sql.dialect import parse_statements
from muntin.sql.expressions import Scope
from muntin.sql.intervals import INTERVAL_HINT, parse_interval

Sides = Mapping[str, int]
"""Side of each qualifier of columns: 0 is left, 1 is right."""
_LEAST, _MOST = (exp.GTE, exp.GT), (exp.LTE, exp.LT)
_HINT = "write AND a.ts BETWEEN b.ts - INTERVAL '4' HOUR AND b.ts + INTERVAL '1' HOUR"


def _find_side_column(node: exp.Expr, sides: Sides) -> tuple[int, str] | None:
    """Return the side and name of a qualified column; ``None`` for anything else."""
    parts = [part.name for part in node.parts] if isinstance(node, exp.Column) else []
    if len(parts) != 2 or parts[0].lower() not in sides:
        return None
    return sides[parts[0].lower()], parts[1]


def find_equated_columns(
    node: exp.Expr, sides: Sides, kind: type[exp.Expr] = exp.EQ
) -> tuple[str, str] | None:
    """Return the left and right columns that a condition equates; ``None`` for anything else.

    ``kind`` is the kind of equality, which may also be ``exp.NullSafeEQ``.
    """
    if not isinstance(node, kind):
        return None
    columns = _find_side_column(node.this, sides), _find_side_column(node.expression, sides)
    by_side = dict(one for one in columns if one is not None)
    return (by_side[0], by_side[1]) if len(by_side) == 2 else None


@dataclass(frozen=True)
class _TimeExpression:
    """A column of one side plus microseconds; ``moved`` if an interval is added."""

    side: int
    column: str
    plus: int = 0
    moved: bool = False


@dataclass(frozen=True)
class _Comparison:
    """The bounds that one comparison sets on the distance between two columns."""

    columns: dict[int, str]
    moved: bool
    least: int | None = None
    most: int | None = None


@dataclass
class TimeBounds:
    """Bounds on the right event time relative to the left one.

    Attributes:
        span: Span of the first bound.
        least: Least distance, in microseconds; negative if the right side is earlier.
        most: Greatest distance, in microseconds.
        columns: Event-time columns by side.
    """

    span: Span
    least: int | None = None
    most: int | None = None
    columns: dict[int, str] = field(default_factory=dict)


def extract_time_bounds(
    cursor: Cursor, parts: Sequence[exp.Expr], sides: Sides
) -> tuple[TimeBounds | None, list[exp.Expr]]:
    """Return the bounds in time that conditions set, and the other conditions."""
    scope, others = Scope(cursor), []
    bounds: TimeBounds | None = None
    comparisons = [(part, _find_comparisons(cursor, part, sides)) for part in parts]
    # Conditions compare numbers too. Only a column plus an interval is certainly a time.
    times = [one.columns for _, of_part in comparisons for one in of_part if one.moved]
    for part, of_part in comparisons:
        if not any(one.columns in times for one in of_part):
            others.append(part)
            continue
        bounds = bounds or TimeBounds(scope.locate(part))
        for one in of_part:
            _narrow(cursor, bounds, one, scope.locate(part))
    if bounds is not None and (bounds.least is None or bounds.most is None):
        cursor.fail(bounds.span, "this bounds a pair in time on one side only", _HINT)
    return bounds, others


def _narrow(cursor: Cursor, bounds: TimeBounds, one: _Comparison, span: Span) -> None:
    for side, column in one.columns.items():
        column_before = bounds.columns.setdefault(side, column)
        if column_before.lower() != column.lower():
            problem = f"{column_before} and {column} of one side are both compared in time"
            cursor.fail(span, problem, "compare the event time alone")
    if one.least is not None:
        bounds.least = one.least if bounds.least is None else max(bounds.least, one.least)
    if one.most is not None:
        bounds.most = one.most if bounds.most is None else min(bounds.most, one.most)


def _find_comparisons(cursor: Cursor, part: exp.Expr, sides: Sides) -> list[_Comparison]:
    """Return the comparisons of a condition; empty unless all compare times of both sides."""
    part = part.unnest()
    operands: list[tuple[exp.Expr, exp.Expr, type[exp.Expr]]] = []
    if isinstance(part, exp.Between):
        low, high = part.args["low"], part.args["high"]
        operands = [(part.this, low, exp.GTE), (part.this, high, exp.LTE)]
    elif isinstance(part, exp.EQ):
        operands = [(part.this, part.expression, kind) for kind in (exp.GTE, exp.LTE)]
    elif isinstance(part, (*_LEAST, *_MOST)):
        operands = [(part.this, part.expression, type(part))]
    comparisons = [_compare(cursor, *one, sides) for one in operands]
    valid = [one for one in comparisons if one is not None]
    return valid if len(valid) == len(comparisons) else []


def _compare(
    cursor: Cursor, one: exp.Expr, other: exp.Expr, kind: type[exp.Expr], sides: Sides
) -> _Comparison | None:
    left, right = _read_time(cursor, one, sides), _read_time(cursor, other, sides)
    if left is None or right is None or left.side == right.side:
        return None
    moved = left.moved or right.moved
    columns = {left.side: left.column, right.side: right.column}
    strict = 1 if kind in (exp.GT, exp.LT) else 0
    grows = kind in _LEAST
    distance = right.plus - left.plus
    if left.side == 0:  # left + a >= right + b: the right time is at most a - b later
        distance, grows = -distance, not grows
    if grows:
        return _Comparison(columns, moved, least=distance + strict)
    return _Comparison(columns, moved, most=distance - strict)


def _read_time(cursor: Cursor, node: exp.Expr, sides: Sides) -> _TimeExpression | None:
    node = node.unnest()
    column = _find_side_column(node, sides)
    if column is not None:
        return _TimeExpression(*column)
    if not isinstance(node, exp.Add | exp.Sub):
        return None
    this, interval = node.this.unnest(), node.expression.unnest()
    if isinstance(this, exp.Interval) and isinstance(node, exp.Add):
        this, interval = interval, this
    if not isinstance(interval, exp.Interval):
        return None
    time = _read_time(cursor, this, sides)
    if time is None:
        return None
    distance = _measure_interval(cursor, interval) * (1 if isinstance(node, exp.Add) else -1)
    return replace(time, plus=time.plus + distance, moved=True)


def find_compared_times(cursor: Cursor, part: exp.Expr, sides: Sides) -> tuple[str, str] | None:
    """Return the columns of ``a.at >= b.at``, left first; ``None`` for any other condition."""
    comparisons = _find_comparisons(cursor, part, sides)
    if len(comparisons) != 1 or comparisons[0].most != 0 or comparisons[0].moved:
        return None
    return comparisons[0].columns[0], comparisons[0].columns[1]


def _measure_interval(cursor: Cursor, node: exp.Interval) -> int:
    span = Scope(cursor).locate(node)
    try:
        parsed, _ = parse_statements(
            cursor.sql[slice(*span)],
            partial(parse_interval, signed=True),
            cursor.placeholder_values,
        )
    except SqlError as error:
        cursor.fail(span, error.problem, error.hint)
    (interval,) = parsed
    if interval.axis != "time":
        cursor.fail(span, "this isn't a length of time", INTERVAL_HINT)
    return int(interval.value)
