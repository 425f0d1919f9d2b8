"""Conversion of the model's values to plain JSON and back, for checkpoints.

A value is stored by the names of its fields, and read by their types. A field that was renamed has
its stored name in its metadata, as `stored`. A value in a field that may hold one of several kinds
is stored with the name of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints


class JsonDataclass:
    """A dataclass that can be stored as JSON, without the fields that aren't compared.

    Attributes:
        KIND: The name of this kind, if a field may hold one of several.

    Example:
        >>> from muntin.model.policies import EveryRows
        >>> EveryRows(250).to_dict()
        {'kind': 'rows', 'rows': 250}
    """

    __slots__ = ()

    KIND: ClassVar[str] = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain JSON, with lists for tuples and lists of pairs for mappings."""
        stored_fields = _list_stored_fields(type(self))  # type: ignore[arg-type]
        fields = {
            stored_name: _to_plain(getattr(self, name))
            for stored_name, (name, _) in stored_fields.items()
        }
        return {"kind": self.KIND, **fields} if self.KIND else fields

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Return the value that ``to_dict`` stored, or raise ``KeyError`` or ``TypeError``."""
        stored_fields = _list_stored_fields(cls)  # type: ignore[arg-type]
        fields = {}
        for stored_name, value in stored.items():
            if stored_name != "kind" or not cls.KIND:
                name, field_type = stored_fields[stored_name]
                fields[name] = load_value(field_type, value)
        return cls(**fields)


@cache
def _list_stored_fields(kind: type[JsonDataclass]) -> dict[str, tuple[str, Any]]:
    """Return the names and types of the fields of a kind, by the names that are stored."""
    types = get_type_hints(kind)
    return {
        field.metadata.get("stored", field.name): (field.name, types[field.name])
        for field in fields(kind)  # type: ignore[arg-type]
        if field.compare
    }


def load_value(kind: Any, stored: Any) -> Any:
    """Return the value of a type from its stored form.

    Example:
        >>> from muntin.model.policies import Policy
        >>> load_value(Policy, {"kind": "rows", "rows": 250}), load_value(tuple[int, ...], [1, 2])
        (EveryRows(rows=250), (1, 2))
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if stored is None and NoneType in arguments:
            return None
        kinds = [item for item in arguments if item is not NoneType]
        if len(kinds) == 1:
            return load_value(kinds[0], stored)
        return load_value({item.KIND: item for item in kinds}[stored["kind"]], stored)
    if origin is tuple and arguments[-1] is ...:
        return tuple(load_value(arguments[0], item) for item in stored)
    if origin is tuple:
        return tuple(load_value(*pair) for pair in zip(arguments, stored, strict=True))
    if origin is Mapping:
        return {name: load_value(arguments[1], item) for name, item in stored}
    if isinstance(kind, type) and issubclass(kind, JsonDataclass):
        return kind.from_dict(stored)
    if kind in (int, str, bool) and type(stored) is not kind:
        raise TypeError(f"{stored!r} isn't of type {kind.__name__}")
    return stored


def _to_plain(value: Any) -> Any:
    if isinstance(value, JsonDataclass):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_to_plain(one) for one in value]
    if isinstance(value, Mapping):
        # The order counts, and JSON objects have none.
        return [[name, _to_plain(one)] for name, one in value.items()]
    return value
