"""The events of Nexmark as files: those of ``examples/nexmark``, in a form that every peer reads.

A micro-batch is one file of each kind. A last person, auction and bid, ``TAIL_MS`` after all
others, close the last windows. Further ones, as long after them, close windows over results of
windows; no checksum includes them. Flink's file source promises no order among files, so it has two
files of its own, each with every other row of the whole time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benches.stream import DATA, T0_MS

PER_SECOND = 10_000
TAIL_MS = 60_000

CLOCK = "q12"
"""The query with wall-clock windows, whose results differ from run to run."""

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
"""The columns of a query's results that are its key and its value."""

READS = {"q8": ("persons", "auctions")}
"""The kinds of events that each query reads; any other query reads the bids."""


@dataclass(frozen=True)
class Kind:
    """The files of one kind of events.

    Attributes:
        name: ``persons``, ``auctions`` or ``bids``.
        stream: Folder of the stream.
    """

    name: str
    stream: Path

    @property
    def schema(self) -> str:
        """The columns in Spark's DDL."""
        return SCHEMAS[self.name]

    @property
    def folder(self) -> Path:
        """The folder with a file for each micro-batch."""
        return self.stream / self.name

    @property
    def halves(self) -> Path:
        """The folder of Flink's two files, which have ``ms`` instead of ``time``."""
        return self.stream / f"{self.name}-halves"

    @property
    def parts(self) -> str:
        """A glob of all files."""
        return str(self.folder / "*.parquet")

    @property
    def everything(self) -> str:
        """A glob of all files, since no sentinel has a file of its own."""
        return self.parts


@dataclass(frozen=True)
class Auctions:
    """A stream of events, and the query that reads it.

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
        """The folder of all of its files."""
        return DATA / f"nexmark-r{PER_SECOND}-n{self.rows}-b{self.batch}"

    @property
    def sides(self) -> tuple[Kind, ...]:
        """The kinds of events that the query reads."""
        return tuple(Kind(name, self.folder) for name in READS.get(self.query, ("bids",)))

    @property
    def last_ms(self) -> int:
        """The greatest event time, except for the last event of each kind."""
        return T0_MS + (self.rows - 1) * 1000 // PER_SECOND

    def files(self) -> Iterator[tuple[str, range]]:
        """Yield the name of each file with the numbers of its events, in the order of arrival."""
        for number, start in enumerate(range(0, self.rows, self.batch)):
            yield f"part-{number:05d}.parquet", range(start, min(start + self.batch, self.rows))
