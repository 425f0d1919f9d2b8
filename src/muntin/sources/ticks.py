"""A source that generates messages by the clock, for first steps, tests and load."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import polars as pl

from muntin.model.attribute_hints import WithoutRows
from muntin.model.axis import SECOND
from muntin.model.errors import OptionError
from muntin.sources.source import Planned, Source, SourceOffsets, SourceReader

_START, _VALUE = "start", "value"
_ROWS_AT_ONCE = 500_000


class TickSource(WithoutRows, Source):
    """Messages at a constant rate; see `ticks`."""

    _kind_of_words = "source"
    schema = pl.Schema({"timestamp": pl.Datetime("us", "UTC"), "value": pl.Int64()})

    def __init__(self, rate: float, clock: Callable[[], float] = time.time) -> None:
        self.rate = rate
        self._clock = clock

    def __repr__(self) -> str:
        return f"ticks({self.rate:g})"

    def open(self) -> TickReader:
        """Return a reader, which reads the clock."""
        return TickReader(self.rate, self._clock)


class TickReader(SourceReader):
    """Reads ranges of ticks; see `SourceReader`."""

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._began: int | None = None

    def plan(self, start: SourceOffsets | None, limit: int | None) -> Planned:
        """Plan the ticks until now."""
        now = round(self._clock() * SECOND)
        if start is None:
            # The first tick is due when the query first plans.
            self._began = self._began or now
            start = {_START: self._began, _VALUE: 0}
        first = int(start[_VALUE])
        passed = int((now - int(start[_START])) * self._rate / SECOND) + 1
        last = max(first, passed)
        if limit is not None:
            last = min(last, first + limit)
        end = {_START: start[_START], _VALUE: last}
        return Planned(end, has_new=last > first, caught_up=last >= passed)

    def read(self, start: SourceOffsets | None, end: SourceOffsets) -> Iterator[pl.DataFrame]:
        """Generate the ticks of a range."""
        first = 0 if start is None else int(start[_VALUE])
        for value in range(first, int(end[_VALUE]), _ROWS_AT_ONCE):
            values = pl.int_range(
                value, min(value + _ROWS_AT_ONCE, int(end[_VALUE])), eager=True
            ).alias("value")
            micros = (values * (SECOND / self._rate)).round().cast(pl.Int64) + int(end[_START])
            moments = micros.cast(pl.Datetime("us", "UTC")).alias("timestamp")
            yield pl.DataFrame([moments, values])

    def wait(self, start: SourceOffsets | None, timeout: float) -> bool:
        """Sleep until the next tick is due."""
        if start is None:
            return False
        due = (int(start[_START]) + int(start[_VALUE]) / self._rate * SECOND) / SECOND
        time.sleep(max(0.0, min(timeout, due - self._clock())))
        return True


def ticks(rate: float = 1.0) -> TickSource:
    """Return a source of messages at a constant rate, for first steps, tests and load.

    Messages have the columns `timestamp` (the time at which each was due, in UTC) and `value` (0,
    1, 2, …), like those of Spark's rate source. A query that resumes reads the messages that were
    due while it was stopped.

    Args:
        rate: Messages per second, above 0.

    Returns:
        The source, as input of ``windowed`` and ``join``.

    Raises:
        OptionError: When it isn't above 0.

    Example:
        >>> ticks(100)
        ticks(100)
    """
    is_number = isinstance(rate, int | float) and not isinstance(rate, bool)
    if not is_number or not 0 < rate < float("inf"):
        raise OptionError("rate", rate, "isn't above 0", "give messages per second: ticks(100)")
    return TickSource(float(rate))
