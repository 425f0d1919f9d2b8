"""What every shard keeps beside its tables: the watermark, the clock and the counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from muntin.engine.combine import Combined
from muntin.engine.offsets import Offsets
from muntin.engine.runs import Blobs
from muntin.model.errors import StateCorruptedError

# Format 1 had the spec in prose.
FORMAT = 2
_TAKEN, _LANES = "taken", "lanes"
# The number of a run's blob, how many rows it has, and its least and greatest place.
_OF_A_RUN = 4


class Table(Protocol):
    """A table in the store that the manifest remembers."""

    def entries(self) -> Any:
        """The table's part of the manifest; plain JSON."""


class Spec(Protocol):
    """What a store remembers to have been written by."""

    def to_dict(self) -> dict[str, Any]:
        """All that state depends on, as plain JSON."""

    def check_same(self, stored: Mapping[str, Any]) -> None:
        """Refuse to go on from what another spec wrote."""


class State:
    """The manifest of a shard, read and written.

    Attributes:
        watermark: The watermark in force, microseconds; ``None`` before the first message.
        wall: The wall clock of the last step, microseconds.
        counts: Messages so far, by what became of them.
        tables: What each table's ``entries`` were.
        offsets: The source offsets taken so far; none where a query has no offsets.
        extra: What else the kind of shard keeps; plain JSON.
        written_by: The spec that wrote the store, as plain JSON; ``None`` where none did.

    Raises:
        SpecChangedError: When the store was written by another spec.
        StateCorruptedError: When the manifest can't be read.
    """

    def __init__(self, blobs: Blobs, spec: Spec) -> None:
        self.blobs = blobs
        self.spec = spec
        stored = _read(blobs, spec)
        self.watermark: int | None = stored["watermark"]
        self.wall: int | None = stored["wall"]
        self.counts: dict[str, int] = stored["counts"]
        self.tables: dict[str, Any] = stored["tables"]
        self.extra: dict[str, Any] = stored.get("extra", {})
        self.written_by: dict[str, Any] | None = stored.get("spec")
        self.offsets = Offsets(self.extra.pop(_TAKEN, ()))

    def numbers(self) -> set[int]:
        """The numbers of all blobs that the manifest named when it was read."""
        return set(blobs_of({"tables": self.tables, "extra": self.extra}))

    def clock(self, combined: Sequence[Combined], wall: int) -> int:
        """The wall clock of this step: the messages' own where they have one, and never back."""
        clocks = [c.clock for c in combined if c.clock is not None]
        if not clocks:
            return wall
        return max([*clocks, *([] if self.wall is None else [self.wall])])

    def advance(self, combined: Sequence[Combined], lateness: int) -> None:
        """Move the watermark by what the batch held.

        Args:
            combined: The batch.
            lateness: How far the watermark trails the greatest event time, microseconds.
        """
        latest = max((c.latest for c in combined if c.latest is not None), default=None)
        if latest is not None:
            reached = latest - lateness
            self.watermark = reached if self.watermark is None else max(self.watermark, reached)

    def count(self, counts: Mapping[str, int]) -> None:
        """Add to the counts."""
        for name, n in counts.items():
            self.counts[name] = self.counts.get(name, 0) + n

    def save(self, tables: Mapping[str, Table]) -> None:
        """Write the manifest; the store isn't committed yet."""
        manifest = {
            "format": FORMAT,
            "spec": self.spec.to_dict(),
            "watermark": self.watermark,
            "wall": self.wall,
            "counts": self.counts,
            "tables": {name: table.entries() for name, table in tables.items()},
        }
        taken = self.offsets.dumps()
        extra = {**self.extra, _TAKEN: taken} if taken else self.extra
        if extra:
            manifest["extra"] = extra
        self.blobs.save(json.dumps(manifest))


def manifests(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A shard's manifest, or on the rows axis that of each partition in it."""
    lanes = manifest.get("extra", {}).get(_LANES, [])
    return [json.loads(text) for _, text in lanes] or [manifest]


def blobs_of(manifest: Mapping[str, Any]) -> Iterator[int]:
    """The numbers of all blobs that a shard's manifest names."""
    for one in manifests(manifest):
        yield from _runs(one["tables"])


def _runs(entries: Any) -> Iterator[int]:
    """The blobs of runs, wherever in the entries of tables they are listed."""
    if isinstance(entries, Mapping):
        for part in entries.values():
            yield from _runs(part)
    elif isinstance(entries, list):
        yield from (run[0] for run in entries if len(run) == _OF_A_RUN)


def _read(blobs: Blobs, spec: Spec) -> dict[str, Any]:
    text = blobs.load()
    if text is None:
        return {"watermark": None, "wall": None, "counts": {}, "tables": {}}
    try:
        manifest: dict[str, Any] = json.loads(text)
        version = manifest["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise StateCorruptedError(
            "the manifest of a shard can't be read: it was damaged"
        ) from error
    if version != FORMAT:
        raise StateCorruptedError(
            f"the state has format {version}, this muntin reads format {FORMAT}: "
            "use the muntin that wrote it"
        )
    spec.check_same(manifest["spec"])
    return manifest
