"""Converts records of one Avro schema to another: the resolution of the specification.

A field is matched by its name or by one of its aliases. Fields that the reader's schema lacks are
left out, fields that the writer's lacks have the reader's default, and numbers may be widened.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from muntin.engine.utf8 import decode_with_escapes
from muntin.sources.avro_schema import REQUIRED, AvroField, AvroType
from muntin.sources.lists import items_of, list_of, mark_lists, struct_of
from muntin.sources.payloads import UnreadableError

_PROMOTIONS = {
    ("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"), ("long", "double"),
    ("float", "double"), ("string", "bytes"), ("bytes", "string"),
}  # fmt: skip
_PLAIN = ("boolean", "int", "long", "float", "double", "string", "enum")


def convert_records(
    frame: pl.DataFrame, writer: AvroType, reader: AvroType
) -> tuple[pl.DataFrame, pl.Series]:
    """Convert records of the writer's schema to the reader's, and mark those that can't be.

    These have a null, or a symbol of an enum, that the reader's schema doesn't have. Raises
    ``UnreadableError`` when the schemas aren't compatible.
    """
    writer_types = {field.name: field.kind for field in writer.fields}
    types = reader.columns()
    bad = pl.repeat(False, len(frame), dtype=pl.Boolean, eager=True)
    columns = []
    for field in reader.fields:
        # The field's own name takes precedence over its aliases.
        name = next((n for n in (field.name, *sorted(field.names)) if n in writer_types), None)
        if name is None:
            columns.append(_default_column(field, types[field.name], len(frame)))
            continue
        column, wrong = _convert_column(
            frame[name], writer_types[name], field.kind, types[field.name]
        )
        columns.append(column.alias(field.name))
        bad |= wrong
    return pl.DataFrame(columns), bad


def _convert_column(
    column: pl.Series, writer: AvroType, reader: AvroType, dtype: pl.DataType
) -> tuple[pl.Series, pl.Series]:
    """Convert a field's values to another type; return which of them can't be converted."""
    missing = column.is_null()
    if writer.kind != reader.kind and (writer.kind, reader.kind) not in _PROMOTIONS:
        raise UnreadableError(f"has a {writer.kind} instead of a {reader.kind}")
    if bool(writer.logical) != bool(reader.logical) or writer.size != reader.size:
        raise UnreadableError(f"has another kind of {writer.kind} than the reader's schema")
    if writer.kind == "record":
        parts, bad = convert_records(column.struct.unnest(), writer, reader)
        converted = struct_of(parts.get_columns(), missing)
    elif writer.items is not None and reader.items is not None:
        converted, bad = _convert_items(column, writer, reader, dtype)
    elif (writer.kind, reader.kind) == ("bytes", "string"):
        converted, bad = decode_with_escapes(column)
    elif writer.kind == "enum":
        converted, bad = column, ~column.is_in(reader.symbols) & ~missing
    else:
        if writer.logical == "decimal" and writer.column != reader.column:
            raise UnreadableError(f"has a {writer.column} instead of a {reader.column}")
        converted = column.cast(dtype, strict=False)
        bad = converted.is_null() & ~missing
    bad = bad.fill_null(False) & ~missing
    return converted, bad | missing if reader.null is None else bad


def _convert_items(
    column: pl.Series, writer: AvroType, reader: AvroType, dtype: Any
) -> tuple[pl.Series, pl.Series]:
    """Convert the items of arrays or maps; return which of the lists can't be converted."""
    assert writer.items is not None
    assert reader.items is not None
    items, sizes = items_of(column)
    if isinstance(dtype, pl.Map):
        keys, values = (items.struct.field(name) for name in ("key", "value"))
        kind: Any = dtype.value
        values, wrong = _convert_column(values, writer.items, reader.items, kind)
        converted = pl.DataFrame({"key": keys, "value": values}).to_struct()
    else:
        converted, wrong = _convert_column(items, writer.items, reader.items, dtype.inner)
    bad = mark_lists(wrong.to_numpy(), sizes)
    return list_of(converted, sizes, column.is_null()), pl.Series(bad)


def _default_column(field: AvroField, dtype: pl.DataType, count: int) -> pl.Series:
    """Return the values of a field that wasn't written: its default."""
    value: Any = field.default
    if value == REQUIRED:
        raise UnreadableError(f"has no {field.name!r}, which has no default")
    is_empty = field.kind.items is not None and value in ([], {})
    if value is None:
        if field.kind.null is None:
            raise UnreadableError(f"has no {field.name!r}, whose default null isn't of its type")
    elif not is_empty and (field.kind.kind not in _PLAIN or field.kind.logical):
        raise UnreadableError(f"has no {field.name!r}, whose default isn't a plain value")
    elif not is_empty and not _is_valid_default(value, field.kind):
        raise UnreadableError(f"has no {field.name!r}, whose default isn't of its type")
    return pl.Series(field.name, [value], dtype=dtype).new_from_index(0, count)


def _is_valid_default(value: Any, kind: AvroType) -> bool:
    if kind.kind in ("string", "enum"):
        return isinstance(value, str) and (kind.kind == "string" or value in kind.symbols)
    if kind.kind == "boolean" or isinstance(value, bool):
        return kind.kind == "boolean" and isinstance(value, bool)
    if kind.kind in ("float", "double"):
        return isinstance(value, (int, float)) and abs(value) < 2**1000
    limit = 2**31 if kind.kind == "int" else 2**63
    return isinstance(value, int) and -limit <= value < limit
