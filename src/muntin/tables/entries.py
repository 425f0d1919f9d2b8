"""The entries of a table in one partition: values by position and key, read on demand.

A **position** is the number of a window, of a pane, or of a stretch of session ends, or 0.
Positions are stored in segments of ``span`` neighbours. The changes of a batch (``fresh``) are held
apart from the committed values (``base``), so that a failed batch leaves nothing behind, and a
commit writes only what changed.

The **journal** is the changelog: runs of changed entries, by segment, in numbered blobs. A commit
appends one run to each segment that it changed. Runs of similar size are merged, keeping the newest
value of an entry, so that the journal stays proportional to the table and an entry is rewritten
a few times in its life. Expired entries are dropped by whole segments. Recovery replays the runs
of a segment when it is first read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import polars as pl

from muntin.model.axis import MAX_POSITION
from muntin.state.blobs import Blobs, MemoryBlobs
from muntin.state.frames import FrameCache
from muntin.state.manifest import Run
from muntin.state.runs import Runs
from muntin.tables.cells import (
    GONE,
    MISSING,
    POSITION_COLUMN,
    ValuesByPosition,
    from_frame,
    keep_newest_entries,
    sort_keys,
    to_frame,
)
from muntin.tables.typed import ValueCodec

PositionValues = dict[Any, Any]
ValuePair = tuple[PositionValues, PositionValues]
"""The fresh and the committed values at one position."""


class Journal(Runs):
    """The runs of one table in one partition, as of a commit."""

    traced = True

    def __init__(self, blobs: Blobs, stored: Sequence[Run], span: int, codec: ValueCodec) -> None:
        # Entries are cached as values, so frames aren't.
        super().__init__(POSITION_COLUMN, span, blobs, FrameCache(0), pl.concat, stored)
        self.codec = codec

    def read_run(self, run: Run) -> Iterable[tuple[int, Any, Any]]:
        """Return the entries of a run: position, key, and value or ``GONE``."""
        return from_frame(self._read_without_hash(run), self.codec)

    def append_changes(self, changed: ValuesByPosition) -> None:
        """Write changed entries of one segment as a new run; merge runs if there are many."""
        self.append(to_frame(changed, self.codec))

    def _merge_runs(self, runs: Sequence[Run], oldest: bool) -> pl.DataFrame:
        # A deletion in the oldest run hides nothing.
        return keep_newest_entries(
            [self._read_without_hash(run) for run in runs], keep_deleted=not oldest
        )


class Entries:
    """The entries of one table in one partition.

    Attributes:
        base: Committed values by position, as far as they have been read.
        fresh: Changes since the last commit; ``GONE`` for deleted entries.
        journal: The committed runs; empty if the table isn't stored.
    """

    def __init__(self, span: int, codec: ValueCodec) -> None:
        self.span = span
        self.base: dict[int, PositionValues] = {}
        self.fresh: dict[int, PositionValues] = {}
        self.journal = Journal(MemoryBlobs(), (), span, codec)
        self._is_stored = False
        # Numbers of the runs applied to `base`, by segment, and the segments checked in this batch.
        self._applied: dict[int, list[int]] = {}
        self._checked: set[int] = set()
        self._dropped: int | None = None

    def begin(
        self, blobs: Blobs | None, stored: Sequence[Run] | None, dropped: int | None = None
    ) -> None:
        """Start a batch from a commit, discarding uncommitted changes.

        Args:
            blobs: The blobs of the journal; ``None`` if the table isn't stored.
            stored: The journal's part of the manifest; ``None`` if memory is the last commit
                because nobody else has committed.
            dropped: The last position that was dropped before.
        """
        self._dropped = dropped
        if dropped is not None:
            # Another worker may have dropped positions that this one still has in memory.
            self.base = {
                position: values for position, values in self.base.items() if position > dropped
            }
        self.fresh = {}
        self._is_stored = blobs is not None
        runs = self.journal.entries() if stored is None else stored
        journal_blobs = MemoryBlobs() if blobs is None else blobs
        self.journal = Journal(journal_blobs, runs, self.span, self.journal.codec)
        if stored is not None:
            self._checked = set()
            for segment in self._applied.keys() - {*self.journal.segments}:
                self._unload(segment)

    def pair(self, position: int) -> ValuePair:
        """Return the fresh and the committed values at a position; write into the former."""
        self._load(position // self.span)
        fresh = self.fresh.get(position)
        if fresh is None:
            fresh = self.fresh[position] = {}
        base = self.base.get(position)
        if base is None:
            base = self.base[position] = {}
        return fresh, base

    def get(self, position: int, key: Any) -> Any:
        """Return one value, or ``MISSING``."""
        self._load(position // self.span)
        fresh = self.fresh.get(position)
        value = MISSING if fresh is None else fresh.get(key, MISSING)
        if value is MISSING:
            base = self.base.get(position)
            value = MISSING if base is None else base.get(key, MISSING)
        return MISSING if value is GONE else value

    def put(self, position: int, key: Any, value: Any) -> None:
        """Set one value; ``GONE`` deletes it."""
        self.pair(position)[0][key] = value

    def values_at(self, position: int) -> PositionValues:
        """Return all values at a position."""
        self._load(position // self.span)
        base, fresh = self.base.get(position), self.fresh.get(position)
        if not fresh:
            return base or {}
        whole = {**(base or {}), **fresh}
        return {key: value for key, value in whole.items() if value is not GONE}

    def list_positions(self, upto: int = MAX_POSITION) -> list[int]:
        """Return the positions with values, up to and including ``upto``, in order."""
        for segment in self.journal.segments:
            if segment * self.span <= upto:
                self._load(segment)
        positions = {
            position for side in (self.base, self.fresh) for position, v in side.items() if v
        }
        return sorted(position for position in positions if position <= upto)

    def iterate_changes(self) -> Iterator[tuple[int, PositionValues]]:
        """Iterate over the changes since the last commit."""
        return ((position, values) for position, values in self.fresh.items() if values)

    def has_any(self) -> bool:
        """Return whether there may be entries."""
        return bool(self.journal.segments) or any(self.base.values()) or any(self.fresh.values())

    def commit(self) -> None:
        """Write the changes to the journal, and add them to the committed values."""
        by_segment: dict[int, dict[int, PositionValues]] = {}
        for position, values in Entries.iterate_changes(self):
            by_segment.setdefault(position // self.span, {})[position] = values
        for segment, changed in by_segment.items():
            if self._is_stored:
                self.journal.append_changes(changed)
            self._applied[segment] = [run.number for run in self.journal.list_runs(segment)]
            for position, values in changed.items():
                base = self.base.setdefault(position, {})
                base.update(values)
                for key in [key for key, value in values.items() if value is GONE]:
                    del base[key]
        self.fresh = {}
        self.base = {position: values for position, values in self.base.items() if values}

    def drop_through(self, position: int) -> None:
        """Drop everything up to and including a position, unread where whole segments expire."""
        self._dropped = position
        for side in (self.base, self.fresh):
            for gone in [p for p in side if p <= position]:
                del side[gone]
        for segment in self.journal.segments:
            if (segment + 1) * self.span - 1 <= position:
                self.journal.drop_segment(segment)
                self._applied.pop(segment, None)
                self._checked.discard(segment)

    @property
    def rows(self) -> int:
        """Number of committed entries in memory."""
        return sum(map(len, self.base.values()))

    def shrink(self) -> None:
        """Free the memory of committed entries, which can be read again."""
        if self._is_stored:
            for segment in list(self._applied):
                self._unload(segment)

    def _load(self, segment: int) -> None:
        if segment in self._checked:
            return
        runs = self.journal.list_runs(segment)
        missing_runs = _list_missing_runs(self._applied.get(segment, []), runs)
        if missing_runs is None:
            self._unload(segment)
            missing_runs = runs
        self._checked.add(segment)
        if runs:
            self._applied[segment] = [missing_run.number for missing_run in runs]
        for missing_run in missing_runs:
            for position, key, value in self.journal.read_run(missing_run):
                if self._dropped is not None and position <= self._dropped:
                    # The segment also has later positions.
                    continue
                if value is GONE:
                    self.base.get(position, {}).pop(key, None)
                else:
                    self.base.setdefault(position, {})[key] = value

    def _unload(self, segment: int) -> None:
        self._applied.pop(segment, None)
        self._checked.discard(segment)
        for position in [p for p in self.base if p // self.span == segment]:
            del self.base[position]


class SetEntries(Entries):
    """Entries whose values are sets, stored member by member under pairs of key and member.

    So adding a member doesn't rewrite the set, and the journal has a row per member.
    """

    def __init__(self, span: int, codec: ValueCodec) -> None:
        super().__init__(span, codec)
        # By position and key; built from the entries on demand, and updated by changes.
        self._members: dict[int, dict[Any, set[Any]]] = {}

    def begin(
        self, blobs: Blobs | None, stored: Sequence[Run] | None, dropped: int | None = None
    ) -> None:
        super().begin(blobs, stored, dropped)
        if stored is not None:
            self._members = {}

    def get(self, position: int, key: Any) -> Any:
        members = self._load_sets(position).get(key)
        return set(members) if members else MISSING

    def put(self, position: int, key: Any, value: Any) -> None:
        new_members = set() if value is GONE else set(value)
        old_members = self._load_sets(position).get(key, set())
        self.change_members(position, key, new_members - old_members, old_members - new_members)

    def change_members(
        self, position: int, key: Any, add: Iterable[Any], discard: Iterable[Any]
    ) -> None:
        """Add members to a set, and remove others."""
        members = self._load_sets(position).setdefault(key, set())
        fresh, _ = self.pair(position)
        for member in add:
            if member not in members:
                members.add(member)
                fresh[key, member] = True
        for member in discard:
            if member in members:
                members.discard(member)
                fresh[key, member] = GONE

    def values_at(self, position: int) -> PositionValues:
        return {key: set(members) for key, members in self._load_sets(position).items() if members}

    def iterate_changes(self) -> Iterator[tuple[int, PositionValues]]:
        for position, values in super().iterate_changes():
            sets = self._load_sets(position)
            changed = sort_keys({key for key, _ in values})
            yield position, {key: set(sets.get(key, ())) or GONE for key in changed}

    def drop_through(self, position: int) -> None:
        super().drop_through(position)
        self._members = {p: sets for p, sets in self._members.items() if p > position}

    def shrink(self) -> None:
        super().shrink()
        self._members = {}

    def _load_sets(self, position: int) -> dict[Any, set[Any]]:
        sets = self._members.get(position)
        if sets is None:
            sets = self._members[position] = {}
            for key, member in super().values_at(position):
                sets.setdefault(key, set()).add(member)
        return sets


def _list_missing_runs(applied: Sequence[int], runs: Sequence[Run]) -> Sequence[Run] | None:
    """Return the runs that memory lacks; ``None`` if it has to be rebuilt.

    It has to be rebuilt if it contains runs that were never committed, or if deletions may have
    been dropped when the oldest run was merged.
    """
    if not applied:
        return runs
    applied_numbers = set(applied)
    covered = {number for run in runs for number in (run.number, *run.of)}
    if not applied_numbers <= covered or (
        runs[0].number not in applied_numbers and not applied_numbers >= {*runs[0].of}
    ):
        return None
    for index, run in enumerate(runs):
        if run.number not in applied_numbers and not (
            run.of and applied_numbers.issuperset(run.of)
        ):
            return runs[index:]
    return []
