"""Values of a declared type: checked when they come in, and written so that they come back.

Pydantic does both, for its own models, dataclasses and any other annotation.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from muntin.model.errors import MissingExtraError, OptionError, StateCorruptedError
from muntin.tables import packed


class MalformedError(ValueError):
    """A value that isn't of its topic's type; says where and why."""


def adapter(option: str, kind: Any) -> Any:
    """Pydantic's view of a type.

    Raises:
        MissingExtraError: When pydantic isn't installed.
        OptionError: When it can't tell what a value of that type is.
    """
    try:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
    except ImportError as error:
        raise MissingExtraError(f"{option}=", "tables") from error
    try:
        return TypeAdapter(kind)
    except (PydanticSchemaGenerationError, PydanticUserError, NameError) as error:
        cure = "give a dataclass, a pydantic model, or a type of Python's own"
        raise OptionError(option, kind, "isn't a type that values can be checked by", cure) from (
            error
        )


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
        return _as_it_is
    validate, parse = adapter("value_type", kind).validate_python, None
    if kind not in (str, bytes):
        parse = adapter("value_type", kind).validate_json

    def read(raw: Any) -> Any:
        if type(raw) is kind:
            return raw
        try:
            if parse is not None and isinstance(raw, str | bytes):
                return parse(raw)
            return validate(raw)
        except ValueError as error:
            raise MalformedError(_said(error)) from error

    return read


def _as_it_is(raw: Any) -> Any:
    return raw


def _said(error: ValueError) -> str:
    """What a validation found, on one line."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    found = [(".".join(map(str, one["loc"])), one["msg"]) for one in errors()]
    return "; ".join(f"{place}: {said}" if place else said for place, said in found)


@dataclass(frozen=True, slots=True)
class Written:
    """How values of a table are written as text, and read."""

    dumps: Callable[[Any], str]
    loads: Callable[[str], Any]


def written(kind: Any) -> Written:
    """The way to write values of a type; ``None`` is any that ``packed`` knows.

    Raises:
        MissingExtraError: When the type is declared by the user and pydantic isn't installed.
    """
    if kind is None or kind in (bool, int, float, str):
        return Written(packed.dumps, packed.loads)
    of_kind = adapter("value_type", kind)

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
            problem = f"a stored value isn't a {kind}: {_said(error)}"
            raise StateCorruptedError(problem) from error

    return Written(dumps, loads)


def plain(value: Any) -> Any:
    """A value as JSON can tell it to people: for rejected messages and what agents yield."""
    try:
        return json.loads(packed.dumps(value))
    except OptionError:
        pass
    try:
        from pydantic_core import to_jsonable_python
    except ImportError:
        return repr(value)
    return to_jsonable_python(value, fallback=repr)
