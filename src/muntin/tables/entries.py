"""What a table holds in one partition: values by place and key, read from its journal on demand.

A **place** is a window's number, a pane's, a stretch of session ends, or 0. Places are stored by
segments of ``span`` neighbours. What a batch changes is kept apart (``fresh``) from what was
committed before (``base``), so that a batch that fails leaves nothing behind, and a commit writes
what changed and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from muntin.state.blobs import Blobs
from muntin.state.manifest import Run
from muntin.tables.cells import GONE, MISSING
from muntin.tables.journal import Journal
from muntin.tables.typed import ValueCodec

Values = dict[Any, Any]
Pair = tuple[Values, Values]
"""What is fresh and what was committed at one place."""


class Entries:
    """The entries of one table in one partition.

    Attributes:
        base: What was committed, by place, as far as it has been read.
        fresh: What has changed since; ``GONE`` for what was deleted.
    """

    def __init__(
        self, span: int, written: ValueCodec, on_load: Callable[[int], None] | None = None
    ) -> None:
        self.span = span
        self.base: dict[int, Values] = {}
        self.fresh: dict[int, Values] = {}
        self.journal = Journal(written)
        self.on_load = on_load
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
        for place in self.fresh:
            self._reread(place // self.span)
        self.fresh = {}
        if stored is None:
            self.journal.blobs = blobs
            return
        self.journal.open(blobs, stored, self.span)
        self._current = set()
        there = set(self.journal.segments)
        for segment in [s for s in self._applied if s not in there]:
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

    def places(self, low: int | None = None, high: int | None = None) -> list[int]:
        """The places from ``low`` to ``high`` (both included) that hold something, in order."""
        for segment in self.journal.segments:
            if (low is None or (segment + 1) * self.span > low) and (
                high is None or segment * self.span <= high
            ):
                self._load(segment)
        found = {place for side in (self.base, self.fresh) for place, v in side.items() if v}
        return sorted(
            place
            for place in found
            if (low is None or place >= low) and (high is None or place <= high)
        )

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
            self.journal.write(changed)
            self._applied[segment] = [run.number for run in self.journal.runs(segment)]
            for place, values in changed.items():
                _settle(self.base.setdefault(place, {}), values)
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
        if self.journal.blobs is not None:
            for segment in list(self._applied):
                self._unload(segment)

    def _load(self, segment: int) -> None:
        if segment in self._current:
            return
        self._current.add(segment)
        listed = self.journal.runs(segment)
        behind = _behind(self._applied.get(segment, []), listed)
        if behind is None:
            self._unload(segment)
            self._current.add(segment)
            behind = list(listed)
        if listed:
            self._applied[segment] = [run.number for run in listed]
        dropped = self._dropped
        for run in behind:
            for place, key, value in self.journal.values(run):
                if dropped is not None and place <= dropped:
                    # Its segment isn't wholly gone.
                    continue
                if value is GONE:
                    self.base.get(place, {}).pop(key, None)
                else:
                    self.base.setdefault(place, {})[key] = value
        if behind:
            self._reread(segment)

    def _reread(self, segment: int) -> None:
        """Tell the observer that a segment has changed."""
        if self.on_load is not None:
            self.on_load(segment)

    def _unload(self, segment: int) -> None:
        self._applied.pop(segment, None)
        self._current.discard(segment)
        for place in [p for p in self.base if p // self.span == segment]:
            del self.base[place]
        self._reread(segment)


def _settle(base: Values, fresh: Values) -> None:
    base.update(fresh)
    for key in [key for key, value in fresh.items() if value is GONE]:
        del base[key]


def _behind(applied: list[int], listed: Any) -> list[Any] | None:
    """The runs that memory doesn't have yet; ``None`` where it has to begin anew.

    That is so where it has what was never committed, and where deletions may have been left out of
    the oldest run.
    """
    if not applied:
        return list(listed)
    known = set(applied)
    covered = {number for run in listed for number in (run.number, *run.of)}
    if not known <= covered or (listed[0].number not in known and not known >= {*listed[0].of}):
        return None
    for at, run in enumerate(listed):
        if run.number not in known and not (run.of and known.issuperset(run.of)):
            return list(listed[at:])
    return []
