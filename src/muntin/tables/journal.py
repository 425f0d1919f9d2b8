"""The changelog of a table's partition: runs of changed entries, by segment, in numbered blobs.

Each batch appends one run to each segment that it changed; runs of like size are folded, the newest
value of an entry winning, so that the changelog stays as long as the table is large and an entry
is rewritten a few times in its life. What has expired goes by whole segments. Recovery is the
replay of a segment's runs, when it is first asked for.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from muntin.engine import runs
from muntin.engine.codec import decode, encode
from muntin.engine.runs import Blobs
from muntin.tables.cells import Entries, from_frame, newest, to_frame
from muntin.tables.typed import Written


@dataclass(slots=True)
class Run:
    """One blob.

    Attributes:
        number: Its number.
        rows: How many entries it has.
        of: The numbers of the runs that were folded into it.
    """

    number: int
    rows: int
    of: tuple[int, ...] = ()


class Journal:
    """The runs of one table in one partition.

    Args:
        written: How values are written.

    Attributes:
        blobs: Where they are; ``None`` keeps no changelog.
    """

    def __init__(self, written: Written) -> None:
        self.written = written
        self.blobs: Blobs | None = None
        self._segments: dict[int, list[Run]] = {}

    def open(self, blobs: Blobs | None, stored: Mapping[str, Any]) -> None:
        """Go on from a commit.

        Args:
            blobs: Where the runs are.
            stored: What ``entries`` gave then.
        """
        self.blobs = blobs
        self._segments = {
            int(segment): [Run(number, rows, tuple(of)) for number, rows, of in listed]
            for segment, listed in stored.items()
        }

    def entries(self) -> dict[str, Any]:
        """The journal's part of the manifest."""
        return {
            str(segment): [[run.number, run.rows, run.of] for run in listed]
            for segment, listed in self._segments.items()
        }

    @property
    def rows(self) -> int:
        """How many entries are stored, one counted once a run that has it."""
        return sum(run.rows for listed in self._segments.values() for run in listed)

    @property
    def segments(self) -> list[int]:
        """The segments that have runs, in order."""
        return sorted(self._segments)

    def runs(self, segment: int) -> Sequence[Run]:
        """The runs of a segment, oldest first."""
        return self._segments.get(segment, ())

    def read(self, run: Run) -> Iterator[tuple[int, Any, Any]]:
        """The entries of a run: place, key, and value or ``GONE``."""
        yield from from_frame(self._frame(run), self.written)

    def append(self, segment: int, changed: Entries) -> None:
        """Write changed entries as a new run, and fold where too many have gathered."""
        if self.blobs is None:
            return
        listed = self._segments.setdefault(segment, [])
        listed.append(self._write(to_frame(changed, self.written)))
        start = to_fold(listed)
        if start is None:
            return
        folded = listed[start:]
        # Before the oldest run nothing is that a deletion would have to hide.
        frame = newest([self._frame(run) for run in folded], gone=start > 0)
        for run in folded:
            self.blobs.remove(run.number)
        listed[start:] = [self._write(frame, tuple(run.number for run in folded))]

    def drop(self, segment: int) -> None:
        """Forget a segment, unread."""
        for run in self._segments.pop(segment, ()):
            if self.blobs is not None:
                self.blobs.remove(run.number)

    def _frame(self, run: Run) -> pl.DataFrame:
        assert self.blobs is not None
        return decode(self.blobs.get(run.number))

    def _write(self, frame: pl.DataFrame, of: tuple[int, ...] = ()) -> Run:
        assert self.blobs is not None
        # Random, so that a number names the same content for ever, also across failed commits.
        number = secrets.randbits(62)
        self.blobs.put(number, encode(frame))
        return Run(number, len(frame), of)


def to_fold(listed: Sequence[Run]) -> int | None:
    """Where the newest runs of like size begin that are due to be folded into one."""
    return runs.to_fold([runs.Run(run.number, run.rows, 0, 0) for run in listed])
