"""muntin's local host over a topic: one process without a JVM, everything at its defaults.

Started by ``benches.topics``. As for engines without batches, the steady rate is the number of
messages between the ends of two windows, divided by the time between their results.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from typing import Any

import muntin as mt
from benches.topics import AVRO, COLUMNS, FAR, PER_SECOND, START, WORKS, Work


class Totals:
    """The sums over all results, and the time of each window's first emission."""

    def __init__(self, size: int) -> None:
        self.end = FAR - 1000 * size
        self.sums = [0, 0, 0, 0]
        self.emitted: dict[int, float] = {}

    def __call__(self, rows: Any, _: int) -> None:
        """Add the results of a batch, a Polars frame."""
        import polars as pl

        now = time.time()
        rows = rows.with_columns(start=pl.col("window_start").dt.epoch("ms"))
        rows = rows.filter(pl.col("start") < self.end)
        if not rows.height:
            return
        sums = rows.select(pl.len(), *(pl.col(name).sum() for name in ("n", "s", "m"))).row(0)
        self.sums = [total + number for total, number in zip(self.sums, sums, strict=True)]
        for start in rows["start"].unique():
            self.emitted.setdefault(start, now)


def main(work: Work, servers: str, topic: str) -> None:
    """Read the topic to its end, and print the figures as JSON."""
    started, totals = time.time(), Totals(work.size)
    columns = {"schema": AVRO} if work.form == "avro" else {"columns": COLUMNS}
    orders = mt.kafka(servers, topic, **columns, format=work.form)
    windows = mt.windowed(orders, key="k", time="at", lateness="1 second")
    hopping = windows.hopping(f"{work.size} seconds", f"{work.slide} seconds")
    counted = hopping.agg(n=mt.count(), s=mt.sum("v"), m=mt.max("v"))
    with tempfile.TemporaryDirectory() as folder:
        query = counted.start(checkpoint=f"{folder}/state", results=totals, available_now=True)
        query.await_end()
        ended = time.time()
    starts = sorted(
        start for start in totals.emitted if START <= start < START + 1000 * work.rows // PER_SECOND
    )
    # The first third is left out, and so are the last windows, which the last message closes.
    first, last = starts[len(starts) // 3], starts[-1 - work.size // work.slide]
    print(json.dumps({
        "totals": totals.sums, "first": min(totals.emitted.values()) - started,
        "whole": ended - started, "messages": (last - first) * PER_SECOND // 1000,
        "seconds": totals.emitted[last] - totals.emitted[first],
    }))  # fmt: skip


if __name__ == "__main__":
    main(WORKS[sys.argv[1]], *sys.argv[2:])
