"""A source of random tuples at a limited rate: it defines ranges of tuples, which workers generate.

A batch's offset has the number of tuples that have been due so far, and the time up to which they
were. So a batch that is repeated generates the same tuples with the same times.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from muntin.apps.windowing.tuples import TupleRange

FORMAT_NAME = "muntin_random_tuples"
# The longest pause that is made up for, in microseconds, which bounds bursts. Spark's first batch
# takes long, and isn't made up for.
_MAX_CATCH_UP = 5_000_000
_FIRST_CATCH_UP = 500_000


class RandomTuples(DataSource):
    """A data source of due tuples; options ``rate`` (per second) and ``parts`` (tasks a batch)."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT_NAME

    def schema(self) -> str:
        """Return the attributes of ``TupleRange``."""
        return "first long, end long, whole long, due long, rate long, clock long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader."""
        return RandomTupleReader(int(self.options["rate"]), int(self.options["parts"]))


class RandomTupleReader(DataSourceStreamReader):
    """Reads the ranges of due tuples."""

    def __init__(self, rate: int, parts: int) -> None:
        self.rate = rate
        self.parts = parts
        self._asked = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return an offset with no tuples, from now on."""
        now = _read_clock()
        return {"rows": 0, "due": now, "clock": now // 1000}

    def latestOffset(  # noqa: N802
        self, start: dict[str, int] | None = None, limit: Any = None
    ) -> dict[str, int]:
        """Return the offset of all tuples that are due now."""
        self._asked += 1
        most = _FIRST_CATCH_UP if self._asked <= 2 else _MAX_CATCH_UP
        return advance_offset(start or self.initialOffset(), _read_clock(), self.rate, most)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Split the due tuples into a range for each task."""
        whole = TupleRange(
            start["rows"], end["rows"], end["rows"], end["due"], self.rate, end["clock"]
        )
        return [InputPartition(part) for part in whole.parts(self.parts)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yield one row: the range of tuples."""
        yield astuple(partition.value)


def advance_offset(
    start: dict[str, int], now: int, rate: int, most: int = _MAX_CATCH_UP
) -> dict[str, int]:
    """Advance an offset to the tuples that are due now.

    Args:
        start: The offset of the last batch; its ``due`` is the time up to which tuples were due.
        now: Microseconds since the epoch.
        rate: Tuples per second.
        most: The longest time before now that is made up for, microseconds.

    Example:
        >>> advance_offset({"rows": 0, "due": 0, "clock": 0}, 1_000_000, 3)
        {'rows': 3, 'due': 1000000, 'clock': 1000}
        >>> advance_offset({"rows": 0, "due": 0, "clock": 0}, 500_000, 3)
        {'rows': 1, 'due': 333334, 'clock': 500}
    """
    since = max(start["due"], now - most)
    count = (now - since) * rate // 1_000_000
    passed = -(-count * 1_000_000 // rate)
    clock = max(now // 1000, start["clock"])
    return {"rows": start["rows"] + count, "due": since + passed, "clock": clock}


def _read_clock() -> int:
    return time.time_ns() // 1000
