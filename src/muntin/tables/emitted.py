"""Schemas and frames of the rows that agents and their tables emit as an operator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from typing import Any, get_type_hints

import polars as pl

from muntin.engine import columns
from muntin.model.errors import OptionError
from muntin.tables import typed
from muntin.tables.cells import GONE
from muntin.tables.partition import Rejected, SentMessage
from muntin.tables.shard import TableEntry
from muntin.tables.spec import TableSpec

_TIME = pl.Datetime("us", "UTC")
_TYPES: dict[Any, pl.DataType] = {
    bool: pl.Boolean(),
    int: pl.Int64(),
    float: pl.Float64(),
    str: pl.String(),
    bytes: pl.Binary(),
    datetime: _TIME,
    date: pl.Date(),
}
TABLE, RESULT, SENT = "table", "result", "sent"
RETRACT, UPDATE, FULL = "retract", "early", "full"

MESSAGE = pl.Schema({"key": pl.String(), "time": _TIME, "value": pl.String()})
REJECTED_SCHEMA = pl.Schema(
    {
        "topic": pl.String(),
        columns.REASON: pl.String(),
        "agent": pl.String(),
        "table": pl.String(),
        "key": pl.String(),
        "value": pl.String(),
        "time": _TIME,
        "detail": pl.String(),
        columns.WATERMARK: _TIME,
    }
)
# The schema of rejected events in frames of the shards, where times are integer microseconds.
REJECTED_FRAME = pl.Schema(
    {name: pl.Int64() if dtype == _TIME else dtype for name, dtype in REJECTED_SCHEMA.items()}
)


def format_kind(what: str, name: str) -> str:
    """Return the kind of the rows of a table, of an agent's results, or of a topic."""
    return f"{what}:{name}"


def make_table_schema(spec: TableSpec) -> pl.Schema:
    """Return the columns of a table: key, window, value, ``emission``, ``revision``."""
    bounds = (columns.WINDOW_START, columns.WINDOW_END)
    return pl.Schema(
        {
            "key": _TYPES.get(spec.key_type, pl.String()),
            **dict.fromkeys(bounds if spec.windows is not None else (), _TIME),
            "value": _find_value_type(spec),
            columns.EMISSION: pl.String(),
            columns.REVISION: pl.Int64(),
        }
    )


def _find_value_type(spec: TableSpec) -> pl.DataType:
    """Return the type of a table's value column; text (JSON) where values have no column type."""
    kind = spec.value_type
    if kind is None and spec.default is not None:
        kind = type(spec.default())
    return pl.String() if spec.sets else _TYPES.get(kind, pl.String())


def to_table_frame(spec: TableSpec, emitted: Sequence[TableEntry], revision: int) -> pl.DataFrame:
    """Return the changes of a table as a frame, or refuse a value that doesn't fit its column."""
    schema = make_table_schema(spec)
    data: dict[str, Any] = {
        "key": _to_column(spec, "key_type", schema["key"], [t.key for t in emitted])
    }
    if spec.windows is not None:
        for index, name in enumerate((columns.WINDOW_START, columns.WINDOW_END)):
            data[name] = pl.Series([t.window[index] for t in emitted if t.window], dtype=pl.Int64)
    values = [None if t.value is GONE else t.value for t in emitted]
    data["value"] = _to_column(spec, "value_type", schema["value"], values)
    data[columns.EMISSION] = [
        RETRACT if t.value is GONE else FULL if t.closed else UPDATE for t in emitted
    ]
    data[columns.REVISION] = pl.Series([revision] * len(emitted), dtype=pl.Int64)
    return pl.DataFrame(data)


def _to_column(spec: TableSpec, option: str, dtype: pl.DataType, values: list[Any]) -> pl.Series:
    if dtype == pl.String:
        values = [value if value is None else format_value(value) for value in values]
    try:
        return pl.Series(values, dtype=dtype, strict=True)
    except (OverflowError, TypeError, ValueError, pl.exceptions.PolarsError) as error:
        what, option_text = "keys", "key_type=str"
        if option == "value_type":
            what, option_text = "values", f"on_spark(types={{{spec.name!r}: float}})"
        problem = f"holds {what} that aren't {dtype}"
        hint = f"give another type, as in {option_text}"
        raise OptionError("table", spec.name, problem, hint) from error


def format_value(value: Any) -> str:
    """Return a key or value as text: a text unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(typed.to_plain(value))


def make_result_schema(result_type: Any) -> pl.Schema:
    """Return the columns of an agent's results: the fields of their type, or a value as JSON."""
    if result_type is None:
        return MESSAGE
    if not is_dataclass(result_type):
        hint = "give a dataclass or a muntin.Record, or leave it out"
        raise OptionError("result_type", result_type, "has no fields", hint)
    hints = get_type_hints(result_type)
    schema = pl.Schema()
    for field in fields(result_type):
        dtype = _TYPES.get(hints[field.name])
        if dtype is None:
            hint = f"use one of {', '.join(t.__name__ for t in _TYPES)}"
            raise OptionError("result_type", result_type, f"has {field.name}, no column", hint)
        schema[field.name] = dtype
    return schema


def to_message_frame(sent: Sequence[SentMessage], result_type: Any = None) -> pl.DataFrame:
    """Return sent messages or results as a frame, with times in microseconds."""
    if result_type is not None:
        schema = make_result_schema(result_type)
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
