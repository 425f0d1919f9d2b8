"""Types between Spark, Arrow and Polars."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from muntin.engine import columns
from muntin.engine.results import no_results
from muntin.engine.windows.combine import Combiner
from muntin.model.aggregates.entry import LIST, SAME
from muntin.model.errors import OptionError
from muntin.model.grouping_sets import GROUPING_ID
from muntin.model.shapes import Shape
from muntin.model.spec import WindowSpec
from muntin.spark.host.internals.versions import arrow_schema

_FAMILIES = {
    "boolean": "boolean", "byte": "integer", "short": "integer", "integer": "integer",
    "long": "integer", "float": "float", "double": "float", "decimal": "decimal",
    "string": "string", "binary": "binary", "date": "date", "time": "time",
    "timestamp": "timestamp", "timestamp_ntz": "timestamp", "daytimeinterval": "interval",
    "void": "void",
}  # fmt: skip


def polars_schema(schema: T.StructType) -> pl.Schema:
    """The Polars types of Spark columns, as they arrive through Arrow.

    Raises:
        OptionError: When a column has a type that doesn't get there.
    """
    return pl.Schema({field.name: _polars_type(field) for field in schema.fields})


def spark_schema(columns: Mapping[str, pl.DataType]) -> T.StructType:
    """Spark columns of Polars types; all of them may be null."""
    arrow = pl.DataFrame(schema=columns).to_arrow().schema
    return from_arrow_schema(arrow, prefer_timestamp_ntz=True)


def _polars_type(field: T.StructField) -> pl.DataType:
    try:
        arrow = arrow_schema(T.StructType([field]))
        return pl.from_arrow(arrow.empty_table()).to_series().dtype  # type: ignore[union-attr]
    except (PySparkException, pa.ArrowException, pl.exceptions.PolarsError) as error:
        problem = f"has type {field.dataType.simpleString()}, which Python workers can't read"
        hint = "cast it to another type, or drop it from the frame"
        raise OptionError("column", field.name, problem, hint) from error


def shape_of(kind: T.DataType) -> Shape:
    """A Spark type as aggregates see it."""
    text = kind.simpleString()
    if isinstance(kind, T.ArrayType):
        return Shape.nested(text, "array", [shape_of(kind.elementType)])
    if isinstance(kind, T.StructType):
        return Shape.nested(text, "struct", [shape_of(f.dataType) for f in kind.fields])
    if isinstance(kind, T.MapType):
        return Shape.nested(text, "map", [shape_of(kind.keyType), shape_of(kind.valueType)])
    if isinstance(kind, T.StringType) and text != "string":
        # Under a collation texts are equal that have other bytes.
        return Shape(text, "collated")
    # What has arguments is known by its name alone.
    return Shape(text, _FAMILIES.get(kind.typeName(), "other"))


def nullable(kind: T.DataType) -> T.DataType:
    """The type with room for a null at every depth.

    Arrow has no null struct of a field that is never null, and Spark says of most nested literals
    that they never are.
    """
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(nullable(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(nullable(kind.keyType), nullable(kind.valueType))
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, nullable(f.dataType)) for f in kind.fields])
    return kind


def result_schema(source: T.StructType, combiner: Combiner) -> T.StructType:
    """The columns of results: keys, window bounds, aggregates, emission, revision."""
    spec = combiner.spec
    lowered = from_arrow_schema(no_results(combiner).to_arrow().schema)
    types = {f.name: f.dataType for f in lowered.fields}
    for name, aggregate in spec.aggregates.items():
        if aggregate.entry.gives == SAME:
            types[name] = nullable(source[str(aggregate.column)].dataType)
        elif aggregate.entry.gives == LIST:
            types[name] = T.ArrayType(nullable(source[str(aggregate.column)].dataType))
    fields = [
        T.StructField(k, source[k].dataType, _has_null(source[k], spec)) for k in spec.key_columns
    ]
    if spec.sets is not None:
        fields.append(T.StructField(GROUPING_ID, T.LongType(), False))
    time = None if spec.time is None or spec.axis == "rows" else source[spec.time].dataType
    bound = T.LongType() if spec.axis == "rows" else moment_type(time)
    fields += [T.StructField(c, bound, False) for c in (columns.WINDOW_START, columns.WINDOW_END)]
    fields += [T.StructField(name, types[name]) for name in spec.aggregates]
    fields += [
        T.StructField(columns.EMISSION, T.StringType(), False),
        T.StructField(columns.REVISION, T.IntegerType(), False),
    ]
    return T.StructType(fields)


def _has_null(key: T.StructField, spec: WindowSpec) -> bool:
    """Whether a key may be NULL in results; no result has a partition that isn't known."""
    placed = spec.axis == "rows" and spec.offset is not None and key.name == spec.offset[0]
    some = key.nullable and key.name not in spec.required and not placed
    return some or spec.sets is not None


def rejected_schema(source: T.StructType, moment: T.DataType) -> T.StructType:
    """The columns of rejected messages: the input's, the reason, the watermark in force."""
    return T.StructType(
        [
            *(T.StructField(f.name, nullable(f.dataType)) for f in source.fields),
            T.StructField(columns.REASON, T.StringType(), False),
            T.StructField(columns.WATERMARK, moment),
        ]
    )


def moment_type(time: T.DataType | None) -> T.DataType:
    """The type of moments that were not in the input, like that of its event times."""
    zoneless = isinstance(time, T.TimestampNTZType | T.DateType)
    return T.TimestampNTZType() if zoneless else T.TimestampType()


def to_batches(frame: pl.DataFrame, schema: T.StructType) -> list[pa.RecordBatch]:
    """A Polars frame as Arrow batches of exactly Spark's types; whole numbers become times."""
    target = arrow_schema(schema)
    times = [
        pl.col(field.name).cast(pl.Datetime("us", field.type.tz))
        for field in target
        if pa.types.is_timestamp(field.type) and frame.schema[field.name].is_integer()
    ]
    table = frame.with_columns(times).select(target.names).to_arrow().cast(target)
    return table.combine_chunks().to_batches()


def to_blob(frame: pl.DataFrame, schema: T.StructType, *, compressed: bool = False) -> bytes:
    """The same as one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd" if compressed else None)
    with pa.ipc.new_stream(sink, arrow_schema(schema), options=options) as writer:
        for batch in to_batches(frame, schema):
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()
