"""The tables and views that statements have named so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from muntin.model.errors import SqlError
from muntin.model.pipeline import (
    DeclaredTable,
    Derived,
    Marks,
    Reading,
    Relation,
    Windowing,
    quoted,
    tables_of,
)
from muntin.sql.cursor import Span
from muntin.sql.syntax import Existing, Source, Watermark

END = "window_end"


def marks_of(known: Marks, text: str, source: Source) -> Marks:
    """The marks of a source, with what the query itself says of it."""
    mark = source.watermark
    if source.offset is not None:
        known = replace(known, offset=source.offset)
    if mark is None:
        return known
    if known.time is not None:
        hint = "leave this one away, or the one of the table"
        raise SqlError(text, mark.span, f"{known.time} has a watermark already", hint)
    return with_watermark(known, mark)


def with_watermark(known: Marks, mark: Watermark) -> Marks:
    """The same with a watermark."""
    marks = replace(known, time=mark.column, lateness=mark.lateness, max_ahead=mark.ahead)
    return replace(marks, idle=mark.idle)


def end_of(relation: Relation) -> str | None:
    """The column that holds the ends of windows, where a relation has such rows."""
    return bound_of(relation, END)


def bound_of(relation: Relation, bound: str) -> str | None:
    """The column that holds a bound of windows, where a relation has such rows."""
    if isinstance(relation, Windowing):
        return bound if relation.spec.axis == "time" else None
    if not isinstance(relation, Derived):
        return None
    known = bound_of(relation.source, bound)
    if known is None or relation.columns is None:
        return known
    shown = (c.name for c in relation.columns if c.text in (known, quoted(known), "*"))
    found = next(shown, None)
    return known if found == "*" else found


@dataclass(frozen=True)
class Resolved:
    """A relation, its marks, and the names that its columns may be qualified by."""

    relation: Relation
    marks: Marks
    qualifiers: frozenset[str]


@dataclass
class Catalog:
    """What has been named so far; names are compared without case.

    Attributes:
        tables: Sources and sinks.
        views: Relations under a name.
        used: The tables that a pipeline's queries read and write, in lower case.
    """

    tables: dict[str, DeclaredTable] = field(default_factory=dict)
    views: dict[str, Resolved] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def inner(self) -> Catalog:
        """A copy that may name more."""
        return Catalog(dict(self.tables), dict(self.views), set(self.used))

    def add_table(
        self, text: str, span: Span, table: DeclaredTable, existing: Existing = "refuse"
    ) -> None:
        """Name a table."""
        name = table.name.lower()
        if self._stays(text, span, table.name, existing, name in self.tables):
            return
        # A table is read when its readers run, under the watermark that it had when they were
        # made: they would read the new one as if it were the old.
        readers = [view for view, made in self.views.items() if name in tables_of(made.relation)]
        if name in self.tables and (readers or name in self.used):
            reader = f"the view {readers[0]}" if readers else "a query"
            hint = "give the new one another name"
            raise SqlError(text, span, f"{reader} uses {table.name} as it was", hint)
        self.tables[name] = table

    def add_view(
        self, text: str, span: Span, name: str, resolved: Resolved, existing: Existing = "refuse"
    ) -> None:
        """Name a view; what was made from an older one keeps that."""
        if not self._stays(text, span, name, existing, name.lower() in self.views):
            self.views[name.lower()] = resolved

    def _stays(self, text: str, span: Span, name: str, existing: Existing, same: bool) -> bool:
        """Whether what has the name is to stay; ``same`` says that it is of the same kind."""
        if name.lower() not in self.tables and name.lower() not in self.views:
            return False
        if existing == "refuse" or not same:
            raise SqlError(text, span, f"{name} is there already", "give it another name")
        return existing == "keep"

    def resolve(self, name: str, alias: str | None) -> Resolved:
        """A relation by its name; one that isn't here is left to whoever runs the query."""
        names = frozenset({(alias or name.rpartition(".")[2]).lower()})
        view = self.views.get(name.lower())
        if view is not None:
            return replace(view, qualifiers=names)
        table = self.tables.get(name.lower())
        if table is None:
            return Resolved(Reading(name), Marks(), names)
        return Resolved(Reading(table.name), table.marks, names)
