"""Avro schemas as types: the form of records in bytes, and the columns they become.

This module accepts the schemas that the columnar reader can decode. Any other valid schema raises
an ``UnreadableError`` and is left to Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
# The logical types, with the types that they annotate, and the types of their columns.
_LOGICAL: Mapping[tuple[str, str], pl.DataType] = {
    ("date", "int"): pl.Date(),
    ("timestamp-millis", "long"): pl.Datetime("us", "UTC"),
    ("timestamp-micros", "long"): pl.Datetime("us", "UTC"),
    ("local-timestamp-millis", "long"): pl.Datetime("us"),
    ("local-timestamp-micros", "long"): pl.Datetime("us"),
    ("uuid", "string"): pl.String(),
}
# The Avro types that columns are written as.
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
# Avro's other logical types, which aren't decoded in columns, with the types they annotate.
_OTHERS: Mapping[str, str] = {
    "time-millis": "int", "time-micros": "long", "timestamp-nanos": "long",
    "local-timestamp-nanos": "long", "duration": "fixed", "big-decimal": "bytes",
}  # fmt: skip
_DIGITS = 38
# The limits of a schema: columns (with those of nested and repeated records), levels of records,
# arrays and maps, and levels of JSON.
_MOST_COLUMNS, _DEEPEST, _DEEPEST_JSON = 2_500, 32, 200
# The largest fixed, in bytes.
_LARGEST = 2**31 - 1
_LONGEST_SHOWN = 60
# The default of a field that has none; no JSON value is bytes.
REQUIRED = b""


@dataclass(frozen=True)
class AvroField:
    """A field of a record.

    Attributes:
        default: JSON value for records that were written without it; ``REQUIRED`` if
            these can't be read.
        names: Its name and its aliases.
    """

    name: str
    kind: AvroType
    default: Any = REQUIRED
    names: frozenset[str] = frozenset()


@dataclass(frozen=True)
class AvroType:
    """A type of values: their form in bytes, and their column.

    Attributes:
        kind: The form in bytes: ``long``, ``string``, ``record``, …
        logical: Logical type, if it is a supported one; otherwise empty.
        size: Bytes of a ``fixed``.
        fields: Fields of a ``record``, in the order in which they are written.
        items: Type of the items of an ``array`` or the values of a ``map``.
        null: Index of null in its union; ``None`` if it isn't in a union.
        columns_within: Number of its columns, with nested ones.
        levels: Levels of nested records, arrays and maps.
    """

    kind: str
    column: pl.DataType
    logical: str = ""
    size: int = 0
    symbols: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    items: AvroType | None = None
    null: int | None = None
    columns_within: int = field(default=1, compare=False, repr=False)
    levels: int = field(default=0, compare=False, repr=False)

    def columns(self) -> dict[str, pl.DataType]:
        """Return the names and types of a record's columns."""
        return {one.name: one.kind.column for one in self.fields}


