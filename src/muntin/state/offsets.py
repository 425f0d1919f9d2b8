"""The source offsets taken so far, as ranges of consecutive offsets by partition.

Sources assign offsets with few gaps, so millions of them form a few ranges.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain
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
    offsets = messages.select(
        pl.col(partition).alias("partition"), pl.col(offset).cast(pl.Int64).alias("offset")
    )
    offsets = offsets.drop_nulls().unique().sort("partition", "offset")
    runs = offsets.with_columns(run=pl.col("offset") - pl.int_range(pl.len()).over("partition"))
    ends = runs.group_by("partition", "run", maintain_order=True).agg(
        low=pl.col("offset").min(), high=pl.col("offset").max()
    )
    return ends.select("partition", "low", "high").rows()


def find_greatest(
    messages: pl.DataFrame, partition: str, offset: str, time: str
) -> list[TimedOffset]:
    """Return the messages with the greatest times, greatest first."""
    timed = messages.select(
        pl.col(partition).alias("partition"),
        pl.col(offset).cast(pl.Int64).alias("offset"),
        pl.col(time).alias("time"),
    )
    top = timed.drop_nulls("time").top_k(MAX_TIMES, by="time")
    return top.sort("time", descending=True).rows()


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
        is_repeat = messages.select(
            pl.struct(partition, offset).is_first_distinct().not_()
            & pl.col(partition).is_not_null()
            & pl.col(offset).is_not_null()
        ).to_series()
        repeated: NDArray[np.bool_] = is_repeat.to_numpy().copy()
        for value in messages[partition].drop_nulls().unique():
            runs = self._taken.get(value)
            if not runs:
                continue
            in_partition = (messages[partition] == value) & messages[offset].is_not_null()
            rows = np.flatnonzero(in_partition.fill_null(False).to_numpy())
            offsets = messages[offset][rows].cast(pl.Int64).to_numpy()
            lows, highs = np.array(runs, dtype=np.int64).T
            run = np.searchsorted(lows, offsets, side="right") - 1
            repeated[rows] |= (run >= 0) & (offsets <= highs[np.maximum(run, 0)])
        return repeated
