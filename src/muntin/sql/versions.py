"""Joins with the version of a row that was valid at a time, as Flink's and DuckDB's SQL write them.

``JOIN rates FOR SYSTEM_TIME AS OF orders.at ON orders.currency = rates.currency``, and ``ASOF JOIN
rates ON orders.currency = rates.currency AND orders.at >= rates.at``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from muntin.model.bounds import AsOf
from muntin.sql.cursor import Cursor
from muntin.sql.expressions import Scope
from muntin.sql.nearness import Nearness, compared_times
from muntin.sql.syntax import Join

_COMPARED = "write ASOF JOIN rates ON orders.currency = rates.currency AND orders.at >= rates.at"
_TIME = "write FOR SYSTEM_TIME AS OF orders.at"


@dataclass(frozen=True)
class Versioned:
    """A join of versions.

    Attributes:
        bound: What it makes of a pair.
        columns: The event times, left and right, where they were named.
        rest: The conditions that don't speak of time.
    """

    bound: AsOf
    columns: tuple[str | None, str | None]
    rest: list[exp.Expr]


def versioned(
    cursor: Cursor,
    join: Join,
    near: Nearness | None,
    conditions: Sequence[exp.Expr],
    names: tuple[str, str],
) -> Versioned | None:
    """What a join says of versions; ``None`` where it says nothing.

    Args:
        cursor: Where the statement is read.
        join: The join.
        near: What its condition says of the distance of times.
        conditions: The other parts of its condition.
        names: What both sides are called.
    """
    time = join.source.as_of
    if time is None and not join.as_of:
        return None
    rest = list(conditions)
    columns: tuple[str | None, str | None] = (None, None)
    if time is not None:
        columns = _asked(cursor, time, names)
    most = None
    if near is not None:
        if near.most != 0 or near.least is None or near.least > 0:
            problem = "a version is as old as the row it is joined with, or older"
            hint = "write AND a.at >= b.at AND b.at >= a.at - INTERVAL '1' HOUR"
            cursor.fail(near.span, problem, hint)
        most, columns = -near.least, (near.columns[0], near.columns[1])
    elif join.as_of:
        rest, columns = _compared(cursor, join, rest, names)
    return Versioned(AsOf(most), columns, rest)


def _asked(cursor: Cursor, time: exp.Expr, names: tuple[str, str]) -> tuple[str | None, str | None]:
    """The column whose time is asked for."""
    scope = Scope(cursor, frozenset())
    if not isinstance(time, exp.Column):
        scope.fail(scope.span(time), "versions are those of the time of a column", _TIME)
    parts = [part.name for part in time.parts]
    if len(parts) > 1 and parts[0].lower() != names[0]:
        scope.fail(scope.span(time), f"versions are those of a time of {names[0]}", _TIME)
    return parts[-1], None


def _compared(
    cursor: Cursor, join: Join, conditions: Sequence[exp.Expr], names: tuple[str, str]
) -> tuple[list[exp.Expr], tuple[str | None, str | None]]:
    """The times of ``a.at >= b.at``, and the other conditions."""
    found = [(part, compared_times(cursor, part, names)) for part in conditions]
    times = [columns for _, columns in found if columns is not None]
    if len(times) != 1:
        problem = "ASOF compares one time of each side" if not times else "two times are compared"
        cursor.fail(join.span, problem, _COMPARED)
    return [part for part, columns in found if columns is None], times[0]
