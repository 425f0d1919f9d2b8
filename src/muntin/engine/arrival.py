"""Summaries of a task's messages, which it sends to the shards together with the messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.admission import flag_unplaced, moves_watermark
from muntin.engine.clocks import ClockTime, clock_times, merge_times
from muntin.engine.operator import REJECTED, Part, Task
from muntin.model.axis import Axis
from muntin.model.counts import summed
from muntin.model.spec import DUPLICATES
from muntin.state.offsets import (
    OffsetRange,
    TakenOffsets,
    TimedOffset,
    find_greatest,
    merge_greatest,
    to_ranges,
)


@dataclass(kw_only=True)
class Arrival:
    """The summary of a task's messages.

    Attributes:
        rejected: The messages that the task rejects: the input columns and ``reason``.
        counts: The numbers of messages ``seen``, ``counted``, ``filtered`` and rejected, by reason.
        latest: The greatest event time that may move the watermark; ``None`` if there is none.
        reached: The upstream watermark, if it is known; it may be later than all messages.
        partitions: The greatest event time of each clock of the input, if it has several.
        finished: Whether this input has ended; other inputs may go on.
        clock: The greatest arrival time, if messages have arrival times.
        offsets: The ranges of source offsets of these messages and of those for other shards. If
            messages have offsets, ``times`` and ``clocks`` replace ``latest`` and ``clock``, since
            repeated messages don't count.
        times: The greatest event times that may move the watermark, with their offsets.
        clocks: The greatest arrival times, with their offsets.
    """

    rejected: pl.DataFrame
    counts: dict[str, int] = field(default_factory=dict)
    latest: int | None = None
    reached: int | None = None
    partitions: Sequence[ClockTime] = ()
    finished: bool = False
    clock: int | None = None
    offsets: Sequence[OffsetRange] = ()
    times: Sequence[TimedOffset] = ()
    clocks: Sequence[TimedOffset] = ()


def parts_of(
    arrivals: Sequence[Arrival], frames: Mapping[str, Mapping[int, pl.DataFrame]], task: Task
) -> list[Part]:
    """Return a part for each shard, each with the summary of the whole task."""
    summary = {
        "latest": _greatest(arrival.latest for arrival in arrivals),
        "reached": task.reached(),
        "finished": task.finished,
        "partitions": merge_times((one.partitions for one in arrivals), task.backlog()),
        "clock": _greatest(arrival.clock for arrival in arrivals),
        "offsets": [stretch for arrival in arrivals for stretch in arrival.offsets],
        "times": merge_greatest(arrival.times for arrival in arrivals),
        "clocks": merge_greatest(arrival.clocks for arrival in arrivals),
    }
    parts = [Part(number, {"arrival": {"counts": {}, **summary}}) for number in range(task.shards)]
    for name, by_shard in frames.items():
        for number, frame in by_shard.items():
            parts[number].frames[name] = frame
    # The task's rejected messages and counts go to one shard, so that they are emitted once.
    parts[0].header["arrival"]["counts"] = summed(arrival.counts for arrival in arrivals)
    parts[0].frames[REJECTED] = pl.concat([arrival.rejected for arrival in arrivals])
    return parts


def numbered(
    messages: pl.DataFrame,
    offset: tuple[str, str],
    taken: TakenOffsets,
    axis: Axis,
    by: Sequence[str] = (),
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return messages without repeated offsets, and their summary as attributes of ``Arrival``.

    The task only knows some of the offsets that were taken before, so a shard checks again.

    Args:
        messages: The messages of a task.
        offset: The columns of partition and offset.
        taken: The offsets that are known to be taken.
        axis: The axis of the windows or of the join.
        by: The columns that distinguish the clocks of the input.
    """
    messages = flag_unplaced(messages, *offset)
    again = taken.find_repeated(messages, *offset)
    new = messages.filter(~again)
    known: dict[str, Any] = {"counts": _repeated(again), "offsets": to_ranges(new, *offset)}
    # On the rows axis each partition has its own watermark.
    if axis == "time":
        known["times"] = find_greatest(new.filter(moves_watermark(new)), *offset, columns.TIME)
        known["partitions"] = clock_times(new, by)
    if columns.CLOCK in new.columns:
        known["clocks"] = find_greatest(new, *offset, columns.CLOCK)
    return new, known


def fresh(
    arrivals: Sequence[Arrival],
    messages: Iterable[pl.DataFrame | None],
    offset: tuple[str, str] | None,
    taken: TakenOffsets,
    count: Callable[[Mapping[str, int]], None],
) -> tuple[list[pl.DataFrame], dict[str, Any]]:
    """Return the new messages of a shard, and the greatest times of the whole batch.

    Repeated messages are counted, and all offsets of the batch are marked as taken. Among several
    messages with one offset the first counts, even if they have different keys, since each task
    also sends the offsets of its messages for other shards.
    """
    new, latest, clocks = [], [], []
    reached = _greatest(arrival.reached for arrival in arrivals)
    partitions = merge_times(arrival.partitions for arrival in arrivals)
    for arrival, sent in zip(arrivals, messages, strict=True):
        count(arrival.counts)
        if sent is not None and len(sent) and offset is not None:
            again = _known(sent, offset, taken)
            copies = columns.COUNTS in sent.columns
            count(_repeated(again & sent[columns.COUNTS].to_numpy() if copies else again))
            sent = sent.filter(~again)
        new += [sent] if sent is not None and len(sent) else []
        latest += [arrival.latest, taken.latest(arrival.times)]
        clocks += [arrival.clock, taken.latest(arrival.clocks)]
        taken.add(arrival.offsets)
    summary = {"latest": _greatest(latest), "clock": _greatest(clocks), "reached": reached}
    finished = any(arrival.finished for arrival in arrivals)
    return new, {**summary, "partitions": partitions, "finished": finished}


def _known(sent: pl.DataFrame, offset: tuple[str, str], taken: TakenOffsets) -> NDArray[np.bool_]:
    """Return which messages are repetitions; copies for grouping sets aren't."""
    if columns.GROUPING not in sent.columns:
        return taken.find_repeated(sent, *offset)
    found = np.zeros(len(sent), dtype=np.bool_)
    for number in sent[columns.GROUPING].unique():
        rows = np.flatnonzero((sent[columns.GROUPING] == number).to_numpy())
        found[rows] = taken.find_repeated(sent[rows], *offset)
    return found


def _repeated(again: NDArray[np.bool_]) -> dict[str, int]:
    n = int(again.sum())
    return {"seen": n, DUPLICATES: n} if n else {}


def _greatest(times: Iterable[int | None]) -> int | None:
    return max((time for time in times if time is not None), default=None)
