"""Values of the model as plain JSON, and back: what a checkpoint remembers of a query.

A value is stored by the names of its fields. A field that may hold one of several kinds holds the
kind's own word beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from typing import Any, ClassVar, Generic, Self, TypeVar

T = TypeVar("T", bound="JsonDataclass")

_SCALARS: dict[Any, type] = {"int": int, "str": str, "bool": bool}


class JsonDataclass:
    """A dataclass that JSON can hold; fields that aren't compared aren't stored.

    Attributes:
        KIND: The word for this kind, where a field may hold one of several.

    Example:
        >>> from muntin.model.policies import POLICIES, EveryRows
        >>> EveryRows(250).to_dict()
        {'kind': 'rows', 'rows': 250}
        >>> POLICIES.read({"kind": "rows", "rows": 250})
        EveryRows(rows=250)
    """

    __slots__ = ()

    KIND: ClassVar[str] = ""

    def to_dict(self) -> dict[str, Any]:
        """The value as JSON gives it back: with lists for tuples, and of pairs for mappings."""
        own = {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.compare}  # type: ignore[arg-type]
        return {"kind": self.KIND, **own} if self.KIND else own

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """The value that was stored so.

        Raises:
            KeyError: When it has a field that this kind hasn't.
            TypeError: When a field is missing, or isn't of its type.
        """
        known = {f.name: f for f in fields(cls) if f.compare}  # type: ignore[arg-type]
        own = {
            name: _read(known[name], it)
            for name, it in stored.items()
            if name != "kind" or not cls.KIND
        }
        return cls(**own)


class Family(Generic[T]):
    """Kinds of which a field holds one."""

    def __init__(self, *kinds: type[Any]) -> None:
        self._kinds: dict[str, type[T]] = {kind.KIND: kind for kind in kinds}

    def read(self, stored: Mapping[str, Any]) -> T:
        """The value that was stored so; see ``JsonDataclass.from_dict``."""
        return self._kinds[stored["kind"]].from_dict(stored)


def read_by(read: Callable[[Any], Any]) -> dict[str, Any]:
    """The metadata of a field that isn't plain itself: what makes its value of what was stored."""
    return {"read": read}


def _plain(value: Any) -> Any:
    if isinstance(value, JsonDataclass):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        # Pairs, since their order counts, and an object of JSON has none.
        return [[name, _plain(one)] for name, one in value.items()]
    return value


def _read(field: Field[Any], value: Any) -> Any:
    read, kind = field.metadata.get("read"), _SCALARS.get(field.type)
    if kind is not None and type(value) is not kind:
        raise TypeError(f"{field.name} is {value!r}")
    return value if read is None or value is None else read(value)
