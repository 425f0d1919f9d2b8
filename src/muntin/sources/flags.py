"""Flags of messages that workers add when they read a source themselves, instead of Spark."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from muntin.engine import columns
from muntin.engine.admission import flag_times
from muntin.model.inputs import NO_LIMITS, TimeLimits

# The column with the batch's wall clock in microseconds, if messages carry it. A repeated batch has
# the same clock.
NOW = "__muntin_now"


@dataclass(frozen=True)
class Flags:
    """Adds the columns by which messages are judged.

    Attributes:
        clock: Arrival-time column, if messages carry their own clock.
        limits: How far from the clock a time may be.
        stamped: Whether messages carry the batch's wall clock.
    """

    time: str | None
    clock: str | None
    limits: TimeLimits = NO_LIMITS
    stamped: bool = False

    def add(self, messages: pl.DataFrame, now: int) -> pl.DataFrame:
        """Return messages with their flags."""
        clock = pl.lit(now, dtype=pl.Int64)
        if self.stamped:
            messages = messages.with_columns(clock.alias(NOW))
        if self.clock is not None:
            clock = pl.col(self.clock).cast(pl.Int64)
            messages = messages.with_columns(pl.col(self.clock).alias(columns.CLOCK))
        if self.time is None:
            return messages
        time = pl.col(self.time).cast(pl.Int64)
        return messages.with_columns(flag_times(time, clock, self.limits))
