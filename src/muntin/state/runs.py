"""A columnar table in a store of blobs: runs of sorted-out segments, appended, folded, dropped.

The rows lie on an axis (a pane or a window number) that is cut into **segments**. Each batch adds
one small blob, a **run**, to each segment that it touches; when a segment has gathered too many
runs of like size, they are folded into one, so that a row is rewritten a few times in its life and
never because of a batch that doesn't concern it. What has expired goes by whole runs, and else when
its run is folded. This is a log-structured merge tree in columns.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Sequence

import polars as pl

from muntin.state.blobs import Blobs, blobs_of, drawn
from muntin.state.frames import decoded, encoded
from muntin.state.lookup import HASH, by_hash, of_keys
from muntin.state.manifest import Run, reaching

Merge = Callable[[Sequence[pl.DataFrame]], pl.DataFrame]
Complete = Callable[[pl.DataFrame], pl.DataFrame]

# How many runs a segment may gather before like-sized ones are folded.
MOST_RUNS = 8
# Into how many segments the places are cut that are kept.
_SEGMENTS = 8


class FrameCache:
    """Decoded blobs of this process, the least recently used dropped first.

    A blob's number is drawn at random and written once, so a cached frame is either the blob's
    content or belongs to a batch that was never committed and whose number nobody asks for: a
    retried batch can't read a wrong one.
    """

    def __init__(self, most_bytes: int = 512 << 20) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._frames: OrderedDict[int, tuple[pl.DataFrame, int]] = OrderedDict()
        self._owner: Hashable = None
        self._owned: dict[Hashable, set[int]] = {}

    def turn_to(self, owner: Hashable) -> None:
        """Say whose frames come next: a shard has a store of its own, a process several shards."""
        self._owner = owner

    def keep(self, numbers: Collection[int]) -> None:
        """Forget the frames of this owner that its store no longer has.

        Another process may have gone on with the shard meanwhile, and have dropped blobs there.
        """
        owned = self._owned.setdefault(self._owner, set())
        for number in owned.difference(numbers):
            self.drop(number)

    def get(self, number: int) -> pl.DataFrame | None:
        """The frame, if it's here."""
        found = self._frames.get(number)
        if found is None:
            return None
        self._frames.move_to_end(number)
        return found[0]

    def put(self, number: int, frame: pl.DataFrame) -> None:
        """Keep a frame, and drop others if it gets too much."""
        size = int(frame.estimated_size())
        if size > self.most_bytes:
            return
        self._frames[number] = (frame, size)
        self._owned.setdefault(self._owner, set()).add(number)
        self.bytes += size
        while self.bytes > self.most_bytes:
            _, (_, freed) = self._frames.popitem(last=False)
            self.bytes -= freed

    def drop(self, number: int) -> None:
        """Forget a frame."""
        self._owned.get(self._owner, set()).discard(number)
        found = self._frames.pop(number, None)
        if found is not None:
            self.bytes -= found[1]


class Frames:
    """Frames in a store, as blobs; decoded at most once by a process that remembers them."""

    def __init__(self, blobs: Blobs, cache: FrameCache, complete: Complete | None = None) -> None:
        self.blobs = blobs
        self.cache = cache
        self.complete = complete

    def write(self, frame: pl.DataFrame) -> int:
        """Write a frame under a new number."""
        blobs = encoded(frame)
        number = drawn(len(blobs))
        for one, blob in zip(blobs_of(number), blobs, strict=True):
            self.blobs.put(one, blob)
        self.cache.put(number, frame)
        return number

    def read(self, number: int) -> pl.DataFrame:
        """A frame that was written."""
        frame = self.cache.get(number)
        if frame is None:
            frame = decoded(map(self.blobs.get, blobs_of(number)))
            self.cache.put(number, frame)
        return frame if self.complete is None else self.complete(frame)

    def remove(self, number: int) -> None:
        """Forget a frame."""
        for one in blobs_of(number):
            self.blobs.remove(one)
        self.cache.drop(number)


