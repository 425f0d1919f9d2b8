"""Lowers the conditions of a join that compare no columns of both sides.

An inner join filters its pairs by them. In any other join they decide which messages have a
partner, so they apply before the join: a side that is emitted only with a partner is filtered, and
a message that is emitted without one gets a value in a further key that the other side never has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from muntin.model.pipeline import Column, Derived, quote_name
from muntin.sql.catalog import find_shown_columns
from muntin.sql.cursor import Cursor
from muntin.sql.expressions import Scope, walk
from muntin.sql.join_bounds import JoinSide
from muntin.sql.syntax import Select

JOIN_KEY = "__muntin_on"
"""The column that a side is joined on where none of its own can be compared."""
_OUTER_SIDES = {"left": (0,), "right": (1,), "full": (0, 1), "anti": (0,)}
_NAME_COLUMNS = "name the columns in place of *"

BothSides = tuple[JoinSide, JoinSide]


@dataclass(frozen=True)
class JoinCondition:
    """A condition of a join.

    Attributes:
        node: The condition, without ``NOT`` around it.
    """

    node: exp.Expr
    is_negated: bool = False

    def render(self, text: str) -> str:
        """Return the text of the whole condition; ``text`` is the text of its node."""
        return f"NOT ({text})" if self.is_negated else f"({text})"


def split_negations(node: exp.Expr) -> list[JoinCondition]:
    """Return the parts of a condition that must all hold: ``NOT (a OR b)`` has two."""
    whole = node.unnest()
    if isinstance(whole, exp.And):
        return [one for part in whole.flatten() for one in split_negations(part)]
    inner = whole.this.unnest() if isinstance(whole, exp.Not) else None
    if isinstance(inner, exp.Or):
        return [JoinCondition(part.unnest(), is_negated=True) for part in inner.flatten()]
    return [JoinCondition(node)]


def apply_side_conditions(
    cursor: Cursor,
    select: Select,
    conditions: Sequence[exp.Expr],
    sides: BothSides,
    without_nulls: Sequence[tuple[str, str]] = (),
) -> tuple[BothSides, bool]:
    """Return the sides of an outer or semi join with their own conditions.

    ``conditions`` are those beside the equal columns and the bound, and ``without_nulls`` the equal
    columns, left and right, in which NULL has no partner.

    Returns:
        The sides, and whether they have the further key ``JOIN_KEY``.

    Raises:
        SqlError: When a condition names columns of both sides.
    """
    how = select.joins[0].how
    texts: tuple[list[str], list[str]] = ([], [])
    for condition in (one for node in conditions for one in split_negations(node)):
        number = _find_only_side(cursor, how, condition.node, sides)
        scope = Scope(cursor, frozenset({sides[number].name.lower()}))
        texts[number].append(condition.render(scope.render(condition.node)))
    for names in without_nulls:
        for number, name in enumerate(names):
            texts[number].append(f"({quote_name(name)} IS NOT NULL)")
    outer = _OUTER_SIDES.get(how, ())
    has_key = any(texts[index] for index in outer)
    if has_key:
        check_named_columns(cursor, select)
    both: list[JoinSide] = []
    for index, side in enumerate(sides):
        text = " AND ".join(texts[index]) or None
        keeps_all = has_key and index in outer
        key = f"CASE WHEN {text} THEN 1 ELSE {index + 2} END" if text and keeps_all else "1"
        key_columns = (Column(JOIN_KEY, key),) if has_key else ()
        both.append(_derive(side, key_columns, None if keeps_all else text))
    return (both[0], both[1]), has_key


def add_constant_key(cursor: Cursor, select: Select, sides: BothSides) -> BothSides:
    """Return sides with the same key for all messages, for a join that compares no columns."""
    check_named_columns(cursor, select)
    left, right = (_derive(side, (Column(JOIN_KEY, "1"),), None) for side in sides)
    return left, right


def check_named_columns(cursor: Cursor, select: Select) -> None:
    """Refuse ``SELECT *`` of a join whose sides have columns that the statement doesn't name."""
    for item in select.items:
        if item.scalar is None:
            problem = "* would show columns that this join computes"
            cursor.fail(item.span, problem, _NAME_COLUMNS)


def _find_only_side(cursor: Cursor, how: str, node: exp.Expr, sides: BothSides) -> int:
    """Return the side whose columns a condition names; refuse a condition over both sides."""
    columns = [one for one in walk(node) if isinstance(one, exp.Column)]
    numbers = {_find_side(column, sides) for column in columns}
    span = Scope(cursor).locate(node)
    if None in numbers or not numbers:
        qualified = " or ".join(f"{side.name}.column" for side in sides)
        cursor.fail(span, "this condition doesn't say which side it is about", f"write {qualified}")
    if len(numbers) > 1:
        problem = f"a {how} join compares both sides only by equal columns and by a bound in time"
        hint = f"compare columns of {sides[0].name} or of {sides[1].name} alone, or join inner"
        cursor.fail(span, problem, hint)
    return numbers.pop() or 0


def _find_side(column: exp.Column, sides: BothSides) -> int | None:
    """Return the side that a column belongs to; ``None`` if that isn't certain."""
    name = column.parts[0].name.lower()
    if len(column.parts) > 1:
        return next((i for i, side in enumerate(sides) if side.name.lower() == name), None)
    shown = [find_shown_columns(side.resolved.relation) for side in sides]
    holders = [index for index, names in enumerate(shown) if names and name in names]
    return holders[0] if None not in shown and len(holders) == 1 else None


def _derive(side: JoinSide, columns: Sequence[Column], where: str | None) -> JoinSide:
    """Return a side with further columns, or with a filter of its messages."""
    if not columns and where is None:
        return side
    shown = (Column("*", "*"), *columns) if columns else None
    relation = Derived(side.resolved.relation, shown, where)
    return replace(side, resolved=replace(side.resolved, relation=relation))
