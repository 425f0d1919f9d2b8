"""Values of tables as JSON and back, without losing what they are.

JSON knows fewer types than Python; what it doesn't know is written as ``{"$": type, "v": …}``.
Nothing is pickled, so that reading state runs no code.
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
    tuple: ("tuple", lambda v: [pack(one) for one in v]),
    set: ("set", lambda v: [pack(one) for one in v]),
    frozenset: ("frozenset", lambda v: [pack(one) for one in v]),
    Counter: ("counter", lambda v: [[pack(k), pack(n)] for k, n in v.items()]),
    bytes: ("bytes", lambda v: b64encode(v).decode()),
    datetime: ("datetime", datetime.isoformat),
    date: ("date", date.isoformat),
    time: ("time", time.isoformat),
    timedelta: ("timedelta", lambda v: v // _MICROSECOND),
    Decimal: ("decimal", str),
    UUID: ("uuid", str),
}
_READERS: dict[str, Callable[[Any], Any]] = {
    "tuple": lambda v: tuple(unpack(one) for one in v),
    "set": lambda v: {unpack(one) for one in v},
    "frozenset": lambda v: frozenset(unpack(one) for one in v),
    "counter": lambda v: Counter({unpack(k): unpack(n) for k, n in v}),
    "dict": lambda v: {unpack(k): unpack(one) for k, one in v},
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


def pack(value: Any) -> Any:
    """A value as JSON has it.

    Example:
        >>> pack({"seen": {1}})
        {'seen': {'$': 'set', 'v': [1]}}
    """
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is list:
        return [pack(one) for one in value]
    if kind is dict:
        if "$" not in value and all(type(key) is str for key in value):
            return {key: pack(one) for key, one in value.items()}
        return {"$": "dict", "v": [[pack(key), pack(one)] for key, one in value.items()]}
    if kind not in _WRITERS:
        raise OptionError("value", value, f"is a {kind.__name__}, which isn't kept", _HINT)
    name, write = _WRITERS[kind]
    return {"$": name, "v": write(value)}


def unpack(packed: Any) -> Any:
    """What ``pack`` was given.

    Example:
        >>> unpack(pack((1, b"2")))
        (1, b'2')
    """
    if isinstance(packed, list):
        return [unpack(one) for one in packed]
    if not isinstance(packed, dict):
        return packed
    if "$" not in packed:
        return {key: unpack(one) for key, one in packed.items()}
    try:
        return _READERS[packed["$"]](packed["v"])
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise StateCorruptedError(f"a stored value can't be read: {packed!r}") from error


def dumps(value: Any) -> str:
    """A value as JSON text."""
    return json.dumps(pack(value), separators=(",", ":"))


def loads(text: str) -> Any:
    """What ``dumps`` was given."""
    try:
        return unpack(json.loads(text))
    except ValueError as error:
        raise StateCorruptedError(f"a stored value can't be read: {text!r}") from error
