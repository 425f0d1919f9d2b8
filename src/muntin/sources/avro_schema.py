"""Schemas of Avro as types: which bytes a record consists of, and which columns it becomes.

What is read here is what the columnar reader decodes; whatever else a schema may say is an
``UnreadableError``, and left to Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from muntin.model.errors import OptionError
from muntin.sources.payloads import UnreadableError

_PLAIN: Mapping[str, pl.DataType] = {
    "boolean": pl.Boolean(),
    "int": pl.Int32(),
    "long": pl.Int64(),
    "float": pl.Float32(),
    "double": pl.Float64(),
    "bytes": pl.Binary(),
    "string": pl.String(),
}
# A logical type, what it is written as, and the type of its column.
_LOGICAL: Mapping[tuple[str, str], pl.DataType] = {
    ("date", "int"): pl.Date(),
    ("timestamp-millis", "long"): pl.Datetime("us", "UTC"),
    ("timestamp-micros", "long"): pl.Datetime("us", "UTC"),
    ("local-timestamp-millis", "long"): pl.Datetime("us"),
    ("local-timestamp-micros", "long"): pl.Datetime("us"),
    ("uuid", "string"): pl.String(),
}
# What a column of a type is written as.
_WRITTEN: Mapping[pl.DataType, Any] = {
    **{column: kind for kind, column in _PLAIN.items()},
    **{
        column: {"type": kind, "logicalType": name}
        for (name, kind), column in _LOGICAL.items()
        if name == "date" or name.endswith("micros")
    },
    pl.Int8(): "int",
    pl.Int16(): "int",
}
# More logical types that Spark knows, or may come to know.
_OTHERS = {
    "time-millis", "time-micros", "timestamp-nanos", "local-timestamp-nanos", "duration",
    "decimal", "big-decimal",
}  # fmt: skip
_DIGITS = 38
# Where a field has no default; no JSON is bytes.
REQUIRED = b""


@dataclass(frozen=True)
class AvroField:
    """A part of a record.

    Attributes:
        name: Its name.
        kind: Its type.
        default: What it is in records that were written without it, as JSON; ``REQUIRED`` where
            they can't be read.
        names: By which names it may have been written.
    """

    name: str
    kind: AvroType
    default: Any = REQUIRED
    names: frozenset[str] = frozenset()


@dataclass(frozen=True)
class AvroType:
    """How a value is written, and what it becomes.

    Attributes:
        kind: The form in bytes: ``long``, ``string``, ``record``, …
        column: The type of its column.
        logical: The logical type, where it is one that counts; else nothing.
        size: Bytes of a ``fixed``.
        symbols: The texts of an ``enum``.
        fields: The parts of a ``record``, in the order in which they are written.
        items: What an ``array`` or a ``map`` holds.
        null: Which branch of its union is null; ``None`` where it isn't in a union.
    """

    kind: str
    column: pl.DataType
    logical: str = ""
    size: int = 0
    symbols: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    items: AvroType | None = None
    null: int | None = None

    def columns(self) -> dict[str, pl.DataType]:
        """A record's columns."""
        return {field.name: field.kind.column for field in self.fields}


def record(text: str) -> AvroType:
    """The record that a schema describes.

    Raises:
        UnreadableError: When it is no schema of a record, or says what isn't decoded in columns:
            unions of more than null and one type, records within themselves.
    """
    try:
        given = json.loads(text)
    except ValueError as error:
        raise UnreadableError(f"isn't JSON: {error}") from error
    found = _Names({}).type_of(given, "")
    if found.kind != "record" or found.null is not None:
        raise UnreadableError("isn't the schema of a record")
    return found