def to_fold(runs: Sequence[Run]) -> int | None:
    """Return the first of the newest runs to fold into one, or ``None`` where none are due."""
    if len(runs) <= MOST_RUNS:
        return None
    start, size = len(runs) - 1, runs[-1].rows
    while start > 0 and runs[start - 1].rows <= 2 * size:
        start -= 1
        size += runs[start].rows
    return None if start == len(runs) - 1 else start


class Runs:
    """One table of a shard.

    Args:
        axis: The column that says where a row lies.
        span: How many places make a segment; ``None`` where rows of one identity lie at several
            places, so that all are folded together.
        blobs: The store.
        cache: Decoded blobs of this process.
        merge: Makes one row of rows of the same identity.
        stored: What ``entries`` gave when the manifest was written.
        keys: The key columns, where rows of some keys will be looked up; that costs a sort.
        complete: See ``Frames``.
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
    ) -> None:
        self.keys = list(keys)
        self.axis = axis
        self.span = span
        self.frames = Frames(blobs, cache, complete)
        self.merge = merge
        self._first: int | None = None
        self._segments: dict[int, list[Run]] = {}
        self.put(stored)

    def put(self, stored: Sequence[Run]) -> None:
        """Go on from these runs."""
        self._segments = {}
        # What is kept may be another now than when it was written, and so the segments' length.
        for run in stored:
            self._segments.setdefault(self._segment(run.low), []).append(run)

    def _segment(self, place: int) -> int:
        return 0 if self.span is None else place // self.span

    def entries(self) -> list[Run]:
        """The table's part of the manifest: its runs, those of a segment oldest first."""
        return [run for runs in self._segments.values() for run in runs]

    @property
    def rows(self) -> int:
        """Number of stored rows; a row counts once for each run that has it."""
        return sum(run.rows for runs in self._segments.values() for run in runs)

    @property
    def low(self) -> int | None:
        """The least place that some row lies at."""
        return min((r.low for runs in self._segments.values() for r in runs), default=None)

    @property
    def high(self) -> int | None:
        """The greatest place that some row lies at."""
        return max((r.high for runs in self._segments.values() for r in runs), default=None)

    def append(self, frame: pl.DataFrame) -> None:
        """Add rows as new runs, and fold where too many have gathered."""
        if not len(frame):
            return
        low, high = extent(frame[self.axis])
        if self.span is None or self._segment(low) == self._segment(high):
            self._add(self._segment(low), frame, low, high)
            return
        segment = (pl.col(self.axis).floordiv(self.span)).alias("__segment")
        parts = frame.with_columns(segment).partition_by("__segment", include_key=True)
        for part in parts:
            self._add(int(part["__segment"][0]), part.drop("__segment"), *extent(part[self.axis]))

    def _add(self, segment: int, frame: pl.DataFrame, low: int, high: int) -> None:
        runs = self._segments.setdefault(segment, [])
        runs.append(self._write(frame, low, high))
        start = to_fold(runs)
        if start is None:
            return
        folded = runs[start:]
        merged = self._folded(folded, start == 0)
        for run in folded:
            self.frames.remove(run.number)
        if self._first is not None and min(r.low for r in folded) < self._first:
            merged = merged.filter(pl.col(self.axis) >= self._first)
        of = tuple(run.number for run in folded) if self.traced else ()
        runs[start:] = [self._write(merged, *extent(merged[self.axis]), of)] if len(merged) else []

    def _folded(self, runs: Sequence[Run], oldest: bool) -> pl.DataFrame:
        """The rows of some runs; ``oldest`` where nothing is stored before them."""
        if self.span is None:
            return self.merge([self._plain(run) for run in runs])
        frames = [(self._plain(run), run.low, run.high) for run in runs]
        return join_runs(frames, self.axis, self.merge)

    def _write(self, frame: pl.DataFrame, low: int, high: int, of: tuple[int, ...] = ()) -> Run:
        if self.keys:
            frame = by_hash(frame, self.keys)
        return Run(self.frames.write(frame), len(frame), low, high, of)

    def _plain(self, run: Run) -> pl.DataFrame:
        # It may have been written without the hash of the key, or with it.
        return self.frames.read(run.number).drop(HASH, strict=False)

    def _by_hash(self, run: Run) -> pl.DataFrame:
        frame = self.frames.read(run.number)
        return frame if HASH in frame.columns else by_hash(frame, self.keys)

    def read(
        self, low: int | None = None, high: int | None = None, only: pl.DataFrame | None = None
    ) -> list[pl.DataFrame]:
        """The rows of the runs that reach into a stretch (both ends included), oldest first.

        Of some keys, each given once, only their rows; ``keys`` must name the columns then.
        """
        return [frame for frame, _, _ in self.ranged(low, high, only)]

    def ranged(
        self, low: int | None = None, high: int | None = None, only: pl.DataFrame | None = None
    ) -> list[Ranged]:
        """Return the rows of each run that overlaps the range, and the run's own range."""
        runs = self._between(low, high)
        if only is None:
            return [(self._plain(run), run.low, run.high) for run in runs]
        found = of_keys(map(self._by_hash, runs), self.keys, only) if runs else []
        return [
            (frame, run.low, run.high)
            for frame, run in zip(found, runs, strict=True)
            if frame is not None and len(frame)
        ]

    def _between(self, low: int | None, high: int | None) -> list[Run]:
        return [
            run
            for segment in sorted(self._segments)
            for run in reaching(self._segments[segment], low, high)
        ]

    def rewrite(self, frame: pl.DataFrame) -> None:
        """Replace everything."""
        self.drop_before(None)
        self.append(frame)

    def drop_before(self, place: int | None) -> None:
        """Drop every run that lies wholly before a place; all of them for ``None``.

        Other rows before the place go when their run is folded.
        """
        self._first = place
        for segment in [s for s in self._segments if self._may_lie_before(s, place)]:
            kept = []
            for run in self._segments[segment]:
                if place is None or run.high < place:
                    self.frames.remove(run.number)
                else:
                    kept.append(run)
            self._segments[segment] = kept
            if not kept:
                del self._segments[segment]

    def _may_lie_before(self, segment: int, place: int | None) -> bool:
        return place is None or self.span is None or segment * self.span < place


