"""A batch of rows, as a host passes it to a sink."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl
import pyarrow as pa

from muntin.engine import columns
from muntin.sinks.unwritable import UnwritableRows


class BatchRows(Protocol):
    """The rows of a batch in the host's form."""

    @property
    def frame(self) -> Any:
        """The rows as the host's own frame: of Spark, or of Polars."""

    @property
    def query(self) -> str:
        """An identifier of the query, unique to its checkpoint."""

    @property
    def has_checkpoint(self) -> bool:
        """True if another run of the query can continue after the batch."""

    @property
    def zone(self) -> str:
        """The time zone in which the query writes times."""

    def table(self) -> pa.Table:
        """Return the rows in this process, as an Arrow table."""

    def take_last(self, most: int) -> pa.Table:
        """Take the last rows of each shard, so many at least where there are as many."""

    def write_natively(self, sink: Any, batch: Batch) -> bool:
        """Write a batch with the host's own writer, if it has one for this kind of sink."""


@dataclass(frozen=True)
class Batch:
    """One batch of rows of one kind.

    Attributes:
        number: The batch's number, the same when the batch is repeated.
        kind: The kind of the rows: ``results`` or ``rejected``.
        schema: The columns.
        keys: The key columns; ``None`` if rows have no identity but their batch (pairs of joins,
            rejected messages).
        rows: The rows, in the host's form.
        empty: True if there are no rows of this kind, for example without messages. If the table
            exists, nothing needs to be done then: a repeat has no rows either.
        unwritable: Collects the rows that the sink can't store.
        by_window: True if the window is part of a row's identity; false if each row replaces the
            one of an earlier window.
    """

    number: int
    kind: str
    schema: pa.Schema
    keys: tuple[str, ...] | None
    rows: BatchRows
    empty: bool = False
    unwritable: UnwritableRows = field(default_factory=lambda: UnwritableRows(""), compare=False)
    by_window: bool = True

    @property
    def identity(self) -> tuple[str, ...] | None:
        """The columns that identify a row: the keys and the window; ``None`` if there are none."""
        if self.keys is None or not self.by_window:
            return self.keys
        bounds = (columns.WINDOW_START, columns.WINDOW_END)
        return (*self.keys, *(name for name in bounds if name in self.schema.names))

    @property
    def frame(self) -> Any:
        """The rows as the host's own frame: a DataFrame of Spark, or of Polars."""
        return self.rows.frame

    @property
    def query(self) -> str:
        """An identifier of the query, unique to its checkpoint."""
        return self.rows.query

    @property
    def has_checkpoint(self) -> bool:
        """True if another run of the query can continue after the batch."""
        return self.rows.has_checkpoint

    @property
    def zone(self) -> str:
        """The time zone in which the query writes times."""
        return self.rows.zone

    def table(self) -> pa.Table:
        """Return the rows as one Arrow table, in this process."""
        return self.rows.table()

    def write_natively(self, sink: Any) -> bool:
        """Let the host write the batch with its own writer, if it has one for this sink."""
        return self.rows.write_natively(sink, self)


@dataclass(frozen=True)
class LocalRows:
    """Rows in this process.

    Attributes:
        source: The rows, as a Polars frame or an Arrow table.
        schema: The types in which they are written; by default those of ``source``.
        query: An identifier of the query, unique to its checkpoint.
        zone: The time zone in which the query writes times.
        has_checkpoint: Whether another run of the query can continue after the batch.
    """

    source: pl.DataFrame | pa.Table
    schema: pa.Schema | None = None
    query: str = ""
    zone: str = "UTC"
    has_checkpoint: bool = True

    @property
    def frame(self) -> pl.DataFrame:
        """The rows as a Polars frame."""
        if isinstance(self.source, pl.DataFrame):
            return self.source
        frame = pl.from_arrow(self.source)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def table(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        table = self.source.to_arrow() if isinstance(self.source, pl.DataFrame) else self.source
        return table if self.schema is None else table.cast(self.schema)

    def take_last(self, most: int) -> pa.Table:
        """Take all rows: which of them are of one shard isn't known any more."""
        return self.table()

    def write_natively(self, sink: Any, batch: Batch) -> bool:
        """Return false: the sink writes every batch."""
        return False
