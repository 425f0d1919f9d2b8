"""Delivers the rows of a batch to sinks, and keeps the rows that a sink can't store."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from muntin.hosts.local.plan import Plan
from muntin.model.errors import BatchError, MuntinError
from muntin.sinks.batch import Batch, LocalRows
from muntin.sinks.memory import MemorySink
from muntin.sinks.sink import (
    Sink,
    SinkLike,
    check_output,
    check_separate_tables,
    prepare_sinks,
    to_sink,
)
from muntin.sinks.unwritable import UnwritableRows

RESULTS, REJECTED = "results", "rejected"
_PACKAGES = Path(__file__).parents[2]


@dataclass(frozen=True)
class Destination:
    """The sink of one kind of rows.

    Attributes:
        kind: The kind.
        schema: The columns in Polars' types.
        keys: The columns that identify a row together with its window; `None` where none do.
        sink: The sink; `None` where there is none.
    """

    kind: str
    schema: pl.Schema
    keys: tuple[str, ...] | None
    sink: Sink | None

    @property
    def columns(self) -> pa.Schema:
        """The columns in Arrow's types."""
        return pl.DataFrame(schema=self.schema).to_arrow().schema

    @property
    def lasts(self) -> bool:
        """True if written rows outlast the process."""
        return self.sink is not None and not isinstance(self.sink, MemorySink)


def destinations(plan: Plan, sinks: tuple[SinkLike | None, SinkLike | None]) -> list[Destination]:
    """Return the destinations of results and rejected messages, checked before anything runs.

    Raises:
        OptionError: When a sink can't take such rows.
    """
    results, rejected = map(to_sink, sinks)
    found = [
        Destination(RESULTS, plan.shown, plan.identity, results or MemorySink()),
        Destination(REJECTED, pl.Schema(plan.layout.kinds), None, rejected),
    ]
    check_separate_tables(one.sink for one in found)
    for one in found:
        check_output(one.sink, one.columns, one.keys)
    prepare_sinks(one.sink for one in found)
    return found


class Delivery:
    """Writes batches to sinks.

    Args:
        destinations: The destination of each kind of rows.
        query: A text that distinguishes the query from those with another checkpoint.
        folder: The checkpoint, which keeps rows that a sink can't store; `None` only counts them.
    """

    def __init__(self, destinations: Sequence[Destination], query: str, folder: str | None) -> None:
        self.destinations = tuple(destinations)
        self._query = query
        self._folder = None if folder is None else Path(folder) / "unstorable"
        self._arrow = {one.kind: one.columns for one in destinations}
        self._begun: set[str] = set()

    def batches(self, number: int, rows: Mapping[str, pl.DataFrame]) -> list[Batch]:
        """Return a `Batch` with the rows for each destination."""
        return [
            Batch(
                number,
                one.kind,
                self._arrow[one.kind],
                one.keys,
                LocalRows(rows[one.kind], self._arrow[one.kind], self._query),
                rows[one.kind].is_empty(),
                UnwritableRows(one.kind),
            )
            for one in self.destinations
        ]

    def must_last(self, batches: Sequence[Batch]) -> bool:
        """Return whether a sink gets rows that outlast the process."""
        pairs = zip(self.destinations, batches, strict=True)
        return any(one.lasts and self._writes(one, batch) for one, batch in pairs)

    def write(self, batches: Sequence[Batch]) -> int:
        """Write a batch to all sinks; a sink gets its first batch even if it has no rows.

        Returns:
            The number of rows that sinks couldn't store.

        Raises:
            BatchError: When user code raised.
            SinkError: When a sink can't take the batch.
        """
        unstorable = 0
        for one, batch in zip(self.destinations, batches, strict=True):
            if one.sink is None or not self._writes(one, batch):
                continue
            try:
                one.sink.write(batch)
            except MuntinError:
                raise
            except Exception as error:
                raise batch_error(error, batch.number, f"the sink of {one.kind}") from error
            self._begun.add(one.kind)
            unstorable += self._keep_unwritable(batch)
        return unstorable

    def _writes(self, one: Destination, batch: Batch) -> bool:
        return not batch.empty or one.kind not in self._begun

    def _keep_unwritable(self, batch: Batch) -> int:
        """Write unwritable rows to a file of the batch's own, which a repeated batch replaces."""
        if not batch.unwritable.tables:
            # Building an Arrow array imports pandas, which takes longer than everything else.
            return 0
        rows = batch.unwritable.table()
        if self._folder is not None:
            self._folder.mkdir(exist_ok=True)
            pq.write_table(rows, self._folder / f"{batch.number:08d}-{batch.kind}.parquet")
        return len(rows)


def batch_error(error: Exception, batch: int, part: str) -> BatchError:
    """Return the error that `await_end` raises for an exception of user code."""
    name = type(error).__name__
    message = f"{name}: {error}" if str(error) else name
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if not one.filename.startswith(str(_PACKAGES))]
    users = [one for one in own if "site-packages" not in one.filename] or own or list(frames)
    last = users[-1] if users else None
    place = "" if last is None else f"{last.filename}:{last.lineno}, in {last.name}"
    return BatchError(message, batch, part, place)
