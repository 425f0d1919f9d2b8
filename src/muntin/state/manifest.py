"""What a shard writes down of itself at a commit: one value, whatever kind of query it is of.

Blobs hold rows; the manifest says which of them make up which table, and what else the query has to
know to go on. It carries the number of its format, and whatever reads state begins here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple

from muntin.model.errors import SpecChangedError, StateCorruptedError
from muntin.state.blobs import Blobs, blobs_of

# Format 1 had the spec in prose; format 2 had a layout of its own for each kind of query.
FORMAT = 3
StateKind = Literal["windows", "join", "tables", "windowing", "messages", "pages"]


class Run(NamedTuple):
    """One frame of a table.

    Attributes:
        number: Its number, which says which blobs it lies in.
        rows: How many rows it has.
        low: The least place of a row on the table's axis.
        high: The greatest.
        of: The numbers of the runs that were folded into it, where the table is traced.
    """

    number: int
    rows: int
    low: int
    high: int
    of: tuple[int, ...] = ()

    @property
    def blobs(self) -> range:
        """The numbers of the blobs that it lies in."""
        return blobs_of(self.number)


@dataclass
class Manifest:
    """The state of one shard: its query, clocks, counts and tables.

    Attributes:
        kind: What kind of query it is of.
        spec: The query as plain JSON; of tables, each by its name.
        watermark: The watermark in force, microseconds; ``None`` before the first message, and
            where inputs have their own.
        wall: The wall clock of the last step; ``None`` before it.
        counts: Messages so far, by what became of them.
        offsets: The source offsets taken so far, by input: ranges of a partition.
        tables: The runs of each table.
        extra: What else the kind of query keeps; plain JSON.
        parts: The manifests of partitions that lie on axes of their own, as they were written:
            those in which nothing happens aren't read.
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
        """The manifest of each partition that has one of its own, or this one under ``None``."""
        return {partition: loads(text) for partition, text in self.parts} or {None: self}

    def each(self) -> list[Manifest]:
        """Return the manifests of the partitions, or this one where none has its own."""
        return list(self.by_part().values())

    def runs(self) -> Iterator[Run]:
        """All runs of all tables."""
        for one in (self, *(loads(text) for _, text in self.parts)):
            for runs in one.tables.values():
                yield from runs

    def dumps(self) -> str:
        """The manifest as text."""
        written = {one.name: getattr(self, one.name) for one in fields(self)}
        written["tables"] = {
            # Only traced tables name what was folded.
            name: [run if run.of else run[:4] for run in runs]
            for name, runs in self.tables.items()
        }
        return json.dumps({"format": FORMAT} | {k: v for k, v in written.items() if v is not None})


def loads(text: str, kind: StateKind | None = None) -> Manifest:
    """Read what ``dumps`` gave."""
    try:
        stored = json.loads(text)
        version = stored.pop("format")
        if version == FORMAT:
            tables = stored.pop("tables")
            found = Manifest(**stored)
            found.tables = {name: [_run(run) for run in runs] for name, runs in tables.items()}
            found.parts = [(partition, part) for partition, part in found.parts]
            # A build before had these counts of the windowing application elsewhere.
            for name, n in zip(
                ("inserted", "deleted"), found.extra.pop("totals", ()), strict=False
            ):
                found.counts[name] = n
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateCorruptedError(
            "the manifest of a shard can't be read: it was damaged"
        ) from error
    if version != FORMAT:
        raise StateCorruptedError(
            f"the state has format {version}, this muntin reads format {FORMAT}: "
            "use the muntin that wrote it, or start with a new place for the state"
        )
    if kind is not None and found.kind != kind:
        raise SpecChangedError(
            f"the state is of {found.kind}, not of {kind}: start with a new place for the state"
        )
    return found


def load(blobs: Blobs, kind: StateKind) -> Manifest | None:
    """The manifest of the last commit; ``None`` where there was none."""
    text = blobs.load()
    return None if text is None else loads(text, kind)


def _run(stored: Sequence[Any]) -> Run:
    number, rows, low, high, *of = stored
    return Run(number, rows, low, high, tuple(of[0]) if of else ())


def numbers(runs: Sequence[Run], low: int | None = None, high: int | None = None) -> list[int]:
    """The blobs of a table that reach into a range of its axis; see ``reaching``."""
    return [number for run in reaching(runs, low, high) for number in run.blobs]


def reaching(runs: Sequence[Run], low: int | None = None, high: int | None = None) -> list[Run]:
    """The runs that reach into a range of their axis."""
    return [
        run
        for run in runs
        if (low is None or run.high >= low) and (high is None or run.low <= high)
    ]
