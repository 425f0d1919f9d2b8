"""Keeps results in the memory of this process."""

from __future__ import annotations

import threading
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.model.errors import SinkError
from muntin.model.option_types import check_boolean
from muntin.sinks.batch import Batch
from muntin.sinks.frames import read_polars_rows, select_newest_revisions
from muntin.sinks.sink import BATCH_COLUMN

# Rows are merged after this many new ones, or as many as there are windows.
_MERGE_ROWS = 10_000


class MemorySink:
    """Rows in memory; see ``to_memory``."""

    def __init__(self, *, history: bool = False) -> None:
        self._lock = threading.Lock()
        self._has_history = history
        self._newest: list[pl.DataFrame] = []
        self._log: list[pl.DataFrame] = []
        self._identity: tuple[str, ...] | None = None
        self._number: int | None = None
        self._unmerged = 0
        # No other output may use it.
        self.tables = (f"to_memory() {id(self):#x}",)

    def __reduce__(self) -> Any:
        raise SinkError("to_memory() keeps rows in the process that made it and can't be sent")

    def write(self, batch: Batch) -> None:
        with self._lock:
            if batch.empty and (self._newest or self._log):
                return
            rows = read_polars_rows(batch, "memory")
            if batch.identity is None or self._has_history:
                if batch.number == self._number:
                    # Only the last batch can be repeated.
                    self._log.pop()
                self._log.append(
                    rows.with_columns(pl.lit(batch.number, pl.Int64).alias(BATCH_COLUMN))
                )
            self._identity, self._number = batch.identity, batch.number
            if batch.identity is not None:
                self._newest.append(rows)
                self._unmerged += len(rows)
                if self._unmerged > max(_MERGE_ROWS, len(self._newest[0])):
                    self._merge()

    def frame(self) -> pl.DataFrame:
        """Return the newest state of every window; rows without identity are all returned.

        Returns:
            A frame in the order in which rows arrived; without columns before the first batch.
        """
        with self._lock:
            if self._identity is None:
                return _concatenate(self._log)
            self._merge()
            return self._newest[0]

    def history(self) -> pl.DataFrame:
        """Return every row, with the batch's number in the column ``batch``.

        Raises:
            SinkError: When the sink was created without ``history=True`` and keeps the newest rows.
        """
        with self._lock:
            if self._identity is not None and not self._has_history:
                raise SinkError("to_memory() keeps no history; make it with history=True")
            return _concatenate(self._log)

    def _merge(self) -> None:
        assert self._identity is not None
        self._newest = [_keep_newest(_concatenate(self._newest), self._identity)]
        self._unmerged = 0


def _concatenate(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Concatenate frames; columns that appeared later are null before."""
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()


def _keep_newest(rows: pl.DataFrame, identity: tuple[str, ...]) -> pl.DataFrame:
    """Return the greatest revision of each window, without retracted windows."""
    return select_newest_revisions(rows, identity).filter(pl.col(columns.EMISSION) != "retract")


def to_memory(*, history: bool = False) -> MemorySink:
    """Keep the newest state of every window in the memory of this process.

    Results are merged by keys and window: the greater revision wins, and retracted sessions are
    deleted. Pairs of joins and rejected messages are appended, with their batch's number
    in a column ``batch``. A repeated batch changes nothing. All rows are kept until the sink is
    dropped, so it is for notebooks, tests and small results. On Spark rows are fetched to the
    driver.

    Args:
        history: Whether every emission is kept, too: ``history()`` returns them.

    Returns:
        A sink with a method ``frame()``, which returns a Polars frame at any time.

    Example:
        >>> to_memory().frame().is_empty()
        True
    """
    check_boolean("history", history)
    return MemorySink(history=history)
