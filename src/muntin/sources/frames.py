"""A frame as a finite source: all of its rows exist, and none will follow them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import polars as pl
import pyarrow as pa

from muntin.engine.columns import is_internal
from muntin.engine.utf8 import GARBLED, frame_from_arrow, from_pandas
from muntin.model.errors import OptionError, SourceError
from muntin.sources.source import Planned, Source, SourceOffsets, SourceReader

# Polars panics over types of Arrow that it lacks, such as decimals of 256 bits.
_UNREADABLE = (
    pa.ArrowException,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
    TypeError,
    ValueError,
)
_ROWS_AT_ONCE = 500_000
_ROW = "row"


class FrameSource(Source):
    """The rows of a frame, in their order.

    Args:
        rows: Rows of the frame, which may have the column `GARBLED`.
        origin: Library of the original frame: `polars`, `pandas` or `arrow`.
        malformed_column: Column with the bytes of undecodable records, if there is one.
    """

    malformed_column: str | None = None

    def __init__(
        self, rows: pl.DataFrame, origin: str = "polars", malformed_column: str | None = None
    ) -> None:
        self.rows = rows
        self.origin = origin
        self.malformed_column = malformed_column

    def __repr__(self) -> str:
        rows = "row" if len(self.rows) == 1 else "rows"
        return f"a frame of {len(self.rows):,} {rows}"

    @property
    def schema(self) -> pl.Schema:
        """The columns of the frame."""
        return pl.Schema({n: kind for n, kind in self.rows.schema.items() if n != GARBLED})

    def open(self) -> FrameReader:
        """Return a reader of the frame."""
        return FrameReader(self.rows)

    def give_back(self, rows: pl.DataFrame) -> Any:
        """Return rows as a frame of the library that this source was created from."""
        if self.origin == "pandas":
            return rows.to_pandas()
        return rows.to_arrow() if self.origin == "arrow" else rows


class FrameReader(SourceReader):
    """Reads ranges of a frame; see `SourceReader`."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self._rows = rows

    def plan(self, start: SourceOffsets | None, limit: int | None) -> Planned:
        """Plan the next rows."""
        first = 0 if start is None else int(start[_ROW])
        self._check(first)
        last = len(self._rows) if limit is None else min(len(self._rows), first + limit)
        is_last = last == len(self._rows)
        return Planned({_ROW: last}, has_new=last > first, caught_up=is_last, finished=is_last)

    def read(self, start: SourceOffsets | None, end: SourceOffsets) -> Iterator[pl.DataFrame]:
        """Read rows in slices."""
        first, last = 0 if start is None else int(start[_ROW]), int(end[_ROW])
        self._check(last)
        for row in range(first, last, _ROWS_AT_ONCE):
            yield self._rows.slice(row, min(_ROWS_AT_ONCE, last - row))

    def is_finished(self, end: SourceOffsets) -> bool:
        """Return whether an end is that of the frame."""
        return int(end[_ROW]) == len(self._rows)

    def _check(self, row: int) -> None:
        """Refuse a frame that is shorter than the part of a frame that was read already."""
        if row > len(self._rows):
            raise SourceError(
                f"{row:,} rows of this frame were read, and it has {len(self._rows):,} rows. Give "
                "the frame that the query was started with, or a new checkpoint folder"
            )


def frame_source(frame: object) -> FrameSource | None:
    """Return the source of a Polars, pandas or Arrow frame; `None` for anything else."""
    home = type(frame).__module__.partition(".")[0]
    try:
        if isinstance(frame, pl.DataFrame):
            return FrameSource(_plain(frame))
        if isinstance(frame, pl.LazyFrame):
            return FrameSource(_plain(frame.collect()))
        if isinstance(frame, pa.RecordBatch):
            frame = pa.Table.from_batches([frame])
        if isinstance(frame, pa.Table):
            return FrameSource(_plain(frame_from_arrow(frame)), "arrow")
        if home == "pandas" and type(frame).__name__ == "DataFrame":
            return FrameSource(_plain(from_pandas(frame)), "pandas")
    except _UNREADABLE as error:
        _refuse_duplicates(frame)
        line = str(error).partition("\n")[0]
        hint = "cast its columns to types that Arrow has"
        raise OptionError("frame", type(frame), f"can't be read ({line})", hint) from error
    return None


def _refuse_duplicates(frame: Any) -> None:
    """Refuse a frame with two columns of one name."""
    names = [*map(str, frame.column_names if isinstance(frame, pa.Table) else frame.columns)]
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise OptionError("frame", name, "is the name of two columns", "rename one of them")


def _plain(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with text in place of categories, which differ from frame to frame.

    Raises:
        OptionError: When a column has objects of Python, or a name that muntin uses itself.
    """
    kinds = rows.schema.items()
    for name, kind in kinds:
        if kind == pl.Object():
            hint = "cast it to text, or leave it out with frame.drop()"
            raise OptionError("frame", name, "is a column of Python objects", hint)
        if is_internal(name) and name != GARBLED:
            problem = "is a column with a name that muntin uses itself"
            raise OptionError("frame", name, problem, "rename it")
    casts = {n: pl.String() for n, kind in kinds if isinstance(kind, pl.Categorical | pl.Enum)}
    return rows.cast(casts) if casts else rows  # type: ignore[arg-type]
