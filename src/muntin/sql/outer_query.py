"""A query around windows: it chooses columns and rows from those that windows emit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn, Self

from sqlglot import exp

from muntin.model.pipeline import Choice, Column, Relation, Windowing, quote_name
from muntin.sql import row_number
from muntin.sql.expressions import Scope
from muntin.sql.select_list import EMISSION_COLUMNS, END, ROW_NUMBER_COLUMN, START, complete_columns
from muntin.sql.syntax import Select, SelectItem, WindowCall


@dataclass(frozen=True)
class InnerColumns:
    """The columns that windows emit, as a query around them can name them.

    Attributes:
        columns: Emitted columns.
        known: Columns with a name, by that name in lower case.
        rows: Rows of tables, which may have columns that aren't among them.
        tables: Rows of tables, by the names that qualify their columns.
    """

    columns: tuple[Column, ...]
    known: dict[str, Column]
    rows: tuple[str, ...]
    tables: dict[str, str]

    @classmethod
    def of(cls, made: Windowing, joined: int) -> Self:
        """Return the columns of windows, whose last ``joined`` lookups belong to this query."""
        columns = list_columns(made)
        rows = {one.all: one.row for one in made.lookups}
        tables = made.lookups[len(made.lookups) - joined :]
        return cls(
            columns,
            {one.name.lower(): one for one in columns if one not in rows},
            tuple(rows[one] for one in columns if one in rows),
            {one.name: one.row for one in tables},
        )

    def column(self, scope: Scope, node: exp.Column) -> Column:
        """Return a column of the query in terms of those that windows emit."""
        parts, row = [part.name for part in node.parts], None
        if len(parts) > 1 and parts[0].lower() in scope.qualifiers:
            row = self.tables.get(parts.pop(0).lower())
        known = None if row is not None else self.known.get(parts[0].lower())
        if known is None:
            row = row or self._row(scope, node)
            return Column(parts[-1], ".".join([row, *map(quote_name, parts)]))
        if len(parts) == 1:
            return known
        return Column(parts[-1], ".".join([_parenthesize(known), *map(quote_name, parts[1:])]))

    def _row(self, scope: Scope, node: exp.Column) -> str:
        if len(self.rows) == 1:
            return self.rows[0]
        problem = "the inner query has no such column"
        hint = f"give some of {', '.join(one.name for one in self.known.values())}"
        if self.rows:
            problem, hint = "several tables may have this", "write whose it is, as in t.name"
        scope.fail(scope.span(node), problem, hint)

    def all(self, item: SelectItem) -> tuple[Column, ...]:
        """Return the columns of ``*`` or ``w.*``, without the emission and revision."""
        own = [
            one
            for one in self.columns
            if one.name not in EMISSION_COLUMNS and one != ROW_NUMBER_COLUMN
        ]
        if item.of is None:
            return tuple(own)
        row = self.tables.get(item.of.lower())
        if row is not None:
            return tuple(one for one in own if one.text == f"{row}.*")
        here = {f"{one}.*" for one in self.tables.values()}
        return tuple(one for one in own if one.text not in here)


def check_qualified_stars(
    scope: Scope, select: Select, relation: Relation, call: WindowCall | None
) -> None:
    """Refuse ``t.*`` if the columns of that table aren't known."""
    for item in select.items:
        if item.of is None:
            continue
        if item.of.lower() not in scope.qualifiers:
            hint = "write *, or a name that stands behind FROM or JOIN"
            scope.fail(item.span, f"there is no table {item.of} here", hint)
        apart = isinstance(relation, Windowing) and call is None
        if select.joins and not (apart and row_number.find_numbering(scope, select) is None):
            refuse_side_star(scope, item)


def refuse_side_star(scope: Scope, item: SelectItem) -> NoReturn:
    """Refuse ``t.*`` in a join of streams."""
    scope.fail(item.span, "the columns of a side aren't told apart here", "write *, or name them")


def list_columns(made: Windowing) -> tuple[Column, ...]:
    """Return the columns that windows emit."""
    identity = (*made.spec.keys, START, END, *made.spec.aggregates)
    own = (Column(name, name) for name in EMISSION_COLUMNS)
    return made.columns or (*(Column(name, quote_name(name)) for name in identity), *own)


def lower_outer_query(scope: Scope, select: Select, made: Windowing) -> Windowing:
    """Return windows with a select list and a condition on their emissions."""
    if made.ranking is not None or made.each:
        _check_emits_once(scope, select, made)
    if made.ranking is not None:
        return _lower_over_rows(scope, select, made)
    identity = (*made.spec.keys, START, END)
    inner = InnerColumns.of(made, len(select.joins))
    shown: list[Column] = []
    for item in select.items:
        found = inner.all(item)
        if item.scalar is not None:
            found = (_lower_item(scope, item, inner),)
        for column in found:
            taken = {one.name.lower() for one in shown if one.name != "*"}
            mine = column.name in (*identity, *EMISSION_COLUMNS) and column not in inner.columns
            mine &= not column.bare
            mine |= (
                made.each and column.name == ROW_NUMBER_COLUMN.name and column != ROW_NUMBER_COLUMN
            )
            if mine or column.name.lower() in taken:
                problem = f"{column.name} is a column of the output already"
                scope.fail(item.span, problem, "give it another name with AS")
        shown += found
    having = made.having
    if select.where is not None:
        condition = _render_over_windows(scope, select.where, inner)
        having = condition if having is None else f"({having}) AND ({condition})"
    return replace(made, columns=complete_columns(shown, identity, each=made.each), having=having)


def _lower_item(scope: Scope, item: SelectItem, inner: InnerColumns) -> Column:
    node = item.scalar
    assert node is not None
    if isinstance(node, exp.Column):
        name = item.alias or scope.own(node) or scope.plain(node).lower()
        return Column(name, inner.column(scope, node).text)
    return Column(item.alias or scope.plain(node).lower(), _render_over_windows(scope, node, inner))


def _check_emits_once(scope: Scope, select: Select, made: Windowing) -> None:
    """Refuse a condition on rows that may have changed when their window emits again."""
    firing = made.spec.firing
    if select.where is not None and (firing.early is not None or firing.grace):
        hint = "let windows emit once"
        scope.fail(scope.span(select.where), "a row that was emitted may hold no more", hint)


def _lower_over_rows(scope: Scope, select: Select, made: Windowing) -> Windowing:
    """Return the rows of windows with one more select list over them."""
    if select.where is not None:
        made = row_number.add_choice(made, Choice(None, scope.plain(select.where)))
    return row_number.add_choice(made, row_number.lower_select_list(scope, select, made, None))


def _render_over_windows(scope: Scope, node: exp.Expr, inner: InnerColumns) -> str:
    """Return an expression over the inner query's columns in terms of those that windows emit."""

    def named(part: exp.Expr) -> str | None:
        return _parenthesize(inner.column(scope, part)) if isinstance(part, exp.Column) else None

    return scope.rewritten(node, named)


def _parenthesize(column: Column) -> str:
    return column.text if column.bare else f"({column.text})"
