"""One shard's rows, oldest first, with deletion of the oldest at almost no cost.

Rows are always deleted from the old end, in the order of time and then of arrival. So deletion is
one **mark** that moves: everything before it is deleted. Whole runs of rows before it
are dropped unread; the run that contains it stays until it is passed. Beside the rows there are
**cells**, one per millisecond (number of rows, their sum, their greatest value), and a count and a
maximum for each segment. If the mark is inside a millisecond, the rest of that millisecond is
computed from its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from muntin.apps.windowing.ledger import RowPosition
from muntin.apps.windowing.tuples import TIME, VALUE
from muntin.state.blobs import Blobs
from muntin.state.manifest import Manifest, Run
from muntin.state.runs import FrameCache, Runs, join_runs

COUNT, SUM, MOST = "n", "sum", "max"
_CELLS = pl.Schema({TIME: pl.Int64, COUNT: pl.Int64, SUM: pl.Int64, MOST: pl.Int64})
_ROW_BYTES = 32


@dataclass
class DeletionMark:
    """The position up to which rows are deleted.

    Attributes:
        time: Everything earlier is deleted.
        gone: Number of rows of that time that are deleted, too.
        left: If some rows of that time are deleted: the number of the others, their sum and
            maximum.
    """

    time: int
    gone: int = 0
    left: tuple[int, int, int | None] = (0, 0, None)

    @property
    def first(self) -> int:
        """The least time whose cell is complete."""
        return self.time + 1 if self.gone else self.time


class History:
    """The rows of a shard."""

    def __init__(self, blobs: Blobs, cache: FrameCache, stored: Manifest, width: int) -> None:
        self.width = width
        self._rows = Runs(TIME, width, blobs, cache, _sort_by_time, stored.tables.get("rows", ()))
        self._cells = Runs(TIME, width, blobs, cache, _merge_cells, stored.tables.get("cells", ()))
        mark = stored.extra.get("mark")
        self.mark = None if mark is None else DeletionMark(mark[0], mark[1], tuple(mark[2]))
        # The number of rows left in each segment, and their maximum.
        segments = stored.extra.get("segments", ())
        self._segments: dict[int, tuple[int, int]] = {s: (n, m) for s, n, m in segments}

    @property
    def tables(self) -> dict[str, list[Run]]:
        """The runs of each table."""
        return {"rows": self._rows.entries(), "cells": self._cells.entries()}

    @property
    def extra(self) -> dict[str, Any]:
        """Further state for the next batch, as plain JSON."""
        mark = self.mark
        return {
            "mark": None if mark is None else [mark.time, mark.gone, list(mark.left)],
            "segments": [[s, n, m] for s, (n, m) in sorted(self._segments.items())],
        }

    @property
    def count(self) -> int:
        """Number of rows."""
        return sum(n for n, _ in self._segments.values())

    @property
    def bytes(self) -> int:
        """The size of the stored rows, including those not dropped yet."""
        return self._rows.rows * _ROW_BYTES

    @property
    def greatest(self) -> int | None:
        """The greatest value; ``None`` if there is no row."""
        return max((m for _, m in self._segments.values()), default=None)

    @property
    def oldest(self) -> int | None:
        """The time of the oldest row; ``None`` if there is none."""
        if not self._segments:
            return None
        cells = self._read_live_cells(min(self._segments))
        return int(cells[TIME][0])

    @property
    def end(self) -> RowPosition:
        """The position after the newest row; there must be one."""
        return int(self._read_live_cells(max(self._segments))[TIME][-1]) + 1, 0

    def read_stored(self) -> list[pl.DataFrame]:
        """Return all stored rows, including deleted ones, oldest run first."""
        return self._rows.read()

    def clear(self) -> None:
        """Delete all rows."""
        self._rows.drop_before(None)
        self._cells.drop_before(None)
        self._segments = {}
        self.mark = None

    def insert(self, rows: pl.DataFrame) -> int:
        """Insert rows.

        Args:
            rows: The columns of ``TUPLE_SCHEMA``, in the order of their arrival.

        Returns:
            Number of rows before the mark, which are deleted at once.
        """
        rows = _sort_by_time([rows])
        count = len(rows)
        if self.mark is not None:
            rows = rows.filter(pl.col(TIME) >= self.mark.time)
        if not len(rows):
            return count
        self._rows.append(rows)
        cells = _build_cells(rows)
        self._cells.append(cells)
        if self.mark is not None and self.mark.gone:
            more = cells.filter(pl.col(TIME) == self.mark.time)
            self.mark.left = _add_totals(self.mark.left, _sum_cells(more))
        self._add_counts(cells)
        return count - len(rows)

    def _add_counts(self, cells: pl.DataFrame) -> None:
        segment = (pl.col(TIME) // self.width).alias("segment")
        news = cells.group_by(segment).agg(pl.col(COUNT).sum(), pl.col(MOST).max())
        for number, n, most in news.select("segment", COUNT, MOST).iter_rows():
            held, high = self._segments.get(number, (0, most))
            self._segments[number] = (held + n, max(high, most))

    def count_before(self, position: RowPosition) -> int:
        """Return the number of rows before a position."""
        time, gone = position
        segment = time // self.width
        count = sum(n for s, (n, _) in self._segments.items() if s < segment)
        if segment not in self._segments:
            return count
        cells = self._read_live_cells(segment)
        count += int(cells.filter(pl.col(TIME) < time)[COUNT].sum())
        count_at_time = int(cells.filter(pl.col(TIME) == time)[COUNT].sum())
        return count + min(count_at_time, max(0, gone - self._count_deleted_at(time)))

    def find_position(self, count: int) -> RowPosition:
        """Return the position after the first ``count`` rows."""
        for segment in sorted(self._segments):
            held = self._segments[segment][0]
            if count >= held:
                count -= held
                continue
            cells = self._read_live_cells(segment)
            ends = np.cumsum(cells[COUNT].to_numpy())
            line = int(np.searchsorted(ends, count, side="right"))
            time = int(cells[TIME][line])
            inside = count - (int(ends[line - 1]) if line else 0)
            return time, inside + self._count_deleted_at(
                time
            ) if inside else self._count_deleted_at(time)
        return self.end

    def _count_deleted_at(self, time: int) -> int:
        return self.mark.gone if self.mark is not None and self.mark.time == time else 0

    def delete_before(self, position: RowPosition) -> int:
        """Delete all rows before a position.

        Args:
            position: A time, and the number of rows of that time to delete (including deleted
                ones).

        Returns:
            Number of rows deleted now.
        """
        time, gone = position
        mark = self.mark
        if mark is not None and (time, gone) <= (mark.time, mark.gone):
            return 0
        deleted = self.count_before(position)
        self.mark = DeletionMark(
            time, gone, self._summarize_rest(time, gone) if gone else (0, 0, None)
        )
        self._rows.drop_before(time)
        self._cells.drop_before(time)
        segment = time // self.width
        for number in [s for s in self._segments if s <= segment]:
            del self._segments[number]
        self._add_counts(self._read_live_cells(segment))
        return deleted

    def _summarize_rest(self, time: int, gone: int) -> tuple[int, int, int | None]:
        """Summarize the rest of a millisecond after deleting its first rows."""
        runs = [frame.filter(pl.col(TIME) == time) for frame in self._rows.read(time, time)]
        return _sum_cells(_build_cells(pl.concat(runs)[gone:])) if runs else (0, 0, None)

    def _read_live_cells(self, segment: int) -> pl.DataFrame:
        """Return the cells of a segment, in order, without deleted rows."""
        return self.read_cells(segment * self.width, (segment + 1) * self.width - 1)

    def read_cells(self, low: int, high: int) -> pl.DataFrame:
        """Return the remaining cell of each millisecond.

        Returns:
            ``ts``, ``n``, ``sum`` and ``max``, in order; milliseconds without rows are absent.
        """
        first = low if self.mark is None else max(low, self.mark.first)
        runs = self._cells.read_with_ranges(first, high) if first <= high else []
        whole = join_runs(runs, TIME, _merge_cells) if runs else pl.DataFrame(schema=_CELLS)
        whole = whole.filter(pl.col(TIME).is_between(first, high))
        mark = self.mark
        if mark is not None and mark.gone and mark.left[0] and low <= mark.time <= high:
            cut = pl.DataFrame([(mark.time, *mark.left)], schema=_CELLS, orient="row")
            whole = pl.concat([cut, whole])
        return whole.sort(TIME)


def _sort_by_time(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Sort rows by time; rows of one time stay in the order of their arrival."""
    whole = frames[0] if len(frames) == 1 else pl.concat(frames)
    return whole if whole[TIME].is_sorted() else whole.sort(TIME, maintain_order=True)


def _build_cells(rows: pl.DataFrame) -> pl.DataFrame:
    value = pl.col(VALUE)
    parts = (pl.len().cast(pl.Int64).alias(COUNT), value.sum().alias(SUM), value.max().alias(MOST))
    return rows.group_by(TIME).agg(*parts)


def _merge_cells(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    parts = (pl.col(COUNT).sum(), pl.col(SUM).sum(), pl.col(MOST).max())
    return pl.concat(frames).group_by(TIME).agg(*parts)


def _sum_cells(cells: pl.DataFrame) -> tuple[int, int, int | None]:
    if not len(cells):
        return 0, 0, None
    return int(cells[COUNT].sum()), int(cells[SUM].sum()), int(cells[MOST].max())  # type: ignore[arg-type]


def _add_totals(
    one: tuple[int, int, int | None], other: tuple[int, int, int | None]
) -> tuple[int, int, int | None]:
    maxima = [most for most in (one[2], other[2]) if most is not None]
    return one[0] + other[0], one[1] + other[1], max(maxima, default=None)
