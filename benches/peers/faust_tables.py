"""Faust's own table update: the same count, without a broker, in this process.

Only ``views[key] += 1`` under a current event is timed, without the machinery of streams.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pyarrow.parquet as pq

from benches.peers.command import Outcome, Run, serve, totals
from benches.peers.faust_broker import app_without_broker, current_message


def table(run: Run) -> Any:
    """Return a table of hopping windows, without a broker."""
    size, slide = float(run.case.size), float(run.case.slide)
    app = app_without_broker("tables")
    return app.Table("views", default=int).hopping(size, slide, expires=slide)


async def count(run: Run, views: Any) -> float:
    """Count all rows; return the seconds that the updates took."""
    seconds, message = 0.0, current_message()
    for path in sorted(run.stream.folder.glob("*.parquet")):
        rows = pq.read_table(path, columns=["k", "ts"])
        keys = rows["k"].to_pylist()
        times = [at / 1e6 for at in rows["ts"].cast("timestamp[us]").cast("int64").to_pylist()]
        started = time.perf_counter()
        for key, message.timestamp in zip(keys, times, strict=True):
            views[key] += 1
        seconds += time.perf_counter() - started
    return seconds


def main(run: Run) -> Outcome:
    """Run the count; no window expires meanwhile, since Faust expires windows by a timer."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    views = table(run)
    seconds = loop.run_until_complete(count(run, views))
    if not run.check:
        return Outcome(seconds)
    last = run.stream.last_ms / 1000
    counts = [n for (_, (start, _)), n in views.table.data.items() if start <= last]
    return Outcome(seconds, totals(len(counts), sum(counts), 0, 0))


if __name__ == "__main__":
    serve("faust_tables", main)
