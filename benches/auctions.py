"""The events of Nexmark as files: those of ``examples/nexmark``, as every peer can read them.

A file of each kind is what comes in one micro-batch. A last person, auction and bid, ``TAIL_MS``
after all others, close the tail, others as long after them whatever goes by the results of windows;
they are in no checksum. Flink's file source promises no order among
files, so that it has two of its own, which each hold every other row and go through all of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benches.stream import DATA, T0_MS

PER_SECOND = 10_000
TAIL_MS = 60_000

CLOCK = "q12"
"""The query whose windows are those of the wall clock, so that they differ from run to run."""

SCHEMAS = {
    "persons": "id long, name string, email string, city string, state string, time timestamp",
    "auctions": "id long, seller long, category long, opening long, reserve long, time timestamp,"
    " expires timestamp",
    "bids": "auction long, bidder long, price long, channel string, time timestamp",
}
SHAPES = {
    "q5": ("auction", "bids"),
    "q7": ("bidder", "price"),
    "q8": ("id", "length(name)"),
    "q11": ("bidder", "bids"),
    "q12": ("bidder", "bids"),
}
"""Which column of a query's results is the key, and which the value."""

READS = {"q8": ("persons", "auctions")}
"""Kinds of events that a query reads; any other reads the bids."""


@dataclass(frozen=True)
class Kind:
    """The files of one kind of events.

    Attributes:
        name: ``persons``, ``auctions`` or ``bids``.
        stream: The folder of the stream.
    """

    name: str
    stream: Path

    @property
    def schema(self) -> str:
        """Columns, as Spark takes them."""
        return SCHEMAS[self.name]

    @property
    def folder(self) -> Path:
        """Where a file for each micro-batch lies."""
        return self.stream / self.name

    @property
    def halves(self) -> Path:
        """Where the two files lie; they hold ``ms`` in place of ``time``."""
        return self.stream / f"{self.name}-halves"

    @property
    def parts(self) -> str:
        """A glob of all files."""
        return str(self.folder / "*.parquet")

    @property
    def everything(self) -> str:
        """The same: there is no sentinel that stands apart."""
        return self.parts


@dataclass(frozen=True)
class Auctions:
    """A stream of events, and what a query reads of it.

    Attributes:
        rows: Number of events, of all kinds together.
        batch: Events of one micro-batch.
        query: ``q5``, ``q7``, ``q8``, ``q11`` or ``q12``.
    """

    rows: int
    batch: int
    query: str

    @property
    def folder(self) -> Path:
        """Where all of its files lie."""
        return DATA / f"nexmark-r{PER_SECOND}-n{self.rows}-b{self.batch}"

    @property
    def sides(self) -> tuple[Kind, ...]:
        """The kinds of events that the query reads."""
        return tuple(Kind(name, self.folder) for name in READS.get(self.query, ("bids",)))

    @property
    def last_ms(self) -> int:
        """No event but the last of each kind has a greater time."""
        return T0_MS + (self.rows - 1) * 1000 // PER_SECOND

    def files(self) -> Iterator[tuple[str, range]]:
        """Name of each file, and the numbers of its events, in the order of arrival."""
        for number, start in enumerate(range(0, self.rows, self.batch)):
            yield f"part-{number:05d}.parquet", range(start, min(start + self.batch, self.rows))
