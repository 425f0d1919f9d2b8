"""Types between Spark, Arrow and Polars."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from muntin.engine import columns
from muntin.engine.combine import Combiner
from muntin.engine.results import no_results


def polars_schema(schema: StructType) -> pl.Schema:
    """The Polars types of Spark columns, as they arrive through Arrow."""
    empty = pl.from_arrow(to_arrow_schema(schema, timezone="UTC").empty_table())
    assert isinstance(empty, pl.DataFrame)
    return empty.schema


def result_schema(source: StructType, combiner: Combiner) -> StructType:
    """The columns of results: keys, window bounds, aggregates, emission, revision."""
    spec = combiner.spec
    lowered = from_arrow_schema(no_results(combiner).to_arrow().schema)
    same = {"min", "max", "first", "last", "arg_min", "arg_max", "exact_quantile"}
    types = {f.name: f.dataType for f in lowered.fields}
    for name, aggregate in spec.aggregates.items():
        if aggregate.kind in same:
            types[name] = source[str(aggregate.column)].dataType
        elif aggregate.kind in ("top_k", "collect_list", "distinct"):
            types[name] = ArrayType(source[str(aggregate.column)].dataType)
    fields = [StructField(key, source[key].dataType, False) for key in spec.keys]
    bound = LongType() if spec.axis == "rows" else moment_type(source, spec.time)
    fields += [StructField(c, bound, False) for c in (columns.WINDOW_START, columns.WINDOW_END)]
    fields += [StructField(name, types[name]) for name in spec.aggregates]
    fields += [
        StructField(columns.EMISSION, StringType(), False),
        StructField(columns.REVISION, IntegerType(), False),
    ]
    return StructType(fields)


def rejected_schema(source: StructType, time: str | None) -> StructType:
    """The columns of rejected messages: the input's, the reason, the watermark in force."""
    return StructType(
        [
            *(StructField(f.name, f.dataType) for f in source.fields),
            StructField(columns.REASON, StringType(), False),
            StructField(columns.WATERMARK, moment_type(source, time)),
        ]
    )


def moment_type(source: StructType, time: str | None) -> DataType:
    """The type of moments that were not in the input, like that of its event times."""
    zoneless = time is not None and isinstance(source[time].dataType, TimestampNTZType)
    return TimestampNTZType() if zoneless else TimestampType()


def to_batches(frame: pl.DataFrame, schema: StructType) -> list[pa.RecordBatch]:
    """A Polars frame as Arrow batches of exactly Spark's types; whole numbers become times."""
    target = to_arrow_schema(schema, timezone="UTC")
    times = [
        pl.col(field.name).cast(pl.Datetime("us", field.type.tz))
        for field in target
        if pa.types.is_timestamp(field.type) and frame.schema[field.name].is_integer()
    ]
    table = frame.with_columns(times).select(target.names).to_arrow().cast(target)
    return table.combine_chunks().to_batches()


def to_blob(frame: pl.DataFrame, schema: StructType) -> bytes:
    """The same as one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, to_arrow_schema(schema, timezone="UTC")) as writer:
        for batch in to_batches(frame, schema):
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()
