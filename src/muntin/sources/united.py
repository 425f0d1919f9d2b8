"""Several sources as one: a batch has the next rows of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from muntin.engine.utf8 import GARBLED
from muntin.model.errors import OptionError
from muntin.sources.frames import FrameSource
from muntin.sources.source import (
    MALFORMED_COLUMN,
    MALFORMED_COLUMNS,
    Planned,
    Source,
    SourceOffsets,
    SourceReader,
)

_WIDTHS: Mapping[pl.DataType, int] = {pl.Int8(): 8, pl.Int16(): 16, pl.Int32(): 32, pl.Int64(): 64}


class UnitedSource(Source):
    """The rows of several sources, whose columns are matched by position.

    The columns have the names of the first source. Rows are read source by source within a batch,
    so their order of arrival isn't defined.
    """

    def __init__(self, parts: Sequence[Source], schema: pl.Schema) -> None:
        self._parts = tuple(parts)
        self._schema = schema

    def __repr__(self) -> str:
        return " and ".join(map(repr, self._parts))

    @property
    def schema(self) -> pl.Schema:
        """The columns of the first source, with types that hold the values of all.

        Those of malformed messages follow, if a source has them.
        """
        return self._schema

    @property
    def malformed_column(self) -> str | None:
        """The column of bytes that couldn't be decoded, if a source has one."""
        return MALFORMED_COLUMN if any(map(_decodes, self._parts)) else None

    def open(self) -> UnitedReader:
        """Connect to all sources."""
        return UnitedReader(
            [(part.open(), _match_names(part, self.schema)) for part in self._parts], self.schema
        )


class UnitedReader(SourceReader):
    """Reads a range of each source; see `SourceReader`."""

    def __init__(
        self, readers: Sequence[tuple[SourceReader, Mapping[str, str]]], schema: pl.Schema
    ) -> None:
        self._readers = readers
        self._schema = schema

    def plan(self, start: SourceOffsets | None, limit: int | None) -> Planned:
        """Plan the next rows of each source."""
        share = None if limit is None else max(1, limit // len(self._readers))
        plans = [
            reader.plan(_part(start, number), share)
            for number, (reader, _) in enumerate(self._readers)
        ]
        return Planned(
            {str(number): dict(one.end) for number, one in enumerate(plans)},
            has_new=any(one.has_new for one in plans),
            caught_up=all(one.caught_up for one in plans),
            finished=all(one.finished for one in plans),
        )

    def read(self, start: SourceOffsets | None, end: SourceOffsets) -> Iterator[pl.DataFrame]:
        """Read the range of each source, one after the other."""
        for number, (reader, names) in enumerate(self._readers):
            for rows in reader.read(_part(start, number), end[str(number)]):
                yield match_columns(rows, names, self._schema)

    def is_finished(self, end: SourceOffsets) -> bool:
        """Return whether no row can follow an end in any source."""
        return all(
            reader.is_finished(end[str(number)]) for number, (reader, _) in enumerate(self._readers)
        )

    def lag(self, end: SourceOffsets) -> Mapping[str, int]:
        """Return how many messages each partition of the sources had after an end."""
        pairs = ((reader, end[str(number)]) for number, (reader, _) in enumerate(self._readers))
        return {name: n for reader, its in pairs for name, n in reader.lag(its).items()}

    def close(self) -> None:
        """Release the connections of all sources."""
        for reader, _ in self._readers:
            reader.close()


def unite(parts: Sequence[Source]) -> Source:
    """Return the union of sources, or refuse columns that don't fit together."""
    first, *others = schemas = [_own_columns(part) for part in parts]
    for other in others:
        if len(other) != len(first):
            problem = f"unites {len(first)} columns with {len(other)}"
            raise OptionError("UNION ALL", "columns", problem, "select as many in each query")
    columns = zip(*(one.values() for one in schemas), strict=True)
    kinds = [_common_type(name, types) for name, types in zip(first, columns, strict=True)]
    more = MALFORMED_COLUMNS if any(map(_decodes, parts)) else {}
    schema = pl.Schema({**dict(zip(first, kinds, strict=True)), **more})
    if all(isinstance(part, FrameSource) for part in parts):
        frames: list[Any] = list(parts)
        rows = [match_columns(one.rows, _match_names(one, schema), schema) for one in frames]
        malformed = MALFORMED_COLUMN if more else None
        return FrameSource(pl.concat(rows, how="diagonal"), frames[0].origin, malformed)
    return UnitedSource(parts, schema)


def _common_type(name: str, types: Sequence[pl.DataType]) -> pl.DataType:
    """Return the one type of a column, or the widest of several integers."""
    kinds = [kind for kind in dict.fromkeys(types) if kind != pl.Null()] or [*types]
    if len(kinds) > 1 and not all(kind.is_signed_integer() for kind in kinds):
        shown = ", ".join(map(str, kinds))
        hint = "cast it to one type in each query"
        raise OptionError("UNION ALL", name, f"has the types {shown}", hint)
    return max(kinds, key=lambda kind: _WIDTHS.get(kind, 0))


def _decodes(part: Source) -> bool:
    """Return whether a source has columns for messages that can't be decoded."""
    return part.malformed_column is not None


def _own_columns(part: Source) -> pl.Schema:
    """Return the columns of a source without those of malformed messages."""
    left_out = MALFORMED_COLUMNS if _decodes(part) else {}
    return pl.Schema({name: kind for name, kind in part.schema.items() if name not in left_out})


def _match_names(part: Source, target: pl.Schema) -> dict[str, str]:
    """Return the names in a union of a source's columns, which are matched by position."""
    names = dict(zip(_own_columns(part), target, strict=False))
    return {**names, **({name: name for name in MALFORMED_COLUMNS} if _decodes(part) else {})}


def match_columns(rows: pl.DataFrame, names: Mapping[str, str], target: pl.Schema) -> pl.DataFrame:
    """Return the rows of one source with the names and types of a union.

    Columns that the source lacks are NULL. The name of a row's partition is left out.
    """
    shown = [pl.col(own).cast(target[name]).alias(name) for own, name in names.items()]
    lacking = target.keys() - {*names.values()}
    shown += [pl.lit(None, target[name]).alias(name) for name in target if name in lacking]
    garbled = pl.col(GARBLED).list.eval(pl.element().replace(names))
    return rows.select(*shown, *([garbled] if GARBLED in rows.columns else []))


def _part(start: SourceOffsets | None, number: int) -> SourceOffsets | None:
    return None if start is None else start[str(number)]
