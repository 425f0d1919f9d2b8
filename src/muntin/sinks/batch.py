"""One batch of rows, as a host hands it to a sink."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl
import pyarrow as pa

from muntin.engine import columns
from muntin.sinks.unwritable import UnwritableRows


class Rows(Protocol):
    """The rows of a batch, as a host holds them."""

    @property
    def frame(self) -> Any:
        """The rows as the host's own frame: of Spark, or of Polars."""

    @property
    def query(self) -> str:
        """Distinguishes the query from every query with another checkpoint."""

    @property
    def zone(self) -> str:
        """The time zone that the query writes times in."""

    def table(self) -> pa.Table:
        """The rows in this process."""

    def take_last(self, most: int) -> pa.Table:
        """Take the last rows of each shard, so many at least where there are as many."""

    def write_natively(self, sink: Any, batch: Batch) -> bool:
        """Write a batch the host's own way, if it has one for this kind of sink."""


@dataclass(frozen=True)
class Batch:
    """One batch of rows of one kind.

    Attributes:
        number: The batch's number, the same when the batch is repeated.
        kind: The kind of the rows: ``results`` or ``rejected``.
        schema: The columns.
        keys: The key columns; ``None`` where rows have no identity but their batch (pairs of joins,
            rejected messages).
        rows: The rows, as the host holds them.
        empty: Whether there are no rows of this kind, as when no message came. Where the table
            exists, nothing needs to be done then: a repeat has no rows either.
        unwritable: Takes the rows that the sink can't store.
    """

    number: int
    kind: str
    schema: pa.Schema
    keys: tuple[str, ...] | None
    rows: Rows
    empty: bool = False
    unwritable: UnwritableRows = field(default_factory=lambda: UnwritableRows(""), compare=False)

    @property
    def identity(self) -> tuple[str, ...] | None:
        """The columns that identify a row: the keys and the window; ``None`` where none do."""
        if self.keys is None:
            return None
        bounds = (columns.WINDOW_START, columns.WINDOW_END)
        return (*self.keys, *(name for name in bounds if name in self.schema.names))

    @property
    def frame(self) -> Any:
        """The rows as the host's own frame: a DataFrame of Spark, or of Polars."""
        return self.rows.frame

    @property
    def query(self) -> str:
        """Distinguishes the query from every query with another checkpoint."""
        return self.rows.query

    @property
    def zone(self) -> str:
        """The time zone that the query writes times in."""
        return self.rows.zone

    def table(self) -> pa.Table:
        """The rows as one Arrow table, in this process."""
        return self.rows.table()

    def write_natively(self, sink: Any) -> bool:
        """Have the host write the batch its own way, if it has one for this kind of sink."""
        return self.rows.write_natively(sink, self)


@dataclass(frozen=True)
class LocalRows:
    """Rows in this process.

    Attributes:
        held: The rows, as Polars or Arrow has them.
        schema: The types in which they are written; those of ``held`` where there is none.
        query: Distinguishes the query from every query with another checkpoint.
        zone: The time zone that the query writes times in.
    """

    held: pl.DataFrame | pa.Table
    schema: pa.Schema | None = None
    query: str = ""
    zone: str = "UTC"

    @property
    def frame(self) -> pl.DataFrame:
        """The rows as a Polars frame."""
        if isinstance(self.held, pl.DataFrame):
            return self.held
        frame = pl.from_arrow(self.held)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def table(self) -> pa.Table:
        """The rows as an Arrow table."""
        table = self.held.to_arrow() if isinstance(self.held, pl.DataFrame) else self.held
        return table if self.schema is None else table.cast(self.schema)

    def take_last(self, most: int) -> pa.Table:
        """Take all rows: which of them are of one shard isn't known any more."""
        return self.table()

    def write_natively(self, sink: Any, batch: Batch) -> bool:
        """Leave every batch to its sink."""
        return False
