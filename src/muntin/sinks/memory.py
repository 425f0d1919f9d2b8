"""Results in the memory of this process."""

from __future__ import annotations

import threading
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.sinks.batch import Batch

# Rows of windows are merged when so many have come, or as many as there are.
_MERGE_ROWS = 10_000


class MemorySink:
    """Rows in memory; see ``to_memory``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frames: list[pl.DataFrame] = []
        self._identity: tuple[str, ...] | None = None
        self._number: int | None = None
        self._unmerged = 0

    def __reduce__(self) -> Any:
        raise TypeError("to_memory() keeps rows in the process that made it and can't be sent")

    def write(self, batch: Batch) -> None:
        with self._lock:
            if batch.empty and self._frames:
                return
            rows = pl.from_arrow(batch.table())
            assert isinstance(rows, pl.DataFrame)
            if batch.identity is None and batch.number == self._number:
                # Only the last batch is ever repeated.
                self._frames.pop()
            self._identity, self._number = batch.identity, batch.number
            self._frames.append(rows)
            self._unmerged += len(rows)
            if self._identity and self._unmerged > max(_MERGE_ROWS, len(self._frames[0])):
                self._merge()

    def frame(self) -> pl.DataFrame:
        """The newest state of every window, or all rows of what has no identity.

        Returns:
            A frame in the order in which rows came; without columns before the first batch.
        """
        with self._lock:
            if self._identity:
                self._merge()
            return _concatenate(self._frames)

    def _merge(self) -> None:
        assert self._identity is not None
        self._frames = [_keep_newest(_concatenate(self._frames), self._identity)]
        self._unmerged = 0


def _concatenate(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Frames as one; columns that came later are null before."""
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()


def _keep_newest(rows: pl.DataFrame, identity: tuple[str, ...]) -> pl.DataFrame:
    """The greatest revision of each window, without windows that were taken back."""
    newest = rows.sort(columns.REVISION, maintain_order=True).unique(
        identity, keep="last", maintain_order=True
    )
    return newest.filter(pl.col(columns.EMISSION) != "retract")


def to_memory() -> MemorySink:
    """Keep the newest state of every window in the memory of this process.

    Results are merged by keys and window: the greater revision wins, and sessions that were taken
    back are deleted. Pairs of joins and rejected messages are appended. A repeated batch changes
    nothing. All rows are kept until the sink is dropped, so it is for notebooks, tests and small
    results. On Spark rows are fetched to the driver.

    Returns:
        A sink with a method ``frame()``, which returns a Polars frame at any time.

    Example:
        >>> to_memory().frame().is_empty()
        True
    """
    return MemorySink()
