"""Schemas and frames of the rows that agents and their tables emit on Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from typing import Any, get_type_hints

import polars as pl
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from muntin.engine import columns
from muntin.model.errors import OptionError
from muntin.spark.host.schema import polars_schema
from muntin.tables import typed
from muntin.tables.cells import GONE
from muntin.tables.partition import Rejected, SentMessage
from muntin.tables.shard import TableEntry
from muntin.tables.spec import TableSpec

_TYPES: dict[Any, DataType] = {
    bool: BooleanType(),
    int: LongType(),
    float: DoubleType(),
    str: StringType(),
    bytes: BinaryType(),
    datetime: TimestampType(),
    date: DateType(),
}
TABLE, RESULT, SENT = "table", "result", "sent"
RETRACT, UPDATE, FULL = "retract", "early", "full"

MESSAGE = StructType(
    [
        StructField("key", StringType()),
        StructField("time", TimestampType()),
        StructField("value", StringType()),
    ]
)
REJECTED_SCHEMA = StructType(
    [
        StructField("topic", StringType(), False),
        StructField(columns.REASON, StringType(), False),
        StructField("agent", StringType()),
        StructField("table", StringType()),
        StructField("key", StringType()),
        StructField("value", StringType()),
        StructField("time", TimestampType()),
        StructField("detail", StringType()),
        StructField(columns.WATERMARK, TimestampType()),
    ]
)
# The schema of rejected events in frames of the workers, where times are integer microseconds.
REJECTED_FRAME = pl.Schema(
    {
        name: pl.Int64() if isinstance(dtype, pl.Datetime) else dtype
        for name, dtype in polars_schema(REJECTED_SCHEMA).items()
    }
)


def format_kind(what: str, name: str) -> str:
    """Return the kind of the rows of a table, of an agent's results, or of a topic."""
    return f"{what}:{name}"


def make_agent_table_schema(spec: TableSpec) -> StructType:
    """Return the columns of a table: key, window, value, ``emission``, ``revision``."""
    key = _TYPES.get(spec.key_type, StringType())
    fields_before = [StructField("key", key, False)]
    if spec.windows is not None:
        bounds = (columns.WINDOW_START, columns.WINDOW_END)
        fields_before += [StructField(name, TimestampType(), False) for name in bounds]
    return StructType(
        [
            *fields_before,
            StructField("value", value_type(spec)),
            StructField(columns.EMISSION, StringType(), False),
            StructField(columns.REVISION, LongType(), False),
        ]
    )


def value_type(spec: TableSpec) -> DataType:
    """Return the type of a table's value column; text (JSON) where values have no Spark type."""
    kind = spec.value_type
    if kind is None and spec.default is not None:
        kind = type(spec.default())
    return StringType() if spec.sets else _TYPES.get(kind, StringType())


def to_table_frame(spec: TableSpec, emitted: Sequence[TableEntry], revision: int) -> pl.DataFrame:
    """Return the changes of a table as a frame, or refuse a value that doesn't fit its column."""
    schema = make_agent_table_schema(spec)
    data: dict[str, Any] = {
        "key": _to_column(spec, "key_type", schema["key"].dataType, [t.key for t in emitted])
    }
    if spec.windows is not None:
        for index, name in enumerate((columns.WINDOW_START, columns.WINDOW_END)):
            data[name] = pl.Series([t.window[index] for t in emitted if t.window], dtype=pl.Int64)
    values = [None if t.value is GONE else t.value for t in emitted]
    data["value"] = _to_column(spec, "value_type", schema["value"].dataType, values)
    data[columns.EMISSION] = [
        RETRACT if t.value is GONE else FULL if t.closed else UPDATE for t in emitted
    ]
    data[columns.REVISION] = pl.Series([revision] * len(emitted), dtype=pl.Int64)
    return pl.DataFrame(data)


def _to_column(spec: TableSpec, option: str, kind: DataType, values: list[Any]) -> pl.Series:
    dtype = polars_schema(StructType([StructField("x", kind)]))["x"]
    if isinstance(kind, StringType):
        values = [value if value is None else format_value(value) for value in values]
    try:
        return pl.Series(values, dtype=dtype, strict=True)
    except (OverflowError, TypeError, ValueError, pl.exceptions.PolarsError) as error:
        what, option_text = "keys", "key_type=str"
        if option == "value_type":
            what, option_text = "values", f"on_spark(types={{{spec.name!r}: float}})"
        problem = f"holds {what} that aren't {kind.simpleString()}"
        hint = f"give another type, as in {option_text}"
        raise OptionError("table", spec.name, problem, hint) from error


def format_value(value: Any) -> str:
    """Return a key or value as text: a text unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(typed.to_plain(value))


def make_agent_schema(result_type: Any) -> StructType:
    """Return the columns of an agent's results: the fields of their type, or a value as JSON."""
    if result_type is None:
        return MESSAGE
    if not is_dataclass(result_type):
        hint = "give a dataclass or a muntin.Record, or leave it out"
        raise OptionError("result_type", result_type, "has no fields", hint)
    hints = get_type_hints(result_type)
    columns_of_type = []
    for field in fields(result_type):
        kind = _TYPES.get(hints[field.name])
        if kind is None:
            hint = f"use one of {', '.join(t.__name__ for t in _TYPES)}"
            raise OptionError("result_type", result_type, f"has {field.name}, no column", hint)
        columns_of_type.append(StructField(field.name, kind))
    return StructType(columns_of_type)


def to_message_frame(sent: Sequence[SentMessage], result_type: Any = None) -> pl.DataFrame:
    """Return sent messages or results as a frame, with times in microseconds."""
    if result_type is not None:
        schema = polars_schema(make_agent_schema(result_type))
        names = list(schema)
        rows = [[getattr(one.value, name) for name in names] for one in sent]
        return pl.DataFrame(rows, schema=schema, orient="row", strict=True)
    return pl.DataFrame(
        {
            "key": [None if one.key is None else format_value(one.key) for one in sent],
            "time": pl.Series([one.time for one in sent], dtype=pl.Int64),
            "value": [json.dumps(typed.to_plain(one.value)) for one in sent],
        },
        schema_overrides={"key": pl.String, "value": pl.String},
    )


def to_rejected_frame(rejected: Sequence[Rejected]) -> pl.DataFrame:
    """Return rejected events as a frame, with times in microseconds."""
    data = {name: [getattr(row, name) for row in rejected] for name in REJECTED_FRAME}
    data["key"] = [None if key is None else format_value(key) for key in data["key"]]
    data["value"] = [format_value(value) for value in data["value"]]
    return pl.DataFrame(data, schema=REJECTED_FRAME)
