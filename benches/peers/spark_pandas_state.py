"""A plain processor in Spark's ``transformWithStateInPandas``, one call for each key."""

# ruff: noqa: N802, N803 (names that Spark prescribes)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benches.peers.command import Outcome, Run, serve
from benches.peers.spark_drive import drive

OUTPUT = "k long, window_start timestamp, window_end timestamp, count long, sum long, max long"


class Tumbling(StatefulProcessor):
    """The counts, sums and maxima of one key, by window start in milliseconds."""

    def __init__(self, size_ms: int) -> None:
        self.size_ms = size_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self.handle = handle
        self.windows = handle.getMapState("windows", "s long", "c long, t long, m long")

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,
    ) -> Iterator[pd.DataFrame]:
        """Add a batch of rows to the windows of a key."""
        for frame in rows:
            times = frame["ts"].to_numpy().astype("datetime64[ms]").astype("int64")
            values, starts = frame["v"].to_numpy(), times // self.size_ms * self.size_ms
            for start in np.unique(starts).tolist():
                new = values[starts == start]
                count, total, top = len(new), int(new.sum()), int(new.max())
                if self.windows.containsKey((start,)):
                    old = self.windows.getValue((start,))
                    count, total, top = count + old[0], total + old[1], max(top, old[2])
                else:
                    self.handle.registerTimer(start + self.size_ms)
                self.windows.updateValue((start,), (count, total, top))
        yield from ()

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: Any,
        expiredTimerInfo: Any,
    ) -> Iterator[pd.DataFrame]:
        """Emit the window that the watermark has passed."""
        end = expiredTimerInfo.getExpiryTimeInMs()
        start = end - self.size_ms
        count, total, top = self.windows.getValue((start,))
        self.windows.removeKey((start,))
        bounds = [pd.Timestamp(edge, unit="ms") for edge in (start, end)]
        yield pd.DataFrame(
            [[key[0], *bounds, count, total, top]],
            columns=["k", "window_start", "window_end", "count", "sum", "max"],
        )

    def close(self) -> None:
        """Do nothing, since there is nothing to release."""


def results(events: DataFrame, run: Run) -> DataFrame:
    """Return the tumbling query in Python state."""
    marked = events.withWatermark("ts", f"{run.case.lateness} seconds")
    processor = Tumbling(run.case.size * 1000)
    return marked.groupBy("k").transformWithStateInPandas(processor, OUTPUT, "Append", "EventTime")


def main(run: Run) -> Outcome:
    """Run it in append mode."""
    return drive(run, results, "append")


if __name__ == "__main__":
    serve("spark_pandas_state", main)
