"""The options that formats of payloads take, and whether they are read in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from muntin.model.errors import OptionError

# The formats whose columns a schema says.
DESCRIBED = ("avro", "protobuf")


@dataclass(frozen=True, eq=False)
class InColumns:
    """Whether topics are read in columns; equal to that boolean.

    Attributes:
        reason: Why they aren't; nothing where they are.
    """

    reason: str

    def __bool__(self) -> bool:
        return not self.reason

    def __eq__(self, other: object) -> bool:
        return bool(self) == other

    def __hash__(self) -> int:
        return hash(bool(self))

    def __repr__(self) -> str:
        return f"False: {self.reason}" if self.reason else "True"


def refuse_schema(
    form: str, schema: Any, registry: str | None, topics: Sequence[str], reader: str | None
) -> None:
    """Options of formats with a schema that don't fit together."""
    # A registry knows the schema of Avro, and of Protobuf a text that only a compiler reads.
    needed = form in DESCRIBED and not (form == "avro" and registry is not None)
    if (needed and schema is None) or (form not in DESCRIBED and schema is not None):
        hint = "give both, or neither: schema='{\"type\": \"record\", …}', format='avro'"
        if form == "protobuf":
            hint = "give a generated class, or a file and a message: 'orders.desc#shop.Order'"
        raise OptionError("schema", schema, f"doesn't fit format={form!r}", hint)
    if reader == "spark" and (form == "protobuf" or registry is not None):
        what = "a registry" if registry is not None else "format='protobuf'"
        hint = "leave reader='spark' out: only the workers read that"
        raise OptionError("reader", reader, f"doesn't fit {what}", hint)
    if registry is None:
        return
    if form not in DESCRIBED:
        raise OptionError("registry", "…", f"doesn't fit format={form!r}", "add format='avro'")
    if schema is None and len(topics) > 1:
        hint = "give the one to read by, or read each topic by itself: schema='{…}'"
        raise OptionError("schema", schema, "isn't clear for several topics", hint)
