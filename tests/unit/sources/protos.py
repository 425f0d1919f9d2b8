"""Protobuf messages for tests, described as a compiler describes them."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    text_format,
    timestamp_pb2,
    wrappers_pb2,
)

_IMPORTS = (timestamp_pb2, duration_pb2, wrappers_pb2)
_FILE = """
name: "all.proto" package: "tests" syntax: "proto3"
dependency: "google/protobuf/timestamp.proto"
dependency: "google/protobuf/duration.proto"
dependency: "google/protobuf/wrappers.proto"
enum_type {
  name: "Side"
  value { name: "NONE" number: 0 } value { name: "BUY" number: 1 } value { name: "SELL" number: -3 }
}
message_type { name: "First" field { name: "x" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL } }
message_type {
  name: "All"
  %s
  field { name: "maybe" number: 31 type: TYPE_INT64 label: LABEL_OPTIONAL
          proto3_optional: true oneof_index: 1 }
  field { name: "either" number: 32 type: TYPE_INT64 label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "or_text" number: 33 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "side" number: 34 type: TYPE_ENUM type_name: ".tests.Side" label: LABEL_OPTIONAL }
  field { name: "inner" number: 35 type: TYPE_MESSAGE type_name: ".tests.All.Inner"
          label: LABEL_OPTIONAL }
  field { name: "inners" number: 36 type: TYPE_MESSAGE type_name: ".tests.All.Inner"
          label: LABEL_REPEATED }
  field { name: "at" number: 37 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp"
          label: LABEL_OPTIONAL }
  field { name: "took" number: 38 type: TYPE_MESSAGE type_name: ".google.protobuf.Duration"
          label: LABEL_OPTIONAL }
  field { name: "wrapped" number: 39 type: TYPE_MESSAGE type_name: ".google.protobuf.Int64Value"
          label: LABEL_OPTIONAL }
  field { name: "counts" number: 40 type: TYPE_MESSAGE type_name: ".tests.All.CountsEntry"
          label: LABEL_REPEATED }
  field { name: "itself" number: 41 type: TYPE_MESSAGE type_name: ".tests.All"
          label: LABEL_OPTIONAL }
  field { name: "words" number: 42 type: TYPE_STRING label: LABEL_REPEATED }
  oneof_decl { name: "choice" } oneof_decl { name: "_maybe" }
  nested_type {
    name: "Inner"
    field { name: "n" number: 1 type: TYPE_SINT64 label: LABEL_OPTIONAL }
    field { name: "note" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
  }
  nested_type {
    name: "CountsEntry"
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL }
    options { map_entry: true }
  }
}
"""
SCALARS = (
    "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes",
    "uint32", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
# Scalars that a list may pack.
NUMBERS = [kind for kind in SCALARS if kind not in ("string", "bytes")]


def _write_fields() -> str:
    template = 'field {{ name: "{0}" number: {1} type: TYPE_{2} label: LABEL_{3} {4} }}'
    lines = [
        template.format(kind, n, kind.upper(), "OPTIONAL", "") for n, kind in enumerate(SCALARS, 1)
    ]
    for n, kind in enumerate(NUMBERS, 101):
        packed = "options { packed: false }" if n % 2 else ""
        lines.append(template.format(f"many_{kind}", n, kind.upper(), "REPEATED", packed))
    return "\n  ".join(lines)


def described() -> descriptor_pb2.FileDescriptorSet:
    """Return the descriptors that a compiler writes, with all imports."""
    file = text_format.Parse(_FILE % _write_fields(), descriptor_pb2.FileDescriptorProto())
    descriptors = descriptor_pb2.FileDescriptorSet()
    for imported in _IMPORTS:
        imported.DESCRIPTOR.CopyToProto(descriptors.file.add())
    descriptors.file.add().CopyFrom(file)
    return descriptors


@cache
def compile_message(text: str) -> Any:
    """Return a class for the first message of a file, from the text of its descriptor."""
    file = text_format.Parse(text, descriptor_pb2.FileDescriptorProto())
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    name = f"{file.package}.{file.message_type[0].name}".lstrip(".")
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


descriptor_pool.Default().AddSerializedFile(described().file[-1].SerializeToString())
All: Any = message_factory.GetMessageClass(
    descriptor_pool.Default().FindMessageTypeByName("tests.All")
)
