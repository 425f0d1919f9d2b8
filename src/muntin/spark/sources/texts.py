"""Converts rows to texts, with Spark's formats of values."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructField, StructType, VariantType

from muntin.model.pipeline import quote_name

_PARTS = (ArrayType, MapType, StructType, VariantType)
_EVERY = {"ignoreNullFields": "false"}


def to_json_objects(frame: DataFrame) -> list[str]:
    """Return each row as a JSON object with all of its columns."""
    row = F.struct(*(F.col(quote_name(name)) for name in frame.columns))
    return [row_of_text[0] for row_of_text in frame.select(F.to_json(row, _EVERY)).collect()]


def to_texts(frame: DataFrame) -> list[tuple[str | None, ...]]:
    """Return each row's values as texts; nested values become JSON."""
    shown = frame.select(*(_cell(field) for field in frame.schema))
    return [tuple(row) for row in shown.collect()]


def _cell(field: StructField) -> Column:
    column = F.col(quote_name(field.name))
    if isinstance(field.dataType, _PARTS):
        return F.to_json(column, _EVERY)
    return column.cast("string")
