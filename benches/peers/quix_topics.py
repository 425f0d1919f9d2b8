"""Quix Streams over a topic whose messages have the key of their window, as it requires.

Started by ``benches.topics``. It has no batches: its steady rate is that of the messages after the
first third, by the times at which they are processed.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import uuid
from datetime import datetime
from typing import Any

from quixstreams import Application
from quixstreams.dataframe.windows import Count, Max, Sum

from benches.topics import FAR, WORKS, Work


class Clock:
    """The event times, and the arrivals of the first, the one after a third, and the last."""

    def __init__(self, rows: int) -> None:
        self.third, self.rows = rows // 3, rows
        self.count = 0
        self.at: dict[int, float] = {}

    def __call__(self, value: Any, headers: Any, timestamp: float, kind: Any) -> int:
        """Return a message's time in milliseconds."""
        if self.count in (0, self.third, self.rows):
            self.at[self.count] = time.time()
        self.count += 1
        return round(1000 * datetime.fromisoformat(value["at"]).timestamp())


def main(work: Work, servers: str, topic: str) -> None:
    """Read the topic to its end, and print the figures as JSON."""
    started, clock = time.time(), Clock(work.rows)
    totals, first = [0, 0, 0, 0], 0.0

    def add(result: dict[str, Any]) -> None:
        nonlocal first
        if result["start"] >= FAR - 1000 * work.size:
            return
        first = first or time.time()
        for column, number in enumerate((1, result["n"], result["s"], result["m"])):
            totals[column] += number

    with tempfile.TemporaryDirectory() as folder:
        app = Application(
            broker_address=servers,
            consumer_group=uuid.uuid4().hex,
            auto_offset_reset="earliest",
            state_dir=folder,
            loglevel="ERROR",
        )
        orders = app.dataframe(app.topic(topic, timestamp_extractor=clock))
        windows = orders.tumbling_window(1000 * work.size, grace_ms=1000)
        aggregates = windows.agg(n=Count(), s=Sum("v"), m=Max("v"))
        aggregates.final(closing_strategy="partition").update(add)
        app.run(timeout=10, collect=False)
    if not totals[0]:
        raise RuntimeError(f"{clock.count} messages, and no window ended")
    print(json.dumps({
        "totals": totals, "first": first - started, "whole": clock.at[work.rows] - started,
        "messages": work.rows - clock.third, "seconds": clock.at[work.rows] - clock.at[clock.third],
    }))  # fmt: skip


if __name__ == "__main__":
    main(WORKS[sys.argv[1]], *sys.argv[2:])
