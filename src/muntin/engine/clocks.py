"""The clocks of an input: event time by partition of its source, or by value of some columns.

The slowest active clock holds the watermark. The clock of a partition is active until the partition
is read to its end, so that a backlog that is read at several speeds makes no message late. The
clock of a value of columns is active until it had no messages for the idle time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import monotonic_ns, time_ns
from typing import Any, NamedTuple

import polars as pl

from muntin.engine import columns
from muntin.engine.admission import moves_watermark
from muntin.model.axis import is_representable
from muntin.model.inputs import BY_GREATEST, InputSpec

# Greatest number of clocks per input; beyond it the one that is silent for longest is dropped.
MOST_CLOCKS = 4096
# Greatest number of clocks that are shown, the slowest first.
_MOST_SHOWN = 64
# Greatest number of runs of messages of one partition that are processed one by one.
_MOST_RUNS = 256


def read_machine_clock() -> int:
    """Return the wall clock of this machine, microseconds since the epoch."""
    return time_ns() // 1_000


def read_elapsed_time() -> int:
    """Return the microseconds since some moment, which no change of the clock affects."""
    return monotonic_ns() // 1_000


class SteadyClock:
    """A wall clock that never goes back.

    If the machine's clock was set back, also between two runs, it goes on from the last time that
    it returned. So nothing that waits for the clock has to wait until the machine's is there again.

    Args:
        last: The time of the last run's last batch, microseconds; ``None`` if there is none.
        elapsed: Reads the elapsed time.
    """

    def __init__(
        self, last: int | None = None, elapsed: Callable[[], int] = read_elapsed_time
    ) -> None:
        self._last = last
        self._elapsed = elapsed
        self._read_at = elapsed()

    def read(self, now: int) -> int:
        """Return the time, where the machine's clock is at ``now``."""
        read_at = self._elapsed()
        steady = now if self._last is None else self._last + max(0, read_at - self._read_at)
        self._last, self._read_at = max(now, steady), read_at
        return self._last


class ClockTime(NamedTuple):
    """The time to which a batch moves a clock.

    ``latest`` is ``None`` if the batch has no time for it. ``behind`` says whether the source's
    partition has more messages than the batch reads; it is ``None`` for other clocks.
    """

    name: str
    latest: int | None
    behind: bool | None = None


def clock_columns(spec: InputSpec, messages: pl.DataFrame) -> tuple[str, ...]:
    """Return the columns that distinguish the clocks of an input; none if it has one clock."""
    if spec.clocks or spec.watermark == BY_GREATEST or columns.PARTITION not in messages.columns:
        return spec.clocks
    return (columns.PARTITION,)


def clock_times(messages: pl.DataFrame, by: Sequence[str]) -> list[ClockTime]:
    """Return the greatest time of each clock that the messages move."""
    if not by or not len(messages):
        return []
    if by == (columns.PARTITION,) and (times := _run_times(messages)) is not None:
        return times
    latest = pl.col(columns.TIME).filter(moves_watermark(messages)).max()
    groups = messages.group_by(*by).agg(latest.alias(columns.TIME)).drop_nulls(columns.TIME)
    groups = groups.sort(columns.TIME, *by).head(MOST_CLOCKS)
    return [ClockTime(_name(values), time) for *values, time in groups.rows()]


def _run_times(messages: pl.DataFrame) -> list[ClockTime] | None:
    """Return the greatest time of each partition, if their messages are in a few long runs.

    Sources deliver messages in such runs, and this takes a third of the time of grouping by text.
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
    """Merge the clocks of several parts of a batch and of the partitions that were read."""
    merged = {name: ClockTime(name, None, behind) for name, behind in (backlog or {}).items()}
    for part in parts:
        for one in part:
            name, latest, behind = one
            before = merged.get(name, ClockTime(name, None))
            times = [time for time in (before.latest, latest) if time is not None]
            flags = [flag for flag in (before.behind, behind) if flag is not None]
            merged[name] = ClockTime(name, max(times, default=None), any(flags) if flags else None)
    # A clock without a time comes first: it holds the watermark where it is.
    ordered = sorted(merged.values(), key=lambda one: (one.latest is not None, one.latest or 0))
    return ordered[:MOST_CLOCKS]


class InputClocks:
    """The clocks of one input in the state of a shard.

    ``stored`` has the clocks by name, each with its time, whether it is behind, and when it last
    moved. The one that is silent for longest comes first.
    """

    def __init__(self, stored: dict[str, list[Any]]) -> None:
        self._stored = stored

    def take(self, times: Sequence[ClockTime], wall: int) -> None:
        """Move the clocks by the times of a batch."""
        by_partition = any(one.behind is not None for one in times)
        for clock in self._stored.values():
            # Partitions that the source doesn't report are read to their end.
            clock[1] = False if by_partition or clock[1] else clock[1]
        # Among the clocks of one batch the greatest time is dropped first: it holds nothing back.
        for one in reversed(times):
            time, _, moved = self._stored.pop(one.name, [None, None, None])
            if one.latest is not None:
                time = one.latest if time is None else max(time, one.latest)
                moved = wall if is_representable(wall) else None
            self._stored[one.name] = [time, one.behind, moved]
        for name in [*self._stored][: len(self._stored) - MOST_CLOCKS]:
            del self._stored[name]

    def note_moved(self, names: Iterable[str], wall: int) -> None:
        """Set the time at which clocks last moved."""
        for name in names:
            if name in self._stored:
                self._stored[name][2] = wall

    def find_slowest_time(self, idle: int | None, wall: int) -> int | None:
        """Return the time of the slowest active clock, or the greatest time if none is active.

        Times are microseconds; ``None`` means that an active clock has no time yet. The clock of a
        value isn't active after ``idle`` without messages.
        """
        holding = [time for _, time in self._holding(idle, wall)]
        if not holding:
            return self.latest()
        return None if None in holding else min(time for time in holding if time is not None)

    @property
    def are_caught_up(self) -> bool:
        """True if they are the clocks of partitions, all of which are read to their end."""
        return bool(self._stored) and all(behind is False for _, behind, _ in self._stored.values())

    def latest(self) -> int | None:
        """Return the greatest time of all clocks."""
        times = (time for time, _, _ in self._stored.values() if time is not None)
        return max(times, default=None)

    def holder(self, idle: int | None, wall: int) -> str | None:
        """Return the clock that holds the watermark back; ``None`` if none does."""
        holding = [*self._holding(idle, wall)]
        unread = [name for name, time in holding if time is None]
        timed = [(time, name) for name, time in holding if time is not None]
        return min(unread) if unread else min(timed)[1] if timed else None

    def slowest(self) -> dict[str, int]:
        """Return the times of the slowest clocks by name."""
        times = ((time, name) for name, (time, _, _) in self._stored.items() if time is not None)
        return {name: time for time, name in sorted(times)[:_MOST_SHOWN]}

    def _holding(self, idle: int | None, wall: int) -> Iterator[tuple[str, int | None]]:
        """Yield the active clocks with their times."""
        for name, (time, behind, moved) in self._stored.items():
            silent = idle is not None and moved is not None and wall >= moved + idle
            if behind or (behind is None and not silent):
                yield name, time
