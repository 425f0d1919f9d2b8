"""Measures the time of Spark's batches with a listener."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from muntin.query import BatchTimes

if TYPE_CHECKING:
    from muntin.spark.query import WindowedQuery


class SparkBatchTimes(StreamingQueryListener, BatchTimes):
    """Adds up the times that Spark reports of each batch of a query."""

    def __init__(self, query: WindowedQuery) -> None:
        super().__init__()
        BatchTimes.__init__(self)
        self._milliseconds: defaultdict[str, int] = defaultdict(int)
        self._query = query
        # Listen in the query's session: the active one may be a batch's own, which gets no events.
        self._session = query.spark
        self._session.streams.addListener(self)

    @property
    def seconds(self) -> dict[str, float]:
        """The time of batches since the query is measured, by phase."""
        return {phase: spent / 1000 for phase, spent in dict(self._milliseconds).items()}

    def close(self) -> None:
        """Stop measuring."""
        self._session.streams.removeListener(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Do nothing, since no batch has ended yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Add up a batch that has ended."""
        progress = event.progress
        if str(progress.runId) != str(self._query.query.runId):
            return
        for phase, milliseconds in progress.durationMs.items():
            self._milliseconds[phase] += milliseconds
        self.state_bytes = sum(one.memoryUsedBytes for one in progress.stateOperators)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing, since no batch has ended."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing: the counts of a query outlive it."""
