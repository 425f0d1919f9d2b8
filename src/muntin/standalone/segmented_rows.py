"""Rows in columns, by segments of the time axis, of which the oldest are deleted.

Deletion takes the oldest rows first, in the order of time and then of arrival. So the deleted rows
of the oldest segment are a prefix of it, and only the length of that prefix is recorded. A segment
whose rows are all deleted is dropped unread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from muntin.engine.columns import TIME
from muntin.state.blobs import Blobs
from muntin.state.manifest import Run
from muntin.state.runs import FrameCache, Frames, find_extent, find_merge_start


class SegmentedRows:
    """The rows of a table, with their time in ``columns.TIME``.

    Args:
        blobs: The store.
        span: The length of a segment, microseconds.

    Attributes:
        floor: The time of the newest deleted row. Rows before it must not be added.
    """

    def __init__(self, blobs: Blobs, span: int) -> None:
        self.span = span
        self.floor: int | None = None
        self._frames = Frames(blobs, FrameCache())
        self._segments: dict[int, list[Run]] = {}
        self._remaining: dict[int, int] = {}
        # The number of deleted rows of the oldest segment.
        self._prefix = 0
        # The rows of the segment that was sorted last.
        self._sorted: tuple[int, pl.DataFrame] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what is stored besides the blobs."""
        runs = [run[:4] for runs in self._segments.values() for run in runs]
        return {"floor": self.floor, "prefix": self._prefix, "runs": runs}

    def resume(self, stored: dict[str, Any]) -> None:
        """Continue from what ``to_json`` returned."""
        self.floor, self._prefix = stored["floor"], stored["prefix"]
        for run in (Run(*entry) for entry in stored["runs"]):
            self._segments.setdefault(run.low // self.span, []).append(run)
        for segment, runs in self._segments.items():
            self._remaining[segment] = sum(run.rows for run in runs)
        if self._segments:
            self._remaining[self._first] -= self._prefix

    @property
    def _first(self) -> int:
        return min(self._segments)

    @property
    def count(self) -> int:
        """Number of rows."""
        return sum(self._remaining.values())

    @property
    def oldest(self) -> int | None:
        """The time of the oldest row; ``None`` if there is none."""
        return int(self._sort(self._first)[TIME][self._prefix]) if self._segments else None

    def read_schema(self) -> pl.Schema | None:
        """Return the columns of the rows; ``None`` if there are no rows."""
        run = next((runs[0] for runs in self._segments.values()), None)
        return None if run is None else self._frames.read(run.number).schema

    def add(self, rows: pl.DataFrame) -> None:
        """Add rows, in the order of their arrival."""
        segment = pl.col(TIME).floordiv(self.span).alias("segment")
        parts = rows.with_columns(segment).partition_by("segment", as_dict=True, include_key=False)
        for (number,), part in parts.items():
            self._append(int(number), part)

    def _append(self, segment: int, rows: pl.DataFrame) -> None:
        """Add rows to a segment as a run, and merge runs if there are too many."""
        runs = self._segments.setdefault(segment, [])
        runs.append(self._write(rows))
        self._remaining[segment] = self._remaining.get(segment, 0) + len(rows)
        self._forget_order(segment)
        start = find_merge_start(runs)
        if start is not None:
            # Later runs arrived later, which orders rows of one time.
            merged = pl.concat(self._read(runs[start:]))
            self._remove(runs[start:])
            runs[start:] = [self._write(merged)]

    def read(self, low: int | None, high: int | None) -> Iterator[pl.DataFrame]:
        """Yield the rows between two times, both included, in order."""
        for segment in sorted(self._segments):
            is_after = low is None or (segment + 1) * self.span > low
            is_before = high is None or segment * self.span <= high
            if not (is_after and is_before):
                continue
            if segment == self._first and self._prefix:
                rows = self._sort(segment)[self._prefix :]
            else:
                rows = _sort_by_time(self._read(self._segments[segment]))
            yield _take_range(rows, low, high)

    def count_through(self, time: int) -> int:
        """Return the number of rows up to a time."""
        last = time // self.span
        count = sum(n for segment, n in self._remaining.items() if segment < last)
        if last in self._segments:
            passed = int(self._sort(last)[TIME].search_sorted(time, side="right"))
            count += max(0, passed - (self._prefix if last == self._first else 0))
        return count

    def delete_oldest(self, count: int) -> None:
        """Delete the oldest rows; there must be so many."""
        while count:
            segment = self._first
            remaining = self._remaining[segment]
            if count < remaining:
                self._prefix += count
                self._remaining[segment] -= count
                self.floor = int(self._sort(segment)[TIME][self._prefix - 1])
                return
            runs = self._segments.pop(segment)
            del self._remaining[segment]
            self.floor, self._prefix = max(run.high for run in runs), 0
            self._remove(runs)
            self._forget_order(segment)
            count -= remaining

    def _sort(self, segment: int) -> pl.DataFrame:
        """Return the rows of a segment in order, deleted ones included."""
        if self._sorted is None or self._sorted[0] != segment:
            self._sorted = segment, _sort_by_time(self._read(self._segments[segment]))
        return self._sorted[1]

    def _forget_order(self, segment: int) -> None:
        if self._sorted is not None and self._sorted[0] == segment:
            self._sorted = None

    def _read(self, runs: Iterable[Run]) -> list[pl.DataFrame]:
        return [self._frames.read(run.number) for run in runs]

    def _write(self, rows: pl.DataFrame) -> Run:
        return Run(self._frames.write(rows), len(rows), *find_extent(rows[TIME]))

    def _remove(self, runs: Iterable[Run]) -> None:
        for run in runs:
            self._frames.remove(run.number)


def _sort_by_time(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Combine frames by time; rows of one time stay in the order of their arrival."""
    rows = pl.concat(frames, rechunk=False)
    return rows if rows[TIME].is_sorted() else rows.sort(TIME, maintain_order=True)


def _take_range(rows: pl.DataFrame, low: int | None, high: int | None) -> pl.DataFrame:
    """Return the rows, which are in order, between two times."""
    times = rows[TIME]
    first = 0 if low is None else int(times.search_sorted(low, side="left"))
    end = len(rows) if high is None else int(times.search_sorted(high, side="right"))
    return rows[first : max(first, end)]
