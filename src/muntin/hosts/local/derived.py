"""Filters and computes the rows of a source or of an operator, row by row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import polars as pl

from muntin.engine import columns
from muntin.engine.utf8 import GARBLED
from muntin.hosts.local.expressions import parse_sql_expression, resolve_condition
from muntin.hosts.local.plan import InputRows, LocalPlan, LocalUpstream
from muntin.model.errors import OptionError
from muntin.model.pipeline import Column
from muntin.sources.frames import FrameSource
from muntin.sources.source import (
    MALFORMED_COLUMNS,
    ForwardingReader,
    Source,
    SourceOffsets,
    SourceReader,
)

_EXPLODE = re.compile(r"(?is)\s*explode\((.*)\)\s*")


class RowStep(Protocol):
    """A transformation of rows, each on its own."""

    def apply(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the transformed rows."""

    def derive_schema(self, schema: pl.Schema) -> pl.Schema:
        """Return the columns of transformed rows."""

    def keeps(self, name: str) -> bool:
        """Return whether a column stays unchanged under its name."""


@dataclass(frozen=True)
class RowSelectList:
    """A select list and a condition over single rows.

    Attributes:
        shown: The selected columns; `None` selects all unchanged.
        where: The condition; `None` selects all rows.
        exploded: The selected list whose elements are rows; `None` without `explode`.
        malformed: The column with the bytes that couldn't be decoded, if the rows have one.
    """

    shown: tuple[pl.Expr, ...] | None = None
    where: pl.Expr | None = None
    exploded: str | None = None
    malformed: str | None = None

    @classmethod
    def of(
        cls,
        schema: pl.Schema,
        columns_shown: Sequence[Column] | None,
        where: str | None,
        malformed: str | None = None,
    ) -> RowSelectList:
        """Parse a select list and a condition in SQL; the columns of malformed messages stay."""
        holds = None if where is None else resolve_condition(schema, "where", where)
        if columns_shown is None:
            return cls(None, holds, malformed=malformed)
        expressions: list[pl.Expr] = []
        exploded = None
        for column in columns_shown:
            if column.text == "*":
                expressions += [pl.col(name) for name in schema]
                continue
            text = column.text
            if (elements := _EXPLODE.fullmatch(text)) is not None:
                if exploded is not None:
                    hint = "explode the other one in a view around this query"
                    raise OptionError("SELECT", text, "explodes a second list", hint)
                exploded, text = column.name, elements.group(1)
            expression = parse_sql_expression(schema, "SELECT", text).alias(column.name)
            if exploded == column.name:
                _check_list(schema, expression, text)
            expressions.append(expression)
        names = [expression.meta.output_name() for expression in expressions]
        for name in names:
            if names.count(name) > 1:
                raise OptionError("SELECT", name, "is selected twice", "rename one with AS")
        if malformed is not None:
            expressions += [pl.col(name) for name in MALFORMED_COLUMNS if name not in names]
        return cls(tuple(expressions), holds, exploded, malformed)

    def apply(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the selected rows and columns."""
        if self.where is not None:
            rows = rows.filter(self._pass_malformed(self.where))
        if self.shown is None:
            return rows
        engine_columns = [name for name in (GARBLED, columns.PARTITION) if name in rows.columns]
        rows = rows.select(*self.shown, *engine_columns)
        if self.exploded is None:
            return rows
        has_elements = self._pass_malformed(pl.col(self.exploded).list.len() > 0)
        return rows.filter(has_elements).explode(self.exploded)

    def _pass_malformed(self, holds: pl.Expr) -> pl.Expr:
        """Return a condition that is true of malformed messages of whose NULLs it says nothing."""
        if self.malformed is None:
            return holds
        return holds.fill_null(pl.col(self.malformed).is_not_null())

    def derive_schema(self, schema: pl.Schema) -> pl.Schema:
        """Return the columns of the selection from rows of a schema."""
        return self.apply(pl.DataFrame(schema=schema)).schema

    def keeps(self, name: str) -> bool:
        """Return whether a column is selected unchanged under its name."""
        if self.shown is None:
            return True
        return any(expression.meta.eq(pl.col(name)) or expression.meta.eq(pl.col(name).alias(name))
                   for expression in self.shown)  # fmt: skip


def _check_list(schema: pl.Schema, expression: pl.Expr, text: str) -> None:
    """Refuse to explode anything but a list."""
    (dtype,) = pl.DataFrame(schema=schema).select(expression).schema.values()
    if not isinstance(dtype, pl.List):
        hint = "give an array, as in explode(split(line, ' '))"
        raise OptionError("SELECT", f"explode({text})", f"is of {dtype}, not of an array", hint)


@dataclass(frozen=True)
class DerivedSource(Source):
    """A source with the transformed rows of another source."""

    source: Source
    step: RowStep

    def __repr__(self) -> str:
        return repr(self.source)

    @property
    def schema(self) -> pl.Schema:
        """The columns of the transformed rows."""
        return self.step.derive_schema(self.source.schema)

    @property
    def malformed_column(self) -> str | None:
        """The column of bytes that couldn't be decoded, if it stays."""
        name = self.source.malformed_column
        return name if name is not None and self.step.keeps(name) else None

    @property
    def has_partitions(self) -> bool:
        """True if each row has the name of its partition."""
        return self.source.has_partitions

    def open(self) -> SourceReader:
        """Connect to the source."""
        return DerivedReader(self.source.open(), self.step)


class DerivedReader(ForwardingReader):
    """Reads ranges of the source, and transforms their rows."""

    def __init__(self, reader: SourceReader, step: RowStep) -> None:
        super().__init__(reader)
        self._step = step

    def read(self, start: SourceOffsets | None, end: SourceOffsets) -> Iterator[pl.DataFrame]:
        """Read the rows of a range."""
        return map(self._step.apply, super().read(start, end))


def derive_frame(source: FrameSource, step: RowStep) -> FrameSource:
    """Return a frame with the transformed rows of another one."""
    malformed_column = DerivedSource(source, step).malformed_column
    return FrameSource(step.apply(source.rows), source.origin, malformed_column)


def derive(rows: InputRows, columns_shown: Sequence[Column] | None, where: str | None) -> InputRows:
    """Return a source or an operator with a selection of its rows and columns."""
    if isinstance(rows, LocalUpstream):
        selection = RowSelectList.of(rows.plan.output_schema, columns_shown, where)
        keeps_end = rows.plan.keeps_end and selection.keeps(columns.WINDOW_END)
        return replace(rows, plan=with_selection(rows.plan, selection, keeps_end=keeps_end))
    selection = RowSelectList.of(rows.schema, columns_shown, where, rows.malformed_column)
    if isinstance(rows, FrameSource):
        return derive_frame(rows, selection)
    return DerivedSource(rows, selection)


def with_selection(plan: LocalPlan, selection: RowSelectList, *, keeps_end: bool) -> LocalPlan:
    """Return a plan with a selection of its results."""
    before = plan.select_list

    def apply(results: pl.DataFrame) -> pl.DataFrame:
        return selection.apply(results if before is None else before.apply(results))

    return plan.select(apply, None, has_end=keeps_end)
