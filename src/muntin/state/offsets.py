"""Which source offsets have been taken: stretches of neighbouring offsets, by partition.

Sources hand out offsets nearly without gaps, so that millions of them are a handful of stretches.
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
"""A partition, and its first and last offset of a stretch."""
Timed = tuple[Any, Any, int]
"""The partition and the offset of a message, and a time that it bears."""

# Beyond this the oldest gaps count as taken: nobody fills thousands of old gaps.
MOST_STRETCHES = 4096
# How many of the greatest times are known by their message. Where all of them were here before, so
# were, but for a source that gives an offset to two messages, greater times than the others'.
MOST_TIMES = 64


def stretches(messages: pl.DataFrame, partition: str, offset: str) -> list[OffsetRange]:
    """The stretches that messages cover; those without partition or offset cover none."""
    places = messages.select(
        pl.col(partition).alias("partition"), pl.col(offset).cast(pl.Int64).alias("offset")
    )
    places = places.drop_nulls().unique().sort("partition", "offset")
    runs = places.with_columns(run=pl.col("offset") - pl.int_range(pl.len()).over("partition"))
    ends = runs.group_by("partition", "run", maintain_order=True).agg(
        low=pl.col("offset").min(), high=pl.col("offset").max()
    )
    return ends.select("partition", "low", "high").rows()


def greatest(messages: pl.DataFrame, partition: str, offset: str, time: str) -> list[Timed]:
    """The messages that bear the greatest times, the greatest first."""
    placed = messages.select(
        pl.col(partition).alias("partition"),
        pl.col(offset).cast(pl.Int64).alias("offset"),
        pl.col(time).alias("time"),
    )
    top = placed.drop_nulls("time").top_k(MOST_TIMES, by="time")
    return top.sort("time", descending=True).rows()


def greatest_of(parts: Iterable[Sequence[Timed]]) -> list[Timed]:
    """The greatest times of several parts of a batch."""
    return heapq.nlargest(MOST_TIMES, chain.from_iterable(parts), key=lambda timed: timed[2])


class Offsets:
    """The offsets that have been taken so far."""

    def __init__(self, stored: Iterable[Sequence[Any]] = ()) -> None:
        self._taken: dict[Any, list[tuple[int, int]]] = {}
        self.add([(p, low, high) for p, low, high in stored])

    def dumps(self) -> list[OffsetRange]:
        """All stretches; plain JSON for partitions that are numbers or strings."""
        return [(p, low, high) for p, runs in self._taken.items() for low, high in runs]

    def add(self, new: Iterable[OffsetRange]) -> None:
        """Take more offsets."""
        touched: dict[Any, list[tuple[int, int]]] = {}
        for partition, low, high in new:
            touched.setdefault(partition, []).append((low, high))
        for partition, runs in touched.items():
            joined: list[tuple[int, int]] = []
            for low, high in sorted([*self._taken.get(partition, []), *runs]):
                if joined and low <= joined[-1][1] + 1:
                    joined[-1] = (joined[-1][0], max(joined[-1][1], high))
                else:
                    joined.append((low, high))
            beyond = len(joined) - MOST_STRETCHES
            if beyond > 0:
                joined = [(joined[0][0], joined[beyond][1]), *joined[beyond + 1 :]]
            self._taken[partition] = joined

    def reached(self, partition: Any) -> int | None:
        """The greatest offset of a partition and one; ``None`` where it has none."""
        runs = self._taken.get(partition)
        return runs[-1][1] + 1 if runs else None

    def holds(self, partition: Any, offset: int | None) -> bool:
        """Return whether an offset has been taken."""
        runs = self._taken.get(partition)
        if runs is None or offset is None:
            return False
        run = bisect_right(runs, offset, key=lambda run: run[0]) - 1
        return run >= 0 and offset <= runs[run][1]

    def latest(self, times: Sequence[Timed]) -> int | None:
        """The time of the first message that is new; ``None`` where all were here before."""
        new = (time for partition, offset, time in times if not self.holds(partition, offset))
        return next(new, None)

    @property
    def ends(self) -> dict[Any, int]:
        """The greatest offset and one, of all partitions that have been seen."""
        return {partition: runs[-1][1] + 1 for partition, runs in self._taken.items() if runs}

    def known(self, messages: pl.DataFrame, partition: str, offset: str) -> NDArray[np.bool_]:
        """Return a mask of the messages that came before, in an earlier batch or in this one."""
        again = messages.select(
            pl.struct(partition, offset).is_first_distinct().not_()
            & pl.col(partition).is_not_null()
            & pl.col(offset).is_not_null()
        ).to_series()
        found: NDArray[np.bool_] = again.to_numpy().copy()
        for value in messages[partition].drop_nulls().unique():
            runs = self._taken.get(value)
            if not runs:
                continue
            mine = (messages[partition] == value) & messages[offset].is_not_null()
            rows = np.flatnonzero(mine.fill_null(False).to_numpy())
            at = messages[offset][rows].cast(pl.Int64).to_numpy()
            lows, highs = np.array(runs, dtype=np.int64).T
            run = np.searchsorted(lows, at, side="right") - 1
            found[rows] |= (run >= 0) & (at <= highs[np.maximum(run, 0)])
        return found
