"""What happens with each batch of a query: its rows go to the sinks, its figures to the handle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from muntin.spark.failures import Failure
from muntin.spark.host.processor import PROGRESS
from muntin.spark.host.watchers import Kept
from muntin.spark.sinks.batch import Batch
from muntin.spark.sinks.files import Sink, SinkLike
from muntin.spark.sinks.unstorable import DeadLetters, Letters

# So many bytes of rows, over all shards, come with the progress: fetching them costs no job then.
_FEW = 1 << 22


@dataclass(frozen=True)
class Destination:
    """Rows of one kind and where they go."""

    kind: str
    schema: StructType
    keys: tuple[str, ...] | None
    sink: SinkLike | None


@dataclass(frozen=True)
class Written:
    """A batch that all sinks have."""

    number: int
    emitted: DataFrame
    lines: Sequence[str]
    batches: list[Batch]
    unstorable: int
    kept: Kept


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
        sinks: Sequence[Sink | None],
        checkpoint: str,
        report: BatchListener,
        shards: int,
    ) -> None:
        self._outputs = tuple(outputs)
        self._sinks = tuple(sinks)
        self._checkpoint = checkpoint
        self._dead = DeadLetters(checkpoint)
        self._report = report
        self._few = _FEW // shards

    def __call__(self, emitted: DataFrame, number: int) -> None:
        """Write a batch."""
        # The shards' blobs are few and small rows to Spark: keeping them costs little, and
        # without it each sink would run the whole batch again.
        with self._report.writing(emitted, number):
            emitted.persist()
            kept = Kept(emitted.unpersist)
            try:
                with self._watched(number, "in a worker"):
                    found = number, emitted, self._outputs, self._checkpoint
                    lines, batches = fetched(*found, few=self._few)
                for batch, target in zip(batches, self._sinks, strict=True):
                    if target is not None:
                        with self._watched(number, f"the sink of {batch.kind}"):
                            target.write(batch)
                aside = self._dead.keep(emitted.sparkSession, batches)
                self._report.written(Written(number, emitted, lines, batches, aside, kept))
            finally:
                kept.done()

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
        of = (number, emitted, o.kind, o.schema, o.keys, not blobs)
        batches.append(Batch(*of, Letters(o.kind), held, checkpoint))
    return [row.progress for row in rows if row.kind == PROGRESS], batches
