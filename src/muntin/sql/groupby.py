"""``GROUP BY``: expressions, and which of them each grouping set has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product
from math import prod

from sqlglot import exp
from sqlglot.tokens import TokenType

from muntin.sql.cursor import Cursor, Span

Group = tuple[exp.Expr, ...]
_MANY = 64
_HINT = "write for example GROUPING SETS ((a, b), (a), ()), ROLLUP (a, b) or CUBE (a, b)"


def group(cursor: Cursor, head: Span) -> tuple[Group, tuple[Group, ...] | None, Span]:
    """Read ``GROUP BY ...``, if it comes next.

    Returns:
        All expressions; the grouping sets, ``None`` where none are written; and where it stands.
    """
    start = cursor.here
    if not cursor.takes_kind(TokenType.GROUP_BY):
        return (), None, head
    if cursor.word == "ALL":
        cursor.fail(None, "GROUP BY ALL isn't taken", "name the columns")
    several = False

    def part() -> list[Group]:
        nonlocal several
        sets = _sets(cursor)
        several |= sets is not None
        return [(cursor.scalar("a column"),)] if sets is None else sets

    parts = cursor.several(part)
    span = cursor.since(start)
    whole = tuple(node for sets in parts for one in sets for node in one)
    if not several:
        return whole, None, span
    if prod(map(len, parts)) > _MANY:
        cursor.fail(span, "these are too many grouping sets", "name those that you need")
    # What stands beside sets is in each of them.
    return whole, tuple(_joined(chosen) for chosen in product(*parts)), span


def _sets(cursor: Cursor) -> list[Group] | None:
    """Read ``GROUPING SETS (...)``, ``ROLLUP (...)`` or ``CUBE (...)``, if it comes next."""
    found = _SETS.get(cursor.word)
    if found is None or cursor.second != "(":
        return None
    cursor._advance()
    return found(cursor)


def _listed(cursor: Cursor, one: Callable[[], list[Group]]) -> list[list[Group]]:
    cursor.needs("(", hint=_HINT)
    if cursor.takes_kind(TokenType.R_PAREN):
        return []
    found = cursor.several(one)
    cursor.closes("the list")
    return found


def _columns(cursor: Cursor) -> list[Group]:
    """``a`` or ``(a, b)``: one set."""
    if not cursor.sees_kind(TokenType.L_PAREN):
        return [(cursor.scalar("a column"),)]
    found = _listed(cursor, lambda: [(cursor.scalar("a column"),)])
    return [_joined([group for sets in found for group in sets])]


def _grouping_sets(cursor: Cursor) -> list[Group]:
    def one() -> list[Group]:
        sets = _sets(cursor)
        return _columns(cursor) if sets is None else sets

    return [group for sets in _listed(cursor, one) for group in sets]


def _parts(cursor: Cursor) -> list[Group]:
    return [sets[0] for sets in _listed(cursor, lambda: _columns(cursor))]


def _rollup(cursor: Cursor) -> list[Group]:
    parts = _parts(cursor)
    return [_joined(parts[:count]) for count in range(len(parts), -1, -1)]


def _cube(cursor: Cursor) -> list[Group]:
    parts = _parts(cursor)
    if 2 ** len(parts) > _MANY:
        cursor.fail(None, "these are too many grouping sets", "name those that you need")
    counts = range(len(parts), -1, -1)
    return [_joined(chosen) for count in counts for chosen in combinations(parts, count)]


def _joined(parts: Sequence[Group]) -> Group:
    return tuple(node for part in parts for node in part)


_SETS: dict[str, Callable[[Cursor], list[Group]]] = {
    "GROUPING SETS": _grouping_sets,
    "ROLLUP": _rollup,
    "CUBE": _cube,
}
