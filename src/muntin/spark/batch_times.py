"""Measures the time of Spark's batches with a listener."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from muntin.hosts.phases import COMMIT, PLAN
from muntin.query import BatchTimes

if TYPE_CHECKING:
    from muntin.spark.query import WindowedQuery


# Spark's phases outside of the function that writes a batch, by their names on every host. The
# others are sums of these.
_PHASES = {
    "latestOffset": PLAN, "getBatch": PLAN, "queryPlanning": PLAN,
    "walCommit": COMMIT, "commitOffsets": COMMIT, "commitBatch": COMMIT,
}  # fmt: skip


def name_phases(durations: Mapping[str, int]) -> dict[str, float]:
    """Return Spark's times of a batch, by the names of phases on every host.

    Example:
        >>> name_phases({"latestOffset": 3, "walCommit": 2, "addBatch": 90, "commitOffsets": 4})
        {'plan': 3.0, 'commit': 6.0}
    """
    named: dict[str, float] = {}
    for name, milliseconds in durations.items():
        if name in _PHASES:
            phase = _PHASES[name]
            named[phase] = named.get(phase, 0.0) + milliseconds
    return named


class SparkBatchTimes(StreamingQueryListener, BatchTimes):
    """Adds up the times that Spark reports of each batch of a query."""

    def __init__(self, query: WindowedQuery) -> None:
        super().__init__()
        BatchTimes.__init__(self)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._query = query
        # Listen in the query's session: the active one may be a batch's own, which gets no events.
        self._session = query.spark
        self._session.streams.addListener(self)

    @property
    def seconds(self) -> dict[str, float]:
        """The time of batches since the query is measured, by phase."""
        return dict(self._seconds)

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
        own = self._query.progress
        for phase, milliseconds in name_phases(progress.durationMs).items():
            self._seconds[phase] += milliseconds / 1000
        for phase, seconds in own.seconds.items() if own.batch == progress.batchId else ():
            self._seconds[phase] += seconds
        self.state_bytes = sum(one.memoryUsedBytes for one in progress.stateOperators)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing, since no batch has ended."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing: the counts of a query outlive it."""
