"""Lowers a query around windows, which selects from the columns and rows that they emit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn, Self

from sqlglot import exp

from muntin.model.pipeline import (
    EMISSION_COLUMNS,
    Choice,
    Column,
    Relation,
    WindowRelation,
    quote_name,
)
from muntin.sql import row_number
from muntin.sql.expressions import Scope
from muntin.sql.select_list import END, ROW_NUMBER_COLUMN, START, complete_columns
from muntin.sql.syntax import Select, SelectItem, WindowCall


@dataclass(frozen=True)
class InnerColumns:
    """The columns that windows emit and that a query around them can use.

    Attributes:
        columns_by_name: Columns by name in lower case, without those of joined tables.
        rows: Structs with the rows of joined tables, whose columns may be unknown.
        tables: Structs of the tables that this query joins, by their names.
    """

    columns: tuple[Column, ...]
    columns_by_name: dict[str, Column]
    rows: tuple[str, ...]
    tables: dict[str, str]

    @classmethod
    def from_windows(cls, windowing: WindowRelation, lookup_count: int) -> Self:
        """Return the columns of windows; this query has the last ``lookup_count`` lookups."""
        columns = list_window_columns(windowing)
        rows = {one.all: one.row for one in windowing.lookups}
        tables = windowing.lookups[len(windowing.lookups) - lookup_count :]
        return cls(
            columns,
            {one.name.lower(): one for one in columns if one not in rows},
            tuple(rows[one] for one in columns if one in rows),
            {one.name: one.row for one in tables},
        )

    def find_column(self, scope: Scope, node: exp.Column) -> Column:
        """Return the column over what windows emit that a node of the query means."""
        parts, row = [part.name for part in node.parts], None
        if len(parts) > 1 and parts[0].lower() in scope.qualifiers:
            row = self.tables.get(parts.pop(0).lower())
        column = None if row is not None else self.columns_by_name.get(parts[0].lower())
        if column is None:
            row = row or self._find_row(scope, node)
            return Column(parts[-1], ".".join([row, *map(quote_name, parts)]))
        if len(parts) == 1:
            return column
        return Column(parts[-1], ".".join([_parenthesize(column), *map(quote_name, parts[1:])]))

    def _find_row(self, scope: Scope, node: exp.Column) -> str:
        if len(self.rows) == 1:
            return self.rows[0]
        problem = "the inner query has no such column"
        hint = f"give some of {', '.join(one.name for one in self.columns_by_name.values())}"
        if self.rows:
            problem, hint = "several tables may have this", "qualify it, as in t.name"
        scope.fail(node, problem, hint)

    def expand_star(self, item: SelectItem) -> tuple[Column, ...]:
        """Return the columns of ``*`` or ``w.*``, without the emission and revision."""
        columns = [
            one
            for one in self.columns
            if one.name not in EMISSION_COLUMNS and one != ROW_NUMBER_COLUMN
        ]
        if item.qualifier is None:
            return tuple(columns)
        row = self.tables.get(item.qualifier.lower())
        if row is not None:
            return tuple(one for one in columns if one.text == f"{row}.*")
        rows_of_query = {f"{one}.*" for one in self.tables.values()}
        return tuple(one for one in columns if one.text not in rows_of_query)


def check_qualified_stars(
    scope: Scope, select: Select, relation: Relation, call: WindowCall | None
) -> None:
    """Refuse ``t.*`` if there is no such table, or its columns aren't separate."""
    for item in select.items:
        if item.qualifier is None:
            continue
        if item.qualifier.lower() not in scope.qualifiers:
            hint = "write *, or a name after FROM or JOIN"
            scope.fail(item.span, f"there is no table {item.qualifier} here", hint)
        is_over_windows = isinstance(relation, WindowRelation) and call is None
        if select.joins and not (
            is_over_windows and row_number.find_numbering(scope, select) is None
        ):
            refuse_side_star(scope, item)


def refuse_side_star(scope: Scope, item: SelectItem) -> NoReturn:
    """Refuse ``t.*`` in a join of streams."""
    scope.fail(item.span, "the columns of a side aren't separate here", "write *, or name them")


def list_window_columns(windowing: WindowRelation) -> tuple[Column, ...]:
    """Return the columns that windows emit."""
    identity = (*windowing.spec.keys, START, END, *windowing.spec.aggregates)
    emission_columns = (Column(name, name) for name in EMISSION_COLUMNS)
    return windowing.columns or (
        *(Column(name, quote_name(name)) for name in identity),
        *emission_columns,
    )


def lower_outer_query(scope: Scope, select: Select, windowing: WindowRelation) -> WindowRelation:
    """Return windows with the select list and condition of the query around them."""
    if windowing.ranking is not None or windowing.each:
        _check_emits_once(scope, select, windowing)
    if windowing.ranking is not None:
        return _lower_over_rows(scope, select, windowing)
    identity = (*windowing.spec.keys, START, END)
    inner = InnerColumns.from_windows(windowing, len(select.joins))
    outputs: list[Column] = []
    for item in select.items:
        item_columns = inner.expand_star(item)
        if item.scalar is not None:
            item_columns = (_lower_item(scope, item, inner),)
        for column in item_columns:
            names = {one.name.lower() for one in outputs if one.name != "*"}
            is_reserved = (
                column.name in (*identity, *EMISSION_COLUMNS) and column not in inner.columns
            )
            is_reserved &= not column.bare
            is_reserved |= (
                windowing.each
                and column.name == ROW_NUMBER_COLUMN.name
                and column != ROW_NUMBER_COLUMN
            )
            if is_reserved or column.name.lower() in names:
                problem = f"{column.name} is a column of the output already"
                scope.fail(item.span, problem, "give it another name with AS")
        outputs += item_columns
    having = windowing.having
    if select.where is not None:
        condition = _render_over_windows(scope, select.where, inner)
        having = condition if having is None else f"({having}) AND ({condition})"
    return replace(
        windowing, columns=complete_columns(outputs, identity, each=windowing.each), having=having
    )


def _lower_item(scope: Scope, item: SelectItem, inner: InnerColumns) -> Column:
    node = item.scalar
    assert node is not None
    if isinstance(node, exp.Column):
        # Spark names a struct's field by its last part.
        name = item.alias or scope.find_column_name(node) or node.name
        return Column(name, inner.find_column(scope, node).text)
    return Column(
        item.alias or scope.render(node).lower(), _render_over_windows(scope, node, inner)
    )


def _check_emits_once(scope: Scope, select: Select, windowing: WindowRelation) -> None:
    """Refuse a condition on rows that may change when their window emits again."""
    firing = windowing.spec.firing
    if select.where is not None and (firing.early is not None or firing.grace):
        hint = "let windows emit once"
        scope.fail(select.where, "an emitted row may cease to satisfy this condition", hint)


def _lower_over_rows(scope: Scope, select: Select, windowing: WindowRelation) -> WindowRelation:
    """Return the rows of windows with one more condition and select list."""
    if select.where is not None:
        windowing = row_number.add_choice(windowing, Choice(None, scope.render(select.where)))
    return row_number.add_choice(
        windowing, row_number.lower_select_list(scope, select, windowing, None)
    )


def _render_over_windows(scope: Scope, node: exp.Expr, inner: InnerColumns) -> str:
    """Return the text of an expression over the columns that windows emit."""

    def render_part(part: exp.Expr) -> str | None:
        return (
            _parenthesize(inner.find_column(scope, part)) if isinstance(part, exp.Column) else None
        )

    return scope.rewrite(node, render_part)


def _parenthesize(column: Column) -> str:
    return column.text if column.bare else f"({column.text})"
