"""Pairs of a join that go on into windows, and what else the join tells beside them.

A windowed aggregation over a join is one streaming query. The pairs become messages; the messages
that the join rejected and its figures travel with them, as blobs in columns of their own, through
the combining task and the shard, so that the query tells them with its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from muntin.engine import columns
from muntin.engine.joiner import SIDE
from muntin.model.errors import OptionError
from muntin.spark.combiner import BLOB, FIGURES, KIND
from muntin.spark.joining import JoinPlan
from muntin.spark.processor import REJECTED, RESULTS, STAGE

_PASSED = [
    StructField(KIND, StringType()),
    StructField(BLOB, BinaryType()),
    StructField(FIGURES, StringType()),
]


def onward(plan: JoinPlan) -> DataFrame:
    """The pairs as rows, and among them rows of ``PASSED`` for all else that the join tells."""
    fields = [StructField(f.name, f.dataType) for f in plan.results.fields]
    schema = StructType([*fields, *_PASSED])
    rejected = rejected_with_join(plan)
    return plan.told.mapInArrow(Unpack(schema, rejected), schema)


def rejected_with_join(plan: JoinPlan) -> StructType:
    """The columns of rejected messages of both sides and of rejected pairs.

    Args:
        plan: The join.

    Raises:
        OptionError: When a column would have two types.
    """
    kinds = {f.name: f.dataType for f in plan.results.fields}
    for field in plan.rejected.fields[1:-2]:
        if kinds.setdefault(field.name, field.dataType) != field.dataType:
            cure = "rename one of them"
            raise OptionError("suffix", field.name, "is a column of two types", cure)
    return StructType(
        [
            StructField(SIDE, StringType(), False),
            *(StructField(name, kind) for name, kind in kinds.items() if name != SIDE),
            StructField(columns.REASON, StringType(), False),
            plan.rejected.fields[-1],
        ]
    )


class Unpack:
    """The function given to ``mapInArrow``: blobs of pairs become rows, the others stay blobs.

    Args:
        schema: The pairs' columns, and those of ``PASSED``.
        rejected: The columns of rejected messages of both sides and of rejected pairs.
    """

    def __init__(self, schema: StructType, rejected: StructType) -> None:
        self.schema = schema
        self.rejected = rejected

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack what a join's shards told."""
        target = to_arrow_schema(self.schema, timezone="UTC")
        for batch in batches:
            for row in batch.to_pylist():
                if row["kind"] == RESULTS:
                    yield from _fitted(row["blob"], target).to_batches()
                else:
                    passed = {KIND: row["kind"], BLOB: row["blob"], FIGURES: row["figures"]}
                    if row["kind"] == REJECTED:
                        passed[BLOB] = self._widened(row["blob"])
                    else:
                        passed[FIGURES] = json.dumps({**json.loads(row["figures"]), STAGE: "join"})
                    yield pa.RecordBatch.from_pylist([passed], schema=target)

    def _widened(self, blob: bytes) -> bytes:
        """Rejected messages with the columns that rejected pairs have."""
        table = _fitted(blob, to_arrow_schema(self.rejected, timezone="UTC"))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()


def _fitted(blob: bytes, schema: pa.Schema) -> pa.Table:
    """A blob's rows with the columns of a schema, null where it has none."""
    table = pa.ipc.open_stream(blob).read_all()
    there = set(table.column_names)
    found = [
        table[f.name].cast(f.type) if f.name in there else pa.nulls(len(table), f.type)
        for f in schema
    ]
    return pa.table(found, schema=schema)
