"""Values with named fields, and the fields as something to group by."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, dataclass_transform

from muntin.model.errors import OptionError


class Field:
    """A field of a ``Record`` as its class shows it: ``Withdrawal.country``.

    Instances have the field's value under the same name.
    """

    __slots__ = ("name", "owner")

    def __init__(self, name: str, owner: str) -> None:
        self.name = name
        self.owner = owner

    def __get__(self, instance: Any, owner: type) -> Field:
        # Not a data descriptor: what an instance holds comes first.
        return self

    def __repr__(self) -> str:
        return f"{self.owner}.{self.name}"


@dataclass_transform()
class Record:
    """A dataclass whose fields can be named by its class, as Faust's records.

    Any dataclass or pydantic model will do for a topic's values; this one only adds that
    ``stream.group_by(Withdrawal.country)`` can be written.

    Example:
        >>> class Withdrawal(Record):
        ...     account: str
        ...     amount: float = 0.0
        >>> Withdrawal("a", 2.5).amount, Withdrawal.amount
        (2.5, Withdrawal.amount)
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for field in dataclasses.fields(dataclass(cls)):  # type: ignore[arg-type]
            setattr(cls, field.name, Field(field.name, cls.__name__))


def read(value: Any, name: str) -> Any:
    """A field of a value; ``None`` where it has none of that name."""
    if isinstance(value, dict):
        return value.get(name)
    return getattr(value, name, None)


@dataclass(frozen=True)
class Keying:
    """What a stream is partitioned by."""

    name: str
    field: str | None = None
    function: Callable[[Any], Any] | None = None

    def of(self, value: Any) -> Any:
        """The key of a value."""
        if self.function is not None:
            return self.function(value)
        return read(value, self.field or "")


def keying(option: str, by: Any, name: str | None = None) -> Keying:
    """What is meant by ``Withdrawal.country``, ``"country"`` or a function.

    Example:
        >>> keying("group_by", "country").of({"country": "NL"})
        'NL'
    """
    if isinstance(by, str):
        field = by
    elif isinstance(by, Field):
        field = by.name
    elif type(by).__name__ == "member_descriptor":
        # What a class with __slots__ shows under the name of a field.
        field = str(by.__name__)
    elif callable(by):
        return Keying(name or str(getattr(by, "__name__", "function")), function=by)
    else:
        hint = "give a field's name, or a function of the value"
        raise OptionError(option, by, "is no field", hint)
    return Keying(name or field, field=field)
