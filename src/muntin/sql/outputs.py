"""Finds outputs of a pipeline's queries that share a table.

A sink that receives a batch again replaces the rows with the number of that batch, so that a batch
may be repeated. Each query counts its batches from 0, so two outputs to one table would overwrite
each other's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from muntin.model.pipeline import DeclaredTable, Flow

OutputPart = Literal["into", "rejected"]
OUTPUT_HINT = "give each output a table of its own"


@dataclass(frozen=True)
class TableOutput:
    """One output of a query.

    Attributes:
        query: Index of the query.
        part: Whether the output has the results or the rejected messages.
    """

    query: int
    part: OutputPart
    table: str


def find_shared_table(
    flows: Sequence[Flow], tables: Mapping[str, DeclaredTable]
) -> tuple[TableOutput, TableOutput] | None:
    """Return the first two outputs to one table, whose names have no case; ``None`` without such.

    Several queries may write rejected messages to one Kafka topic, which are only appended. Results
    in a topic would replace each other, since their key is the key and window of a row.
    """
    outputs_by_table: dict[str, TableOutput] = {}
    for output in _list_outputs(flows):
        name = output.table.lower()
        first = outputs_by_table.setdefault(name, output)
        # A table whose definition has an error is missing here.
        in_kafka = name in tables and tables[name].connector == "kafka"
        are_rejected_messages = first.part == output.part == "rejected" and in_kafka
        if first is not output and not are_rejected_messages:
            return first, output
    return None


def _list_outputs(flows: Sequence[Flow]) -> Iterator[TableOutput]:
    for index, flow in enumerate(flows):
        if flow.results is not None:
            yield TableOutput(index, "into", flow.results)
        if flow.rejected is not None:
            yield TableOutput(index, "rejected", flow.rejected)
