"""Spark's columns of the rows that agents and their tables emit."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import polars as pl
from pyspark.sql.types import StructField, StructType

from muntin.engine import columns
from muntin.model.pipeline import WINDOW_BOUNDS
from muntin.spark.host.schema import spark_schema
from muntin.tables.emitted import REJECTED_SCHEMA, make_result_schema, make_table_schema
from muntin.tables.spec import TableSpec

_NEVER_NULL = {"key", *WINDOW_BOUNDS, columns.EMISSION, columns.REVISION}


def make_agent_table_schema(spec: TableSpec) -> StructType:
    """Return the columns of a table: key, window, value, ``emission``, ``revision``."""
    return _to_spark(make_table_schema(spec), _NEVER_NULL)


def make_agent_schema(result_type: Any) -> StructType:
    """Return the columns of an agent's results: the fields of their type, or a value as JSON."""
    return _to_spark(make_result_schema(result_type))


def make_rejected_schema() -> StructType:
    """Return the columns of rejected events."""
    return _to_spark(REJECTED_SCHEMA, ("topic", columns.REASON))


def _to_spark(schema: pl.Schema, never_null: Collection[str] = ()) -> StructType:
    fields = spark_schema(schema).fields
    return StructType([StructField(f.name, f.dataType, f.name not in never_null) for f in fields])
