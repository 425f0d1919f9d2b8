"""Bounds on the distance in time between the partners of a join, as Flink and Spark write them.

``a.ts BETWEEN b.ts - INTERVAL '4' HOUR AND b.ts`` and comparisons like ``a.ts >= b.ts - INTERVAL
'4' HOUR`` bound the distance between the event times of both sides. Times are whole microseconds,
so a strict comparison allows one microsecond less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from muntin.model.errors import SqlError
from muntin.sql import intervals
from muntin.sql.cursor import Cursor, Span
from muntin.sql.dialect import parse_statements
from muntin.sql.expressions import Scope

Sides = Mapping[str, int]
"""The qualifiers of columns, each with 0 for the left side or 1 for the right side."""
_LEAST, _MOST = (exp.GTE, exp.GT), (exp.LTE, exp.LT)
_HINT = "write AND a.ts BETWEEN b.ts - INTERVAL '4' HOUR AND b.ts + INTERVAL '1' HOUR"


def find_side_column(node: exp.Expr, sides: Sides) -> tuple[int, str] | None:
    """Return the side and the name of a qualified column; ``None`` for anything else."""
    parts = [part.name for part in node.parts] if isinstance(node, exp.Column) else []
    if len(parts) != 2 or parts[0].lower() not in sides:
        return None
    return sides[parts[0].lower()], parts[1]


def find_equated_columns(node: exp.Expr, sides: Sides) -> tuple[str, str] | None:
    """Return the left and right columns that a condition equates; ``None`` for anything else."""
    if not isinstance(node, exp.EQ):
        return None
    columns = find_side_column(node.this, sides), find_side_column(node.expression, sides)
    by_side = dict(one for one in columns if one is not None)
    return (by_side[0], by_side[1]) if len(by_side) == 2 else None


@dataclass(frozen=True)
class _TimeExpression:
    """An event time of one side plus microseconds; ``moved`` if an interval was added."""

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
    """Bounds on the right side's event time, relative to that of the left side.

    Attributes:
        span: Span of the first bound.
        least: Least distance, in microseconds; negative if the right side is earlier.
        most: Greatest distance, in microseconds.
        columns: Compared event-time columns, by side.
    """

    span: Span
    least: int | None = None
    most: int | None = None
    columns: dict[int, str] = field(default_factory=dict)


def extract_time_bounds(
    cursor: Cursor, parts: Sequence[exp.Expr], sides: Sides
) -> tuple[TimeBounds | None, list[exp.Expr]]:
    """Return the bounds in time that conditions set, and the conditions that set none."""
    scope, rest = Scope(cursor), []
    bounds: TimeBounds | None = None
    comparisons = [(part, _find_comparisons(cursor, part, sides)) for part in parts]
    # Numbers are compared too. Only a column that is moved by an interval is surely a time.
    times = [one.columns for _, compared in comparisons for one in compared if one.moved]
    for part, compared in comparisons:
        if not any(one.columns in times for one in compared):
            rest.append(part)
            continue
        bounds = bounds or TimeBounds(scope.span(part))
        for one in compared:
            _narrow(cursor, bounds, one, scope.span(part))
    if bounds is not None and (bounds.least is None or bounds.most is None):
        cursor.fail(bounds.span, "this bounds a pair in time on one side only", _HINT)
    return bounds, rest


def _narrow(cursor: Cursor, found: TimeBounds, one: _Comparison, span: Span) -> None:
    for side, column in one.columns.items():
        known = found.columns.setdefault(side, column)
        if known.lower() != column.lower():
            problem = f"{known} and {column} of one side are both compared in time"
            cursor.fail(span, problem, "compare the event time alone")
    if one.least is not None:
        found.least = one.least if found.least is None else max(found.least, one.least)
    if one.most is not None:
        found.most = one.most if found.most is None else min(found.most, one.most)


def _find_comparisons(cursor: Cursor, part: exp.Expr, sides: Sides) -> list[_Comparison]:
    """Return the comparisons of a condition; empty unless all compare times of both sides."""
    part = part.unnest()
    compared: list[tuple[exp.Expr, exp.Expr, type[exp.Expr]]] = []
    if isinstance(part, exp.Between):
        low, high = part.args["low"], part.args["high"]
        compared = [(part.this, low, exp.GTE), (part.this, high, exp.LTE)]
    elif isinstance(part, (*_LEAST, *_MOST)):
        compared = [(part.this, part.expression, type(part))]
    found = [_compare(cursor, *one, sides) for one in compared]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else []


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
    column = find_side_column(node, sides)
    if column is not None:
        return _TimeExpression(*column)
    if not isinstance(node, exp.Add | exp.Sub):
        return None
    this, moved = node.this.unnest(), node.expression.unnest()
    if isinstance(this, exp.Interval) and isinstance(node, exp.Add):
        this, moved = moved, this
    if not isinstance(moved, exp.Interval):
        return None
    found = _read_time(cursor, this, sides)
    if found is None:
        return None
    by = _measure_interval(cursor, moved) * (1 if isinstance(node, exp.Add) else -1)
    return replace(found, plus=found.plus + by, moved=True)


def find_compared_times(cursor: Cursor, part: exp.Expr, sides: Sides) -> tuple[str, str] | None:
    """Return the left and right columns of ``a.at >= b.at``; ``None`` for any other condition."""
    found = _find_comparisons(cursor, part, sides)
    if len(found) != 1 or found[0].most != 0 or found[0].moved:
        return None
    return found[0].columns[0], found[0].columns[1]


def _measure_interval(cursor: Cursor, node: exp.Interval) -> int:
    """Return the length of an interval, in microseconds."""
    span = Scope(cursor).span(node)
    try:
        found, _ = parse_statements(
            cursor.sql[slice(*span)], intervals.parse_interval, cursor.given
        )
    except SqlError as error:
        cursor.fail(span, error.problem, error.hint)
    (length,) = found
    if length.axis != "time":
        cursor.fail(span, "this isn't a length of time", intervals.INTERVAL_HINT)
    return int(length.value)
