"""What an operator emitted as rows of the next one, and all that goes beside them."""

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
from muntin.spark.host.internals.versions import arrow_schema
from muntin.spark.host.messages import BLOB, KIND, PROGRESS


@dataclass(frozen=True)
class Unpack:
    """The function given to ``mapInArrow``: blobs of results become rows, the others stay blobs.

    Attributes:
        schema: The results' columns, and those of ``PASSED``.
        stage: What the operator is to the one behind it.
        side: Which side of that one it is, if that is a join.
        rejected: The columns of rejected messages of both.
        named: Columns of its rejected messages that have another name there.
    """

    schema: StructType
    stage: str
    side: str
    rejected: StructType
    named: Mapping[str, str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack what the shards emitted."""
        target = arrow_schema(self.schema)
        for batch in batches:
            for row in batch.to_pylist():
                if row["kind"] == RESULTS:
                    yield from _fitted(_read(row["blob"]), target, {}).to_batches()
                    continue
                passed = {KIND: row["kind"], BLOB: row["blob"], PROGRESS: row["progress"]}
                if row["kind"] == REJECTED:
                    passed[BLOB] = self._widened(row["blob"])
                else:
                    passed[PROGRESS] = self._staged(row["progress"])
                yield pa.RecordBatch.from_pylist([passed], schema=target)

    def _staged(self, text: str) -> str:
        """Figures with the way to their operator from the one behind this."""
        progress = json.loads(text)
        before = progress.get(STAGE)
        return json.dumps({**progress, STAGE: f"{self.stage}/{before}" if before else self.stage})

    def _widened(self, blob: bytes) -> bytes:
        """Rejected messages with the columns that those of the next operator have."""
        table = _read(blob)
        table = table.rename_columns([self.named.get(name, name) for name in table.column_names])
        if self.side:
            table = self._sided(table)
        # What has no stage yet was rejected by the first operator that it met.
        table = _fitted(table, arrow_schema(self.rejected), {DEPTH: 1})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    def _sided(self, table: pa.Table) -> pa.Table:
        """Rejected messages with the way to their side from the join behind this operator."""
        before = [None] * len(table)
        if SIDE in table.column_names:
            before = table[SIDE].to_pylist()
            table = table.drop_columns([SIDE])
        sides = [f"{self.side}/{one}" if one else self.side for one in before]
        return table.append_column(SIDE, pa.array(sides, pa.string()))


def _read(blob: bytes) -> pa.Table:
    return pa.ipc.open_stream(blob).read_all()


def _fitted(table: pa.Table, schema: pa.Schema, values: Mapping[str, Any]) -> pa.Table:
    """Rows with the columns of a schema; where they have none, a value, or null."""
    there, size = set(table.column_names), len(table)
    found = [
        table[f.name].cast(f.type)
        if f.name in there
        else pa.array([values.get(f.name)] * size, f.type)
        for f in schema
    ]
    return pa.table(found, schema=schema)
