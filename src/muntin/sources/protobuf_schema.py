"""Types of Protobuf messages: their fields in bytes, and the columns they become.

A message is described by a class that ``protoc`` has generated, or by a file of descriptors
(``protoc --include_imports --descriptor_set_out=orders.desc orders.proto``) and a name in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl

from muntin.model.errors import MissingExtraError, OptionError
from muntin.sources.payloads import UnreadableError

# The kinds of values by their numbers in a descriptor, without groups (10).
_KINDS = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32",
    8: "bool", 9: "string", 11: "message", 12: "bytes", 13: "uint32", 14: "enum", 15: "sfixed32",
    16: "sfixed64", 17: "sint32", 18: "sint64",
}  # fmt: skip
# An unsigned number takes the next larger signed type.
_COLUMNS: dict[str, pl.DataType] = {
    "double": pl.Float64(), "float": pl.Float32(), "bool": pl.Boolean(), "bytes": pl.Binary(),
    **dict.fromkeys(("string", "enum"), pl.String()),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), pl.Int32()),
    **dict.fromkeys(
        ("int64", "sint64", "sfixed64", "uint32", "fixed32", "uint64", "fixed64"), pl.Int64()
    ),
}  # fmt: skip
_GOOGLES = "google.protobuf."
_WELL_KNOWN = {"Timestamp": pl.Datetime("us", "UTC"), "Duration": pl.Duration("us")}
_WRAPPERS = (
    "BoolValue", "BytesValue", "DoubleValue", "FloatValue", "Int32Value", "Int64Value",
    "StringValue", "UInt32Value", "UInt64Value",
)  # fmt: skip
# The limits of nesting, and of the number of fields with inner ones.
_DEEPEST, _MOST_FIELDS = 32, 2_500
_HINT = "give a generated class, or a file of descriptors and a message: 'orders.desc#shop.Order'"


@dataclass(frozen=True)
class ProtoField:
    """A field of a message.

    Attributes:
        number: Number of the field in its tag.
        repeated: Whether there may be any number of values.
        map: Whether the values are the entries of a map.
        present: Whether a missing value is null; otherwise a missing value is
            ``default``.
        required: Whether a message without it is malformed.
        default: Value of a missing field that isn't ``present``.
        choice: Name of its ``oneof``, of which only the last field counts; or empty.
    """

    name: str
    number: int
    kind: ProtoType
    column: pl.DataType
    repeated: bool = False
    map: bool = False
    present: bool = True
    required: bool = False
    default: Any = None
    choice: str = ""


@dataclass(frozen=True)
class ProtoType:
    """The type of a value.

    Attributes:
        kind: Kind in a descriptor, such as ``sint32`` or ``message``.
        symbols: Names of an enum, by their numbers.
        well_known: ``timestamp``, ``duration``, or ``value`` for a wrapper; empty for any other
            type.
    """

    kind: str
    column: pl.DataType
    fields: tuple[ProtoField, ...] = ()
    symbols: tuple[tuple[int, str], ...] = ()
    well_known: str = ""


@dataclass(frozen=True)
class ProtoMessage:
    """A message, with its position in its file, which a registry's serializers write.

    Attributes:
        indexes: Its index in its file or outer message, after the indexes of the outer ones.
    """

    name: str
    kind: ProtoType
    indexes: tuple[int, ...]

    def columns(self) -> dict[str, pl.DataType]:
        """Return the names and types of its columns."""
        return {field.name: field.column for field in self.kind.fields}


def message_of(schema: Any) -> ProtoMessage:
    """Return the message of a generated class, or of a descriptor file and a name in it."""
    descriptor = schema.DESCRIPTOR if hasattr(schema, "DESCRIPTOR") else _read_descriptor(schema)
    try:
        kind = _message_type(descriptor, (), count())
    except UnreadableError as error:
        hint = "give another message, or read the topic's bytes yourself"
        raise OptionError("schema", descriptor.full_name, str(error), hint) from None
    if kind is None:
        problem = "has no fields that are columns"
        raise OptionError("schema", descriptor.full_name, problem, "give another message")
    names = [field.name.casefold() for field in kind.fields]
    if len({*names}) < len(names):
        problem = "has two fields whose names differ by case only"
        hint = "read the topic's bytes yourself"
        raise OptionError("schema", descriptor.full_name, problem, hint)
    return ProtoMessage(descriptor.full_name, kind, _indexes_of(descriptor))


def _read_descriptor(schema: Any) -> Any:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise MissingExtraError("reading Protobuf", "protobuf") from error
    path, _, name = str(schema).rpartition("#")
    if not path or not name:
        raise OptionError("schema", schema, "describes no message of Protobuf", _HINT)
    files = descriptor_pb2.FileDescriptorSet()
    try:
        files.ParseFromString(Path(path).read_bytes())
    except (OSError, DecodeError) as error:
        raise OptionError("schema", path, f"can't be read: {error}", _HINT) from error
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in files.file:
            pool.AddSerializedFile(file.SerializeToString())
        return pool.FindMessageTypeByName(name)
    except (KeyError, TypeError) as error:
        names = [f"{f.package}.{m.name}".lstrip(".") for f in files.file for m in f.message_type]
        hint = f"give one of {', '.join(names)}, and create the file with protoc --include_imports"
        raise OptionError("schema", name, f"isn't in {path}", hint) from error


def _indexes_of(descriptor: Any) -> tuple[int, ...]:
    from google.protobuf import descriptor_pb2

    container = descriptor.containing_type
    if container is None:
        file = descriptor_pb2.FileDescriptorProto()
        descriptor.file.CopyToProto(file)
        return ([one.name for one in file.message_type].index(descriptor.name),)
    outer = descriptor_pb2.DescriptorProto()
    container.CopyToProto(outer)
    return *_indexes_of(container), [one.name for one in outer.nested_type].index(descriptor.name)


def _message_type(
    descriptor: Any, containers: Sequence[str], fields_seen: Iterator[int]
) -> ProtoType | None:
    """Return a message's type; ``None`` if it has no fields, or contains itself."""
    name = descriptor.full_name
    if name in containers:
        return None
    if len(containers) >= _DEEPEST:
        raise UnreadableError(f"is nested more than {_DEEPEST} levels deep")
    candidates = (_field_of(field, (*containers, name), fields_seen) for field in descriptor.fields)
    fields = tuple(field for field in candidates if field is not None)
    if not fields:
        return None
    google, own = name.startswith(_GOOGLES), name.removeprefix(_GOOGLES)
    if google and own in _WELL_KNOWN:
        return ProtoType("message", _WELL_KNOWN[own], fields, well_known=own.lower())
    if google and own in _WRAPPERS:
        return ProtoType("message", fields[0].column, fields, well_known="value")
    struct = pl.Struct({field.name: field.column for field in fields})
    return ProtoType("message", struct, fields)


