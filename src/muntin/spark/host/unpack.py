"""Turns the output of an operator into rows of the next one, and passes on everything else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from muntin.engine.joins.joiner import SIDE
from muntin.engine.operator import REJECTED, RESULTS
from muntin.hosts.chain import DEPTH
from muntin.hosts.progress import STAGE
from muntin.spark.host.internals.versions import make_arrow_schema
from muntin.spark.host.messages import BLOB, KIND, PROGRESS


@dataclass(frozen=True)
class Unpack:
    """A function for ``mapInArrow`` that unpacks blobs of results, and passes on other blobs.

    Attributes:
        schema: The results' columns, and those of ``PASSED``.
        stage: The input of the downstream operator that the operator feeds.
        side: The side that it feeds, if the downstream operator is a join; else empty.
        rejected: The columns of rejected messages of both operators.
        named: The columns of its rejected messages that are renamed, with their new names.
    """

    schema: StructType
    stage: str
    side: str
    rejected: StructType
    named: Mapping[str, str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack the output of the shards."""
        target = make_arrow_schema(self.schema)
        for batch in batches:
            for row in batch.to_pylist():
                if row["kind"] == RESULTS:
                    yield from _fit_columns(_read(row["blob"]), target, {}).to_batches()
                    continue
                passed = {KIND: row["kind"], BLOB: row["blob"], PROGRESS: row["progress"]}
                if row["kind"] == REJECTED:
                    passed[BLOB] = self._widen(row["blob"])
                else:
                    passed[PROGRESS] = self._add_stage(row["progress"])
                yield pa.RecordBatch.from_pylist([passed], schema=target)

    def _add_stage(self, text: str) -> str:
        """Return figures with the path to their operator from the downstream one."""
        progress = json.loads(text)
        before = progress.get(STAGE)
        return json.dumps({**progress, STAGE: f"{self.stage}/{before}" if before else self.stage})

    def _widen(self, blob: bytes) -> bytes:
        """Return rejected messages with all columns that the downstream operator's have."""
        table = _read(blob)
        table = table.rename_columns([self.named.get(name, name) for name in table.column_names])
        if self.side:
            table = self._add_side(table)
        # A message without a stage was rejected by the first operator of the chain.
        table = _fit_columns(table, make_arrow_schema(self.rejected), {DEPTH: 1})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    def _add_side(self, table: pa.Table) -> pa.Table:
        """Return rejected messages with the path to their side from the downstream join."""
        before = [None] * len(table)
        if SIDE in table.column_names:
            before = table[SIDE].to_pylist()
            table = table.drop_columns([SIDE])
        sides = [f"{self.side}/{one}" if one else self.side for one in before]
        return table.append_column(SIDE, pa.array(sides, pa.string()))


def _read(blob: bytes) -> pa.Table:
    return pa.ipc.open_stream(blob).read_all()


def _fit_columns(table: pa.Table, schema: pa.Schema, values: Mapping[str, Any]) -> pa.Table:
    """Return rows with the columns of a schema; missing ones get a value, or null."""
    names, size = set(table.column_names), len(table)
    arrays = [
        table[f.name].cast(f.type)
        if f.name in names
        else pa.array([values.get(f.name)] * size, f.type)
        for f in schema
    ]
    return pa.table(arrays, schema=schema)
