"""The options of payload formats, and whether the formats are read in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from muntin.model.errors import OptionError

# The formats whose columns are described by a schema.
DESCRIBED = ("avro", "protobuf")


@dataclass(frozen=True, eq=False)
class InColumns:
    """A boolean that is true if topics are read in columns, with the reason if they aren't.

    Attributes:
        reason: Reason why they aren't; empty if they are.
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
    """Refuse options of formats that don't fit together."""
    # A registry has Avro's schemas in a usable form; its schemas of Protobuf need a compiler.
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
