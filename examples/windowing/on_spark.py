"""The application's figures as a query on Spark, which keeps only the rows that they need."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import Any

from examples.windowing.options import Options
from examples.windowing.report import Event, Figures, Maximum

import muntin as mt

_REFUSED = ("maxrows", "inline", "deletes")


def run_on_spark(options: Options, write: Callable[[Event], None]) -> None:
    """Run the query for the duration.

    Raises:
        OptionError: When an option needs the table of the application.
    """
    for name in _REFUSED:
        if getattr(options, name):
            problem = "needs the table of the application, which is in one process"
            raise mt.OptionError(name, getattr(options, name), problem, "leave out host=spark")
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = str(options.checkpoint or folder)
        query = compute_figures(options).start(
            checkpoint=checkpoint, results=Printer(options, write)
        )
        try:
            query.await_end(options.duration)
        finally:
            query.stop()


def compute_figures(options: Options) -> Any:
    """Return the query: averages and the greatest value over each number of seconds, as of now."""
    from pyspark.sql import functions as F

    ticks = mt.session().readStream.format("rate").option("rowsPerSecond", options.ratelimit)
    identity = F.xxhash64("timestamp", "value")
    # A normal number of two uniform ones, by Box and Muller.
    first, second = (
        (F.pmod(F.xxhash64("value", F.lit(2 * options.seed + n)), F.lit(2**40)) + 1) / 2**40
        for n in (0, 1)
    )
    normal = F.sqrt(-2 * F.log(first)) * F.cos(2 * F.pi() * second)
    tuples = ticks.load().select(
        identity.alias("uuid"),
        (normal * 1000).cast("long").alias("val"),
        F.col("timestamp").alias("update_ts"),
    )
    spans = sorted({*options.spans, options.historyseconds} - {0})
    look_backs = (f"{seconds:g} seconds" for seconds in spans)
    windows = mt.windowed(tuples, time="update_ts").trailing(*look_backs, every="1 second")
    return windows.agg(rows=mt.count(), mean=mt.mean("val"), greatest=mt.max("val"))


class Printer:
    """The function that the query calls with each batch of results."""

    def __init__(self, options: Options, write: Callable[[Event], None]) -> None:
        self._interval, self._write = options.displayinterval, write
        self._due = time.monotonic() + self._interval
        self._maximum: int | None = None

    def __call__(self, rows: Any, _: int) -> None:
        """Print changes of the maximum, and the figures at each interval."""
        newest = {row.look_back: row for row in rows.orderBy("window_end").collect()}
        if not newest:
            return
        longest = max(newest.values(), key=lambda row: row.rows)
        if longest.greatest != self._maximum:
            self._write(Maximum(self._maximum, longest.greatest))
            self._maximum = longest.greatest
        if time.monotonic() >= self._due:
            self._due += self._interval
            averages = {name: row.mean for name, row in newest.items()}
            self._write(Figures(clock=longest.window_end, averages=averages, rows=longest.rows))