def each_once(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Merge rows whose columns are their identity: each is kept once."""
    return pl.concat(frames).unique()


Ranged = tuple[pl.DataFrame, int, int]


def segment_length(places: int) -> int:
    """Return the length of a segment, for a table that keeps rows of so many places."""
    return max(1, places // _SEGMENTS)


def extent(places: pl.Series) -> tuple[int, int]:
    """The least and the greatest of places, of which there is one at least."""
    return int(places.min()), int(places.max())  # type: ignore[arg-type]


def ranged(frame: pl.DataFrame, axis: str) -> Ranged:
    """A frame, not empty, with its least and greatest place."""
    return frame, *extent(frame[axis])


def join_runs(frames: Sequence[Ranged], axis: str, merge: Merge) -> pl.DataFrame:
    """One frame out of several, merging only where they overlap on the axis.

    Batches of nearly ordered input overlap in a place or two, so that nearly all rows are passed
    on as they are.
    """
    if len(frames) == 1:
        return frames[0][0]
    shared = _overlaps([(low, high) for _, low, high in frames])
    if not shared:
        return pl.concat([f for f, _, _ in frames], how="diagonal")
    inside = pl.any_horizontal([pl.col(axis).is_between(low, high) for low, high in shared])
    alone = [f.filter(~inside) for f, _, _ in frames]
    merged = merge([f.filter(inside) for f, _, _ in frames])
    return pl.concat([*(f for f in alone if len(f)), merged], how="diagonal")


def _overlaps(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The stretches that lie in two ranges or more."""
    found: list[tuple[int, int]] = []
    reach: int | None = None
    for low, high in sorted(ranges):
        if reach is not None and low <= reach:
            shared = (low, min(high, reach))
            if found and shared[0] <= found[-1][1] + 1:
                shared = (found[-1][0], max(found[-1][1], shared[1]))
                found.pop()
            found.append(shared)
        reach = high if reach is None else max(reach, high)
    return found
