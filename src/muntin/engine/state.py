"""What every shard keeps beside its tables: the watermark, the clock and the counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from muntin.engine.arrival import Arrival
from muntin.model.axis import FARTHEST
from muntin.model.counts import summed
from muntin.state.blobs import Blobs, PartBlobs
from muntin.state.manifest import Manifest, StateKind, load_manifest
from muntin.state.offsets import TakenOffsets
from muntin.state.runs import Complete, FrameCache, Merge, Runs

_ACTIVE = "active"


class StoredSpec(Protocol):
    """What a store remembers to have been written by."""

    def to_dict(self) -> dict[str, Any]:
        """All that state depends on, as plain JSON."""

    def check_same(self, stored: Mapping[str, Any]) -> None:
        """Refuse to go on from what another spec wrote."""


class State:
    """The manifest of a shard, read and written, and the tables that it names.

    Attributes:
        watermark: The watermark in force, microseconds; ``None`` before the first message.
        wall: The wall clock of the last step, microseconds.
        counts: Messages so far, by what became of them.
        stored: The runs of each table as they were written.
        tables: The tables that are opened.
        taken: The source offsets taken so far, by input; none where it has no offsets.
        extra: What else the kind of shard keeps; plain JSON.
        partitions: What is kept of each partition apart, where each is an axis of its own.
        written_by: The spec that wrote the store, as plain JSON; ``None`` where none did.
        ends_run: Whether the run of the query ends with this step; not stored.
        moving: The inputs whose messages have moved a watermark since it was cleared; not stored.

    Raises:
        SpecChangedError: When the store was written by another spec.
        StateCorruptedError: When the manifest can't be read.
    """

    def __init__(
        self,
        blobs: Blobs,
        cache: FrameCache,
        spec: StoredSpec,
        kind: StateKind = "windows",
        inputs: Sequence[str] = ("",),
    ) -> None:
        self.blobs = blobs
        self.cache = cache
        self.spec = spec
        self.kind: StateKind = kind
        found = load_manifest(blobs, kind)
        self.written_by: dict[str, Any] | None = None
        if found is None:
            found = Manifest(kind)
        else:
            self.written_by = found.spec
            spec.check_same(found.spec)
        self.watermark, self.wall, self.counts = found.watermark, found.wall, found.counts
        self.stored, self.extra = found.tables, found.extra
        self.tables: dict[str, Runs] = {}
        self.partitions = {name: PartBlobs(blobs, text) for name, text in found.parts}
        self.ends_run = False
        self.moving: set[str] = set()
        self.taken = {name: TakenOffsets(found.offsets.get(name, ())) for name in inputs}

    @property
    def offsets(self) -> TakenOffsets:
        """The source offsets taken so far, where there is one input."""
        return self.taken[""]

    def table(
        self,
        name: str,
        axis: str,
        span: int | None,
        merge: Merge,
        keys: Sequence[str] = (),
        complete: Complete | None = None,
    ) -> Runs:
        """Open a table, which is saved with the manifest; see ``Runs``."""
        stored = self.stored.get(name, ())
        made = Runs(axis, span, self.blobs, self.cache, merge, stored, keys, complete)
        self.tables[name] = made
        return made

    def clear(self) -> None:
        """Empty all tables."""
        for table in self.tables.values():
            table.drop_before(None)

    def numbers(self) -> set[int]:
        """The numbers of all blobs that the manifest named when it was read."""
        read = Manifest(self.kind, tables=self.stored, parts=self._parts())
        return {run.number for run in read.runs()}

    def partition(self, name: Any) -> PartBlobs:
        """What is kept of a partition, which may be new."""
        return self.partitions.setdefault(name, PartBlobs(self.blobs, None))

    def _parts(self) -> list[tuple[Any, str]]:
        return [(name, one.manifest) for name, one in self.partitions.items() if one.manifest]

    def clock(self, arrivals: Iterable[Arrival], wall: int) -> int:
        """The wall clock of this step: the messages' own where they have one, and never back."""
        clocks = [c.clock for c in arrivals if c.clock is not None]
        if not clocks:
            return wall
        return max([*clocks, *([] if self.wall is None else [self.wall])])

    def advance(
        self, arrivals: Iterable[Arrival], lateness: int, idle: int | None, wall: int
    ) -> None:
        """Move the watermark by what the batch held."""
        latest = max((c.latest for c in arrivals if c.latest is not None), default=None)
        reached = None if latest is None else latest - lateness
        self.watermark = self.moved(self.watermark, reached, idle, wall)

    def moved(
        self, mark: int | None, reached: int | None, idle: int | None, wall: int, name: str = ""
    ) -> int | None:
        """Where a batch leaves the watermark of an input: by its messages, or by the clock.

        The latter where ``idle`` says after how long without messages. ``reached`` is how far the
        batch's messages move it, if any does.
        """
        active: dict[str, int] = self.extra.get(_ACTIVE, {})
        if reached is not None:
            mark = reached if mark is None else max(mark, reached)
        elif mark is not None and idle is not None and name in active and self.wall is not None:
            mark += max(0, wall - max(self.wall, active[name] + idle))
        if idle is None:
            active.pop(name, None)
        elif reached is not None or name not in active:
            self.note_active(wall, name)
            self.moving.add(name)
        return mark

    def is_idle(self, idle: int | None, wall: int, name: str = "") -> bool:
        """Whether an input has had no messages for as long as `idle` says."""
        active: dict[str, int] = self.extra.get(_ACTIVE, {})
        return idle is not None and name in active and wall >= active[name] + idle

    def note_active(self, wall: int, name: str = "") -> None:
        """Note when an input last had messages; a clock that wasn't set yet says nothing."""
        if abs(wall) < FARTHEST:
            self.extra.setdefault(_ACTIVE, {})[name] = wall

    def count(self, counts: Mapping[str, int]) -> None:
        """Add to the counts."""
        self.counts = summed([self.counts, counts])

    def save(self) -> None:
        """Write the manifest; the store isn't committed yet."""
        for name in self.stored.keys() - self.tables.keys():  # of what the query no longer does
            for run in self.stored.pop(name):
                for blob in run.blobs:
                    self.blobs.remove(blob)
        manifest = Manifest(
            self.kind,
            self.spec.to_dict(),
            self.watermark,
            self.wall,
            self.counts,
            {name: known for name, taken in self.taken.items() if (known := taken.dumps())},
            {name: table.entries() for name, table in self.tables.items()},
            self.extra,
            self._parts(),
        )
        self.blobs.save(manifest.dumps())
