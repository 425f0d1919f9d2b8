"""One bucket's rows, oldest first, and what deleting the oldest costs: nearly nothing.

Rows are always deleted from the old end, in the order of time and then of arrival. So what is
deleted is one **mark** that moves: everything before it is gone. Whole runs of rows that it passes
are dropped unread; the one that it stands in stays until it is passed. Beside the rows there are
**cells**, one a millisecond (how many rows, their sum, their greatest value), and a count and a
maximum for each segment. Where the mark stands inside a millisecond, what is left of that one is
computed from its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from muntin.apps.windowing.ledger import Place
from muntin.apps.windowing.tuples import TIME, VALUE
from muntin.state.blobs import Blobs
from muntin.state.manifest import Manifest, Run
from muntin.state.runs import FrameCache, Runs, join_runs

COUNT, SUM, MOST = "n", "sum", "max"
_CELLS = pl.Schema({TIME: pl.Int64, COUNT: pl.Int64, SUM: pl.Int64, MOST: pl.Int64})
_ROW_BYTES = 32


@dataclass
class Mark:
    """Up to where rows are deleted.

    Attributes:
        time: Everything earlier is gone.
        gone: How many rows of that time are gone too.
        left: Of that time, where some are gone: how many are left, their sum, their maximum.
    """

    time: int
    gone: int = 0
    left: tuple[int, int, int | None] = (0, 0, None)

    @property
    def first(self) -> int:
        """The least time whose cell is whole."""
        return self.time + 1 if self.gone else self.time


class History:
    """The rows of a bucket."""

    def __init__(self, blobs: Blobs, cache: FrameCache, stored: Manifest, width: int) -> None:
        self.width = width
        self._rows = Runs(TIME, width, blobs, cache, _in_order, stored.tables.get("rows", ()))
        self._cells = Runs(TIME, width, blobs, cache, _merged, stored.tables.get("cells", ()))
        mark = stored.extra.get("mark")
        self.mark = None if mark is None else Mark(mark[0], mark[1], tuple(mark[2]))
        # Of each segment: how many rows are left, and their maximum.
        segments = stored.extra.get("segments", ())
        self._segments: dict[int, tuple[int, int]] = {s: (n, m) for s, n, m in segments}

    @property
    def tables(self) -> dict[str, list[Run]]:
        """The runs of each table."""
        return {"rows": self._rows.entries(), "cells": self._cells.entries()}

    @property
    def extra(self) -> dict[str, Any]:
        """What else has to be known at the next batch, as JSON can hold it."""
        mark = self.mark
        return {
            "mark": None if mark is None else [mark.time, mark.gone, list(mark.left)],
            "segments": [[s, n, m] for s, (n, m) in sorted(self._segments.items())],
        }

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(n for n, _ in self._segments.values())

    @property
    def bytes(self) -> int:
        """How many bytes the rows take that are stored, with those not yet dropped."""
        return self._rows.rows * _ROW_BYTES

    @property
    def greatest(self) -> int | None:
        """The greatest value; ``None`` where there is no row."""
        return max((m for _, m in self._segments.values()), default=None)

    @property
    def oldest(self) -> int | None:
        """The time of the oldest row; ``None`` where there is none."""
        if not self._segments:
            return None
        cells = self._live(min(self._segments))
        return int(cells[TIME][0])

    @property
    def end(self) -> Place:
        """The place behind the newest row; there has to be one."""
        return int(self._live(max(self._segments))[TIME][-1]) + 1, 0

    def stored(self) -> list[pl.DataFrame]:
        """All that is stored of rows, deleted ones among them, oldest run first."""
        return self._rows.read()

    def clear(self) -> None:
        """Forget all rows."""
        self._rows.drop_before(None)
        self._cells.drop_before(None)
        self._segments = {}
        self.mark = None

    def insert(self, rows: pl.DataFrame) -> int:
        """Insert rows.

        Args:
            rows: The columns of ``SCHEMA``, in the order of their arrival.

        Returns:
            How many of them lie where everything is deleted, and so are deleted at once.
        """
        rows = _in_order([rows])
        given = len(rows)
        if self.mark is not None:
            rows = rows.filter(pl.col(TIME) >= self.mark.time)
        if not len(rows):
            return given
        self._rows.append(rows)
        cells = _cells_of(rows)
        self._cells.append(cells)
        if self.mark is not None and self.mark.gone:
            more = cells.filter(pl.col(TIME) == self.mark.time)
            self.mark.left = _joined(self.mark.left, _totals(more))
        self._count(cells)
        return given - len(rows)

    def _count(self, cells: pl.DataFrame) -> None:
        segment = (pl.col(TIME) // self.width).alias("segment")
        news = cells.group_by(segment).agg(pl.col(COUNT).sum(), pl.col(MOST).max())
        for number, n, most in news.select("segment", COUNT, MOST).iter_rows():
            held, high = self._segments.get(number, (0, most))
            self._segments[number] = (held + n, max(high, most))

    def before(self, place: Place) -> int:
        """How many rows lie before a place."""
        time, gone = place
        segment = time // self.width
        found = sum(n for s, (n, _) in self._segments.items() if s < segment)
        if segment not in self._segments:
            return found
        cells = self._live(segment)
        found += int(cells.filter(pl.col(TIME) < time)[COUNT].sum())
        there = int(cells.filter(pl.col(TIME) == time)[COUNT].sum())
        return found + min(there, max(0, gone - self._gone_at(time)))

    def place_of(self, count: int) -> Place:
        """The place that so many rows lie before, of those that there are."""
        for segment in sorted(self._segments):
            held = self._segments[segment][0]
            if count >= held:
                count -= held
                continue
            cells = self._live(segment)
            ends = np.cumsum(cells[COUNT].to_numpy())
            line = int(np.searchsorted(ends, count, side="right"))
            time = int(cells[TIME][line])
            inside = count - (int(ends[line - 1]) if line else 0)
            return time, inside + self._gone_at(time) if inside else self._gone_at(time)
        return self.end

    def _gone_at(self, time: int) -> int:
        return self.mark.gone if self.mark is not None and self.mark.time == time else 0

    def delete_before(self, place: Place) -> int:
        """Delete all rows before a place.

        Args:
            place: A time, and how many rows of that time go too (those deleted earlier counted).
        """
        time, gone = place
        known = self.mark
        if known is not None and (time, gone) <= (known.time, known.gone):
            return 0
        deleted = self.before(place)
        self.mark = Mark(time, gone, self._left_at(time, gone) if gone else (0, 0, None))
        self._rows.drop_before(time)
        self._cells.drop_before(time)
        segment = time // self.width
        for number in [s for s in self._segments if s <= segment]:
            del self._segments[number]
        self._count(self._live(segment))
        return deleted

    def _left_at(self, time: int, gone: int) -> tuple[int, int, int | None]:
        """What is left of a millisecond when its first rows are gone."""
        runs = [frame.filter(pl.col(TIME) == time) for frame in self._rows.read(time, time)]
        return _totals(_cells_of(pl.concat(runs)[gone:])) if runs else (0, 0, None)

    def _live(self, segment: int) -> pl.DataFrame:
        """The cells of a segment, in order, without what is deleted."""
        return self.cells(segment * self.width, (segment + 1) * self.width - 1)

    def cells(self, low: int, high: int) -> pl.DataFrame:
        """What is left of each millisecond.

        Returns:
            ``ts``, ``n``, ``sum`` and ``max``, in order; milliseconds without rows aren't there.
        """
        first = low if self.mark is None else max(low, self.mark.first)
        runs = self._cells.ranged(first, high) if first <= high else []
        whole = join_runs(runs, TIME, _merged) if runs else pl.DataFrame(schema=_CELLS)
        whole = whole.filter(pl.col(TIME).is_between(first, high))
        mark = self.mark
        if mark is not None and mark.gone and mark.left[0] and low <= mark.time <= high:
            cut = pl.DataFrame([(mark.time, *mark.left)], schema=_CELLS, orient="row")
            whole = pl.concat([cut, whole])
        return whole.sort(TIME)


def _in_order(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Rows by time; those of one time in the order of their arrival."""
    whole = frames[0] if len(frames) == 1 else pl.concat(frames)
    return whole if whole[TIME].is_sorted() else whole.sort(TIME, maintain_order=True)


def _cells_of(rows: pl.DataFrame) -> pl.DataFrame:
    value = pl.col(VALUE)
    parts = (pl.len().cast(pl.Int64).alias(COUNT), value.sum().alias(SUM), value.max().alias(MOST))
    return rows.group_by(TIME).agg(*parts)


def _merged(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    parts = (pl.col(COUNT).sum(), pl.col(SUM).sum(), pl.col(MOST).max())
    return pl.concat(frames).group_by(TIME).agg(*parts)


def _totals(cells: pl.DataFrame) -> tuple[int, int, int | None]:
    if not len(cells):
        return 0, 0, None
    return int(cells[COUNT].sum()), int(cells[SUM].sum()), int(cells[MOST].max())  # type: ignore[arg-type]


def _joined(
    one: tuple[int, int, int | None], other: tuple[int, int, int | None]
) -> tuple[int, int, int | None]:
    known = [most for most in (one[2], other[2]) if most is not None]
    return one[0] + other[0], one[1] + other[1], max(known, default=None)
