"""Converts values of tables to JSON and back without losing their types.

A type that JSON lacks is written as ``{"$": type, "v": …}``. Nothing is pickled, so reading state
runs no code.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from muntin.model.errors import OptionError, StateCorruptedError

_ATOMS = {type(None), bool, int, float, str}
_MICROSECOND = timedelta(microseconds=1)

_WRITERS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    tuple: ("tuple", lambda v: [tag_types(one) for one in v]),
    set: ("set", lambda v: [tag_types(one) for one in v]),
    frozenset: ("frozenset", lambda v: [tag_types(one) for one in v]),
    Counter: ("counter", lambda v: [[tag_types(k), tag_types(n)] for k, n in v.items()]),
    bytes: ("bytes", lambda v: b64encode(v).decode()),
    datetime: ("datetime", datetime.isoformat),
    date: ("date", date.isoformat),
    time: ("time", time.isoformat),
    timedelta: ("timedelta", lambda v: v // _MICROSECOND),
    Decimal: ("decimal", str),
    UUID: ("uuid", str),
}
_READERS: dict[str, Callable[[Any], Any]] = {
    "tuple": lambda v: tuple(restore_types(one) for one in v),
    "set": lambda v: {restore_types(one) for one in v},
    "frozenset": lambda v: frozenset(restore_types(one) for one in v),
    "counter": lambda v: Counter({restore_types(k): restore_types(n) for k, n in v}),
    "dict": lambda v: {restore_types(k): restore_types(one) for k, one in v},
    "bytes": b64decode,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda v: v * _MICROSECOND,
    "decimal": Decimal,
    "uuid": UUID,
}
_HINT = (
    "keep text, numbers, dates, lists, tuples, sets or dictionaries, "
    "or declare what they are: value_type=YourDataclass"
)


def tag_types(value: Any) -> Any:
    """Convert a value to what JSON can hold, with tags for other types.

    Raises:
        OptionError: When the value's type can't be stored.

    Example:
        >>> tag_types({"seen": {1}})
        {'seen': {'$': 'set', 'v': [1]}}
    """
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is list:
        return [tag_types(one) for one in value]
    if kind is dict:
        if "$" not in value and all(type(key) is str for key in value):
            return {key: tag_types(one) for key, one in value.items()}
        return {"$": "dict", "v": [[tag_types(key), tag_types(one)] for key, one in value.items()]}
    if kind not in _WRITERS:
        raise OptionError("value", value, f"is a {kind.__name__}, which isn't kept", _HINT)
    name, write = _WRITERS[kind]
    return {"$": name, "v": write(value)}


def restore_types(packed: Any) -> Any:
    """Restore a value that ``tag_types`` converted.

    Raises:
        StateCorruptedError: When the stored value can't be read.

    Example:
        >>> restore_types(tag_types((1, b"2")))
        (1, b'2')
    """
    if isinstance(packed, list):
        return [restore_types(one) for one in packed]
    if not isinstance(packed, dict):
        return packed
    if "$" not in packed:
        return {key: restore_types(one) for key, one in packed.items()}
    try:
        return _READERS[packed["$"]](packed["v"])
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise StateCorruptedError(f"a stored value can't be read: {packed!r}") from error


def write_json(value: Any) -> str:
    """Write a value as JSON text."""
    return json.dumps(tag_types(value), separators=(",", ":"))


def read_json(text: str) -> Any:
    """Read a value from the JSON text that ``write_json`` wrote.

    Raises:
        StateCorruptedError: When the text can't be read.
    """
    try:
        return restore_types(json.loads(text))
    except ValueError as error:
        raise StateCorruptedError(f"a stored value can't be read: {text!r}") from error
