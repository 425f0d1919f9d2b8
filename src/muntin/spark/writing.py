"""What happens with each batch of a query: its rows go to the sinks, its figures to the handle."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from muntin.hosts.watchers import RefCounted
from muntin.sinks.batch import Batch
from muntin.sinks.sink import Sink, SinkLike, to_sink
from muntin.sinks.unwritable import UnwritableRows
from muntin.spark.failures import Failure
from muntin.spark.host.processor import PROGRESS
from muntin.spark.sinks.batch import EmittedRows
from muntin.spark.sinks.dead_letters import DeadLetters
from muntin.spark.sinks.writers import table_schema

# So many bytes of rows, over all shards, come with the progress: fetching them costs no job then.
_FEW = 1 << 22
# After so many batches of few rows Spark isn't asked to keep the next one's.
_IN_A_ROW = 16
# How many batches are kept after one that turned out to be large, and had to be run twice.
_WARY = 1000


@dataclass(frozen=True)
class Destination:
    """Rows of one kind and where they go."""

    kind: str
    schema: StructType
    keys: tuple[str, ...] | None
    sink: SinkLike | None

    @cached_property
    def target(self) -> Sink | None:
        """The sink, also where that is a function."""
        return to_sink(self.sink)

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns as sinks see them."""
        return table_schema(self.schema)


@dataclass(frozen=True)
class Written:
    """A batch that all sinks have."""

    number: int
    emitted: DataFrame
    lines: Sequence[str]
    batches: list[Batch]
    unstorable: int
    kept: RefCounted


class BatchListener(Protocol):
    """Is given each batch."""

    def writing(self, emitted: DataFrame, number: int) -> AbstractContextManager[None]:
        """While a batch is being written."""

    def written(self, batch: Written) -> None:
        """All sinks have a batch."""

    def failed(self, failure: Failure, error: Exception) -> None:
        """Code of the user's raised an exception."""


class Writer:
    """The function given to ``foreachBatch``; a server of Spark Connect gets it pickled."""

    def __init__(
        self,
        outputs: Sequence[Destination],
        checkpoint: str,
        report: BatchListener,
        shards: int,
        remote: bool = False,
    ) -> None:
        self._outputs = tuple(outputs)
        self._checkpoint = checkpoint
        self._dead = DeadLetters(checkpoint)
        self._report = report
        self._few = _FEW // shards
        # A client of Spark Connect that watches is shown all that was emitted.
        self._few_in_a_row = -math.inf if remote else 0

    def __call__(self, emitted: DataFrame, number: int) -> None:
        """Write a batch."""
        with self._report.writing(emitted, number):
            kept = RefCounted(partial(_release, emitted))
            try:
                with self._watched(number, "in a worker"):
                    lines, batches = self._fetched(emitted, number)
                for batch, output in zip(batches, self._outputs, strict=True):
                    if output.target is not None:
                        with self._watched(number, f"the sink of {batch.kind}"):
                            output.target.write(batch)
                aside = self._dead.keep(emitted.sparkSession, batches)
                self._report.written(Written(number, emitted, lines, batches, aside, kept))
            finally:
                kept.done()

    def _fetched(self, emitted: DataFrame, number: int) -> tuple[list[str], list[Batch]]:
        """Run a batch; what it emits is kept where more than its figures and few rows may be asked.

        Without that each sink would run the whole batch again. It costs a plan and a copy, though,
        which a query of small batches can spare its memory.
        """
        found = number, emitted, self._outputs, self._checkpoint
        keeps = self._few_in_a_row < _IN_A_ROW
        if keeps:
            emitted.persist()
        lines, batches = fetched(*found, few=self._few)
        few = all(_are_few(batch) for batch in batches)
        if not few and not keeps:
            self._few_in_a_row = -_WARY
            emitted.persist()
            return fetched(*found, few=self._few)
        self._few_in_a_row = self._few_in_a_row + 1 if few else min(self._few_in_a_row, 0)
        return lines, batches

    @contextmanager
    def _watched(self, number: int, part: str) -> Iterator[None]:
        """While something runs that may be the user's."""
        try:
            yield
        except Exception as error:
            failure = Failure.of(error, number, part)
            if failure is not None:
                self._report.failed(failure, error)
            raise


def _are_few(batch: Batch) -> bool:
    return isinstance(batch.rows, EmittedRows) and batch.rows.blobs is not None


def _release(emitted: DataFrame) -> None:
    # Asking Spark to forget what it doesn't keep has it compare plans.
    if emitted.is_cached:
        emitted.unpersist()


def fetched(
    number: int,
    emitted: DataFrame,
    outputs: Sequence[Destination],
    checkpoint: str = "",
    few: int = _FEW,
) -> tuple[list[str], list[Batch]]:
    """The progress of a batch's shards, and what each output gets of it."""
    small = f"CASE WHEN length(blob) <= {few} THEN blob END AS blob"
    rows = emitted.selectExpr("kind", "progress", small).collect()
    batches = []
    for o in outputs:
        blobs = [row.blob for row in rows if row.kind == o.kind]
        held = tuple(map(bytes, blobs)) if None not in blobs else None
        emitted_rows = EmittedRows(emitted, o.kind, o.schema, held, checkpoint)
        of = (number, o.kind, o.columns, o.keys, emitted_rows, not blobs)
        batches.append(Batch(*of, UnwritableRows(o.kind)))
    return [row.progress for row in rows if row.kind == PROGRESS], batches
