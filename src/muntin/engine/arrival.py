"""Summaries of a task's messages, which it sends to the shards, and of what a shard receives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.admission import POSITION, flag_missing_offsets, format_message, moves_watermark
from muntin.engine.clocks import ClockTime, clock_times, merge_times, read_machine_clock
from muntin.engine.operator import REJECTED, Part, Task
from muntin.model.axis import SECOND, Axis
from muntin.model.counts import add_counts
from muntin.model.printable import escape_line
from muntin.model.spec import DUPLICATES
from muntin.state.offsets import (
    OffsetRange,
    TakenOffsets,
    TimedOffset,
    find_greatest,
    merge_greatest,
    to_ranges,
)
from muntin.state.rows import stack_rows

# Largest difference that is normal between the clocks of two machines, microseconds.
SKEW = 5 * SECOND
# The name of the message among a step's examples, and in the header of a part.
AHEAD_EXAMPLE = "ahead"
# The number of messages from which on the heaviest keys are looked for.
_FEW = 1000
# The number of rows that are looked at, about, and of keys that a shard names.
_SAMPLE, _MOST_KEYS = 10_000, 3
# The least share of a heavy key.
_SHARE = 0.01


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


def make_parts(
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
    parts = [
        Part(number, {"arrival": {"counts": {}, **summary}}, input=task.input)
        for number in range(task.shards)
    ]
    for name, by_shard in frames.items():
        for number, frame in by_shard.items():
            parts[number].frames[name] = frame
    # The task's rejected messages and counts go to one shard, so that they are emitted once.
    parts[0].header["arrival"]["counts"] = add_counts(arrival.counts for arrival in arrivals)
    parts[0].frames[REJECTED] = stack_rows([arrival.rejected for arrival in arrivals])
    return parts


def drop_repeated(
    messages: pl.DataFrame,
    offset: tuple[str, str],
    taken_offsets: TakenOffsets,
    axis: Axis,
    clocks: Sequence[str] = (),
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return messages without repeated offsets, and their summary as attributes of ``Arrival``.

    The task only knows some of the offsets that were taken before, so a shard checks again.
    ``offset`` has the columns of partition and offset, ``clocks`` those that distinguish the
    input's clocks.
    """
    messages = flag_missing_offsets(messages, *offset)
    is_repeated = taken_offsets.find_repeated(messages, *offset)
    new_messages = messages.filter(~is_repeated) if is_repeated.any() else messages
    summary: dict[str, Any] = {
        "counts": _count_repeated(is_repeated),
        "offsets": to_ranges(new_messages, *offset),
    }
    # On the rows axis each partition has its own watermark.
    if axis == "time":
        summary["times"] = find_greatest(
            new_messages.filter(moves_watermark(new_messages)), *offset, columns.TIME
        )
        summary["partitions"] = clock_times(new_messages, clocks)
    if columns.CLOCK in new_messages.columns:
        summary["clocks"] = find_greatest(new_messages, *offset, columns.CLOCK)
    return new_messages, summary


def select_new(
    arrivals: Sequence[Arrival],
    messages: Iterable[pl.DataFrame | None],
    offset: tuple[str, str] | None,
    taken_offsets: TakenOffsets,
    count: Callable[[Mapping[str, int]], None],
) -> tuple[list[pl.DataFrame], dict[str, Any]]:
    """Return the new messages of a shard, and the greatest times of the whole batch.

    Repeated messages are counted, and all offsets of the batch are marked as taken. Among several
    messages with one offset the first counts, even if they have different keys, since each task
    also sends the offsets of its messages for other shards.
    """
    new_messages, latest, clocks = [], [], []
    reached = _greatest(arrival.reached for arrival in arrivals)
    partitions = merge_times(arrival.partitions for arrival in arrivals)
    for arrival, part_messages in zip(arrivals, messages, strict=True):
        count(arrival.counts)
        if part_messages is not None and len(part_messages) and offset is not None:
            is_repeated = _find_repeated(part_messages, offset, taken_offsets)
            counted = is_repeated
            if columns.COUNTS in part_messages.columns:
                counted = is_repeated & part_messages[columns.COUNTS].to_numpy()
            count(_count_repeated(counted))
            if is_repeated.any():
                part_messages = part_messages.filter(~is_repeated)
        new_messages += [part_messages] if part_messages is not None and len(part_messages) else []
        latest += [arrival.latest, taken_offsets.latest(arrival.times)]
        clocks += [arrival.clock, taken_offsets.latest(arrival.clocks)]
        taken_offsets.add(arrival.offsets)
    summary = {"latest": _greatest(latest), "clock": _greatest(clocks), "reached": reached}
    finished = any(arrival.finished for arrival in arrivals)
    return new_messages, {**summary, "partitions": partitions, "finished": finished}


