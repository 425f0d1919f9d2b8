"""A source of random tuples at a limited rate: it says which are due, the workers make them.

A batch's offset holds how many tuples have been due so far, and the moments up to which they were.
So a batch that is repeated brings the same tuples with the same times.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from muntin.apps.windowing.tuples import TupleRange

NAME = "muntin_random_tuples"
# Of a standstill no more is made up for, microseconds: a burst is never greater. Spark's first
# batch takes long, and isn't made up for at all.
_MADE_UP = 5_000_000
_AT_FIRST = 500_000


class RandomTuples(DataSource):
    """Which tuples are due; options ``rate`` (a second) and ``parts`` (tasks a batch)."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return NAME

    def schema(self) -> str:
        """The attributes of ``TupleRange``."""
        return "first long, end long, whole long, due long, rate long, clock long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """The reader."""
        return Due(int(self.options["rate"]), int(self.options["parts"]))


class Due(DataSourceStreamReader):
    """What is due when."""

    def __init__(self, rate: int, parts: int) -> None:
        self.rate = rate
        self.parts = parts
        self._asked = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Nothing, from now on."""
        now = _now()
        return {"rows": 0, "due": now, "clock": now // 1000}

    def latestOffset(  # noqa: N802
        self, start: dict[str, int] | None = None, limit: Any = None
    ) -> dict[str, int]:
        """All that is due now."""
        self._asked += 1
        most = _AT_FIRST if self._asked <= 2 else _MADE_UP
        return due(start or self.initialOffset(), _now(), self.rate, most)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Some of the tuples for each task."""
        whole = TupleRange(
            start["rows"], end["rows"], end["rows"], end["due"], self.rate, end["clock"]
        )
        return [InputPartition(part) for part in whole.parts(self.parts)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """One row: which tuples."""
        yield astuple(partition.value)


def due(start: dict[str, int], now: int, rate: int, most: int = _MADE_UP) -> dict[str, int]:
    """What is due at a moment.

    Args:
        start: What was due at the last batch; its ``due`` is the moment up to which.
        now: Microseconds since the epoch.
        rate: How many a second.
        most: Of how many microseconds before now it is made up for what wasn't inserted.

    Example:
        >>> due({"rows": 0, "due": 0, "clock": 0}, 1_000_000, 3)
        {'rows': 3, 'due': 1000000, 'clock': 1000}
        >>> due({"rows": 0, "due": 0, "clock": 0}, 500_000, 3)
        {'rows': 1, 'due': 333334, 'clock': 500}
    """
    since = max(start["due"], now - most)
    count = (now - since) * rate // 1_000_000
    passed = -(-count * 1_000_000 // rate)
    clock = max(now // 1000, start["clock"])
    return {"rows": start["rows"] + count, "due": since + passed, "clock": clock}


def _now() -> int:
    return time.time_ns() // 1000
