"""The source offsets taken so far, as ranges of consecutive offsets by partition.

Sources assign offsets with few gaps, so millions of them form a few ranges.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

OffsetRange = tuple[Any, int, int]
"""A partition, and the first and last offset of a range."""
TimedOffset = tuple[Any, Any, int]
"""The partition, offset and time of a message."""

# With more ranges, the oldest gaps count as taken: old gaps are no longer filled.
MAX_RANGES = 4096
# How many of the greatest times are recorded with their message. If all of these are duplicates,
# the other messages have no greater time, except in a source that reuses offsets.
MAX_TIMES = 64


def to_ranges(messages: pl.DataFrame, partition: str, offset: str) -> list[OffsetRange]:
    """Return the ranges of offsets of messages, ignoring null partitions and offsets."""
    ranges: list[OffsetRange] = []
    for value, _, offsets in sorted(_split(messages, partition, offset), key=itemgetter(0)):
        numbers = np.unique(offsets)
        begins = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 2) != 1)
        lows, highs = numbers[begins], numbers[np.append(begins[1:], len(numbers)) - 1]
        ranges += zip(repeat(value), lows.tolist(), highs.tolist())
    return ranges


def _split(
    messages: pl.DataFrame, partition: str, offset: str
) -> Iterator[tuple[Any, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield each partition with the numbers of its rows, and their offsets, which aren't null."""
    partitions, offsets = messages[partition], messages[offset].cast(pl.Int64)
    rows = np.arange(len(messages))
    if partitions.null_count() or offsets.null_count():
        rows = rows[(partitions.is_not_null() & offsets.is_not_null()).to_numpy()]
        partitions, offsets = partitions[rows], offsets[rows]
    numbers = offsets.to_numpy()
    if len(rows) and partitions.min() == partitions.max():
        yield partitions[0], rows, numbers
        return
    is_left = np.ones(len(rows), dtype=np.bool_)
    while is_left.any():
        value = partitions[int(is_left.argmax())]
        mask = (partitions == value).to_numpy()
        yield value, rows[mask], numbers[mask]
        is_left &= ~mask


def find_greatest(
    messages: pl.DataFrame, partition: str, offset: str, time: str
) -> list[TimedOffset]:
    """Return the messages with the greatest times, greatest first."""
    timed = messages[[partition, offset, time]]
    if timed[time].null_count():
        timed = timed.drop_nulls(time)
    if len(timed) > MAX_TIMES:
        timed = timed.top_k(MAX_TIMES, by=time)
    return sorted(timed.rows(), key=itemgetter(2), reverse=True)


def merge_greatest(parts: Iterable[Sequence[TimedOffset]]) -> list[TimedOffset]:
    """Return the greatest times of several parts of a batch."""
    return heapq.nlargest(MAX_TIMES, chain.from_iterable(parts), key=lambda timed: timed[2])


class TakenOffsets:
    """The set of offsets taken so far."""

    def __init__(self, stored: Iterable[Sequence[Any]] = ()) -> None:
        self._taken: dict[Any, list[tuple[int, int]]] = {}
        self.add([(p, low, high) for p, low, high in stored])

    def copy(self) -> TakenOffsets:
        """Return a copy, to which offsets can be added without changing this one."""
        copied = TakenOffsets()
        # Adding replaces the ranges of a partition and changes no list.
        copied._taken = dict(self._taken)
        return copied

    def dumps(self) -> list[OffsetRange]:
        """Return all ranges; plain JSON if partitions are numbers or strings."""
        return [(p, low, high) for p, runs in self._taken.items() for low, high in runs]

    def add(self, new: Iterable[OffsetRange]) -> None:
        """Add ranges of offsets."""
        added: dict[Any, list[tuple[int, int]]] = {}
        for partition, low, high in new:
            added.setdefault(partition, []).append((low, high))
        for partition, runs in added.items():
            merged: list[tuple[int, int]] = []
            for low, high in sorted([*self._taken.get(partition, []), *runs]):
                if merged and low <= merged[-1][1] + 1:
                    merged[-1] = (merged[-1][0], max(merged[-1][1], high))
                else:
                    merged.append((low, high))
            excess = len(merged) - MAX_RANGES
            if excess > 0:
                merged = [(merged[0][0], merged[excess][1]), *merged[excess + 1 :]]
            self._taken[partition] = merged

    def next_offset(self, partition: Any) -> int | None:
        """Return the offset after the greatest one of a partition, or ``None``."""
        runs = self._taken.get(partition)
        return runs[-1][1] + 1 if runs else None

    def has_taken(self, partition: Any, offset: int | None) -> bool:
        """Return whether an offset has been taken."""
        runs = self._taken.get(partition)
        if runs is None or offset is None:
            return False
        run = bisect_right(runs, offset, key=lambda run: run[0]) - 1
        return run >= 0 and offset <= runs[run][1]

    def latest(self, times: Sequence[TimedOffset]) -> int | None:
        """Return the time of the first message that is new; ``None`` if all were taken before."""
        new = (time for partition, offset, time in times if not self.has_taken(partition, offset))
        return next(new, None)

    @property
    def ends(self) -> dict[Any, int]:
        """The offset after the greatest one, by partition."""
        return {partition: runs[-1][1] + 1 for partition, runs in self._taken.items() if runs}

    def find_repeated(
        self, messages: pl.DataFrame, partition: str, offset: str
    ) -> NDArray[np.bool_]:
        """Return a mask of messages that repeat one of an earlier batch or of this one."""
        repeated = np.zeros(len(messages), dtype=np.bool_)
        for value, rows, offsets in _split(messages, partition, offset):
            again = _find_again(offsets)
            if runs := self._taken.get(value):
                lows, highs = np.array(runs, dtype=np.int64).T
                run = np.searchsorted(lows, offsets, side="right") - 1
                again |= (run >= 0) & (offsets <= highs[np.maximum(run, 0)])
            repeated[rows] = again
        return repeated


def _find_again(numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of the numbers that come after an equal one."""
    again = np.zeros(len(numbers), dtype=np.bool_)
    if (np.diff(numbers) <= 0).any():
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        again[order[1:]] = ordered[1:] == ordered[:-1]
    return again
