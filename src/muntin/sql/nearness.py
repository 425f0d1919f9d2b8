"""How near in time a join's condition says that partners are, as Flink and Spark write it.

``a.ts BETWEEN b.ts - INTERVAL '4' HOUR AND b.ts`` and comparisons like ``a.ts >= b.ts - INTERVAL
'4' HOUR`` bound the distance of both sides' event times. Times are whole microseconds, so that a
strict comparison is one microsecond less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sqlglot import exp

from muntin.model.errors import SqlError
from muntin.sql import lengths
from muntin.sql.cursor import Cursor, Span, read
from muntin.sql.expressions import Scope

Side = Literal[0, 1]
_LEAST, _MOST = (exp.GTE, exp.GT), (exp.LTE, exp.LT)
_HINT = "write AND a.ts BETWEEN b.ts - INTERVAL '4' HOUR AND b.ts + INTERVAL '1' HOUR"


@dataclass(frozen=True)
class _Moment:
    """A side's event time, and so many microseconds; ``moved`` where an interval says them."""

    side: Side
    column: str
    plus: int = 0
    moved: bool = False


@dataclass(frozen=True)
class _Bound:
    """What one comparison says of the distance between two columns."""

    columns: dict[Side, str]
    moved: bool
    least: int | None = None
    most: int | None = None


@dataclass
class Nearness:
    """How far the right side's time may be from the left one's.

    Attributes:
        least: At least so much, microseconds; negative is before.
        most: At most so much.
        columns: The event times that were compared, left and right.
        span: Where the first bound stands.
    """

    span: Span
    least: int | None = None
    most: int | None = None
    columns: dict[Side, str] = field(default_factory=dict)


def nearness(
    cursor: Cursor, parts: Sequence[exp.Expr], names: tuple[str, str]
) -> tuple[Nearness | None, list[exp.Expr]]:
    """What a condition says of times, and its other parts."""
    scope, rest = Scope(cursor, frozenset()), []
    found: Nearness | None = None
    given = [(part, _bounds(cursor, part, names)) for part in parts]
    # Numbers are compared, too: what is times shows where one is moved by an interval.
    times = [bound.columns for _, bounds in given for bound in bounds if bound.moved]
    for part, bounds in given:
        if not any(bound.columns in times for bound in bounds):
            rest.append(part)
            continue
        found = found or Nearness(scope.span(part))
        for bound in bounds:
            _narrow(cursor, found, bound, scope.span(part))
    if found is not None and (found.least is None or found.most is None):
        problem = "this bounds a pair in time on one side only"
        raise SqlError(cursor.sql, found.span, problem, _HINT)
    return found, rest


def _narrow(cursor: Cursor, found: Nearness, bound: _Bound, span: Span) -> None:
    for side, column in bound.columns.items():
        known = found.columns.setdefault(side, column)
        if known.lower() != column.lower():
            problem = f"{known} and {column} of one side are both compared in time"
            raise SqlError(cursor.sql, span, problem, "compare the event time alone")
    if bound.least is not None:
        found.least = bound.least if found.least is None else max(found.least, bound.least)
    if bound.most is not None:
        found.most = bound.most if found.most is None else min(found.most, bound.most)


def _bounds(cursor: Cursor, part: exp.Expr, names: tuple[str, str]) -> list[_Bound]:
    """What one comparison says; nothing where it isn't one of the sides' times."""
    part = part.unnest()
    if isinstance(part, exp.Between):
        low, high = part.args["low"], part.args["high"]
        pairs = [(part.this, low, exp.GTE), (part.this, high, exp.LTE)]
        found = [_bound(cursor, one, other, kind, names) for one, other, kind in pairs]
        return [bound for bound in found if bound is not None] if all(found) else []
    if isinstance(part, (*_LEAST, *_MOST)):
        found = [_bound(cursor, part.this, part.expression, type(part), names)]
        return [bound for bound in found if bound is not None]
    return []


def _bound(
    cursor: Cursor, one: exp.Expr, other: exp.Expr, kind: type[exp.Expr], names: tuple[str, str]
) -> _Bound | None:
    left, right = _moment(cursor, one, names), _moment(cursor, other, names)
    if left is None or right is None or left.side == right.side:
        return None
    moved = left.moved or right.moved
    columns = {left.side: left.column, right.side: right.column}
    strict = 1 if kind in (exp.GT, exp.LT) else 0
    grows = kind in _LEAST
    distance = right.plus - left.plus
    if left.side == 0:  # left + a >= right + b: the right one is at most a - b later
        distance, grows = -distance, not grows
    if grows:
        return _Bound(columns, moved, least=distance + strict)
    return _Bound(columns, moved, most=distance - strict)


def _moment(cursor: Cursor, node: exp.Expr, names: tuple[str, str]) -> _Moment | None:
    node = node.unnest()
    if isinstance(node, exp.Column):
        parts = [part.name for part in node.parts]
        if len(parts) != 2 or parts[0].lower() not in names:
            return None
        return _Moment(0 if parts[0].lower() == names[0] else 1, parts[1])
    if not isinstance(node, exp.Add | exp.Sub):
        return None
    this, moved = node.this.unnest(), node.expression.unnest()
    if isinstance(this, exp.Interval) and isinstance(node, exp.Add):
        this, moved = moved, this
    if not isinstance(moved, exp.Interval):
        return None
    found = _moment(cursor, this, names)
    if found is None:
        return None
    by = _length(cursor, moved) * (1 if isinstance(node, exp.Add) else -1)
    return replace(found, plus=found.plus + by, moved=True)


def compared_times(
    cursor: Cursor, part: exp.Expr, names: tuple[str, str]
) -> tuple[str, str] | None:
    """The columns, left and right, of ``a.at >= b.at``, where the right one isn't later."""
    bounds = _bounds(cursor, part, names)
    if len(bounds) != 1 or bounds[0].most != 0 or bounds[0].moved:
        return None
    return bounds[0].columns[0], bounds[0].columns[1]


def _length(cursor: Cursor, node: exp.Interval) -> int:
    """How long an interval is, microseconds."""
    span = Scope(cursor, frozenset()).span(node)
    grammar = replace(cursor.grammar, statement=lengths.length)
    try:
        found, _ = read(cursor.sql[slice(*span)], grammar, cursor.given)
    except SqlError as error:
        raise SqlError(cursor.sql, span, error.problem, error.hint) from error
    (length,) = found
    if length.axis != "time":
        raise SqlError(cursor.sql, span, "this isn't a length of time", lengths.HINT)
    return int(length.value)
