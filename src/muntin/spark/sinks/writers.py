"""Chooses the sinks that Spark writes itself: files, tables of a lake and Kafka topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import NullType, StructField, StructType

from muntin.model.errors import OptionError
from muntin.sinks import sink as sinks
from muntin.sinks.batch import Batch
from muntin.sinks.delta import DeltaSink
from muntin.sinks.iceberg import IcebergSink
from muntin.sinks.kafka import KafkaSink
from muntin.sinks.parquet import ParquetSink
from muntin.sinks.sink import Sink
from muntin.spark.host.internals.versions import make_arrow_schema
from muntin.spark.sinks.delta import DeltaWriter
from muntin.spark.sinks.iceberg import IcebergWriter
from muntin.spark.sinks.kafka import KafkaWriter
from muntin.spark.sinks.parquet import ParquetWriter


class SparkWriter(Protocol):
    """Writes a sink's batches by Spark."""

    def check(self, schema: StructType, keys: tuple[str, ...] | None) -> None:
        """Refuse rows that can't be written, before anything runs."""

    def write(self, batch: Batch, *, few: bool) -> bool:
        """Write a batch and return true, or leave it to the sink; ``few`` are on the driver."""


_WRITERS: Mapping[type, Callable[[Any], SparkWriter]] = {
    DeltaSink: DeltaWriter,
    IcebergSink: IcebergWriter,
    KafkaSink: KafkaWriter,
    ParquetSink: ParquetWriter,
}


def _writer_of(sink: Any) -> SparkWriter | None:
    """Return the writer for a kind of sinks; ``None`` where the sink itself writes batches."""
    for kind in type(sink).__mro__:
        if kind in _WRITERS:
            return _WRITERS[kind](sink)
    return None


def write_by_spark(sink: Any, batch: Batch, *, few: bool) -> bool:
    """Write a batch with Spark, if Spark writes this kind of sinks; return whether it did."""
    writer = _writer_of(sink)
    return writer is not None and writer.write(batch, few=few)


def check_destination(
    target: Sink | None, schema: StructType, keys: tuple[str, ...] | None
) -> None:
    """Check, before anything runs, that a sink can write rows of a schema."""
    writer = _writer_of(target)
    if writer is not None:
        writer.check(schema, keys)
    elif target is not None:
        sinks.check_output(target, _arrow_schema(schema), keys)


def folders_of(target: Sink | None) -> list[str]:
    """Return the folders that Spark's tasks write for a sink."""
    if isinstance(target, ParquetSink):
        return [target.table]
    if isinstance(target, DeltaSink):
        return [table for table in (target.table, target.history) if table and "/" in table]
    return []


def table_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow types of columns; a column without an Arrow type gets the null type."""
    try:
        return make_arrow_schema(schema)
    except PySparkException:
        return make_arrow_schema(
            StructType([_null_if_unsupported(field) for field in schema.fields])
        )


def _null_if_unsupported(field: StructField) -> StructField:
    try:
        make_arrow_schema(StructType([field]))
    except PySparkException:
        return StructField(field.name, NullType(), True)
    return field


def _arrow_schema(schema: StructType) -> pa.Schema:
    for field in schema.fields:
        if _null_if_unsupported(field) is not field:
            problem = f"has type {field.dataType.simpleString()}, which Arrow lacks"
            raise OptionError("column", field.name, problem, "cast it to a number or a string")
    return make_arrow_schema(schema)