def schema_of(columns: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The schema by which rows are written; every column may be null."""
    fields = [
        {"name": own, "type": ["null", _written(kind, f"{name}_{own}")], "default": None}
        for own, kind in columns.items()
    ]
    return {"type": "record", "name": name, "fields": fields}


def _written(kind: Any, name: str) -> Any:
    if isinstance(kind, pl.Struct):
        return schema_of({field.name: field.dtype for field in kind.fields}, name)
    if isinstance(kind, pl.List):
        return {"type": "array", "items": ["null", _written(kind.inner, name)]}
    if isinstance(kind, pl.Map) and kind.key == pl.String:
        return {"type": "map", "values": ["null", _written(kind.value, name)]}
    if isinstance(kind, pl.Decimal):
        digits = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    schema = _WRITTEN.get(kind)
    if schema is None:
        problem = f"has type {kind}, which Avro doesn't have"
        raise OptionError("format", name, problem, "cast it to another type, or write JSON")
    return schema


@dataclass(frozen=True)
class _Names:
    """The types that a schema has named so far."""

    known: dict[str, AvroType]

    def type_of(self, given: Any, space: str) -> AvroType:
        """The type of a part of a schema, within a namespace."""
        if isinstance(given, list):
            return self._union(given, space)
        if isinstance(given, str):
            return self._named(given, space)
        if not isinstance(given, dict):
            raise UnreadableError(f"has {given!r} where a type is due")
        kind = given.get("type")
        if kind in ("record", "enum", "fixed"):
            return self._define(kind, given, space)
        if kind == "array":
            items = self.type_of(given.get("items"), space)
            return AvroType("array", pl.List(items.column), items=_wide(items))
        if kind == "map":
            items = self.type_of(given.get("values"), space)
            return AvroType("map", pl.Map(pl.String, items.column), items=_wide(items))
        if isinstance(kind, str) and kind in _PLAIN:
            return _with_logical(AvroType(kind, _PLAIN[kind]), given)
        return self.type_of(kind, space)

    def _named(self, name: str, space: str) -> AvroType:
        if name in _PLAIN:
            return AvroType(name, _PLAIN[name])
        found = self.known.get(_full(name, space)) or self.known.get(name)
        if found is None:
            raise UnreadableError(f"has a type {name!r}, which isn't decoded in columns")
        return found

    def _union(self, branches: list[Any], space: str) -> AvroType:
        kinds = [branch for branch in branches if branch != "null"]
        if len(branches) != 2 or len(kinds) != 1:
            raise UnreadableError("has a union of other than null and one type")
        return replace(self.type_of(kinds[0], space), null=branches.index("null"))

    def _define(self, kind: str, given: Mapping[str, Any], space: str) -> AvroType:
        name = str(given.get("name", ""))
        # A name with dots is whole, and what is inside has its namespace.
        space = name.rpartition(".")[0] if "." in name else str(given.get("namespace", space))
        if kind == "record":
            made = self._record(given, space)
        elif kind == "enum":
            made = AvroType(kind, pl.String(), symbols=tuple(map(str, given.get("symbols", ()))))
        else:
            size = int(given.get("size", 0))
            made = _with_logical(AvroType(kind, pl.Binary(), size=size), given)
        self.known[_full(name, space)] = made
        return made

    def _record(self, given: Mapping[str, Any], space: str) -> AvroType:
        fields = tuple(
            AvroField(
                str(part["name"]),
                self.type_of(part["type"], space),
                part.get("default", REQUIRED),
                frozenset((part["name"], *part.get("aliases", ()))),
            )
            for part in given.get("fields", ())
        )
        names = [field.name.casefold() for field in fields]
        if not fields or len({*names}) < len(names):
            raise UnreadableError("has a record without fields, or with two of one name")
        # Also where the schema has no null: what can't be read is null.
        struct = pl.Struct({field.name: field.kind.column for field in fields})
        return AvroType("record", struct, fields=fields)


def _wide(items: AvroType) -> AvroType:
    """What a list holds, which takes a byte at least: else a few bytes could say any number."""
    if items.kind == "fixed" and items.size < 1:
        raise UnreadableError("has a list of what takes no bytes")
    return items


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _with_logical(plain: AvroType, given: Mapping[str, Any]) -> AvroType:
    """A type with what its logical type makes of it; one that isn't known changes nothing."""
    logical = given.get("logicalType")
    if logical is None:
        return plain
    if logical == "decimal" and plain.kind in ("bytes", "fixed"):
        digits, scale = given.get("precision", 0), given.get("scale", 0)
        if not 0 <= scale <= digits <= _DIGITS or not digits or plain.size > 16:
            raise UnreadableError(f"has a decimal of {digits} digits, {scale} of them fractions")
        return replace(plain, logical=logical, column=pl.Decimal(digits, scale))
    column = _LOGICAL.get((logical, plain.kind))
    if column is not None:
        return replace(plain, logical=logical, column=column)
    if logical in {name for name, _ in _LOGICAL} | _OTHERS:
        raise UnreadableError(f"has a {logical} that is written as {plain.kind}")
    return plain
