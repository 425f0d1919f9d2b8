"""What tasks of windows and of joins send alike, and what their shards have counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.joiner import Arrived
from muntin.engine.operator import REJECTED, Part
from muntin.engine.output import Output
from muntin.engine.windows.combine import Combined
from muntin.state.offsets import greatest_of

TIMES = ("counts", "latest", "clock", "offsets", "times", "clocks")
"""The names of what headers say of a task's messages: see ``Combined`` and ``Arrived``."""


def parts_of(
    made: Sequence[Combined] | Sequence[Arrived],
    frames: Mapping[str, Mapping[int, pl.DataFrame]],
    shards: int,
) -> list[Part]:
    """A part for each shard, so that all know the greatest time of the whole task.

    Args:
        made: What the messages of the task came to.
        frames: Rows by name and shard.
        shards: How many there are.
    """
    header: dict[str, Any] = {
        "counts": {},
        "latest": max((one.latest for one in made if one.latest is not None), default=None),
        "clock": max((one.clock for one in made if one.clock is not None), default=None),
        "offsets": [stretch for one in made for stretch in one.offsets],
        "times": greatest_of(one.times for one in made),
        "clocks": greatest_of(one.clocks for one in made),
    }
    found = [Part(number, dict(header)) for number in range(shards)]
    for name, by_shard in frames.items():
        for number, frame in by_shard.items():
            found[number].frames[name] = frame
    # The task's rejected messages and counts go to one shard, to be emitted once.
    counts: dict[str, int] = {}
    for one in made:
        for name, n in one.counts.items():
            counts[name] = counts.get(name, 0) + n
    found[0].header["counts"] = counts
    found[0].frames[REJECTED] = pl.concat([one.rejected for one in made])
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
