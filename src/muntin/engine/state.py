"""The state of a shard: watermark, wall clock, counts and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from muntin.engine.arrival import Arrival
from muntin.engine.clocks import ClockTime, InputClocks, merge_times
from muntin.model.axis import is_representable
from muntin.model.counts import add_counts
from muntin.model.inputs import BY_GREATEST, InputSpec
from muntin.state.blobs import Blobs
from muntin.state.frames import Complete, FrameCache
from muntin.state.manifest import (
    Manifest,
    PartBlobs,
    StateKind,
    add_sizes,
    judge,
    load_manifest,
    sum_sizes,
)
from muntin.state.offsets import TakenOffsets
from muntin.state.runs import Merge, Runs

_ACTIVE, _CLOCKS = "active", "clocks"


class StoredSpec(Protocol):
    """The spec that a store records as its writer."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything that the state depends on, as plain JSON."""

    def check_same(self, stored: Mapping[str, Any]) -> None:
        """Refuse to continue from state that another spec wrote."""


class State:
    """The manifest of a shard and the tables that it lists.

    Attributes:
        watermark: The watermark in force, microseconds; ``None`` before the first message.
        counts: Messages so far: ``seen``, ``counted``, ``filtered``, and rejected by reason.
        stored: The runs of each table as the manifest lists them.
        taken: The source offsets taken so far, by input; empty if it has no offsets.
        extra: Other values that the kind of shard stores; plain JSON.
        partitions: The stores of the partitions, if each is an axis of its own.
        written_by: The spec that wrote the store, as plain JSON; ``None`` for a new store.
        ends_run: Whether the run of the query ends with this step; not stored.
        moving: The inputs whose messages have moved a watermark since the last ``note_moving``,
            each with the clocks that moved; not stored.

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
        manifest = load_manifest(blobs, kind)
        self.written_by: dict[str, Any] | None = None
        if manifest is None:
            manifest = Manifest(kind)
        else:
            self.written_by = manifest.spec
            spec.check_same(manifest.spec)
        self.watermark, self.wall, self.counts = manifest.watermark, manifest.wall, manifest.counts
        self.stored, self.extra = manifest.tables, manifest.extra
        self.tables: dict[str, Runs] = {}
        self.partitions = {name: PartBlobs(blobs, text) for name, text in manifest.parts}
        self.ends_run = False
        self.moving: dict[str, set[str]] = {}
        self.taken = {name: TakenOffsets(manifest.offsets.get(name, ())) for name in inputs}

    @property
    def judging(self) -> int | None:
        """The watermark by which messages are late; greater than that in force after a reset."""
        return judge(self.watermark, self.extra)

    @property
    def offsets(self) -> TakenOffsets:
        """The source offsets taken so far, for operators with one input."""
        return self.taken[""]

    def table(
        self,
        name: str,
        axis: str,
        span: int | None,
        merge: Merge,
        keys: Sequence[str] = (),
        complete: Complete | None = None,
        settle: Complete | None = None,
        divided_by: Sequence[str] = (),
    ) -> Runs:
        """Open a table of ``Runs``, which is saved with the manifest."""
        stored = self.stored.get(name, ())
        runs = Runs(
            axis, span, self.blobs, self.cache, merge, stored, keys, complete, settle, divided_by
        )
        self.tables[name] = runs
        return runs

    def clear(self) -> None:
        """Empty all tables."""
        for table in self.tables.values():
            table.drop_before(None)

    def list_blobs(self) -> set[int]:
        """Return the numbers of all blobs that the manifest listed when it was read."""
        read = Manifest(self.kind, tables=self.stored, parts=self._parts())
        return {run.number for run in read.runs()}

    @property
    def size(self) -> int | None:
        """Bytes of all blobs; ``None`` if an earlier build wrote some and didn't record theirs."""
        tables = [sum_sizes(table.entries()) for table in self.tables.values()]
        return add_sizes([*tables, *(part.measure() for part in self.partitions.values())])

    def partition(self, name: Any) -> PartBlobs:
        """Return the store of a partition, which may be new."""
        return self.partitions.setdefault(name, PartBlobs(self.blobs, None))

    def _parts(self) -> list[tuple[Any, str]]:
        return [(name, one.manifest) for name, one in self.partitions.items() if one.manifest]

    def clock(self, arrivals: Iterable[Arrival], wall: int) -> int:
        """Return the wall clock of this step: arrival times if there are any, never decreasing."""
        clocks = [c.clock for c in arrivals if c.clock is not None]
        if not clocks:
            return wall
        return max([*clocks, *([] if self.wall is None else [self.wall])])

    def follow(
        self,
        watermark: int | None,
        arrivals: Sequence[Arrival],
        spec: InputSpec,
        wall: int,
        name: str = "",
        *,
        final: bool = False,
    ) -> int | None:
        """Return the watermark (microseconds) of an input after a batch.

        It follows the event times of the messages or, once the input has been idle for
        ``spec.idle``, the wall clock. At the ``final`` batch no clock holds it back.
        """
        latest = [one.latest for one in arrivals if one.latest is not None]
        times = merge_times(arrival.partitions for arrival in arrivals)
        clocks = self._move_clocks(latest, times, spec, wall, name)
        reached = max(latest, default=None)
        if clocks is not None:
            reached = clocks.latest() if final else clocks.find_slowest_time(spec.idle, wall)
        upstream_watermarks = [one.reached for one in arrivals if one.reached is not None]
        moves = [
            time - spec.lateness for time in (reached, *upstream_watermarks) if time is not None
        ]
        old_watermark, watermark = (
            watermark,
            max([*([] if watermark is None else [watermark]), *moves], default=None),
        )
        active: dict[str, int] = self.extra.get(_ACTIVE, {})
        if spec.idle is None:
            active.pop(name, None)
            return watermark
        has_moved = bool(latest or upstream_watermarks)
        if not has_moved and name in active and self.wall is not None and old_watermark is not None:
            assert watermark is not None
            watermark += max(0, wall - max(self.wall, active[name] + spec.idle))
        if has_moved or name not in active:
            self.note_active(wall, name)
            self.moving.setdefault(name, set()).update(one.name for one in times)
        return watermark

    def _move_clocks(
        self,
        latest: Sequence[int],
        times: Sequence[ClockTime],
        spec: InputSpec,
        wall: int,
        name: str,
    ) -> InputClocks | None:
        """Move the clocks of an input by a batch; return ``None`` if it has one clock."""
        if spec.watermark == BY_GREATEST or (latest and not times):
            self.extra.get(_CLOCKS, {}).pop(name, None)
            return None
        if not times and name not in self.extra.get(_CLOCKS, {}):
            return None
        clocks = self.clocks(name)
        clocks.take(times, wall)
        return clocks

    def clocks(self, name: str = "") -> InputClocks:
        """Return the clocks of an input."""
        return InputClocks(self.extra.setdefault(_CLOCKS, {}).setdefault(name, {}))

    def describe_clocks(self, idle: int | None, wall: int, name: str = "") -> dict[str, Any]:
        """Return the times of the slowest clocks, and the clock that holds the watermark back."""
        if not self.extra.get(_CLOCKS, {}).get(name):
            return {}
        clocks = self.clocks(name)
        return {"clocks": clocks.slowest(), "held_by": clocks.holder(idle, wall)}

    def is_idle(self, idle: int | None, wall: int, name: str = "") -> bool:
        """Return whether an input has had no messages for the time ``idle``."""
        active: dict[str, int] = self.extra.get(_ACTIVE, {})
        return idle is not None and name in active and wall >= active[name] + idle

    def is_caught_up(self, name: str) -> bool:
        """Return whether all partitions of an input's source are known to be read to their end."""
        return name in self.extra.get(_CLOCKS, {}) and self.clocks(name).are_caught_up

    def note_active(self, wall: int, name: str = "") -> None:
        """Record the time at which an input last had messages, unless the clock isn't set yet."""
        if is_representable(wall):
            self.extra.setdefault(_ACTIVE, {})[name] = wall

    def note_moving(self, wall: int) -> None:
        """Record that the messages since the last call arrived now."""
        for name, clocks in self.moving.items():
            self.note_active(wall, name)
            if clocks and is_representable(wall):
                self.clocks(name).note_moved(clocks, wall)
        self.moving.clear()

    def count(self, counts: Mapping[str, int]) -> None:
        """Add to the counts."""
        self.counts = add_counts([self.counts, counts])

    def save(self) -> None:
        """Write the manifest; the store isn't committed yet."""
        for name in self.stored.keys() - self.tables.keys():  # tables not in use any more
            for run in self.stored.pop(name):
                for blob in run.blobs:
                    self.blobs.remove(blob)
        manifest = Manifest(
            self.kind,
            self.spec.to_dict(),
            self.watermark,
            self.wall,
            self.counts,
            {name: dumped for name, offsets in self.taken.items() if (dumped := offsets.dumps())},
            {name: table.entries() for name, table in self.tables.items()},
            self.extra,
            self._parts(),
        )
        self.blobs.save(manifest.dumps())
