"""The manifest that a shard writes at a commit, for all kinds of queries.

Blobs hold rows. The manifest lists the blobs of each table, and what else the query needs to
continue. It carries its format number, and reading state starts with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from muntin.model.errors import SpecChangedError, StateCorruptedError
from muntin.state.blobs import Blobs, MemoryBlobs, list_blobs

# Format 1 described the query in prose; format 2 differed by kind of query.
MANIFEST_FORMAT = 3
StateKind = Literal["windows", "join", "tables", "messages", "pages"]
_NAME = "reopened"


class Run(NamedTuple):
    """One frame of a table.

    Attributes:
        number: The frame's number, which determines the numbers of its blobs.
        low: The least position of a row on the table's axis.
        high: The greatest position of a row.
        of: The numbers of the runs that were merged into it, for traced tables.
        hash_range: The range that the hashes of its keys are in; ``None`` if it isn't divided.
        size: Bytes of its blobs; ``None`` in state of builds that didn't record it.
    """

    number: int
    rows: int
    low: int
    high: int
    of: tuple[int, ...] = ()
    hash_range: int | None = None
    size: int | None = None

    @property
    def blobs(self) -> range:
        """The numbers of the frame's blobs."""
        return list_blobs(self.number)


@dataclass
class Manifest:
    """The state of one shard: its query, clocks, counts and tables.

    Attributes:
        spec: The query as plain JSON; for tables, one per name.
        watermark: The watermark, microseconds; ``None`` before the first message, and if inputs
            have their own.
        wall: The wall clock of the last step; ``None`` before it.
        counts: Number of messages by outcome.
        offsets: The source offsets taken so far, by input: ranges of a partition.
        extra: Further state of the kind of query; plain JSON.
        parts: The manifests, as text, of partitions with their own axes; those of idle partitions
            aren't parsed.
    """

    kind: StateKind
    spec: dict[str, Any] = field(default_factory=dict)
    watermark: int | None = None
    wall: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    offsets: dict[str, list[Any]] = field(default_factory=dict)
    tables: dict[str, list[Run]] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    parts: list[tuple[Any, str]] = field(default_factory=list)

    def by_part(self) -> dict[Any, Manifest]:
        """Return the manifest of each partition, or this one under ``None``."""
        return {partition: parse_manifest(text) for partition, text in self.parts} or {None: self}

    def each(self) -> list[Manifest]:
        """Return the manifests of the partitions, or this one if they have none."""
        return list(self.by_part().values())

    def runs(self) -> Iterator[Run]:
        """Iterate over all runs of all tables."""
        for one in (self, *(parse_manifest(text) for _, text in self.parts)):
            for runs in one.tables.values():
                yield from runs

    def dumps(self) -> str:
        """Write the manifest as text."""
        tables = {name: [*map(_shorten_run, runs)] for name, runs in self.tables.items()}
        written = {"format": MANIFEST_FORMAT, **vars(self), "tables": tables}
        return json.dumps({name: value for name, value in written.items() if value is not None})


def parse_manifest(text: str, kind: StateKind | None = None) -> Manifest:
    """Read the manifest that ``dumps`` wrote.

    Raises ``StateCorruptedError`` for other text, ``SpecChangedError`` for another kind of query.
    """
    try:
        stored = json.loads(text)
        version = stored.pop("format")
        if version == MANIFEST_FORMAT:
            tables = stored.pop("tables")
            manifest = Manifest(**stored)
            manifest.tables = {
                name: [_parse_run(run) for run in runs] for name, runs in tables.items()
            }
            manifest.parts = [(partition, part) for partition, part in manifest.parts]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StateCorruptedError(
            "the manifest of a shard can't be read: it was damaged"
        ) from error
    if version != MANIFEST_FORMAT:
        raise StateCorruptedError(
            f"the state has format {version}, this muntin reads format {MANIFEST_FORMAT}: "
            "use the muntin that wrote it, or start with a new place for the state"
        )
    if kind is not None and manifest.kind != kind:
        raise SpecChangedError(
            f"the state is of {manifest.kind}, not of {kind}: start with a new place for the state"
        )
    return manifest


