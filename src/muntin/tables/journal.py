"""The changelog of a table's partition: runs of changed entries, by segment, in numbered blobs.

Each batch appends one run to each segment that it changed; runs of like size are folded, the newest
value of an entry winning, so that the changelog stays as long as the table is large and an entry
is rewritten a few times in its life. What has expired goes by whole segments. Recovery is the
replay of a segment's runs, when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from muntin.state.blobs import Blobs, MemoryBlobs
from muntin.state.manifest import Run
from muntin.state.runs import FrameCache, Runs
from muntin.tables.cells import PLACE, ByPlace, from_frame, newest, to_frame
from muntin.tables.typed import ValueCodec


class Journal(Runs):
    """The runs of one table in one partition."""

    traced = True

    def __init__(self, written: ValueCodec) -> None:
        # What is read is kept as values, and not as frames.
        super().__init__(PLACE, 1, MemoryBlobs(), FrameCache(0), pl.concat, ())
        self.written = written
        self._blobs: Blobs | None = None

    @property
    def blobs(self) -> Blobs | None:
        """Where the runs are; ``None`` keeps no changelog."""
        return self._blobs

    @blobs.setter
    def blobs(self, blobs: Blobs | None) -> None:
        self._blobs = blobs
        if blobs is not None:
            self.frames.blobs = blobs

    def open(self, blobs: Blobs | None, stored: Sequence[Run], span: int) -> None:
        """Go on from a commit."""
        self.blobs, self.span = blobs, span
        self.put(stored)

    @property
    def segments(self) -> list[int]:
        """The segments that have runs, in order."""
        return sorted(segment for segment, runs in self._segments.items() if runs)

    def runs(self, segment: int) -> Sequence[Run]:
        """The runs of a segment, oldest first."""
        return self._segments.get(segment, ())

    def values(self, run: Run) -> Iterator[tuple[int, Any, Any]]:
        """The entries of a run: place, key, and value or ``GONE``."""
        yield from from_frame(self._plain(run), self.written)

    def write(self, changed: ByPlace) -> None:
        """Write changed entries of one segment as a new run, and fold where there are too many."""
        if self.blobs is not None:
            self.append(to_frame(changed, self.written))

    def drop(self, segment: int) -> None:
        """Forget a segment, unread."""
        for run in self._segments.pop(segment, ()):
            self.frames.remove(run.number)

    def _folded(self, runs: Sequence[Run], oldest: bool) -> pl.DataFrame:
        # Before the oldest run nothing is that a deletion would have to hide.
        return newest([self._plain(run) for run in runs], gone=not oldest)