def record(text: str) -> AvroType:
    """Return the record type that a schema describes.

    Raises ``UnreadableError`` for what can't be decoded in columns: no record, unions of more than
    null and one type, records within themselves, too much.
    """
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = "it is nested too deep" if isinstance(error, RecursionError) else error
        raise UnreadableError(f"isn't JSON: {problem}") from error
    try:
        json.dumps(schema, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        # JSON may have half of a character, as "\\ud800", which no column can hold.
        raise UnreadableError("has text that isn't Unicode") from None
    kind = _TypeNames({}).type_of(schema, "", 0)
    if kind.kind != "record" or kind.null is not None:
        raise UnreadableError("isn't the schema of a record")
    return kind


def schema_of(columns: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the schema by which rows are written; every column may be null."""
    fields = [
        {"name": own, "type": ["null", _avro_schema_of(kind, f"{name}_{own}")], "default": None}
        for own, kind in columns.items()
    ]
    return {"type": "record", "name": name, "fields": fields}


def _avro_schema_of(kind: Any, name: str) -> Any:
    if isinstance(kind, pl.Struct):
        return schema_of({one.name: one.dtype for one in kind.fields}, name)
    if isinstance(kind, pl.List):
        return {"type": "array", "items": ["null", _avro_schema_of(kind.inner, name)]}
    if isinstance(kind, pl.Map) and kind.key == pl.String:
        return {"type": "map", "values": ["null", _avro_schema_of(kind.value, name)]}
    if isinstance(kind, pl.Decimal):
        digits = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    schema = _WRITTEN.get(kind)
    if schema is None:
        problem = f"has type {kind}, which Avro lacks"
        raise OptionError("format", name, problem, "cast it to another type, or write JSON")
    return schema


@dataclass(frozen=True)
class _TypeNames:
    """The types that a schema has defined so far, by their full names."""

    types: dict[str, AvroType]

    def type_of(self, schema: Any, space: str, depth: int) -> AvroType:
        """Return the type of a part of a schema, in a namespace and at a depth of nesting."""
        if depth > _DEEPEST_JSON:
            raise UnreadableError("is nested too deep")
        if isinstance(schema, list):
            return self._parse_union(schema, space, depth)
        if isinstance(schema, str):
            return self._find_type(schema, space)
        if not isinstance(schema, dict):
            raise UnreadableError(f"has {_shorten(schema)} instead of a type")
        kind = schema.get("type")
        if isinstance(kind, str) and kind in ("record", "enum", "fixed"):
            return self._define_type(kind, schema, space, depth)
        if kind == "array":
            items = self.type_of(schema.get("items"), space, depth + 1)
            return _list_type("array", pl.List(items.column), items)
        if kind == "map":
            items = self.type_of(schema.get("values"), space, depth + 1)
            return _list_type("map", pl.Map(pl.String, items.column), items)
        if isinstance(kind, str) and kind in _PLAIN:
            return _add_logical_type(AvroType(kind, _PLAIN[kind]), schema)
        return self.type_of(kind, space, depth + 1)

    def _find_type(self, name: str, space: str) -> AvroType:
        if name in _PLAIN:
            return AvroType(name, _PLAIN[name])
        kind = self.types.get(_full_name(name, space)) or self.types.get(name)
        if kind is None:
            raise UnreadableError(f"has a type {_shorten(name)}, which isn't decoded in columns")
        return kind

    def _parse_union(self, branches: list[Any], space: str, depth: int) -> AvroType:
        kinds = [branch for branch in branches if branch not in ("null", {"type": "null"})]
        if len(branches) != 2 or len(kinds) != 1 or isinstance(kinds[0], list):
            raise UnreadableError("has a union that isn't of null and one type")
        kind = self.type_of(kinds[0], space, depth + 1)
        if kind.null is not None:
            raise UnreadableError("has a union within a union")
        return replace(kind, null=1 - branches.index(kinds[0]))

    def _define_type(
        self, kind: str, schema: Mapping[str, Any], space: str, depth: int
    ) -> AvroType:
        name = _require_name(schema, f"a {kind}")
        # A name with dots is a full name, and its namespace applies to the types inside.
        namespace = schema.get("namespace", space)
        space = name.rpartition(".")[0] if "." in name else namespace
        if not isinstance(space, str):
            raise UnreadableError(f"has {_shorten(space)} for a namespace")
        if _full_name(name, space) in self.types:
            raise UnreadableError(f"has two types {_shorten(_full_name(name, space))}")
        if kind == "record":
            defined = self._parse_record(schema, space, depth)
        elif kind == "enum":
            defined = AvroType(kind, pl.String(), symbols=_parse_symbols(schema.get("symbols")))
        else:
            size = _as_whole_number(schema.get("size"))
            if size is None or not 0 <= size <= _LARGEST:
                raise UnreadableError(f"has a fixed of {_shorten(schema.get('size'))} bytes")
            defined = _add_logical_type(AvroType(kind, pl.Binary(), size=size), schema)
        self.types[_full_name(name, space)] = defined
        return defined

    def _parse_record(self, schema: Mapping[str, Any], space: str, depth: int) -> AvroType:
        parts = schema.get("fields")
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            raise UnreadableError(f"has {_shorten(parts)} for the fields of a record")
        if not parts:
            raise UnreadableError("has a record without fields")
        fields, columns = [], 1
        for part in parts:
            one = self._parse_field(part, space, depth)
            columns += one.kind.columns_within
            if columns > _MOST_COLUMNS:
                raise UnreadableError(
                    f"has more than {_MOST_COLUMNS} columns, nested ones included"
                )
            fields.append(one)
        names = [one.name.casefold() for one in fields]
        if len({*names}) < len(names):
            raise UnreadableError("has a record with two fields of one name")
        # The column may be null even if the schema isn't nullable: unreadable values are null.
        column = pl.Struct({one.name: one.kind.column for one in fields})
        levels = _add_level(max(one.kind.levels for one in fields))
        return AvroType(
            "record", column, fields=tuple(fields), columns_within=columns, levels=levels
        )

    def _parse_field(self, part: Mapping[str, Any], space: str, depth: int) -> AvroField:
        name = _require_name(part, "a field")
        if "type" not in part:
            raise UnreadableError(f"has a field {_shorten(name)} without a type")
        aliases = part.get("aliases", [])
        if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
            raise UnreadableError(f"has {_shorten(aliases)} for the aliases of {_shorten(name)}")
        kind = self.type_of(part["type"], space, depth + 1)
        return AvroField(name, kind, part.get("default", REQUIRED), frozenset((name, *aliases)))


def _list_type(kind: str, column: pl.DataType, items: AvroType) -> AvroType:
    """Return a list type. Its items need a byte or more, or few bytes could claim many items."""
    if items.kind == "fixed" and items.size < 1 and items.null is None:
        raise UnreadableError("has a list whose items have no bytes")
    within = items.columns_within + 1
    return AvroType(
        kind, column, items=items, columns_within=within, levels=_add_level(items.levels)
    )


def _add_level(levels: int) -> int:
    if levels >= _DEEPEST:
        raise UnreadableError(f"is nested more than {_DEEPEST} levels deep")
    return levels + 1


def _parse_symbols(symbols: Any) -> tuple[str, ...]:
    if (
        not isinstance(symbols, list)
        or not symbols
        or not all(isinstance(symbol, str) for symbol in symbols)
        or len({*symbols}) < len(symbols)
    ):
        raise UnreadableError(f"has {_shorten(symbols)} for the symbols of an enum")
    return tuple(symbols)


def _require_name(schema: Mapping[str, Any], what: str) -> str:
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise UnreadableError(f"has {what} without a name")
    return name


def _as_whole_number(value: Any) -> int | None:
    """Return a whole number; ``None`` for any other value."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _shorten(value: Any) -> str:
    """Return a part of a schema as a text that is short enough for a message."""
    try:
        text = repr(value)
    except RecursionError:
        text = "…"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _add_logical_type(plain: AvroType, schema: Mapping[str, Any]) -> AvroType:
    """Return a type with its logical type; an unknown or invalid one is ignored."""
    logical = schema.get("logicalType")
    if not isinstance(logical, str):
        return plain
    if logical == "decimal":
        return _decimal(plain, schema)
    column = _LOGICAL.get((logical, plain.kind))
    if column is not None:
        return replace(plain, logical=logical, column=column)
    if _OTHERS.get(logical) == plain.kind:
        raise UnreadableError(f"has a {logical} that is written as {plain.kind}")
    return plain


def _decimal(plain: AvroType, schema: Mapping[str, Any]) -> AvroType:
    """Return a decimal type; the plain type if its precision or scale is invalid."""
    digits = _as_whole_number(schema.get("precision"))
    scale = _as_whole_number(schema.get("scale", 0))
    if plain.kind not in ("bytes", "fixed") or digits is None or scale is None:
        return plain
    if not 0 <= scale <= digits or digits == 0:
        return plain
    if plain.kind == "fixed" and 10 ** min(digits, 999) > 2 ** (8 * min(plain.size, 500) - 1):
        return plain
    if digits > _DIGITS or plain.size > 16:
        raise UnreadableError(f"has a decimal of {digits} digits, {scale} of them after the point")
    return replace(plain, logical="decimal", column=pl.Decimal(digits, scale))
