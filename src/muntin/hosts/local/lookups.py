"""Joins the rows of a source with a table that doesn't change, as they are read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from muntin.engine.dtypes import are_comparable, comparable_type
from muntin.hosts.local.derived import DerivedSource, derive_frame
from muntin.hosts.local.expressions import UnportableError, resolve_condition, spell_as
from muntin.model.errors import OptionError
from muntin.model.pipeline import SIDE_COLUMNS, Lookup
from muntin.model.printable import escape_line
from muntin.sources.frames import FrameSource
from muntin.sources.source import MALFORMED_COLUMNS, MALFORMED_DETAIL_COLUMN, Source

_LOG = logging.getLogger(__name__)
_INDEX, _KEY = "__muntin_index", "__muntin_key"


@dataclass(frozen=True)
class TableLookup:
    """A table that is looked up for each row.

    Attributes:
        how: `inner`, `left`, `semi` or `anti`.
        table: The rows of the table.
        pairs: The columns of both that must be equal.
        condition: A further condition over the structs of both sides; `None` is none.
        more: The columns of the table that a row gets, by their names in the table.
        malformed: The column with the bytes that couldn't be decoded, if the rows have one. Such a
            row matches nothing, and stays.
    """

    how: str
    table: pl.DataFrame
    pairs: tuple[tuple[str, str], ...]
    condition: pl.Expr | None
    more: tuple[str, ...]
    malformed: str | None = None

    def apply(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows, joined with those of the table, in the order of the rows."""
        rows = rows.with_row_index(_INDEX)
        has_values = True if self.malformed is None else pl.col(self.malformed).is_null()
        matches = self._match(rows.filter(has_values))
        stays = pl.col(_INDEX).is_in(matches[_INDEX].implode())
        if self.how == "anti":
            return rows.filter(~stays).drop(_INDEX)
        if self.malformed is not None:
            stays = stays | pl.col(self.malformed).is_not_null()
        rows = rows if self.how == "left" else rows.filter(stays)
        if self.how == "semi":
            return rows.drop(_INDEX)
        return rows.join(matches, on=_INDEX, how="left", maintain_order="left_right").drop(_INDEX)

    def derive_schema(self, schema: pl.Schema) -> pl.Schema:
        """Return the columns of joined rows."""
        return self.apply(pl.DataFrame(schema=schema)).schema

    def keeps(self, name: str) -> bool:
        """Return whether a column of the rows stays unchanged, as all do."""
        return True

    def _match(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the numbers of the rows that meet a row of the table, with its columns."""
        names, others = zip(*self.pairs, strict=True)
        left = rows.select(
            _INDEX,
            *_make_keys(rows.schema, names),
            *self._make_struct(SIDE_COLUMNS[0], [name for name in rows.columns if name != _INDEX]),
        )
        right = self.table.select(
            *_make_keys(self.table.schema, others),
            *self.more,
            *self._make_struct(SIDE_COLUMNS[1], self.table.columns),
        )
        keys = [name for name in right.columns if name.startswith(_KEY)]
        matches = left.join(right, on=keys, how="inner", maintain_order="left_right")
        if self.condition is not None:
            matches = matches.filter(self.condition)
        return matches.select(_INDEX, *self.more)

    def _make_struct(self, name: str, columns: Sequence[str]) -> list[pl.Expr]:
        return [] if self.condition is None else [pl.struct(columns).alias(name)]


def _make_keys(schema: pl.Schema, names: Sequence[str]) -> list[pl.Expr]:
    """Return the compared columns under names that both sides share."""
    return [
        pl.col(name).cast(comparable_type(schema[name])).alias(f"{_KEY}{index}")
        for index, name in enumerate(names)
    ]


def _drop_malformed_rows(name: str, table: FrameSource) -> FrameSource:
    """Return a table without records that couldn't be decoded, and warn of them."""
    if table.malformed_column is None:
        return table
    is_malformed = table.rows[table.malformed_column].is_not_null()
    if count := int(is_malformed.sum()):
        detail = table.rows.filter(is_malformed)[MALFORMED_DETAIL_COLUMN][0]
        _LOG.warning(
            "%s: %d rows can't be read and match nothing (one: %s)",
            name,
            count,
            escape_line(detail),
        )
    return FrameSource(table.rows.filter(~is_malformed).drop(*MALFORMED_COLUMNS), table.origin)


def look_up(lookup: Lookup, source: Source, table: Source) -> Source:
    """Return a source whose rows are joined with those of a table.

    Raises:
        OptionError: When the table is a stream, a column doesn't exist or is in both, or the join
            can't be computed in this process.
    """
    if not isinstance(table, FrameSource):
        hint = "give the table as a frame, or bound the times of both, as in AND a.ts BETWEEN ..."
        raise OptionError("JOIN", lookup.name, "is a stream, and the join has no bound", hint)
    table = _drop_malformed_rows(lookup.name, table)
    schema, other = source.schema, table.schema
    pairs = tuple(_resolve_pair(lookup, schema, other, pair) for pair in lookup.equal)
    if not pairs:
        hint = "write JOIN ... ON a.id = b.id, or run it on Spark"
        raise UnportableError("JOIN", lookup.name, "has no equal columns, and needs Spark", hint)
    shared = {name.lower() for name in lookup.shared}
    taken = {name.lower() for name in schema}
    more: tuple[str, ...] = ()
    if lookup.how in ("inner", "left"):
        more = tuple(name for name in other if name.lower() not in shared)
        twice = [name for name in more if name.lower() in taken]
        if twice:
            problem = f"has columns that the messages have as well: {', '.join(twice)}"
            named = f"JOIN (SELECT ... AS ... FROM ...) AS {lookup.name}"
            hint = f"give its columns other names: {named}; or bound the times of both"
            raise OptionError("JOIN", lookup.name, problem, hint)
    sides = pl.Schema(
        {
            name: pl.Struct(dict(kinds))
            for name, kinds in zip(SIDE_COLUMNS, (schema, other), strict=True)
        }
    )
    further = None if lookup.rest is None else resolve_condition(sides, "JOIN", lookup.rest)
    malformed = source.malformed_column
    step = TableLookup(lookup.how, table.rows, pairs, further, more, malformed)
    if isinstance(source, FrameSource):
        return derive_frame(source, step)
    return DerivedSource(source, step)


def _resolve_pair(
    lookup: Lookup, schema: pl.Schema, table: pl.Schema, pair: tuple[str, str]
) -> tuple[str, str]:
    """Return two columns that must be equal, in the spelling of the rows."""
    one, other = spell_as(pair[0], schema), spell_as(pair[1], table)
    if one is None or other is None:
        name, columns = (pair[0], schema) if one is None else (pair[1], table)
        hint = f"give some of {', '.join(columns)}"
        raise OptionError("JOIN", lookup.name, f"compares {name}, which isn't a column", hint)
    if not are_comparable(schema[one], table[other]):
        problem = f"compares {one} ({schema[one]}) with {other} ({table[other]})"
        raise OptionError("JOIN", lookup.name, problem, "cast one of them in a view")
    return one, other
