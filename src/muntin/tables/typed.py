"""Values of a declared type: checked when they come in, and written so that they come back.

Pydantic does both, for its own models, dataclasses and any other annotation.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Hashable, Mapping, Set
from dataclasses import dataclass
from datetime import date, time
from typing import Any, get_args, get_type_hints

from muntin.model.errors import MissingExtraError, OptionError, StateCorruptedError
from muntin.tables import packed


class MalformedError(ValueError):
    """A value that isn't of its topic's type; says where and why."""


def adapter(kind: Any) -> Any:
    """Pydantic's view of a type."""
    try:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
    except ImportError as error:
        raise MissingExtraError("value_type=", "tables") from error
    _repair(kind)
    try:
        made = TypeAdapter(kind)
        if not made.pydantic_complete:
            made.rebuild()
        return made
    except (PydanticSchemaGenerationError, PydanticUserError, NameError) as error:
        hint = "give a dataclass, a pydantic model, or a type of Python's own"
        problem = "isn't a type that values can be checked by"
        raise OptionError("value_type", kind, problem, hint) from error


def _repair(kind: Any, seen: frozenset[Any] = frozenset()) -> None:
    """Give dataclasses back what they lose on the way to another process.

    A class that isn't importable there is sent whole, and Python's mark for "no default", known by
    its identity, comes out as another object.
    """
    if kind in seen:
        return
    seen |= {kind}
    for one in get_args(kind):
        if isinstance(one, Hashable):
            _repair(one, seen)
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        return
    for field in kind.__dataclass_fields__.values():
        for name in ("default", "default_factory", "kw_only"):
            if type(getattr(field, name)) is type(dataclasses.MISSING):
                setattr(field, name, dataclasses.MISSING)
    with contextlib.suppress(NameError):
        for one in get_type_hints(kind).values():
            if isinstance(one, Hashable):
                _repair(one, seen)


def reader(kind: Any) -> Callable[[Any], Any]:
    """What turns a raw value into one of a type.

    A raw value is an instance, a dictionary, or JSON in text or bytes. Without a type, values are
    taken as they are.

    Raises:
        MissingExtraError: When a type is given and pydantic isn't installed.

    Example:
        >>> reader(list[int])(b"[1, 2]")
        [1, 2]
    """
    if kind is None:
        return lambda raw: raw
    validate, parse = adapter(kind).validate_python, None
    if kind not in (str, bytes):
        parse = adapter(kind).validate_json

    def read(raw: Any) -> Any:
        if type(raw) is kind:
            return raw
        try:
            if parse is not None and isinstance(raw, str | bytes):
                return parse(raw)
            return validate(raw)
        except ValueError as error:
            raise MalformedError(_problems(error)) from error

    return read


def _problems(error: ValueError) -> str:
    """What a validation found, on one line."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    found = [(".".join(map(str, one["loc"])), one["msg"]) for one in errors()]
    return "; ".join(f"{place}: {said}" if place else said for place, said in found)


@dataclass(frozen=True, slots=True)
class ValueCodec:
    """How values of a table are written as text, and read."""

    dumps: Callable[[Any], str]
    loads: Callable[[str], Any]


def codec_of(kind: Any) -> ValueCodec:
    """The way to write values of a type; ``None`` is any that ``packed`` knows.

    Raises:
        MissingExtraError: When the type is declared by the user and pydantic isn't installed.
    """
    if kind is None or kind in (bool, int, float, str):
        return ValueCodec(packed.dumps, packed.loads)
    of_kind = adapter(kind)

    def dumps(value: Any) -> str:
        try:
            return str(of_kind.dump_json(value, warnings="error"), "utf-8")
        except ValueError as error:
            raise OptionError("value", value, f"isn't a {kind}", "keep what you declared") from (
                error
            )

    def loads(text: str) -> Any:
        try:
            return of_kind.validate_json(text)
        except ValueError as error:
            problem = f"a stored value isn't a {kind}: {_problems(error)}"
            raise StateCorruptedError(problem) from error

    return ValueCodec(dumps, loads)


def as_plain(value: Any) -> Any:
    """A value as JSON shows it to people: for rejected messages and what agents yield.

    Example:
        >>> as_plain({"seen": {2, 1}, "by": (b"me", None)})
        {'seen': [1, 2], 'by': ['me', None]}
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, str) else str(key): as_plain(one) for key, one in value.items()
        }
    if isinstance(value, Set):
        return sorted((as_plain(one) for one in value), key=lambda one: (str(type(one)), str(one)))
    if isinstance(value, list | tuple):
        return [as_plain(one) for one in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, date | time):
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: as_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return as_plain(value.model_dump())
    return str(value)
