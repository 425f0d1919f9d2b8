"""What a task knows of its messages beside the messages, and sends to shards with them."""

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
    """What a task knows of its messages.

    Attributes:
        rejected: The messages that it can reject by itself: the input columns and ``reason``.
        counts: How many messages were ``seen``, ``counted``, ``filtered`` and each reason.
        latest: The greatest event time that may move the watermark; ``None`` where there is none.
        reached: How far the input's time has come though no message says so, if that is known.
        partitions: The greatest event time of each clock of the input, where it has several.
        finished: Whether no message can come behind these, though those of other inputs can.
        clock: The greatest arrival time, where messages carry their own clock.
        offsets: The stretches of source offsets that these messages and those of other shards
            cover. Where there are offsets, it depends on them which time is the latest:
        times: The greatest event times that may move the watermark, and whose they are.
        clocks: The greatest arrival times, and whose they are.
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
    """A part for each shard, so that all know the greatest time of the whole task."""
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
    # The task's rejected messages and counts go to one shard, to be emitted once.
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
    """Messages with offsets that are new as far as is known here; only a shard knows for sure.

    With them comes what is known of all messages, by attribute of ``Arrival``; ``by`` are the
    columns by which clocks are told apart.
    """
    messages = flag_unplaced(messages, *offset)
    again = taken.find_repeated(messages, *offset)
    new = messages.filter(~again)
    known: dict[str, Any] = {"counts": _repeated(again), "offsets": to_ranges(new, *offset)}
    # Each partition has a mark of its own on the rows axis.
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
    """What is new of what tasks sent to a shard, and the latest time and clock of the whole batch.

    The others are counted, and all offsets of the batch are taken from now on. Of several messages
    with one offset the first counts, also where they have different keys: each task brings along
    the offsets of what it has for other shards.
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
    """Which messages were here before; the copies of one for grouping sets aren't repetitions."""
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
