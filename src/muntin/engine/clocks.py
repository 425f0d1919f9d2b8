"""The clocks of an input: how far each partition of its source has come, or each value of columns.

The clock that holds the watermark is the slowest of those that more may come from. A partition of a
source is such a clock while it isn't read to its end: so a backlog that is read at several speeds
makes no message late. A value of columns is one until it has been silent for the idle time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from muntin.engine import columns
from muntin.engine.admission import moves_watermark
from muntin.model.axis import FARTHEST
from muntin.model.inputs import BY_GREATEST, InputSpec

# How many clocks of an input are remembered: the one that was silent for longest is forgotten.
MOST_CLOCKS = 4096
# How many are shown, the slowest first.
_MOST_SHOWN = 64
# How many runs of messages of one partition are looked at one by one.
_MOST_RUNS = 256


class ClockTime(NamedTuple):
    """How far a batch moves a clock.

    Attributes:
        name: The clock.
        latest: The greatest event time that may move it; ``None`` where the batch has none.
        behind: Whether the partition of the source has more than the batch reads; ``None`` where
            the clock is none of a partition.
    """

    name: str
    latest: int | None
    behind: bool | None = None


def clock_columns(spec: InputSpec, messages: pl.DataFrame) -> tuple[str, ...]:
    """The columns that tell the clocks of an input apart; none where it has one clock."""
    if spec.clocks or spec.watermark == BY_GREATEST or columns.PARTITION not in messages.columns:
        return spec.clocks
    return (columns.PARTITION,)


def clock_times(messages: pl.DataFrame, by: Sequence[str]) -> list[ClockTime]:
    """The greatest time of each clock that some messages move."""
    if not by or not len(messages):
        return []
    if by == (columns.PARTITION,) and (times := _run_times(messages)) is not None:
        return times
    latest = pl.col(columns.TIME).filter(moves_watermark(messages)).max()
    groups = messages.group_by(*by).agg(latest.alias(columns.TIME)).drop_nulls(columns.TIME)
    groups = groups.sort(columns.TIME, *by).head(MOST_CLOCKS)
    return [ClockTime(_name(values), time) for *values, time in groups.rows()]


def _run_times(messages: pl.DataFrame) -> list[ClockTime] | None:
    """Return the greatest time of each partition, where their messages stand in a few long runs.

    That is how a source gives them, and takes a third of the time that grouping by text does.
    """
    name = pl.col(columns.PARTITION)
    moving = pl.when(moves_watermark(messages)).then(pl.col(columns.TIME)).alias(columns.TIME)
    begins, times = messages.select(name.ne_missing(name.shift(1)).alias("begins"), moving)
    if int(begins.sum()) > _MOST_RUNS:
        return None
    starts = sorted({0, *begins.arg_true()})
    lengths = (end - start for start, end in zip(starts, [*starts[1:], len(times)], strict=True))
    runs = (
        (messages[columns.PARTITION][start], times.slice(start, length).max())
        for start, length in zip(starts, lengths, strict=True)
    )
    return merge_times([[(partition, time, None) for partition, time in runs if time is not None]])


def _name(values: Sequence[Any]) -> str:
    if len(values) == 1:
        return values[0] if isinstance(values[0], str) else json.dumps(values[0], default=str)
    return json.dumps(values, default=str)


def merge_times(
    parts: Iterable[Iterable[Sequence[Any]]], backlog: Mapping[str, bool] | None = None
) -> list[ClockTime]:
    """Merge the clocks of several parts of a batch, with the partitions that were read."""
    merged = {name: ClockTime(name, None, behind) for name, behind in (backlog or {}).items()}
    for part in parts:
        for one in part:
            name, latest, behind = one
            before = merged.get(name, ClockTime(name, None))
            times = [time for time in (before.latest, latest) if time is not None]
            flags = [flag for flag in (before.behind, behind) if flag is not None]
            merged[name] = ClockTime(name, max(times, default=None), any(flags) if flags else None)
    # A clock without a time comes first: it holds the watermark where it is.
    # A clock without a time comes first: it holds the watermark where it is.
    ordered = sorted(merged.values(), key=lambda one: (one.latest is not None, one.latest or 0))
    return ordered[:MOST_CLOCKS]


class InputClocks:
    """The clocks of one input, as a shard keeps them.

    Args:
        stored: What is kept of each: its time, whether it is behind, and when it last moved. The
            longest silent stands first.
    """

    def __init__(self, stored: dict[str, list[Any]]) -> None:
        self._stored = stored

    def take(self, times: Sequence[ClockTime], wall: int) -> None:
        """Move the clocks by what a batch says."""
        by_partition = any(one.behind is not None for one in times)
        for clock in self._stored.values():
            # Partitions of which the source says nothing have nothing more.
            clock[1] = False if by_partition or clock[1] else clock[1]
        # Of those that came together the greatest time is forgotten first: it holds nothing back.
        for one in reversed(times):
            time, _, moved = self._stored.pop(one.name, [None, None, None])
            if one.latest is not None:
                time = one.latest if time is None else max(time, one.latest)
                moved = wall if abs(wall) < FARTHEST else None
            self._stored[one.name] = [time, one.behind, moved]
        for name in [*self._stored][: len(self._stored) - MOST_CLOCKS]:
            del self._stored[name]

    def note_moved(self, names: Iterable[str], wall: int) -> None:
        """Set when clocks last moved."""
        for name in names:
            if name in self._stored:
                self._stored[name][2] = wall

    def reached(self, idle: int | None, wall: int) -> int | None:
        """Return how far the input has come; ``None`` where that isn't certain.

        Args:
            idle: After how long without messages a value of columns isn't waited for.
            wall: The wall clock.
        """
        holding = [time for _, time in self._holding(idle, wall)]
        if not holding:
            return self.latest()
        return None if None in holding else min(time for time in holding if time is not None)

    def latest(self) -> int | None:
        """The greatest time of all clocks."""
        times = (time for time, _, _ in self._stored.values() if time is not None)
        return max(times, default=None)

    def holder(self, idle: int | None, wall: int) -> str | None:
        """The clock that holds the watermark back; ``None`` where none does."""
        holding = [*self._holding(idle, wall)]
        unread = [name for name, time in holding if time is None]
        timed = [(time, name) for name, time in holding if time is not None]
        return min(unread) if unread else min(timed)[1] if timed else None

    def slowest(self) -> dict[str, int]:
        """The times of the slowest clocks."""
        times = ((time, name) for name, (time, _, _) in self._stored.items() if time is not None)
        return {name: time for time, name in sorted(times)[:_MOST_SHOWN]}

    def _holding(self, idle: int | None, wall: int) -> Iterator[tuple[str, int | None]]:
        """The clocks that more may come from, with their times."""
        for name, (time, behind, moved) in self._stored.items():
            silent = idle is not None and moved is not None and wall >= moved + idle
            if behind or (behind is None and not silent):
                yield name, time
