"""Delivers the rows of a batch to sinks, and stores unwritable rows in the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from muntin.hosts.chain import identifies_window
from muntin.hosts.failures import report_failures
from muntin.hosts.leases import report_write_failures
from muntin.hosts.local.plan import LocalPlan
from muntin.hosts.phases import Phases, name_sink_phase
from muntin.model.errors import OptionError
from muntin.sinks.batch import Batch, LocalRows
from muntin.sinks.memory import MemorySink
from muntin.sinks.sink import (
    FunctionSink,
    Sink,
    SinkLike,
    check_output,
    check_separate_tables,
    prepare_sinks,
    to_sink,
    watch_sink,
)
from muntin.sinks.unwritable import (
    SINK_COLUMN,
    UNWRITABLE,
    WHY_COLUMN,
    UnwritableRows,
    warn_of_unwritable,
)
from muntin.state.disk import refuse_link

RESULTS, REJECTED = "results", "rejected"


@dataclass(frozen=True)
class LocalDestination:
    """The sink of one kind of rows.

    Attributes:
        kind: The kind.
        schema: The columns in Polars' types.
        keys: The columns that identify a row together with its window; `None` where none do.
        sink: The sink; `None` where there is none.
        by_window: True if the window is part of a row's identity.
    """

    kind: str
    schema: pl.Schema
    keys: tuple[str, ...] | None
    sink: Sink | None
    by_window: bool = True

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns in Arrow's types."""
        for name, kind in self.schema.items():
            if kind in (pl.Int128, pl.UInt128):
                problem = f"has a column of type {kind}, which Arrow lacks"
                raise OptionError(self.kind, name, problem, "cast it to pl.Decimal(38, 0)")
        return self.schema.to_arrow(compat_level=pl.CompatLevel.oldest())

    @property
    def outlasts_process(self) -> bool:
        """True if written rows outlast the process."""
        return self.sink is not None and not isinstance(self.sink, MemorySink)


def make_destinations(
    plan: LocalPlan,
    sinks: tuple[SinkLike | None, SinkLike | None],
    checkpoint: str | None = None,
) -> list[LocalDestination]:
    """Return the destinations of results and rejected messages, checked before anything runs.

    Raises:
        OptionError: When a sink can't take such rows.
    """
    results, rejected = to_sink(sinks[0], RESULTS), to_sink(sinks[1], REJECTED)
    checked = [
        LocalDestination(
            RESULTS,
            plan.output_schema,
            plan.identity,
            results or MemorySink(),
            by_window=identifies_window(plan.spec),
        ),
        LocalDestination(REJECTED, pl.Schema(plan.layout.kinds), None, rejected),
    ]
    check_separate_tables((destination.sink for destination in checked), checkpoint)
    for destination in checked:
        check_output(destination.sink, destination.columns, destination.keys)
    prepare_sinks(destination.sink for destination in checked)
    return checked


class Delivery:
    """Writes batches to sinks.

    Args:
        destinations: The destination of each kind of rows.
        query: A text that distinguishes the query from those with another checkpoint.
        folder: The checkpoint, in which unwritable rows are stored; `None` only counts them.
    """

    def __init__(
        self, destinations: Sequence[LocalDestination], query: str, folder: str | None
    ) -> None:
        self.destinations = tuple(destinations)
        self._query = query
        self._folder = None if folder is None else Path(folder).absolute() / UNWRITABLE
        self._arrow = {destination.kind: destination.columns for destination in destinations}
        self._started: set[str] = set()

    @property
    def stores_rejected(self) -> bool:
        """True if a sink gets the rejected messages."""
        return any(one.kind == REJECTED and one.sink is not None for one in self.destinations)

    def make_batches(self, number: int, rows: Mapping[str, pl.DataFrame]) -> list[Batch]:
        """Return a `Batch` with the rows for each destination."""
        return [
            Batch(
                number,
                destination.kind,
                self._arrow[destination.kind],
                destination.keys,
                LocalRows(rows[destination.kind], self._arrow[destination.kind], self._query),
                rows[destination.kind].is_empty(),
                UnwritableRows(destination.kind),
                destination.by_window,
            )
            for destination in self.destinations
        ]

    def writes_lasting_rows(self, batches: Sequence[Batch]) -> bool:
        """Return whether a sink gets rows that outlast the process."""
        pairs = zip(self.destinations, batches, strict=True)
        return any(
            destination.outlasts_process and self._writes(destination, batch)
            for destination, batch in pairs
        )

    def write(self, batches: Sequence[Batch], phases: Phases | None = None) -> int:
        """Write a batch to all sinks; a table is created by its first batch, even without rows.

        Args:
            batches: The rows for each destination.
            phases: Takes the time of each sink.

        Returns:
            The number of rows that sinks couldn't store.

        Raises:
            BatchError: When user code raised.
            SinkError: When a sink can't take the batch.
        """
        unwritable, phases = 0, phases or Phases()
        for destination, batch in zip(self.destinations, batches, strict=True):
            if destination.sink is None or not self._writes(destination, batch):
                continue
            with (
                phases.measure(name_sink_phase(destination.kind)),
                watch_sink(destination.sink, destination.kind, batch.number),
                report_failures(batch.number, f"the sink of {destination.kind}", is_users=True),
            ):
                destination.sink.write(batch)
            self._started.add(destination.kind)
            unwritable += self._keep_unwritable(batch)
        return unwritable

    def _writes(self, destination: LocalDestination, batch: Batch) -> bool:
        creates_table = not isinstance(destination.sink, FunctionSink)
        return not batch.empty or (creates_table and destination.kind not in self._started)

    def _keep_unwritable(self, batch: Batch) -> int:
        """Write unwritable rows to a file of this batch, which a repeated batch replaces."""
        if not batch.unwritable.tables:
            # Skip building an Arrow array, since its import of pandas would take most of the time.
            return 0
        rows = batch.unwritable.table()
        if self._folder is not None:
            path = self._folder / f"{batch.number:08d}-{batch.kind}.parquet"
            refuse_link(self._folder)
            refuse_link(path)
            with report_write_failures(str(self._folder.parent)):
                self._folder.mkdir(exist_ok=True)
                pq.write_table(rows, path)
        for sink in pc.unique(rows[SINK_COLUMN]).to_pylist():
            some = rows.filter(pc.equal(rows[SINK_COLUMN], sink))
            reason = some[WHY_COLUMN][0].as_py()
            where = self._folder or "no folder"
            warn_of_unwritable(sink, len(some), batch.kind, batch.number, reason, where)
        return len(rows)
