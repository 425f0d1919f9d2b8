"""What a table holds in one partition: values by place and key, read from its journal on demand.

A **place** is a window's number, a pane's, a stretch of session ends, or 0. Places are stored by
segments of ``span`` neighbours. What a batch changes is kept apart (``fresh``) from what was
committed before (``base``), so that a batch that fails leaves nothing behind, and a commit writes
what changed and nothing else.

The **journal** is the changelog: runs of changed entries, by segment, in numbered blobs. A commit
appends one run to each segment that it changed; runs of like size are folded, the newest value of
an entry winning, so that the journal stays as long as the table is large and an entry is rewritten
a few times in its life. What has expired goes by whole segments. Recovery is the replay of a
segment's runs, when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import polars as pl

from muntin.state.blobs import Blobs, MemoryBlobs
from muntin.state.manifest import Run
from muntin.state.runs import FrameCache, Runs
from muntin.tables.cells import GONE, MISSING, PLACE, ByPlace, from_frame, newest, to_frame
from muntin.tables.moments import END
from muntin.tables.typed import ValueCodec

Values = dict[Any, Any]
Pair = tuple[Values, Values]
"""What is fresh and what was committed at one place."""


class Journal(Runs):
    """The runs of one table in one partition, as a commit left them."""

    traced = True

    def __init__(self, blobs: Blobs, stored: Sequence[Run], span: int, codec: ValueCodec) -> None:
        # What is read is kept as values, and not as frames.
        super().__init__(PLACE, span, blobs, FrameCache(0), pl.concat, stored)
        self.codec = codec

    @property
    def segments(self) -> list[int]:
        """The segments that have runs, in order."""
        return sorted(segment for segment, runs in self._segments.items() if runs)

    def runs(self, segment: int) -> Sequence[Run]:
        """The runs of a segment, oldest first."""
        return self._segments.get(segment, ())

    def values(self, run: Run) -> Iterable[tuple[int, Any, Any]]:
        """The entries of a run: place, key, and value or ``GONE``."""
        return from_frame(self._plain(run), self.codec)

    def write(self, changed: ByPlace) -> None:
        """Write changed entries of one segment as a new run, and fold where there are too many."""
        self.append(to_frame(changed, self.codec))

    def drop(self, segment: int) -> None:
        """Forget a segment, unread."""
        for run in self._segments.pop(segment, ()):
            self.frames.remove(run.number)

    def _folded(self, runs: Sequence[Run], oldest: bool) -> pl.DataFrame:
        # Before the oldest run nothing is that a deletion would have to hide.
        return newest([self._plain(run) for run in runs], gone=not oldest)


class Entries:
    """The entries of one table in one partition.

    Attributes:
        base: What was committed, by place, as far as it has been read.
        fresh: What has changed since; ``GONE`` for what was deleted.
        journal: What was committed, in blobs; empty where nothing is kept.
    """

    def __init__(self, span: int, codec: ValueCodec) -> None:
        self.span = span
        self.base: dict[int, Values] = {}
        self.fresh: dict[int, Values] = {}
        self.journal = Journal(MemoryBlobs(), (), span, codec)
        self._kept = False
        # The numbers of the runs that are in `base`, by segment, and the segments looked at since.
        self._applied: dict[int, list[int]] = {}
        self._current: set[int] = set()
        self._dropped: int | None = None

    def begin(
        self, blobs: Blobs | None, stored: Sequence[Run] | None, dropped: int | None = None
    ) -> None:
        """Go on from a commit; whatever was changed since the last one is forgotten.

        Args:
            blobs: Where the journal is; ``None`` keeps no journal.
            stored: The journal's part of the manifest; ``None`` where nothing was committed by
                anyone else, so that what is in memory is the last commit.
            dropped: The greatest place that was dropped before.
        """
        self._dropped = dropped
        if dropped is not None:
            # Another worker may have dropped it, while this one's memory still has it.
            self.base = {place: values for place, values in self.base.items() if place > dropped}
        self.fresh = {}
        self._kept = blobs is not None
        runs = self.journal.entries() if stored is None else stored
        store = MemoryBlobs() if blobs is None else blobs
        self.journal = Journal(store, runs, self.span, self.journal.codec)
        if stored is not None:
            self._current = set()
            for segment in self._applied.keys() - {*self.journal.segments}:
                self._unload(segment)

    def pair(self, place: int) -> Pair:
        """What is fresh and what was committed at a place; to be written into the first."""
        self._load(place // self.span)
        fresh = self.fresh.get(place)
        if fresh is None:
            fresh = self.fresh[place] = {}
        base = self.base.get(place)
        if base is None:
            base = self.base[place] = {}
        return fresh, base

    def get(self, place: int, key: Any) -> Any:
        """One value; ``MISSING`` where there is none."""
        self._load(place // self.span)
        fresh = self.fresh.get(place)
        found = MISSING if fresh is None else fresh.get(key, MISSING)
        if found is MISSING:
            base = self.base.get(place)
            found = MISSING if base is None else base.get(key, MISSING)
        return MISSING if found is GONE else found

    def at(self, place: int) -> Values:
        """All values of a place."""
        self._load(place // self.span)
        base, fresh = self.base.get(place), self.fresh.get(place)
        if not fresh:
            return base or {}
        whole = {**(base or {}), **fresh}
        return {key: value for key, value in whole.items() if value is not GONE}

    def places(self, upto: int = END) -> list[int]:
        """The places that hold something, up to one, in order."""
        for segment in self.journal.segments:
            if segment * self.span <= upto:
                self._load(segment)
        found = {place for side in (self.base, self.fresh) for place, v in side.items() if v}
        return sorted(place for place in found if place <= upto)

    def changed(self) -> Iterator[tuple[int, Values]]:
        """What has changed since the last commit."""
        return ((place, values) for place, values in self.fresh.items() if values)

    def any(self) -> bool:
        """Whether there may be entries at all."""
        return bool(self.journal.segments) or any(self.base.values()) or any(self.fresh.values())

    def commit(self) -> None:
        """Write what has changed to the journal, and take it for committed."""
        by_segment: dict[int, dict[int, Values]] = {}
        for place, values in self.changed():
            by_segment.setdefault(place // self.span, {})[place] = values
        for segment, changed in by_segment.items():
            if self._kept:
                self.journal.write(changed)
            self._applied[segment] = [run.number for run in self.journal.runs(segment)]
            for place, values in changed.items():
                base = self.base.setdefault(place, {})
                base.update(values)
                for key in [key for key, value in values.items() if value is GONE]:
                    del base[key]
        self.fresh = {}
        self.base = {place: values for place, values in self.base.items() if values}

    def drop_through(self, place: int) -> None:
        """Forget everything up to a place, segment by segment where that can be done unread."""
        self._dropped = place
        for side in (self.base, self.fresh):
            for gone in [p for p in side if p <= place]:
                del side[gone]
        for segment in self.journal.segments:
            if (segment + 1) * self.span - 1 <= place:
                self.journal.drop(segment)
                self._applied.pop(segment, None)
                self._current.discard(segment)

    @property
    def rows(self) -> int:
        """How many committed entries are in memory."""
        return sum(map(len, self.base.values()))

    def shrink(self) -> None:
        """Forget all that is committed, and could be read again."""
        if self._kept:
            for segment in list(self._applied):
                self._unload(segment)

    def _load(self, segment: int) -> None:
        if segment in self._current:
            return
        listed = self.journal.runs(segment)
        behind = _behind(self._applied.get(segment, []), listed)
        if behind is None:
            self._unload(segment)
            behind = listed
        self._current.add(segment)
        if listed:
            self._applied[segment] = [run.number for run in listed]
        for run in behind:
            for place, key, value in self.journal.values(run):
                if self._dropped is not None and place <= self._dropped:
                    # Its segment isn't wholly gone.
                    continue
                if value is GONE:
                    self.base.get(place, {}).pop(key, None)
                else:
                    self.base.setdefault(place, {})[key] = value

    def _unload(self, segment: int) -> None:
        self._applied.pop(segment, None)
        self._current.discard(segment)
        for place in [p for p in self.base if p // self.span == segment]:
            del self.base[place]


def _behind(applied: Sequence[int], listed: Sequence[Run]) -> Sequence[Run] | None:
    """The runs that memory doesn't have yet; ``None`` where it has to begin anew.

    That is so where it has what was never committed, and where deletions may have been left out of
    the oldest run.
    """
    if not applied:
        return listed
    known = set(applied)
    covered = {number for run in listed for number in (run.number, *run.of)}
    if not known <= covered or (listed[0].number not in known and not known >= {*listed[0].of}):
        return None
    for at, run in enumerate(listed):
        if run.number not in known and not (run.of and known.issuperset(run.of)):
            return listed[at:]
    return []
