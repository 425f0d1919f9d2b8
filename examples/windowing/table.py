"""The table ``timedata``: inserts, deletions in small chunks, the greatest value, and averages.

It is partitioned by UUID, and each partition deletes its own oldest rows: the original's pattern
"Run Everywhere". Rows are deleted chunk after chunk: its "Nibble" pattern.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, NamedTuple

import polars as pl
from examples.windowing.options import Options
from examples.windowing.report import Summary
from examples.windowing.tuples import TUPLE

import muntin as mt
from muntin.standalone import MessageTable

# The most chunks that a partition deletes in one turn, so that inserts have theirs.
_MOST_CHUNKS = 10_000
_PARTITIONS = "partitions"


class Deleted(NamedTuple):
    """A number of deleted rows, and the number of chunks that they were deleted in."""

    rows: int
    chunks: int


NOTHING = Deleted(0, 0)


class TimeData:
    """The rows of the application, in memory or in a folder.

    Raises:
        OptionError: When the folder's table has another number of partitions.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        folder, history = options.checkpoint, options.historyseconds
        self._store = mt.stores.memory() if folder is None else mt.stores.rocks(folder)
        with self._store.undo_on_failure():
            stored_partitions = self._store.marks.get(_PARTITIONS, options.partitions)
            if stored_partitions != options.partitions:
                problem = f"isn't the folder's number, {stored_partitions}"
                raise mt.OptionError(
                    _PARTITIONS, options.partitions, problem, f"give {stored_partitions}"
                )
            self.partitions = [
                MessageTable(
                    self._store,
                    time="update_ts",
                    retention=timedelta(seconds=history) if history else None,
                    most_rows=-(-options.maxrows // options.partitions) or None,
                    name=f"timedata {number}",
                )
                for number in range(options.partitions)
            ]

    def insert(self, tuples: pl.DataFrame) -> Deleted:
        """Insert tuples; inline, each of them may also delete a chunk of its partition."""
        deleted = []
        for number, partition in enumerate(self.partitions):
            part = tuples.filter(pl.col("low") % len(self.partitions) == number)
            partition.add_messages(part)
            if self.options.inline:
                deleted.append(self._nibble(partition, len(part)))
        return add_up(deleted)

    def delete_everywhere(self, now: int) -> Deleted:
        """Delete rows that are too old now (microseconds), or too many, from each partition."""
        for partition in self.partitions:
            partition.advance(now)
        return add_up(self._nibble(partition, _MOST_CHUNKS) for partition in self.partitions)

    def _nibble(self, partition: MessageTable, most_chunks: int) -> Deleted:
        """Delete chunk after chunk until one isn't full."""
        size, rows = self.options.deletechunksize, 0
        for chunk in range(most_chunks):
            deleted = partition.retire(size)
            rows += deleted
            if deleted < size:
                return Deleted(rows, chunk + bool(deleted))
        return Deleted(rows, most_chunks)

    def delete_through(self, time: int) -> Deleted:
        """Delete all rows up to a time (microseconds)."""
        return Deleted(sum(partition.retire(through=time) for partition in self.partitions), 1)

    def commit(self) -> None:
        """Make inserts and deletes since the last commit durable, in one transaction."""
        self._store.flush({_PARTITIONS: len(self.partitions)})

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(partition.rows for partition in self.partitions)

    @property
    def backlog(self) -> int:
        """Number of rows that wait to be deleted."""
        return sum(partition.backlog for partition in self.partitions)

    def summarize(self) -> Summary:
        """Return the number of rows that were inserted, that were deleted, and that are left."""
        counts = [partition.counts for partition in self.partitions]
        inserted, deleted = (sum(count[name] for count in counts) for name in ("added", "deleted"))
        return Summary(
            inserted=inserted,
            deleted=deleted,
            rows=self.rows,
            adds_up=inserted == deleted + self.rows,
        )

    def find_lag(self, now: int) -> int:
        """Return by how many milliseconds the oldest row is older than allowed."""
        times = (partition.oldest for partition in self.partitions)
        oldest = min((time for time in times if time is not None), default=now)
        history = self.options.historyseconds
        return max(0, (now - oldest) // 1000 - round(history * 1000)) if history else 0

    def find_maximum(self) -> int | None:
        """Return the greatest value; ``None`` for an empty table."""
        greatest: Any = self._select(None, None)["val"].max()
        return greatest

    def compute_average(self, seconds: float, now: int) -> float | None:
        """Return the average of the last seconds; ``None`` if there is no row in them."""
        mean: Any = self._select(now - round(seconds * 1_000_000) + 1, now)["val"].mean()
        return mean

    def _select(self, start: int | None, end: int | None) -> pl.DataFrame:
        parts = [partition.get_messages(start, end) for partition in self.partitions]
        return pl.concat([pl.DataFrame(schema=TUPLE), *(part for part in parts if len(part))])

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def add_up(parts: Iterable[Deleted]) -> Deleted:
    """Return the sum of deletions."""
    parts = list(parts)
    return Deleted(sum(part.rows for part in parts), sum(part.chunks for part in parts))
