"""Wraps functions for Spark's Python processes, so that they are only unpickled when they run.

Before a query's first batch, Spark starts processes that only plan: one creates the source, one
asks it for offsets, one asks the processor for its state variables. Each unpickles its object, and
would import Polars and the engine for nothing if the object held the function itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from muntin.spark.host.state import SparkBlobs

if TYPE_CHECKING:
    # Importing it takes a third of the time of a process that only plans.
    import pyarrow as pa

Steps = Callable[[SparkBlobs, Any, Iterator[Any]], Iterator[Row]]
_PICKLES = CloudPickleSerializer()


class PackedTask:
    """A pickled function for ``mapInArrow``."""

    def __init__(self, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]):
        self._blob = _PICKLES.dumps(task)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack the function, and call it."""
        results: Iterator[pa.RecordBatch] = _PICKLES.loads(self._blob)(batches)
        return results


class ShardProcessor(StatefulProcessor):
    """Keeps a shard's blobs in Spark's state.

    Args:
        steps: Computes output rows from a shard's blobs, its grouping key and its input rows.
    """

    def __init__(self, steps: Steps) -> None:
        self._blob = _PICKLES.dumps(steps)
        self._steps: Steps | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state variables."""
        self._blobs = SparkBlobs(handle)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """Run one step of one shard."""
        if self._steps is None:
            self._steps = _PICKLES.loads(self._blob)
        return self._steps(self._blobs, key, rows)

    def close(self) -> None:
        """Do nothing, since no resource is held."""
