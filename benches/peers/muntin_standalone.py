"""muntin's standalone operator: ``WindowedAggregator``, one process, one core, no Spark.

``--state batches`` passes whole tables to ``add_messages``; ``--state single`` passes each message
to ``add_message``. The time includes everything: reading the file, creating the messages, the
results.
"""

from __future__ import annotations

import os
import time

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import polars as pl

import muntin as mt
from benches.peers.command import Outcome, Run, serve, totals
from muntin.standalone import WindowedAggregator, windowed


def operator(run: Run) -> WindowedAggregator:
    """Return the operator that its user would create."""
    tumbling = windowed(key="k", time="ts").tumbling(f"{run.case.size} seconds")
    return WindowedAggregator(tumbling.agg(count=mt.count(), sum=mt.sum("v"), max=mt.max("v")))


def feed(op: WindowedAggregator, messages: pl.DataFrame) -> None:
    """Add the messages of a table one by one."""
    times = messages["ts"].cast(pl.Int64)
    rows = zip(messages["k"].to_list(), messages["v"].to_list(), times.to_list(), strict=True)
    for k, v, ts in rows:
        op.add_message(key=k, value={"v": v}, time=ts)


def main(run: Run) -> Outcome:
    """Process file after file, with a flush after each."""
    sums = np.zeros(4, dtype=np.int64)
    started = time.perf_counter()
    with operator(run) as op:
        for path in sorted(run.stream.folder.glob("*.parquet")):
            messages = pl.read_parquet(path)
            if run.state == "single":
                feed(op, messages)
            else:
                op.add_messages(messages)
            emitted = op.flush().results
            if run.check:
                sums += [
                    len(emitted),
                    *(int(emitted[name].sum()) for name in ("count", "sum", "max")),
                ]
    seconds = time.perf_counter() - started
    return Outcome(seconds, totals(*sums.tolist()) if run.check else None)


if __name__ == "__main__":
    serve("muntin_standalone", main)
