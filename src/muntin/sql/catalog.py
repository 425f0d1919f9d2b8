"""The tables and views that statements have defined so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from muntin.model.inputs import InputOptions
from muntin.model.pipeline import (
    DeclaredTable,
    Derived,
    Reading,
    Relation,
    Windowing,
    find_tables,
    quote_name,
)
from muntin.sql.cursor import Cursor, Span
from muntin.sql.syntax import CreateView, Existing, FromItem


def merge_input_options(marks: InputOptions, cursor: Cursor, source: FromItem) -> InputOptions:
    """Return the marks of a source, with those that the query itself declares."""
    mark = source.watermark
    if source.offset is not None:
        marks = replace(marks, offset=source.offset)
    if mark is None:
        return marks
    if marks.time is not None:
        hint = "leave this one away, or the one of the table"
        cursor.fail(mark.span, f"{marks.time} has a watermark already", hint)
    return replace(mark.marks, offset=marks.offset, clock=marks.clock)


def find_bound_column(relation: Relation, bound: str) -> str | None:
    """Return the column that holds a bound of windows; ``None`` if there is none."""
    if isinstance(relation, Windowing):
        return bound if relation.spec.axis == "time" else None
    if not isinstance(relation, Derived):
        return None
    inner = find_bound_column(relation.source, bound)
    if inner is None or relation.columns is None:
        return inner
    shown = (c.name for c in relation.columns if c.text in (inner, quote_name(inner), "*"))
    name = next(shown, None)
    return inner if name == "*" else name


_BOUNDS = ("window_start", "window_end")


def resolve_bound_alias(relation: Relation, name: str) -> str:
    """Return the bound of windows that a column shows under an alias; otherwise the same name.

    Queries written for Flink say ``window_start AS starttime``; results have the bound itself as
    well.
    """
    shown = (relation.columns if isinstance(relation, Windowing) else None) or ()
    texts = {column.text: column.name for column in shown if column.name in _BOUNDS}
    for column in shown:
        bound = texts.get(column.text, column.text.strip("`"))
        if column.name.lower() == name.lower() and bound in _BOUNDS:
            return bound
    return name


@dataclass(frozen=True)
class ResolvedRelation:
    """A relation, its marks, and the names that its columns may be qualified by."""

    relation: Relation
    marks: InputOptions
    qualifiers: frozenset[str]


@dataclass
class Catalog:
    """The tables and views defined so far, by names without case.

    Attributes:
        tables: Sources and sinks by name, in lower case.
        views: Relations of views by name, in lower case.
        used: The tables that a pipeline's queries read and write, in lower case.
    """

    tables: dict[str, DeclaredTable] = field(default_factory=dict)
    views: dict[str, ResolvedRelation] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def copy(self) -> Catalog:
        """Return a copy, in which a query may define views of its own."""
        return Catalog(dict(self.tables), dict(self.views), set(self.used))

    def add_table(
        self, cursor: Cursor, span: Span, table: DeclaredTable, existing: Existing
    ) -> None:
        """Define a table."""
        name = table.name.lower()
        if self._keeps_existing(cursor, span, table.name, existing, name in self.tables):
            return
        # A table is read when its readers run, but under the watermark that it had when they were
        # defined: they would read the new table with the marks of the old one.
        readers = [view for view, made in self.views.items() if name in find_tables(made.relation)]
        if name in self.tables and (readers or name in self.used):
            reader = f"the view {readers[0]}" if readers else "a query"
            hint = "give the new one another name"
            cursor.fail(span, f"{reader} uses {table.name} as it was", hint)
        self.tables[name] = table

    def add_view(self, cursor: Cursor, view: CreateView, resolved: ResolvedRelation) -> None:
        """Define a view; readers of an older view by that name keep the older one."""
        name = view.name.lower()
        if not self._keeps_existing(
            cursor, view.span, view.name, view.existing, name in self.views
        ):
            self.views[name] = resolved

    def _keeps_existing(
        self, cursor: Cursor, span: Span, name: str, existing: Existing, same: bool
    ) -> bool:
        """Return whether a table or view stays defined; ``same`` if the new one is of its kind."""
        if name.lower() not in self.tables and name.lower() not in self.views:
            return False
        if existing == "refuse" or not same:
            cursor.fail(span, f"{name} is there already", "give it another name")
        return existing == "keep"

    def resolve(self, name: str, alias: str | None) -> ResolvedRelation:
        """Return a relation by its name; an undefined name is left to whoever runs the query."""
        names = frozenset({(alias or name.rpartition(".")[2]).lower()})
        view = self.views.get(name.lower())
        if view is not None:
            return replace(view, qualifiers=names)
        table = self.tables.get(name.lower())
        if table is None:
            return ResolvedRelation(Reading(name), InputOptions(), names)
        return ResolvedRelation(Reading(table.name), table.marks, names)
