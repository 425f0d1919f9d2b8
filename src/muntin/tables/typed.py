"""Checks values of declared types, and writes them so that they can be read back.

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


class InvalidValueError(ValueError):
    """A value isn't of its topic's type; the message names the field and the problem."""


def create_adapter(kind: Any) -> Any:
    """Create pydantic's adapter for a type.

    Raises:
        MissingExtraError: When pydantic isn't installed.
        OptionError: When pydantic can't check values of this type.
    """
    try:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
    except ImportError as error:
        raise MissingExtraError("value_type=", "tables") from error
    _restore_defaults(kind)
    try:
        type_adapter = TypeAdapter(kind)
        if not type_adapter.pydantic_complete:
            type_adapter.rebuild()
        return type_adapter
    except (PydanticSchemaGenerationError, PydanticUserError, NameError) as error:
        hint = "give a dataclass, a pydantic model, or a type of Python's own"
        problem = "isn't a type that values can be checked by"
        raise OptionError("value_type", kind, problem, hint) from error


def _restore_defaults(kind: Any, seen: frozenset[Any] = frozenset()) -> None:
    """Restore the defaults of dataclasses that were sent to another process.

    A class that can't be imported there is pickled by value. Then Python's marker for "no default",
    which is compared by identity, arrives as another object.
    """
    if kind in seen:
        return
    seen |= {kind}
    for one in get_args(kind):
        if isinstance(one, Hashable):
            _restore_defaults(one, seen)
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        return
    for field in kind.__dataclass_fields__.values():
        for name in ("default", "default_factory", "kw_only"):
            if type(getattr(field, name)) is type(dataclasses.MISSING):
                setattr(field, name, dataclasses.MISSING)
    with contextlib.suppress(NameError):
        for one in get_type_hints(kind).values():
            if isinstance(one, Hashable):
                _restore_defaults(one, seen)


def make_reader(kind: Any) -> Callable[[Any], Any]:
    """Return a function that converts a raw value to a type.

    A raw value is an instance, a dictionary, or JSON in text or bytes. Without a type, values are
    returned unchanged.

    Raises:
        MissingExtraError: When a type is given and pydantic isn't installed.

    Example:
        >>> make_reader(list[int])(b"[1, 2]")
        [1, 2]
    """
    if kind is None:
        return lambda raw: raw
    validate, parse = create_adapter(kind).validate_python, None
    if kind not in (str, bytes):
        parse = create_adapter(kind).validate_json

    def read(raw: Any) -> Any:
        if type(raw) is kind:
            return raw
        try:
            if parse is not None and isinstance(raw, str | bytes):
                return parse(raw)
            return validate(raw)
        except ValueError as error:
            raise InvalidValueError(_describe_problems(error)) from error

    return read


def _describe_problems(error: ValueError) -> str:
    errors = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    problems = [(".".join(map(str, one["loc"])), one["msg"]) for one in errors()]
    return "; ".join(
        f"{location}: {message}" if location else message for location, message in problems
    )


@dataclass(frozen=True, slots=True)
class ValueCodec:
    """Converts values of a table to text and back."""

    dumps: Callable[[Any], str]
    loads: Callable[[str], Any]


def make_codec(kind: Any) -> ValueCodec:
    """Create the codec of a type; ``None`` is any type that ``packed`` supports.

    Raises:
        MissingExtraError: When the type is declared by the user and pydantic isn't installed.
    """
    if kind is None or kind in (bool, int, float, str):
        return ValueCodec(packed.write_json, packed.read_json)
    type_adapter = create_adapter(kind)

    def dumps(value: Any) -> str:
        try:
            return str(type_adapter.dump_json(value, warnings="error"), "utf-8")
        except ValueError as error:
            raise OptionError("value", value, f"isn't a {kind}", "keep what you declared") from (
                error
            )

    def loads(text: str) -> Any:
        try:
            return type_adapter.validate_json(text)
        except ValueError as error:
            problem = f"a stored value isn't a {kind}: {_describe_problems(error)}"
            raise StateCorruptedError(problem) from error

    return ValueCodec(dumps, loads)


def to_plain(value: Any) -> Any:
    """Convert a value to plain JSON for people to read: in rejected messages and results of agents.

    Example:
        >>> to_plain({"seen": {2, 1}, "by": (b"me", None)})
        {'seen': [1, 2], 'by': ['me', None]}
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, str) else str(key): to_plain(one) for key, one in value.items()
        }
    if isinstance(value, Set):
        return sorted((to_plain(one) for one in value), key=lambda one: (str(type(one)), str(one)))
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, date | time):
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return to_plain(value.model_dump())
    return str(value)
