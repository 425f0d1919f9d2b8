"""Faust's own table update, in this process: a table's windows and nothing around them.

The replacement of the broker acknowledges each serialised changelog message. Only the update of the
table under a current event is timed, a read and a write per message, without the machinery of
streams and agents, and without reading the file. Faust's tables don't signal the end of a window,
so all windows stay, and are counted in the end.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pyarrow.parquet as pq

from benches.peers.command import Outcome, Run, serve, totals
from benches.peers.faust_broker import app_without_broker, current_message

Sums = list[int]


def add(sums: Sums, value: int) -> Sums:
    """Return the new value of a window: count, sum and max."""
    return [sums[0] + 1, sums[1] + value, max(sums[2], value)]


def table(run: Run) -> Any:
    """Return a table of tumbling windows that never expire, without a broker."""
    app = app_without_broker("benches")
    return app.Table("sums", default=lambda: [0, 0, 0]).tumbling(float(run.case.size))


async def update(run: Run, sums: Any) -> float:
    """Update the table with all rows; return the seconds that the updates took."""
    seconds, message = 0.0, current_message()
    for path in sorted(run.stream.folder.glob("*.parquet")):
        rows = pq.read_table(path)
        keys, values = rows["k"].to_pylist(), rows["v"].to_pylist()
        micros = rows["ts"].cast("timestamp[us]").cast("int64").to_pylist()
        times = [at / 1e6 for at in micros]
        started = time.perf_counter()
        for key, value, message.timestamp in zip(keys, values, times, strict=True):
            sums[key].apply(add, value)
        seconds += time.perf_counter() - started
    return seconds


def main(run: Run) -> Outcome:
    """Update the table with all rows."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    sums = table(run)
    seconds = loop.run_until_complete(update(run, sums))
    if not run.check:
        return Outcome(seconds)
    last = run.stream.last_ms / 1000
    window_sums = [window for (_, (start, _)), window in sums.table.data.items() if start <= last]
    return Outcome(
        seconds,
        totals(len(window_sums), *(sum(column) for column in zip(*window_sums, strict=True))),
    )


if __name__ == "__main__":
    serve("faust_update", main)
