"""Which source offsets have been taken: stretches of neighbouring offsets, by partition.

Sources hand out offsets nearly without gaps, so that millions of them are a handful of stretches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

Stretch = tuple[Any, int, int]
"""A partition, and its first and last offset of a stretch."""

# Beyond this the oldest gaps count as taken: nobody fills thousands of old gaps.
MOST_STRETCHES = 4096


def stretches(messages: pl.DataFrame, partition: str, offset: str) -> list[Stretch]:
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


class Offsets:
    """The offsets that have been taken so far.

    Args:
        stored: What ``dumps`` gave.
    """

    def __init__(self, stored: Iterable[Sequence[Any]] = ()) -> None:
        self._taken: dict[Any, list[tuple[int, int]]] = {}
        self.add([(p, low, high) for p, low, high in stored])

    def dumps(self) -> list[Stretch]:
        """All stretches; plain JSON for partitions that are numbers or strings."""
        return [(p, low, high) for p, runs in self._taken.items() for low, high in runs]

    def add(self, new: Iterable[Stretch]) -> None:
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

    def meets(self, new: Iterable[Stretch]) -> bool:
        """Whether some stretch holds an offset that has been taken."""
        return any(
            low <= until and since <= high
            for partition, low, high in new
            for since, until in self._taken.get(partition, ())
        )

    @property
    def partitions(self) -> list[Any]:
        """All partitions that have been seen."""
        return list(self._taken)

    def known(self, messages: pl.DataFrame, partition: str, offset: str) -> NDArray[np.bool_]:
        """Which messages have been here before, in an earlier batch or earlier in this one."""
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
