"""Faust's own table update: the same count, with a stand-in for the broker in this process.

The stand-in takes the serialised changelog messages and says that they were sent. The stream's own
machinery is left out: what is timed is ``views[key] += 1`` under a current event, and nothing else.
"""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import faust
import pyarrow.parquet as pq
from faust.streams import _current_event
from faust.types import TP
from faust.types.tuples import RecordMetadata

from benches.peers.command import Outcome, Run, serve, totals

TOPIC = "clicks"


class Broker:
    """Stands in for producer and consumer."""

    consumer_generation_id = 0

    def __init__(self) -> None:
        self.sent = 0

    def send_soon(self, future: Any) -> None:
        """Take a message, and say at once that it was sent."""
        self.sent += 1
        message = future.message
        place = TP(TOPIC, message.partition)
        future.set_result(
            RecordMetadata(place.topic, place.partition, place, self.sent, time.time(), 0)
        )
        if message.callback is not None:
            message.callback(future)

    def topic_partitions(self, topic: str) -> int:
        """Everything is co-partitioned."""
        return 1


class Event:
    """What a table asks the current event."""

    __slots__ = ("__weakref__", "message")

    def __init__(self) -> None:
        self.message = SimpleNamespace(timestamp=0.0, partition=0, topic=TOPIC)


def app_of(run: Run) -> tuple[Any, Any]:
    """The app and its table, with the broker's stand-in."""
    app = faust.App("tables", broker="kafka://nowhere", store="memory://")
    broker = Broker()
    app.producer = broker
    app.consumer = broker
    size, slide = float(run.case.size), float(run.case.slide)
    return app, app.Table("views", default=int).hopping(size, slide, expires=slide)


async def count(run: Run, views: Any) -> float:
    """Count all rows; returns the seconds that the updates took."""
    seconds = 0.0
    event = Event()
    _current_event.set(lambda: event)  # type: ignore[arg-type]
    for path in sorted(run.stream.folder.glob("*.parquet")):
        rows = pq.read_table(path, columns=["k", "ts"])
        keys = rows["k"].to_pylist()
        times = [at / 1e6 for at in rows["ts"].cast("timestamp[us]").cast("int64").to_pylist()]
        message = event.message
        started = time.perf_counter()
        for key, message.timestamp in zip(keys, times, strict=True):
            views[key] += 1
        seconds += time.perf_counter() - started
    return seconds


def main(run: Run) -> Outcome:
    """Nothing expires while it counts: Faust does that on a timer of its own."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    _, views = app_of(run)
    seconds = loop.run_until_complete(count(run, views))
    if not run.check:
        return Outcome(seconds)
    last = run.stream.last_ms / 1000
    found = [n for (_, (start, _)), n in views.table.data.items() if start <= last]
    return Outcome(seconds, totals(len(found), sum(found), 0, 0))


if __name__ == "__main__":
    serve("faust_tables", main)
