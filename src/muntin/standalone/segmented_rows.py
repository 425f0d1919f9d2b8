"""Rows in columns, by segments of the time axis, of which the oldest are deleted.

Deletion takes the oldest rows first, in the order of time and then of arrival. So the deleted rows
of the oldest segment are a prefix of it, and only the length of that prefix is recorded. A segment
whose rows are all deleted is dropped unread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from muntin.engine.columns import TIME
from muntin.state.blobs import Blobs
from muntin.state.frames import FrameCache
from muntin.state.manifest import Run
from muntin.state.runs import Runs


class SegmentedRows:
    """The rows of a table, with their time in ``columns.TIME``; ``span`` is a segment's length.

    Attributes:
        floor: The time of the newest deleted row. Rows before it must not be added.
    """

    def __init__(self, blobs: Blobs, span: int) -> None:
        self.span = span
        self.floor: int | None = None
        self._runs = Runs(TIME, span, blobs, FrameCache(), pl.concat, ())
        # The number of deleted rows of the oldest segment.
        self._prefix = 0
        # The rows of the segment that was sorted last, with the numbers of its runs.
        self._sorted: tuple[list[int], pl.DataFrame] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what is stored besides the blobs."""
        runs = [run[:4] for run in self._runs.entries()]
        return {"floor": self.floor, "prefix": self._prefix, "runs": runs}

    def resume(self, stored: dict[str, Any]) -> None:
        """Continue from what ``to_json`` returned."""
        self.floor, self._prefix = stored["floor"], stored["prefix"]
        self._runs.put([Run(*entry) for entry in stored["runs"]])

    @property
    def count(self) -> int:
        """Number of rows."""
        return self._runs.rows - self._prefix

    @property
    def oldest(self) -> int | None:
        """The time of the oldest row; ``None`` if there is none."""
        segments = self._runs.segments
        return int(self._sort(segments[0])[TIME][self._prefix]) if segments else None

    def read_schema(self) -> pl.Schema | None:
        """Return the columns of the rows; ``None`` if there are no rows."""
        run = next(iter(self._runs.entries()), None)
        return None if run is None else self._runs.frames.read(run.number).schema

    def add(self, rows: pl.DataFrame) -> None:
        """Add rows, in the order of their arrival."""
        self._runs.append(rows)

    def read(self, low: int | None, high: int | None) -> Iterator[pl.DataFrame]:
        """Yield the rows between two times, both included, in order."""
        prefix = self._prefix
        for segment in self._runs.segments:
            is_after = low is None or (segment + 1) * self.span > low
            is_before = high is None or segment * self.span <= high
            if is_after and is_before:
                rows = self._sort(segment) if prefix else _sort_by_time(self._read(segment))
                yield _cut_range(rows[prefix:] if prefix else rows, low, high)
            prefix = 0

    def count_through(self, time: int) -> int:
        """Return the number of rows up to a time."""
        last, count, prefix = time // self.span, 0, self._prefix
        for segment in self._runs.segments:
            if segment > last:
                break
            rows = self._count_rows(segment)
            if segment == last:
                rows = int(self._sort(last)[TIME].search_sorted(time, side="right"))
            count += max(0, rows - prefix)
            prefix = 0
        return count

    def delete_oldest(self, count: int) -> None:
        """Delete the oldest rows; there must be so many."""
        while count:
            segment = self._runs.segments[0]
            remaining = self._count_rows(segment) - self._prefix
            if count < remaining:
                self._prefix += count
                self.floor = int(self._sort(segment)[TIME][self._prefix - 1])
                return
            self.floor, self._prefix = max(run.high for run in self._runs.list_runs(segment)), 0
            self._runs.drop_segment(segment)
            count -= remaining

    def _count_rows(self, segment: int) -> int:
        """Return the number of rows of a segment, deleted ones included."""
        return sum(run.rows for run in self._runs.list_runs(segment))

    def _sort(self, segment: int) -> pl.DataFrame:
        """Return the rows of a segment in order, deleted ones included."""
        numbers = [run.number for run in self._runs.list_runs(segment)]
        if self._sorted is None or self._sorted[0] != numbers:
            self._sorted = numbers, _sort_by_time(self._read(segment))
        return self._sorted[1]

    def _read(self, segment: int) -> list[pl.DataFrame]:
        return [self._runs.frames.read(run.number) for run in self._runs.list_runs(segment)]


def _sort_by_time(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Combine frames by time; rows of one time stay in the order of their arrival."""
    rows = pl.concat(frames, rechunk=False)
    return rows if rows[TIME].is_sorted() else rows.sort(TIME, maintain_order=True)


def _cut_range(rows: pl.DataFrame, low: int | None, high: int | None) -> pl.DataFrame:
    """Return the rows, which are in order, between two times."""
    times = rows[TIME]
    first = 0 if low is None else int(times.search_sorted(low, side="left"))
    end = len(rows) if high is None else int(times.search_sorted(high, side="right"))
    return rows[first : max(first, end)]
