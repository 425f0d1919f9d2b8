"""What tasks of windows and of joins send alike, and what their shards have counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.arrival import Arrival, known_of
from muntin.engine.operator import REJECTED, Part, Task
from muntin.engine.output import Output


def parts_of(
    arrivals: Sequence[Arrival], frames: Mapping[str, Mapping[int, pl.DataFrame]], task: Task
) -> list[Part]:
    """A part for each shard, so that all know the greatest time of the whole task."""
    known = known_of(arrivals)
    reached = task.reached()
    if reached is not None:
        latest = known["latest"]
        known["latest"] = reached if latest is None else max(latest, reached)
    # The task's rejected messages and counts go to one shard, to be emitted once.
    found = [
        Part(n, {"arrival": known | ({"counts": {}} if n else {})}) for n in range(task.shards)
    ]
    for name, by_shard in frames.items():
        for number, frame in by_shard.items():
            found[number].frames[name] = frame
    found[0].frames[REJECTED] = pl.concat([arrival.rejected for arrival in arrivals])
    return found


def progress_of(made: Output) -> dict[str, Any]:
    """What a shard has counted, for a host to sum up."""
    return {
        "watermark": made.watermark,
        "counts": made.counts,
        "pending": made.pending,
        "rows": made.rows,
        "fired": dict(made.results[columns.EMISSION].value_counts().iter_rows()),
    }
