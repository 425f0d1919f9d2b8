"""What Spark otherwise says of each message, where workers read a source themselves."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from muntin.engine import columns

# The batch's wall clock, where messages bring it along: microseconds, and the same for a batch that
# is repeated.
NOW = "__muntin_now"


@dataclass(frozen=True)
class Flags:
    """Adds the columns by which messages are judged.

    Attributes:
        time: The event-time column, if there is one.
        clock: The arrival-time column, if messages carry their own clock.
        max_ahead: How far ahead of the clock a time may be, in microseconds.
        stamped: Whether messages bring the batch's wall clock along.
    """

    time: str | None
    clock: str | None
    max_ahead: int | None
    stamped: bool = False

    def add(self, messages: pl.DataFrame, now: int) -> pl.DataFrame:
        """Messages with their flags."""
        clock = pl.lit(now, dtype=pl.Int64)
        if self.stamped:
            messages = messages.with_columns(clock.alias(NOW))
        if self.clock is not None:
            clock = pl.col(self.clock).cast(pl.Int64)
            messages = messages.with_columns(pl.col(self.clock).alias(columns.CLOCK))
        if self.max_ahead is None or self.time is None:
            return messages
        ahead = pl.col(self.time).cast(pl.Int64) > clock + self.max_ahead
        return messages.with_columns(ahead.fill_null(False).alias(columns.FUTURE))
