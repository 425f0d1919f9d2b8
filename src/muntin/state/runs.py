"""A columnar table in a store of blobs: runs by segment, appended, merged and dropped.

The rows lie on an axis (a pane or a window number) that is divided into **segments**. Each batch
adds one small blob, a **run**, to each segment that it changes. When a segment has too many
runs of similar size, they are merged into one, so that a row is rewritten a few times in its life,
and only because of its own segment. Expired rows are dropped with whole runs, or else when their
run is merged. This is a log-structured merge tree in columns.

A batch may not take long because the state is large. So once the runs of a segment have a million
rows, they are divided by ranges of their keys' hashes. From then on each range has runs of its own,
and a batch merges those of a few ranges; other ranges wait for the next batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import polars as pl

from muntin.state.blobs import Blobs
from muntin.state.frames import Complete, FrameCache, Frames
from muntin.state.lookup import (
    HASH_COLUMN,
    divide_by_hash,
    hash_keys,
    list_hash_ranges,
    select_keys,
    sort_by_hash,
)
from muntin.state.manifest import Run, select_overlapping
from muntin.state.rows import drop_columns, stack_rows

Merge = Callable[[Sequence[pl.DataFrame]], pl.DataFrame]

# Number of runs in a segment before those of similar size are merged.
MAX_RUNS = 8
# Number of rows in a segment's undivided runs before they are divided by ranges of hashes.
UNDIVIDED_ROWS = 1 << 20
# A batch merges runs of further ranges until it has rewritten this many times its own rows. A row
# is rewritten about twice, so that merging keeps up with the batches.
_MERGED_PER_ROW = 3
# Number of segments that the retained positions are divided into.
_SEGMENTS = 8


def find_merge_start(runs: Sequence[Run]) -> int | None:
    """Return the index of the first of the newest runs to merge, or ``None``."""
    if len(runs) <= MAX_RUNS:
        return None
    start, size = len(runs) - 1, runs[-1].rows
    while start > 0 and runs[start - 1].rows <= 2 * size:
        start -= 1
        size += runs[start].rows
    return None if start == len(runs) - 1 else start


class Runs:
    """One table of a shard.

    Args:
        axis: The column with a row's position.
        span: Number of positions per segment; ``None`` if rows of one identity have several
            positions, so that all rows are one segment.
        blobs: The store.
        cache: Decoded frames of this process.
        merge: Merges the rows of the same identity into one.
        stored: The result of ``entries`` when the manifest was written.
        keys: The key columns, if rows are looked up by key; this costs a sort.
        complete: Completes a frame that was read; see ``Frames``.
        settle: Drops rows of a merge that begins with the oldest run, such as deletions, which hide
            nothing any more.
        divided_by: The key columns by whose hash large segments are divided, if not ``keys``; a
            part of each row's identity.
    """

    traced = False

    def __init__(
        self,
        axis: str,
        span: int | None,
        blobs: Blobs,
        cache: FrameCache,
        merge: Merge,
        stored: Sequence[Run],
        keys: Sequence[str] = (),
        complete: Complete | None = None,
        settle: Complete | None = None,
        divided_by: Sequence[str] = (),
    ) -> None:
        self.keys = list(keys)
        self.divided_by = [] if self.traced else list(keys or divided_by)
        self.settle = settle
        self.axis = axis
        self.span = span
        self.frames = Frames(blobs, cache, complete)
        self.merge = merge
        self._first: int | None = None
        self._segments: dict[int, list[Run]] = {}
        self.put(stored)

    def put(self, stored: Sequence[Run]) -> None:
        """Replace the runs with stored ones."""
        self._segments = {}
        # The retention, and so the length of segments, may have changed since it was written, and
        # runs of other shards may have come. Within a segment, divided runs are the older ones.
        for run in sorted(stored, key=lambda run: run.hash_range is None):
            self._segments.setdefault(self._find_segment(run.low), []).append(run)

    def _find_segment(self, position: int) -> int:
        return 0 if self.span is None else position // self.span

    def entries(self) -> list[Run]:
        """Return the table's part of the manifest: its runs, oldest first within a segment."""
        return [run for runs in self._segments.values() for run in runs]

    @property
    def segments(self) -> list[int]:
        """The segments that have runs, in order."""
        return sorted(segment for segment, runs in self._segments.items() if runs)

    def list_runs(self, segment: int) -> Sequence[Run]:
        """Return the runs of a segment, oldest first."""
        return self._segments.get(segment, ())

    @property
    def rows(self) -> int:
        """Number of stored rows; a row counts once in each run."""
        return sum(run.rows for runs in self._segments.values() for run in runs)

    @property
    def low(self) -> int | None:
        """The least position of a row, or ``None``."""
        return min((r.low for runs in self._segments.values() for r in runs), default=None)

    @property
    def high(self) -> int | None:
        """The greatest position of a row, or ``None``."""
        return max((r.high for runs in self._segments.values() for r in runs), default=None)

    def append(self, frame: pl.DataFrame) -> None:
        """Add rows as new runs, and merge runs if there are too many."""
        if not len(frame):
            return
        low, high = find_extent(frame[self.axis])
        if self.span is None or self._find_segment(low) == self._find_segment(high):
            self._add_run(self._find_segment(low), frame, low, high)
            return
        segment = pl.Series("__segment", frame[self.axis].to_numpy() // self.span)
        parts = frame.hstack([segment]).partition_by("__segment", include_key=True)
        for part in parts:
            self._add_run(
                int(part["__segment"][0]),
                drop_columns(part, "__segment"),
                *find_extent(part[self.axis]),
            )

    def _add_run(self, segment: int, frame: pl.DataFrame, low: int, high: int) -> None:
        runs = self._segments.setdefault(segment, [])
        undivided = [run for run in runs if run.hash_range is None]
        rows = len(frame) + sum(run.rows for run in undivided)
        if self.divided_by and rows > UNDIVIDED_ROWS:
            self._divide(segment, undivided, (frame, low, high))
        else:
            runs.append(self._write_run(frame, low, high))
            self._fold(segment, [*undivided, runs[-1]])
        self._fold_ranges(segment, _MERGED_PER_ROW * len(frame))

    def _divide(self, segment: int, undivided: Sequence[Run], new: RangedFrame) -> None:
        """Replace the undivided runs of a segment, and new rows, with a run for each hash range."""
        frame, divided = new[0], self._segments[segment][: -len(undivided) or None]
        if undivided:
            frame = self._merge_frames([*self._read_ranged(undivided), new], not divided)
            self._remove(undivided)
        for hash_range, part in divide_by_hash(frame, self.divided_by, sort=bool(self.keys)):
            number, size = self.frames.write(part)
            extent = find_extent(part[self.axis])
            divided.append(Run(number, len(part), *extent, hash_range=hash_range, size=size))
        self._segments[segment] = divided

    def _fold_ranges(self, segment: int, enough: int) -> None:
        """Merge runs of the hash ranges with the most, until ``enough`` rows are merged."""
        runs = self._segments[segment]
        counts = Counter(run.hash_range for run in runs if run.hash_range is not None)
        merged = 0
        for hash_range, count in counts.most_common():
            if count <= MAX_RUNS or 0 < enough <= merged:
                return
            merged += self._fold(segment, [run for run in runs if run.hash_range == hash_range])

    def _fold(self, segment: int, runs: Sequence[Run]) -> int:
        """Merge the newest of some runs, if too many are of similar size; return the rows read.

        The runs are all undivided ones of a segment, or all of a hash range, oldest first.
        """
        start = find_merge_start(runs)
        if start is None:
            return 0
        replaced, others = runs[start:], self._segments[segment]
        has_older = start > 0 or (runs[0].hash_range is None and others[0].hash_range is not None)
        merged = self._merge_runs(replaced, not has_older)
        self._remove(replaced)
        if self._first is not None and min(r.low for r in replaced) < self._first:
            merged = merged.filter(pl.col(self.axis) >= self._first)
        of = tuple(run.number for run in replaced) if self.traced else ()
        index = others.index(replaced[0])
        others[index:] = [run for run in others[index:] if run not in replaced]
        if len(merged):
            extent = find_extent(merged[self.axis])
            others.insert(index, self._write_run(merged, *extent, of, replaced[0].hash_range))
        return sum(run.rows for run in replaced)

    def _merge_runs(self, runs: Sequence[Run], oldest: bool) -> pl.DataFrame:
        """Merge runs; ``oldest`` is true if nothing is stored before them."""
        return self._merge_frames(self._read_ranged(runs), oldest)

    def _merge_frames(self, frames: Sequence[RangedFrame], oldest: bool) -> pl.DataFrame:
        if self.span is None:
            merged = self.merge([frame for frame, _, _ in frames])
            return merged if self.settle is None or not oldest else self.settle(merged)
        return join_runs(frames, self.axis, self.merge)

    def _remove(self, runs: Sequence[Run]) -> None:
        for run in runs:
            self.frames.remove(run.number)

    def _write_run(
        self,
        frame: pl.DataFrame,
        low: int,
        high: int,
        of: tuple[int, ...] = (),
        hash_range: int | None = None,
    ) -> Run:
        if self.keys:
            frame = sort_by_hash(frame, self.keys)
        number, size = self.frames.write(frame)
        return Run(number, len(frame), low, high, of, hash_range, size)

    def _read_without_hash(self, run: Run) -> pl.DataFrame:
        # The frame may have been written with or without the hash of the key.
        return drop_columns(self.frames.read(run.number), HASH_COLUMN)

    def _read_ranged(self, runs: Sequence[Run]) -> list[RangedFrame]:
        return [(self._read_without_hash(run), run.low, run.high) for run in runs]

    def _read_by_hash(self, run: Run) -> pl.DataFrame:
        frame = self.frames.read(run.number)
        return frame if HASH_COLUMN in frame.columns else sort_by_hash(frame, self.keys)

    def read(
        self, low: int | None = None, high: int | None = None, only: pl.DataFrame | None = None
    ) -> list[pl.DataFrame]:
        """Return the rows of the runs that overlap a range (both ends included), oldest first.

        With ``only``, which lists each key once, return only the rows of these keys; the table
        needs ``keys`` then.
        """
        return [frame for frame, _, _ in self.read_with_ranges(low, high, only)]

    def read_with_ranges(
        self, low: int | None = None, high: int | None = None, only: pl.DataFrame | None = None
    ) -> list[RangedFrame]:
        """Return the rows of each run that overlaps the range, and the run's own range.

        Runs of the same age, of different ranges of hashes, are returned as one.
        """
        runs = self._select_runs(low, high)
        if only is None:
            return self._stack((run, self._read_without_hash(run)) for run in runs)
        if not len(only):
            return []
        hashes, only = hash_keys(only, self.keys), only[self.keys]
        ranges = list_hash_ranges(hashes)
        candidates = [run for run in runs if run.hash_range is None or run.hash_range in ranges]
        by_schema: dict[Any, dict[int, pl.DataFrame]] = {}
        for run in candidates:
            frame = self._read_by_hash(run)
            by_schema.setdefault(tuple(frame.schema.items()), {})[run.number] = frame
        selected: dict[int, pl.DataFrame] = {}
        for frames in by_schema.values():
            rows = select_keys([*frames.values()], only, self.keys, hashes)
            selected |= {n: own for n, own in zip(frames, rows, strict=True) if len(own)}
        return self._stack(
            (run, selected[run.number]) for run in candidates if run.number in selected
        )

    def _stack(self, frames: Iterable[tuple[Run, pl.DataFrame]]) -> list[RangedFrame]:
        """Concatenate frames of the same age and columns, of different ranges of hashes."""
        layers: dict[Any, list[RangedFrame]] = {}
        ages: Counter[Any] = Counter()
        for run, frame in frames:
            segment, undivided = self._find_segment(run.low), run.hash_range is None
            ages[segment, run.hash_range] += 1
            layer = segment, undivided, ages[segment, run.hash_range], tuple(frame.columns)
            layers.setdefault(layer, []).append((frame, run.low, run.high))
        return [_concat(layers[layer]) for layer in sorted(layers)]

    def _select_runs(self, low: int | None, high: int | None) -> list[Run]:
        return [
            run
            for segment in sorted(self._segments)
            for run in select_overlapping(self._segments[segment], low, high)
        ]

    def rewrite(self, frame: pl.DataFrame) -> None:
        """Replace everything."""
        self.drop_before(None)
        self.append(frame)

    def drop_segment(self, segment: int) -> None:
        """Drop a segment without reading it."""
        self._remove(self._segments.pop(segment, ()))

    def drop_before(self, position: int | None) -> None:
        """Drop every run that is entirely before a position; all runs for ``None``.

        Other rows before the position are dropped when their run is merged.
        """
        self._first = position
        for segment in [s for s in self._segments if self._may_have_rows_before(s, position)]:
            remaining = []
            for run in self._segments[segment]:
                if position is None or run.high < position:
                    self.frames.remove(run.number)
                else:
                    remaining.append(run)
            self._segments[segment] = remaining
            if not remaining:
                del self._segments[segment]

    def _may_have_rows_before(self, segment: int, position: int | None) -> bool:
        return position is None or self.span is None or segment * self.span < position


def _concat(frames: Sequence[RangedFrame]) -> RangedFrame:
    """Concatenate frames of the same columns, of which there is at least one."""
    if len(frames) == 1:
        return frames[0]
    rows = stack_rows([frame for frame, _, _ in frames])
    return rows, min(low for _, low, _ in frames), max(high for _, _, high in frames)


def deduplicate(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Merge rows whose columns are their identity by removing duplicates."""
    return stack_rows(frames).unique()


RangedFrame = tuple[pl.DataFrame, int, int]


def segment_length(positions: int) -> int:
    """Return the length of a segment, for a table that retains this many positions."""
    return max(1, positions // _SEGMENTS)


def find_extent(positions: pl.Series) -> tuple[int, int]:
    """Return the least and the greatest of positions, of which there is at least one."""
    return int(positions.min()), int(positions.max())  # type: ignore[arg-type]


def select_between(frame: pl.DataFrame, axis: str, low: int, high: int) -> pl.DataFrame:
    """Return the rows between two positions, both included; often these are all."""
    if len(frame):
        first, last = find_extent(frame[axis])
        if first < low or last > high:
            return frame.filter(pl.col(axis).is_between(low, high))
    return frame


def add_range(frame: pl.DataFrame, axis: str) -> RangedFrame:
    """Return a frame, not empty, with its least and greatest position."""
    return frame, *find_extent(frame[axis])


def join_runs(frames: Sequence[RangedFrame], axis: str, merge: Merge) -> pl.DataFrame:
    """Combine frames into one, merging only where they overlap on the axis.

    Batches of nearly ordered input overlap in a position or two, so nearly all rows are passed on
    unchanged.
    """
    if len(frames) == 1:
        return frames[0][0]
    shared = _find_overlaps([(low, high) for _, low, high in frames])
    if not shared:
        return pl.concat([f for f, _, _ in frames], how="diagonal")
    inside = pl.any_horizontal([pl.col(axis).is_between(low, high) for low, high in shared])
    alone, overlapping = [], []
    for frame, first, last in frames:
        if any(low <= first and last <= high for low, high in shared):
            overlapping.append(frame)
        else:
            overlapping.append(frame.filter(inside))
            alone.append(frame.filter(~inside))
    return pl.concat([*(f for f in alone if len(f)), merge(overlapping)], how="diagonal")


def _find_overlaps(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges that are in at least two of the given ranges."""
    overlaps: list[tuple[int, int]] = []
    highest: int | None = None
    for low, high in sorted(ranges):
        if highest is not None and low <= highest:
            shared = (low, min(high, highest))
            if overlaps and shared[0] <= overlaps[-1][1] + 1:
                shared = (overlaps[-1][0], max(overlaps[-1][1], shared[1]))
                overlaps.pop()
            overlaps.append(shared)
        highest = high if highest is None else max(highest, high)
    return overlaps
