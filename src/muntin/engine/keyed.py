"""A columnar table looked up by key: a log-structured merge tree of runs sorted by the key's hash.

Each batch appends one run; when too many of like size have gathered they are folded into one. A
lookup searches the sorted hashes of each run, so that it costs what the batch asks for and not
what the table holds. Rows carry a **place**, and a run whose places have all expired is dropped
unread.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import polars as pl

from muntin.engine.codec import decode, encode
from muntin.engine.lookup import HASH, by_hash, of_keys
from muntin.engine.runs import MOST_RUNS, Blobs, FrameCache, Merge, Run


class KeyedRuns:
    """One table of a shard.

    Args:
        keys: The key columns.
        place: The column that says when a row expires.
        blobs: The store.
        cache: Decoded blobs of this process.
        merge: Makes fewer rows of the rows of several runs, older runs first.
        stored: What ``entries`` gave when the manifest was written.
    """

    def __init__(
        self,
        keys: Sequence[str],
        place: str,
        blobs: Blobs,
        cache: FrameCache,
        merge: Merge,
        stored: Any,
    ) -> None:
        self.keys = list(keys)
        self.place = place
        self.blobs = blobs
        self.cache = cache
        self.merge = merge
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
        if len(self._runs) <= MOST_RUNS:
            return
        start, size = len(self._runs) - 1, self._runs[-1].rows
        while start > 0 and self._runs[start - 1].rows <= 2 * size:
            start -= 1
            size += self._runs[start].rows
        if start == len(self._runs) - 1:
            return
        folded = self._runs[start:]
        merged = self.merge([self._read(run).drop(HASH) for run in folded])
        for run in folded:
            self._remove(run)
        self._runs[start:] = [self._write(merged)] if len(merged) else []

    def of(self, who: pl.DataFrame) -> list[pl.DataFrame]:
        """The rows of some keys, a frame a run, oldest first.

        Args:
            who: The keys, each once.
        """
        frames = [of_keys(self._read(run), self.keys, who) for run in self._runs]
        return [frame for frame in frames if len(frame)]

    def everything(self) -> list[pl.DataFrame]:
        """All rows, a frame a run, oldest first."""
        return [self._read(run).drop(HASH) for run in self._runs]

    def drop_before(self, place: int | None) -> None:
        """Drop every run that lies wholly before a place; all of them for ``None``."""
        kept = []
        for run in self._runs:
            if place is None or run.high < place:
                self._remove(run)
            else:
                kept.append(run)
        self._runs = kept

    def _write(self, frame: pl.DataFrame) -> Run:
        frame = by_hash(frame, self.keys)
        number = secrets.randbits(62)
        self.blobs.put(number, encode(frame))
        self.cache.put(number, frame)
        places = frame[self.place]
        return Run(number, len(frame), int(places.min()), int(places.max()))  # type: ignore[arg-type]

    def _read(self, run: Run) -> pl.DataFrame:
        frame = self.cache.get(run.number)
        if frame is None:
            frame = decode(self.blobs.get(run.number))
            self.cache.put(run.number, frame)
        return frame

    def _remove(self, run: Run) -> None:
        self.blobs.remove(run.number)
        self.cache.drop(run.number)
