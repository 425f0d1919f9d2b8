"""Where the queries of a pipeline write: each output has a table of its own.

What is written again under a batch's number replaces what stood there, so that a batch may be
repeated: a folder of Parquet, the rows of a log in DuckDB or PostgreSQL. Each query counts its
batches from 0, so two outputs in one table would wipe each other's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from muntin.model.pipeline import DeclaredTable, Flow

Part = Literal["into", "rejected"]
HINT = "give each output a table of its own"


@dataclass(frozen=True)
class Target:
    """One place that a query writes to."""

    query: int
    part: Part
    table: str


def shared(
    flows: Sequence[Flow], tables: Mapping[str, DeclaredTable]
) -> tuple[Target, Target] | None:
    """The first two outputs that go to one table; names are compared without case.

    A topic of Kafka may take the rejected messages of several queries: it is only added to, and a
    dead letter replaces no other. Results would, since they are known by their key and window.
    """
    taken: dict[str, Target] = {}
    for output in _outputs(flows):
        name = output.table.lower()
        first = taken.setdefault(name, output)
        # A table that couldn't be read is none of those.
        in_kafka = name in tables and tables[name].connector == "kafka"
        letters = first.part == output.part == "rejected" and in_kafka
        if first is not output and not letters:
            return first, output
    return None


def _outputs(flows: Sequence[Flow]) -> Iterator[Target]:
    for place, flow in enumerate(flows):
        if flow.results is not None:
            yield Target(place, "into", flow.results)
        if flow.rejected is not None:
            yield Target(place, "rejected", flow.rejected)
