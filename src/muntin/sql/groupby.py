"""Reads ``GROUP BY``: its expressions, and those of each grouping set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations, product
from math import prod

from sqlglot import exp
from sqlglot.tokens import TokenType

from muntin.sql.cursor import Cursor, Part, Span

Group = tuple[exp.Expr, ...]
_MANY = 64
_HINT = "write for example GROUPING SETS ((a, b), (a), ()), ROLLUP (a, b) or CUBE (a, b)"


def group(cursor: Cursor, head: Span) -> tuple[Group, tuple[Group, ...] | None, Span]:
    """Read ``GROUP BY ...``, if it comes next.

    Returns:
        All expressions, the grouping sets (``None`` if none are written), and the span.
    """
    start = cursor.here
    if not cursor.takes_kind(TokenType.GROUP_BY):
        return (), None, head
    if cursor.word == "ALL":
        cursor.fail(None, "GROUP BY ALL isn't taken", "name the columns")
    found = cursor.several(lambda: _sets(cursor) or cursor.scalar("a column"))
    span = cursor.since(start)
    parts: list[list[Group]] = [one if isinstance(one, list) else [(one,)] for one in found]
    whole = _joined(group for sets in parts for group in sets)
    if not any(isinstance(one, list) for one in found):
        return whole, None, span
    if prod(map(len, parts)) > _MANY:
        cursor.fail(span, "these are too many grouping sets", "name those that you need")
    # Expressions beside the sets belong to each of them.
    return whole, tuple(_joined(chosen) for chosen in product(*parts)), span


def _sets(cursor: Cursor) -> list[Group] | None:
    """Read ``GROUPING SETS (...)``, ``ROLLUP (...)`` or ``CUBE (...)``, if it comes next."""
    found = _SETS.get(cursor.word)
    if found is None or cursor.second != "(":
        return None
    cursor._advance()
    return found(cursor)


def _listed(cursor: Cursor, one: Callable[[], Part]) -> list[Part]:
    cursor.needs("(", hint=_HINT)
    if cursor.takes_kind(TokenType.R_PAREN):
        return []
    found = cursor.several(one)
    cursor.closes("the list")
    return found


def _columns(cursor: Cursor) -> Group:
    """Read ``a`` or ``(a, b)``, one set."""
    if not cursor.sees_kind(TokenType.L_PAREN):
        return (cursor.scalar("a column"),)
    return tuple(_listed(cursor, lambda: cursor.scalar("a column")))


def _grouping_sets(cursor: Cursor) -> list[Group]:
    several = _listed(cursor, lambda: _sets(cursor) or [_columns(cursor)])
    return [group for sets in several for group in sets]


def _rollup(cursor: Cursor) -> list[Group]:
    parts = _listed(cursor, lambda: _columns(cursor))
    return [_joined(parts[:count]) for count in range(len(parts), -1, -1)]


def _cube(cursor: Cursor) -> list[Group]:
    parts = _listed(cursor, lambda: _columns(cursor))
    if 2 ** len(parts) > _MANY:
        cursor.fail(None, "these are too many grouping sets", "name those that you need")
    counts = range(len(parts), -1, -1)
    return [_joined(chosen) for count in counts for chosen in combinations(parts, count)]


def _joined(parts: Iterable[Group]) -> Group:
    return tuple(node for part in parts for node in part)


_SETS: dict[str, Callable[[Cursor], list[Group]]] = {
    "GROUPING SETS": _grouping_sets,
    "ROLLUP": _rollup,
    "CUBE": _cube,
}
