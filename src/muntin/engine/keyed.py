"""A columnar table looked up by key: a log-structured merge tree of runs sorted by the key's hash.

Each batch appends one run; when too many of like size have gathered they are folded into one. A
lookup searches the sorted hashes of each run, so that it costs what the batch asks for and not
what the table holds. Rows carry a **place**, and a run whose places have all expired is dropped
unread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from muntin.engine.lookup import HASH, by_hash, of_keys
from muntin.engine.runs import Blobs, Complete, FrameCache, Frames, Merge, Run, to_fold


class KeyedRuns:
    """One table of a shard.

    Args:
        keys: The key columns.
        place: The column that says when a row expires.
        blobs: The store.
        cache: Decoded blobs of this process.
        merge: Makes fewer rows of the rows of several runs, older runs first.
        stored: What ``entries`` gave when the manifest was written.
        complete: See ``Frames``.
    """

    def __init__(
        self,
        keys: Sequence[str],
        place: str,
        blobs: Blobs,
        cache: FrameCache,
        merge: Merge,
        stored: Any,
        complete: Complete | None = None,
    ) -> None:
        self.keys = list(keys)
        self.place = place
        self.frames = Frames(blobs, cache, complete)
        self.merge = merge
        self._first: int | None = None
        self._runs = [Run(*run) for run in stored or []]

    def entries(self) -> list[list[int]]:
        """The table's part of the manifest."""
        return [[run.number, run.rows, run.low, run.high] for run in self._runs]

    @property
    def rows(self) -> int:
        """How many rows are stored, a row counted once a run that has it."""
        return sum(run.rows for run in self._runs)

    def append(self, frame: pl.DataFrame) -> None:
        """Add rows as a new run, newer than all others, and fold where too many have gathered."""
        if not len(frame):
            return
        self._runs.append(self._write(frame))
        start = to_fold(self._runs)
        if start is None:
            return
        folded = self._runs[start:]
        merged = self.merge([self.frames.read(run.number).drop(HASH) for run in folded])
        for run in folded:
            self.frames.remove(run.number)
        if self._first is not None:
            merged = merged.filter(pl.col(self.place) >= self._first)
        self._runs[start:] = [self._write(merged)] if len(merged) else []

    def of(self, who: pl.DataFrame) -> list[pl.DataFrame]:
        """The rows of some keys, a frame a run, oldest first.

        Args:
            who: The keys, each once.
        """
        frames = [of_keys(self.frames.read(run.number), self.keys, who) for run in self._runs]
        return [frame for frame in frames if len(frame)]

    def everything(self) -> list[pl.DataFrame]:
        """All rows, a frame a run, oldest first."""
        return [self.frames.read(run.number).drop(HASH) for run in self._runs]

    def drop_before(self, place: int | None) -> None:
        """Drop every run that lies wholly before a place; all of them for ``None``.

        Other rows before the place go when their run is folded.
        """
        self._first = place
        kept = []
        for run in self._runs:
            if place is None or run.high < place:
                self.frames.remove(run.number)
            else:
                kept.append(run)
        self._runs = kept

    def _write(self, frame: pl.DataFrame) -> Run:
        frame = by_hash(frame, self.keys)
        places = frame[self.place]
        ends = int(places.min()), int(places.max())  # type: ignore[arg-type]
        return Run(self.frames.write(frame), len(frame), *ends)
