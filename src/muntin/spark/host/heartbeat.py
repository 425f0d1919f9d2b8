"""A source of ticks, so that policies on the wall clock fire though no input arrives.

Spark runs no batch without input. This source always has one row to give when a period has
passed; joined to the combined input, it wakes every shard. It knows the trigger ``availableNow``
(Spark's own ``rate`` source doesn't, and would turn such a query into one batch).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from muntin.spark.host.internals.versions import SupportsTriggerAvailableNow

NAME = "muntin_heartbeat"
ENDS_RUN = "endsRun"
# In an offset: the moment of a tick, and whether it ends a run.
_TICK, _LAST = "tick", "last"


class Heartbeat(DataSource):
    """One row a batch, at most one a period; option ``period`` in microseconds.

    With the option ``endsRun`` there is one more, which ends a run of ``availableNow``: its moment
    has the sign turned round.
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return NAME

    def schema(self) -> str:
        """The moment of the tick, microseconds since the epoch."""
        return "tick long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """The reader."""
        return _Ticks(int(self.options["period"]), self.options.get(ENDS_RUN) == "true")


def is_tick(offset: str) -> bool:
    """Whether an offset, as a checkpoint has it, is one of this source."""
    try:
        found = json.loads(offset)
    except ValueError:
        return False
    # Other sources' offsets have names that their users chose.
    ticks = isinstance(found, dict) and _TICK in found and found.keys() <= {_TICK, _LAST}
    return ticks and isinstance(found[_TICK], int)


class _Ticks(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, period: int, ends_run: bool) -> None:
        self.period = period
        self.ends_run = ends_run
        self.last: int | None = None
        self.ending: dict[str, int] | None = None

    def _now(self) -> int:
        # A moment, and not a number of periods: the next start may have another period, and a batch
        # that is repeated then has the clock that it had.
        return time.time_ns() // 1000 // self.period * self.period

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {_TICK: 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: N802
        tick, before = self._now() if self.last is None else self.last, start or {_TICK: 0}
        if self.ends_run:
            # The run before may have ended at the same moment.
            self.ending = self.ending or {_TICK: max(tick, before[_TICK] + 1), _LAST: 1}
            return self.ending
        return {_TICK: tick} if tick > before[_TICK] else dict(before)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.last = self._now()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(-end[_TICK] if _LAST in end else end[_TICK])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (partition.value,)
