"""The outputs of a pipeline's queries, each of which needs a table of its own.

Rows that are written again under a batch's number replace the earlier ones, so that a batch may be
repeated: a folder of Parquet, or the rows of a log in DuckDB or PostgreSQL. Each query counts its
batches from 0, so two outputs in one table would overwrite each other's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from muntin.model.pipeline import DeclaredTable, Flow

OutputPart = Literal["into", "rejected"]
OUTPUT_HINT = "give each output a table of its own"


@dataclass(frozen=True)
class Output:
    """One table that a query writes to."""

    query: int
    part: OutputPart
    table: str


def find_shared_table(
    flows: Sequence[Flow], tables: Mapping[str, DeclaredTable]
) -> tuple[Output, Output] | None:
    """Return the first two outputs that go to one table; names are compared without case.

    A Kafka topic may take the rejected messages of several queries: messages are only appended to
    it, and a dead letter replaces no other. Results would replace each other, since their key is
    the key and the window of a row.
    """
    taken: dict[str, Output] = {}
    for output in _list_outputs(flows):
        name = output.table.lower()
        first = taken.setdefault(name, output)
        # A table that couldn't be read counts as none in Kafka.
        in_kafka = name in tables and tables[name].connector == "kafka"
        letters = first.part == output.part == "rejected" and in_kafka
        if first is not output and not letters:
            return first, output
    return None


def _list_outputs(flows: Sequence[Flow]) -> Iterator[Output]:
    for place, flow in enumerate(flows):
        if flow.results is not None:
            yield Output(place, "into", flow.results)
        if flow.rejected is not None:
            yield Output(place, "rejected", flow.rejected)
