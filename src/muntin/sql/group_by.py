"""Parses ``GROUP BY``: its expressions, and those of each grouping set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod

from sqlglot import exp
from sqlglot.tokens import TokenType

from muntin.sql.cursor import Cursor, Parsed, Span
from muntin.sql.syntax import SelectItem

GroupKeys = tuple[exp.Expr, ...]
_MAX_SETS = 64
_HINT = "write for example GROUPING SETS ((a, b), (a), ()), ROLLUP (a, b) or CUBE (a, b)"


@dataclass(frozen=True)
class GroupBy:
    """``GROUP BY``, with all of its expressions.

    Attributes:
        names: Expressions with a name of their own, as in ``upper(page) AS page``.
    """

    keys: GroupKeys
    sets: tuple[GroupKeys, ...] | None
    names: tuple[SelectItem, ...]
    span: Span

    def name_item(self, item: SelectItem) -> SelectItem:
        """Return an item of the select list, with the expression that its name stands for."""
        scalar = item.scalar
        if isinstance(scalar, exp.Column) and len(scalar.parts) == 1:
            for key in self.names:
                if key.alias and key.alias.lower() == scalar.name.lower():
                    return replace(item, scalar=key.scalar, alias=item.alias or key.alias)
        return item


def parse_group_by(cursor: Cursor, head: Span) -> GroupBy:
    """Parse ``GROUP BY ...``, if it comes next; ``head`` is the span without it."""
    start = cursor.position
    if not cursor.accept_kind(TokenType.GROUP_BY):
        return GroupBy((), None, (), head)
    if cursor.next_word == "ALL":
        cursor.fail(None, "GROUP BY ALL isn't supported", "name the columns")
    names: list[SelectItem] = []

    def parse_key() -> exp.Expr:
        key_start = cursor.position
        node = cursor.parse_scalar("a column")
        if cursor.accept("AS"):
            name, _ = cursor.parse_name("a column")
            names.append(SelectItem(node, name, cursor.span_from(key_start)))
        return node

    items = cursor.parse_list(lambda: _parse_sets(cursor) or parse_key())
    span = cursor.span_from(start)
    parts: list[list[GroupKeys]] = [one if isinstance(one, list) else [(one,)] for one in items]
    keys = _concatenate(group for sets in parts for group in sets)
    if not any(isinstance(one, list) for one in items):
        return GroupBy(keys, None, tuple(names), span)
    if prod(map(len, parts)) > _MAX_SETS:
        cursor.fail(span, "these are too many grouping sets", "name those that you need")
    # Expressions beside the sets belong to each of them.
    sets = tuple(_concatenate(chosen) for chosen in product(*parts))
    return GroupBy(keys, sets, tuple(names), span)


def _parse_sets(cursor: Cursor) -> list[GroupKeys] | None:
    """Parse ``GROUPING SETS (...)``, ``ROLLUP (...)`` or ``CUBE (...)``, if it comes next."""
    parse = _SET_PARSERS.get(cursor.next_word)
    if parse is None or cursor.second_word != "(":
        return None
    cursor.skip()
    return parse(cursor)


def _parse_parenthesized(cursor: Cursor, parse_item: Callable[[], Parsed]) -> list[Parsed]:
    cursor.expect("(", hint=_HINT)
    if cursor.accept_kind(TokenType.R_PAREN):
        return []
    items = cursor.parse_list(parse_item)
    cursor.expect_close("the list")
    return items


def _parse_set(cursor: Cursor) -> GroupKeys:
    """Parse one set, ``a`` or ``(a, b)``."""
    if not cursor.peek_kind(TokenType.L_PAREN):
        return (cursor.parse_scalar("a column"),)
    return tuple(_parse_parenthesized(cursor, lambda: cursor.parse_scalar("a column")))


def _parse_grouping_sets(cursor: Cursor) -> list[GroupKeys]:
    several = _parse_parenthesized(cursor, lambda: _parse_sets(cursor) or [_parse_set(cursor)])
    return [group for sets in several for group in sets]


def _parse_rollup(cursor: Cursor) -> list[GroupKeys]:
    parts = _parse_parenthesized(cursor, lambda: _parse_set(cursor))
    return [_concatenate(parts[:count]) for count in range(len(parts), -1, -1)]


def _parse_cube(cursor: Cursor) -> list[GroupKeys]:
    parts = _parse_parenthesized(cursor, lambda: _parse_set(cursor))
    if 2 ** len(parts) > _MAX_SETS:
        cursor.fail(None, "these are too many grouping sets", "name those that you need")
    counts = range(len(parts), -1, -1)
    return [_concatenate(chosen) for count in counts for chosen in combinations(parts, count)]


def _concatenate(parts: Iterable[GroupKeys]) -> GroupKeys:
    return tuple(node for part in parts for node in part)


_SET_PARSERS: dict[str, Callable[[Cursor], list[GroupKeys]]] = {
    "GROUPING SETS": _parse_grouping_sets,
    "ROLLUP": _parse_rollup,
    "CUBE": _parse_cube,
}
