"""A source of ticks, so that policies on the wall clock fire even if no input arrives.

Spark runs no batch without input. This source has a new row whenever a period has passed. The union
with the input wakes every shard. It supports the trigger ``availableNow``; Spark's own ``rate``
source doesn't, and would turn such a query into one batch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from muntin.engine.clocks import SteadyClock
from muntin.spark.host.internals.source_process import silence_lost_jvm
from muntin.spark.host.internals.versions import SupportsTriggerAvailableNow

TICK_SOURCE = "muntin_heartbeat"
ENDS_RUN = "endsRun"
# Entries of an offset: the moment of a tick, and whether it ends a run.
_TICK, _LAST = "tick", "last"


class Heartbeat(DataSource):
    """A data source of ticks: one row for each batch, at most one in each period.

    The option ``period`` is in microseconds. With the option ``endsRun`` there is one more tick,
    which ends a run of ``availableNow``; its moment has the opposite sign.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return TICK_SOURCE

    def schema(self) -> str:
        """Return the schema: the moment of the tick, microseconds since the epoch."""
        return "tick long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of the stream."""
        silence_lost_jvm()
        return _Ticks(int(self.options["period"]), self.options.get(ENDS_RUN) == "true")


def make_tick_offset(tick: int, *, ends_run: bool) -> dict[str, int]:
    """Return the offset of a tick: its moment in microseconds, and whether it ends a run."""
    return {_TICK: tick, _LAST: 1} if ends_run else {_TICK: tick}


def parse_tick(offset: str) -> tuple[int, bool] | None:
    """Return the moment of a tick and whether it ends a run; ``None`` for other sources' offsets.

    Example:
        >>> parse_tick('{"tick": 5, "last": 1}'), parse_tick('{"logOffset": 5}')
        ((5, True), None)
    """
    try:
        fields = json.loads(offset)
    except ValueError:
        return None
    # Compare all names, since the offsets of other sources may have any.
    ticks = isinstance(fields, dict) and _TICK in fields and fields.keys() <= {_TICK, _LAST}
    return (fields[_TICK], _LAST in fields) if ticks and isinstance(fields[_TICK], int) else None


class _Ticks(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, period: int, ends_run: bool) -> None:
        self.period = period
        self.ends_run = ends_run
        self.last: int | None = None
        self.ending: dict[str, int] | None = None
        self.clock: SteadyClock | None = None

    def _now(self, before: int) -> int:
        # Return a moment rather than a number of periods: the next start may have another period,
        # and a repeated batch must still have the same clock.
        self.clock = self.clock or SteadyClock(before or None)
        return self.clock.read(time.time_ns() // 1000) // self.period * self.period

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {_TICK: 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: N802
        before = start or {_TICK: 0}
        tick = self._now(before[_TICK]) if self.last is None else self.last
        if self.ends_run:
            # Exceed the last tick, since the run before may have ended at the same moment.
            self.ending = self.ending or {_TICK: max(tick, before[_TICK] + 1), _LAST: 1}
            return self.ending
        return {_TICK: tick} if tick > before[_TICK] else dict(before)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.last = self._now(0)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(-end[_TICK] if _LAST in end else end[_TICK])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (partition.value,)
