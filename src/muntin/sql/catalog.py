"""Stores the tables and views that statements define, and resolves their names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from muntin.model.inputs import InputOptions
from muntin.model.pipeline import (
    SIDE_COLUMNS,
    WINDOW_BOUNDS,
    Column,
    DeclaredTable,
    Derived,
    JoinRelation,
    Relation,
    TableRelation,
    WindowRelation,
    find_tables,
    quote_name,
)
from muntin.sql.cursor import Cursor, Span
from muntin.sql.syntax import CreateView, Existing, FromItem


def merge_input_options(options: InputOptions, cursor: Cursor, source: FromItem) -> InputOptions:
    """Return the input options of a table, with the watermark and offset of the query."""
    watermark = source.watermark
    if source.offset is not None:
        options = replace(options, offset=source.offset)
    if watermark is None:
        return options
    if options.time is not None:
        hint = "leave out this one, or that of the table"
        cursor.fail(watermark.span, f"{options.time} has a watermark already", hint)
    return replace(watermark.input_options, offset=options.offset, clock=options.clock)


def find_bound_column(relation: Relation, bound: str) -> str | None:
    """Return the column of a relation that holds a bound of windows; ``None`` without one."""
    if isinstance(relation, WindowRelation):
        return bound if relation.spec.axis == "time" else None
    if isinstance(relation, JoinRelation):
        return _find_joined_bound(relation, bound)
    if not isinstance(relation, Derived):
        return None
    inner = find_bound_column(relation.source, bound)
    if inner is None or relation.columns is None:
        return inner
    names = (c.name for c in relation.columns if c.text in (inner, quote_name(inner), "*"))
    name = next(names, None)
    return inner if name == "*" else name


def _find_joined_bound(joining: JoinRelation, bound: str) -> str | None:
    """Return the column that holds a bound which the windows of both sides share."""
    sides = [find_bound_column(side, bound) for side in (joining.left, joining.right)]
    keys = list(zip(joining.spec.left.keys, joining.spec.right.keys, strict=True))
    if None in sides or joining.spec.how not in ("inner", "left") or tuple(sides) not in keys:
        return None
    texts = {f"{SIDE_COLUMNS[0]}.{name}" for name in (sides[0], quote_name(str(sides[0])))}
    if joining.merged:
        texts |= {str(sides[0]), quote_name(str(sides[0]))}
    return next((one.name for one in joining.columns or () if one.text in texts), None)


def makes_rows(relation: Relation) -> bool:
    """Return whether rows of a relation are elements of a list, and so share their offset."""
    columns = relation.columns if isinstance(relation, Derived) else None
    if any(re.match(r"(?i)\s*(pos)?explode(_outer)?\s*\(", one.text) for one in columns or ()):
        return True
    return isinstance(relation, Derived) and makes_rows(relation.source)


def find_shown_columns(relation: Relation) -> frozenset[str] | None:
    """Return the names of a relation's columns in lower case; ``None`` unless they are listed."""
    columns = relation.columns if isinstance(relation, WindowRelation | Derived) else None
    if columns is not None and all(column.text != "*" for column in columns):
        return frozenset(column.name.lower() for column in columns)
    if (
        not isinstance(relation, WindowRelation)
        or relation.ranking is not None
        or columns is not None
    ):
        return None
    spec = relation.spec
    return frozenset(name.lower() for name in (*spec.keys, *WINDOW_BOUNDS, *spec.aggregates))


def resolve_bound_alias(relation: Relation, name: str) -> str:
    """Return the bound of windows that an alias stands for; any other name is returned unchanged.

    Queries written for Flink say ``window_start AS starttime``. Results have both columns.
    """
    shown = (relation.columns if isinstance(relation, WindowRelation) else None) or ()
    texts = {column.text: column.name for column in shown if column.name in WINDOW_BOUNDS}
    for column in shown:
        bound = texts.get(column.text, column.text.strip("`"))
        if column.name.lower() == name.lower() and bound in WINDOW_BOUNDS:
            return bound
    return name


@dataclass(frozen=True)
class ResolvedRelation:
    """A relation that a query reads.

    Attributes:
        input_options: Event time, watermark and offset of the rows.
        qualifiers: Names that may qualify its columns, in lower case.
        column_names: Names of columns by their qualifier and name, both in lower case, where they
            differ.
        star: The declared columns that ``*`` stands for; empty if they aren't known.
        primary_key: The declared primary key; empty without one.
    """

    relation: Relation
    input_options: InputOptions
    qualifiers: frozenset[str]
    column_names: Mapping[tuple[str, str], str] = field(default_factory=dict)
    star: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()

    def derive(self, columns: tuple[Column, ...] | None, where: str | None) -> ResolvedRelation:
        """Return the relation after a projection and a filter."""
        star = self.star
        if columns is not None:
            parts = [star if column.text == "*" else (column.name,) for column in columns]
            star = tuple(name for part in parts for name in part) if all(parts) else ()
        return replace(self, relation=Derived(self.relation, columns, where), star=star)


@dataclass
class Catalog:
    """The tables and views defined so far. Their names have no case.

    Attributes:
        tables: Sources and sinks by name, in lower case.
        views: Relations of views by name, in lower case.
        used: The tables that a pipeline's queries read and write, in lower case.
    """

    tables: dict[str, DeclaredTable] = field(default_factory=dict)
    views: dict[str, ResolvedRelation] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def copy(self) -> Catalog:
        """Return a copy in which a query may define views of its own."""
        return Catalog(dict(self.tables), dict(self.views), set(self.used))

    def add_table(
        self, cursor: Cursor, span: Span, table: DeclaredTable, existing: Existing
    ) -> None:
        """Define a table."""
        name = table.name.lower()
        if self._keeps_existing(cursor, span, table.name, existing, name in self.tables):
            return
        # Readers look the table up when they run, but have its input options from when they were
        # defined. They would read the new table with the options of the old one.
        readers = [
            view for view, relation in self.views.items() if name in find_tables(relation.relation)
        ]
        if name in self.tables and (readers or name in self.used):
            reader = f"the view {readers[0]}" if readers else "a query"
            hint = "give the new one another name"
            cursor.fail(span, f"{reader} uses the old {table.name}", hint)
        self.tables[name] = table

    def add_view(self, cursor: Cursor, view: CreateView, resolved: ResolvedRelation) -> None:
        """Define a view; readers of an older view by that name keep reading the older one."""
        name = view.name.lower()
        if not self._keeps_existing(
            cursor, view.span, view.name, view.existing, name in self.views
        ):
            self.views[name] = resolved

    def _keeps_existing(
        self, cursor: Cursor, span: Span, name: str, existing: Existing, same: bool
    ) -> bool:
        """Return whether the existing table or view stays; ``same`` if both are tables or views."""
        if name.lower() not in self.tables and name.lower() not in self.views:
            return False
        if existing == "refuse" or not same:
            cursor.fail(span, f"{name} exists already", "give it another name")
        return existing == "keep"

    def resolve(self, name: str, alias: str | None) -> ResolvedRelation:
        """Return a relation by its name; the host resolves an undefined name when it runs."""
        names = frozenset({(alias or name.rpartition(".")[2]).lower()})
        view = self.views.get(name.lower())
        if view is not None:
            return replace(view, qualifiers=names)
        table = self.tables.get(name.lower())
        if table is None:
            return ResolvedRelation(TableRelation(name), InputOptions(), names)
        return ResolvedRelation(
            TableRelation(table.name),
            table.marks,
            names,
            star=table.names,
            primary_key=table.primary_key,
        )
