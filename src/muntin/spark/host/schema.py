"""Converts types and frames between Spark, Arrow and Polars."""

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
from muntin.spark.host.internals.versions import make_arrow_schema

_FAMILIES = {
    "boolean": "boolean", "byte": "integer", "short": "integer", "integer": "integer",
    "long": "integer", "float": "float", "double": "float", "decimal": "decimal",
    "string": "string", "binary": "binary", "date": "date", "time": "time",
    "timestamp": "timestamp", "timestamp_ntz": "timestamp", "daytimeinterval": "interval",
    "void": "void",
}  # fmt: skip


def polars_schema(schema: T.StructType) -> pl.Schema:
    """Return the Polars types of Spark columns that arrive through Arrow, or refuse one."""
    return pl.Schema({field.name: _polars_type(field) for field in schema.fields})


def spark_schema(columns: Mapping[str, pl.DataType]) -> T.StructType:
    """Return nullable Spark columns of Polars types."""
    arrow = pl.DataFrame(schema=columns).to_arrow().schema
    return from_arrow_schema(arrow, prefer_timestamp_ntz=True)


def _polars_type(field: T.StructField) -> pl.DataType:
    try:
        arrow = make_arrow_schema(T.StructType([field]))
        return pl.from_arrow(arrow.empty_table()).to_series().dtype  # type: ignore[union-attr]
    except (PySparkException, pa.ArrowException, pl.exceptions.PolarsError) as error:
        problem = f"has type {field.dataType.simpleString()}, which Python workers can't read"
        hint = "cast it to another type, or drop it from the frame"
        raise OptionError("column", field.name, problem, hint) from error


def find_spark_shape(kind: T.DataType) -> Shape:
    """Return the shape of a Spark type, by which aggregates accept it."""
    text = kind.simpleString()
    if isinstance(kind, T.ArrayType):
        return Shape.make_nested(text, "array", [find_spark_shape(kind.elementType)])
    if isinstance(kind, T.StructType):
        return Shape.make_nested(
            text, "struct", [find_spark_shape(f.dataType) for f in kind.fields]
        )
    if isinstance(kind, T.MapType):
        return Shape.make_nested(
            text, "map", [find_spark_shape(kind.keyType), find_spark_shape(kind.valueType)]
        )
    if isinstance(kind, T.StringType) and text != "string":
        # Under a collation, texts with different bytes may be equal.
        return Shape(text, "collated")
    # `typeName` has no arguments, such as a decimal's precision.
    return Shape(text, _FAMILIES.get(kind.typeName(), "other"))


def nullable(kind: T.DataType) -> T.DataType:
    """Return a type whose nested fields are all nullable.

    Arrow can't have a null struct with a field that is never null, and Spark marks most nested
    literals as never null.
    """
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(nullable(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(nullable(kind.keyType), nullable(kind.valueType))
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, nullable(f.dataType)) for f in kind.fields])
    return kind


def result_schema(source: T.StructType, combiner: Combiner) -> T.StructType:
    """Return the columns of results: keys, window bounds, aggregates, emission, revision."""
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
    if spec.windows.result_key is not None:
        fields.append(T.StructField(spec.windows.result_key, T.StringType(), False))
    time = None if spec.time is None or spec.axis == "rows" else source[spec.time].dataType
    bound = T.LongType() if spec.axis == "rows" else moment_type(time)
    fields += [T.StructField(c, bound, False) for c in (columns.WINDOW_START, columns.WINDOW_END)]
    fields += [T.StructField(name, types[name]) for name in spec.aggregates]
    # The revision of a trailing window is the number of its instant.
    revision = T.IntegerType() if spec.windows.result_key is None else T.LongType()
    fields += [
        T.StructField(columns.EMISSION, T.StringType(), False),
        T.StructField(columns.REVISION, revision, False),
    ]
    return T.StructType(fields)


def _has_null(key: T.StructField, spec: WindowSpec) -> bool:
    """Return whether a key may be NULL in results; the partition of an offset never is."""
    is_partition = spec.axis == "rows" and spec.offset is not None and key.name == spec.offset[0]
    may_be_null = key.nullable and key.name not in spec.non_null_keys and not is_partition
    return may_be_null or spec.sets is not None


def add_rejected_columns(source: T.StructType, moment: T.DataType) -> T.StructType:
    """Return the columns of rejected messages: the input's, the reason, the watermark in force."""
    return T.StructType(
        [
            *(T.StructField(f.name, nullable(f.dataType)) for f in source.fields),
            T.StructField(columns.REASON, T.StringType(), False),
            T.StructField(columns.WATERMARK, moment),
        ]
    )


def moment_type(time: T.DataType | None) -> T.DataType:
    """Return the type of moments that muntin computes, which follows the event times' type."""
    zoneless = isinstance(time, T.TimestampNTZType | T.DateType)
    return T.TimestampNTZType() if zoneless else T.TimestampType()


def to_batch(frame: pl.DataFrame, schema: pa.Schema) -> pa.RecordBatch:
    """Return a frame as one Arrow batch; integers become times where the schema has times."""
    columns_by_name = dict(zip(frame.columns, frame.rechunk().get_columns(), strict=True))
    kinds = zip(schema.names, schema.types, strict=True)
    arrays = [_to_array(columns_by_name[name], kind) for name, kind in kinds]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _to_array(column: pl.Series, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind) and column.dtype.is_integer():
        column = column.cast(pl.Datetime("us", kind.tz))
    array = column.to_arrow()
    return array if array.type == kind else array.cast(kind)


def to_blob(frame: pl.DataFrame, schema: pa.Schema, *, compressed: bool) -> bytes:
    """Return a frame as one Arrow IPC stream of Spark's types."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd" if compressed else None)
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        writer.write_batch(to_batch(frame, schema))
    return sink.getvalue().to_pybytes()