def _find_repeated(
    messages: pl.DataFrame, offset: tuple[str, str], taken_offsets: TakenOffsets
) -> NDArray[np.bool_]:
    """Return which messages are repetitions; copies for grouping sets aren't."""
    if columns.GROUPING not in messages.columns:
        return taken_offsets.find_repeated(messages, *offset)
    is_repeated = np.zeros(len(messages), dtype=np.bool_)
    for grouping_set in messages[columns.GROUPING].unique():
        rows = np.flatnonzero((messages[columns.GROUPING] == grouping_set).to_numpy())
        is_repeated[rows] = taken_offsets.find_repeated(messages[rows], *offset)
    return is_repeated


def _count_repeated(is_repeated: NDArray[np.bool_]) -> dict[str, int]:
    n = int(is_repeated.sum())
    return {"seen": n, DUPLICATES: n} if n else {}


def _greatest(times: Iterable[int | None]) -> int | None:
    return max((time for time in times if time is not None), default=None)


class AheadMessage:
    """The message of a task that moves the watermark farthest ahead of this machine's clock.

    Args:
        names: Names of the key columns, and of those of the position in the source.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(dict.fromkeys((*POSITION, *names)))
        self._latest = read_machine_clock() + SKEW
        self._row: dict[str, Any] = {}

    def watch(self, messages: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield frames of messages, and note the message."""
        for frame in messages:
            time = frame[columns.TIME].max() if columns.TIME in frame.columns else None
            if isinstance(time, int) and time > self._latest:
                self._note(frame)
            yield frame

    def _note(self, frame: pl.DataFrame) -> None:
        shown = [name for name in self._names if name in frame.columns]
        moving = frame.filter(moves_watermark(frame)).top_k(1, by=columns.TIME)
        for row in moving.select(columns.TIME, *shown).iter_rows(named=True):
            time = row.pop(columns.TIME)
            if time > self._latest:
                self._latest, self._row = time, row

    def add_to(self, part: Part) -> None:
        """Have a part say which message it was, if there was one."""
        if self._row:
            part.header[AHEAD_EXAMPLE] = self._latest, format_message(self._row)

    @staticmethod
    def find_examples(parts: Iterable[Part]) -> dict[str, str]:
        """Return the message farthest ahead among those of several tasks, as an example."""
        ahead = [
            tuple(part.header[AHEAD_EXAMPLE]) for part in parts if AHEAD_EXAMPLE in part.header
        ]
        return {AHEAD_EXAMPLE: max(ahead)[1]} if ahead else {}


@dataclass(frozen=True)
class Received:
    """A frame that a step received.

    Attributes:
        rows: Messages, or cells with their number of messages.
        keys: The key columns; empty for a query without keys.
        has_cells: Whether the rows are cells.
    """

    rows: pl.DataFrame
    keys: Sequence[str]
    has_cells: bool = False

    def count_messages(self) -> int:
        """Count the messages."""
        return int(self.rows[columns.MESSAGES].sum()) if self.has_cells else len(self.rows)

    def find_heavy_keys(self, count: int) -> list[tuple[str, int]]:
        """Return the heaviest keys as text with their messages, from a bounded part of the rows."""
        if not count or not self.keys:
            return []
        if self.has_cells:
            # A key of many messages has cells with many.
            sample = self.rows.filter(pl.col(columns.MESSAGES) * _SAMPLE >= count)
            messages = pl.col(columns.MESSAGES).sum()
        else:
            step = max(1, len(self.rows) // _SAMPLE)
            sample = self.rows.gather_every(step)
            messages = pl.len().cast(pl.Int64) * step
        sums = sample.group_by(self.keys).agg(messages.alias(columns.MESSAGES))
        heaviest = sums.top_k(_MOST_KEYS, by=columns.MESSAGES)
        return [
            (", ".join(map(_format_value, key)), number) for *key, number in heaviest.iter_rows()
        ]


def measure_load(frames: Sequence[Received]) -> dict[str, dict[str, int]]:
    """Return the load of a step as part of an operator's figures.

    Args:
        frames: The frames that it received.

    Returns:
        ``load`` (``messages``, and their ``bytes`` as they came) and, for a step of many messages,
        ``heaviest``: the estimated number of messages of each heavy key.

    Example:
        >>> rows = pl.DataFrame({"page": ["home"] * 900 + ["help"] * 300})
        >>> measure_load([Received(rows, ["page"])])["heaviest"]
        {'home': 900, 'help': 300}
    """
    counts = [frame.count_messages() for frame in frames]
    messages = sum(counts)
    size = sum(int(frame.rows.estimated_size()) for frame in frames)
    figures = {"load": {"messages": messages, "bytes": size}}
    if messages < _FEW:
        return figures
    heaviest: dict[str, int] = {}
    for frame, count in zip(frames, counts, strict=True):
        for key, number in frame.find_heavy_keys(count):
            heaviest[key] = heaviest.get(key, 0) + number
    most = sorted(heaviest, key=heaviest.__getitem__, reverse=True)[:_MOST_KEYS]
    heavy = {key: heaviest[key] for key in most if heaviest[key] >= messages * _SHARE}
    return {**figures, "heaviest": heavy} if heavy else figures


def _format_value(value: Any) -> str:
    return r"\N" if value is None else escape_line(str(value)[:100])
