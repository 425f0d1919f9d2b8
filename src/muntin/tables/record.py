"""Records (values with named fields), and the keys that streams are partitioned by."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, dataclass_transform

from muntin.model.errors import OptionError


class Field:
    """A field of a ``Record`` as an attribute of the class: ``Withdrawal.country``.

    Instances hold the field's value under the same name.
    """

    __slots__ = ("name", "owner")

    def __init__(self, name: str, owner: str) -> None:
        self.name = name
        self.owner = owner

    def __get__(self, instance: Any, owner: type) -> Field:
        # Not a data descriptor, so an instance's own value takes precedence.
        return self

    def __repr__(self) -> str:
        return f"{self.owner}.{self.name}"


@dataclass_transform()
class Record:
    """A dataclass whose fields can be named through the class, as in Faust.

    A topic's values may be of any dataclass or pydantic model; a record also allows
    ``stream.group_by(Withdrawal.country)``.

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


def read_field(value: Any, name: str) -> Any:
    """Return a field of a value, or ``None`` if the value has no such field."""
    if isinstance(value, dict):
        return value.get(name)
    return getattr(value, name, None)


@dataclass(frozen=True)
class Keying:
    """The key that a stream is partitioned by: a field, or a function of the value."""

    name: str
    field: str | None = None
    function: Callable[[Any], Any] | None = None

    def get_key(self, value: Any) -> Any:
        """Return the key of a value."""
        if self.function is not None:
            return self.function(value)
        return read_field(value, self.field or "")

    def find_group(self, value: Any) -> tuple[Any, str | None]:
        """Return the key of a value, or the problem if the user's function fails for it.

        A failure must not stop the stream: the event is malformed.
        """
        try:
            return self.get_key(value), None
        except Exception as error:
            return None, f"group_by({self.name}): {error!r}"


def parse_keying(option: str, by: Any, name: str | None = None) -> Keying:
    """Parse ``Withdrawal.country``, ``"country"`` or a function of the value, which may get a name.

    Raises:
        OptionError: When ``by`` is none of these.

    Example:
        >>> parse_keying("group_by", "country").get_key({"country": "NL"})
        'NL'
    """
    if isinstance(by, str):
        field = by
    elif isinstance(by, Field):
        field = by.name
    elif type(by).__name__ == "member_descriptor":
        # A class with __slots__ has such a descriptor for each field.
        field = str(by.__name__)
    elif callable(by):
        return Keying(name or str(getattr(by, "__name__", "function")), function=by)
    else:
        hint = "give a field's name, or a function of the value"
        raise OptionError(option, by, "is no field", hint)
    return Keying(name or field, field=field)