def _field_of(
    field: Any, containers: Sequence[str], fields_seen: Iterator[int]
) -> ProtoField | None:
    """Return a field; ``None`` if it has no column, as a group or a message without a type."""
    # Messages that refer to each other repeatedly expand to many fields.
    if next(fields_seen) >= _MOST_FIELDS:
        raise UnreadableError(f"has more than {_MOST_FIELDS} fields, with inner ones")
    kind = _kind_of(field, containers, fields_seen)
    if kind is None:
        return None
    entries = kind.kind == "message" and field.message_type.GetOptions().map_entry
    column = kind.column
    if entries:
        key, value = (kind.fields[n].column for n in (0, 1))
        column = pl.Map(key, value)
    elif field.is_repeated:
        column = pl.List(column)
    choice = field.containing_oneof
    return ProtoField(
        field.name,
        field.number,
        kind,
        column,
        repeated=field.is_repeated,
        map=entries,
        present=_may_be_null(field),
        required=field.is_required,
        default=None if field.is_repeated or kind.kind == "message" else _default_of(field, kind),
        choice="" if choice is None else choice.name,
    )


def _kind_of(field: Any, containers: Sequence[str], fields_seen: Iterator[int]) -> ProtoType | None:
    kind = _KINDS.get(field.type, "")
    if kind == "message":
        message = _message_type(field.message_type, containers, fields_seen)
        # A map whose values have no column is left out.
        lacks = message is not None and len(message.fields) < 2
        return None if lacks and field.message_type.GetOptions().map_entry else message
    if kind == "enum":
        names = tuple((one.number, one.name) for one in reversed(field.enum_type.values))
        return ProtoType(kind, _COLUMNS[kind], symbols=names)
    return ProtoType(kind, _COLUMNS[kind]) if kind else None


def _may_be_null(field: Any) -> bool:
    if field.is_repeated:
        return False
    # In a map, a missing key or number has its default, in either syntax.
    entry = field.containing_type.GetOptions().map_entry
    return field.has_presence and not (entry and field.type != field.TYPE_MESSAGE)


def _default_of(field: Any, kind: ProtoType) -> Any:
    return dict(kind.symbols)[field.default_value] if kind.kind == "enum" else field.default_value