class PartBlobs(MemoryBlobs):
    """A part of a store, with the store's blobs and a manifest of its own; see ``Blobs``."""

    def __init__(self, store: Blobs, manifest: str | None = None) -> None:
        super().__init__(manifest)
        self.store = store
        self._measured: tuple[str | None, int | None] = (None, 0)

    def get(self, number: int) -> bytes:
        """Return a blob of the store."""
        return self.store.get(number)

    def put(self, number: int, blob: bytes) -> None:
        """Write a new blob into the store."""
        self.store.put(number, blob)

    def remove(self, number: int) -> None:
        """Remove a blob from the store."""
        self.store.remove(number)

    def measure(self) -> int | None:
        """Return the bytes of the part's blobs as of its manifest; ``None`` if not known."""
        if self.manifest is not None and self._measured[0] is not self.manifest:
            size = sum_sizes(parse_manifest(self.manifest).runs())
            self._measured = self.manifest, size
        return self._measured[1]


def load_manifest(blobs: Blobs, kind: StateKind) -> Manifest | None:
    """Read the manifest of the last commit, or return ``None``."""
    text = blobs.load()
    return None if text is None else parse_manifest(text, kind)


def _shorten_run(run: Run) -> tuple[Any, ...]:
    """Return a run without trailing defaults; most have no more than numbers."""
    if run.size is not None:
        return run
    if run.hash_range is not None:
        return run[:6]
    return run[:5] if run.of else run[:4]


def _parse_run(stored: Sequence[Any]) -> Run:
    number, rows, low, high, *more = stored
    of, hash_range, size = [*more, None, None][:3] if more else ((), None, None)
    return Run(number, rows, low, high, tuple(of), hash_range, size)


def sum_sizes(runs: Iterable[Run]) -> int | None:
    """Return the bytes of runs; ``None`` if those of one aren't known."""
    return add_sizes(run.size for run in runs)


def add_sizes(sizes: Iterable[int | None]) -> int | None:
    """Return the sum of sizes; ``None`` if one isn't known."""
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total


def list_overlapping_blobs(
    runs: Sequence[Run], low: int | None = None, high: int | None = None
) -> list[int]:
    """Return the numbers of a table's blobs that overlap a range of its axis."""
    return [number for run in select_overlapping(runs, low, high) for number in run.blobs]


def select_overlapping(
    runs: Sequence[Run], low: int | None = None, high: int | None = None
) -> list[Run]:
    """Return the runs that overlap a range of their axis."""
    return [
        run
        for run in runs
        if (low is None or run.high >= low) and (high is None or run.low <= high)
    ]


@dataclass(frozen=True, slots=True)
class Reopened:
    """The effect of a watermark that was set back, until the watermark is as far as it was.

    Attributes:
        judged: The watermark by which messages are late, at least: windows that had closed and that
            began before the new watermark stay closed.
        ended: The watermark by which windows have ended, at least.
        before: The watermark before it was set back.
        revision: The number that is added to the revisions of windows that had ended by then; it is
            greater than any revision that they had.
    """

    judged: int
    ended: int
    before: int
    revision: int

    @classmethod
    def read(cls, extra: Mapping[str, Any]) -> Reopened | None:
        """Read it from the further state of a shard; ``None`` if no watermark was set back."""
        stored = extra.get(_NAME)
        return None if stored is None else cls(**stored)

    def write(self, extra: dict[str, Any]) -> None:
        """Write it into the further state of a shard."""
        extra[_NAME] = asdict(self)


def drop_reopened(extra: dict[str, Any]) -> None:
    """Drop the effect from the further state of a shard."""
    extra.pop(_NAME, None)


def find_edges(
    watermark: int | None, grace: int, reopened: Reopened | None
) -> tuple[int, int] | None:
    """Return the positions by which windows have closed, and by which they have ended.

    Example:
        >>> find_edges(100, 10, None)
        (90, 100)
        >>> find_edges(100, 10, Reopened(judged=130, ended=125, before=500, revision=7))
        (120, 125)
    """
    if watermark is None:
        return None
    if reopened is None:
        return watermark - grace, watermark
    return max(watermark, reopened.judged) - grace, max(watermark, reopened.ended)


def judge(watermark: int | None, extra: Mapping[str, Any]) -> int | None:
    """Return the watermark by which messages are late.

    Example:
        >>> judge(100, {}), judge(None, {})
        (100, None)
    """
    reopened = Reopened.read(extra)
    return watermark if reopened is None or watermark is None else max(watermark, reopened.judged)
