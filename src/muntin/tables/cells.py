"""Entries of a table as a frame, and back: a place, a key and a value per row.

Keys and values that are all text, all whole numbers or all floats are columns of that type; others
are written one by one. Each form has a column of its own name, so that frames of several batches
can be put together whatever they hold. A row without a value says that the entry is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from muntin.stores import keys as ordered
from muntin.tables.typed import ValueCodec

ByPlace = Mapping[int, Mapping[Any, Any]]
"""Values by place, then key."""

PLACE = "place"
KEYS = ("key_str", "key_int", "key_any")
_VALUES = ("value_int", "value_float", "value_str", "value_json")
_PLAIN: dict[type, tuple[str, str, type[pl.DataType]]] = {
    str: ("key_str", "value_str", pl.String),
    int: ("key_int", "value_int", pl.Int64),
    float: ("", "value_float", pl.Float64),
}


class _Mark:
    """A value that stands for no value."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __deepcopy__(self, memo: object) -> _Mark:
        return self  # it is known by its identity


GONE = _Mark("GONE")
"""What was deleted."""
MISSING = _Mark("MISSING")
"""What isn't there."""


def to_frame(entries: ByPlace, written: ValueCodec) -> pl.DataFrame:
    """Changed entries as a frame; ``GONE`` for what was deleted."""
    places: list[int] = []
    keys: list[Any] = []
    values: list[Any] = []
    for place, changed in entries.items():
        places += [place] * len(changed)
        keys += changed
        values += changed.values()
    series = [pl.Series(PLACE, places, dtype=pl.Int64), keys_column(keys), _values(values, written)]
    return pl.DataFrame(series)


def keys_column(keys: Sequence[Any]) -> pl.Series:
    """Keys as a column of one of the three forms."""
    kinds = set(map(type, keys))
    if len(kinds) == 1:
        name, _, dtype = _PLAIN.get(kinds.pop(), ("", "", pl.Null))
        if name and (column := _column(name, keys, dtype)) is not None:
            return column
    return pl.Series("key_any", list(map(ordered.encode_part, keys)), dtype=pl.Binary)


def _values(values: list[Any], written: ValueCodec) -> pl.Series:
    kinds = set(map(type, values)) - {type(GONE)}
    if len(kinds) <= 1:
        _, name, dtype = _PLAIN.get(kinds.pop() if kinds else int, ("", "", pl.Null))
        plain = [None if value is GONE else value for value in values]
        if name and (column := _column(name, plain, dtype)) is not None:
            return column
    texts = [None if value is GONE else written.dumps(value) for value in values]
    return pl.Series("value_json", texts, dtype=pl.String)


def _column(name: str, values: Sequence[Any], dtype: type[pl.DataType]) -> pl.Series | None:
    """A column, if these values fit into one: integers may be too great, text not be UTF-8."""
    try:
        return pl.Series(name, values, dtype=dtype, strict=True)
    except (OverflowError, TypeError, UnicodeEncodeError, pl.exceptions.PolarsError):
        return None


def newest(frames: Iterable[pl.DataFrame], *, gone: bool) -> pl.DataFrame:
    """One frame out of several, oldest first, with the newest row of each entry."""
    frames = list(frames)
    forms = {name for frame in frames for name in _there(frame, KEYS)}
    if len(forms) > 1:
        # One key may have been written in two forms, and must be known as one.
        frames = [_general(frame) for frame in frames]
        forms = {"key_any"}
    whole = pl.concat(frames, how="diagonal")
    whole = whole.unique([PLACE, *forms], keep="last", maintain_order=True)
    if gone:
        return whole
    return whole.filter(pl.any_horizontal(pl.col(*_there(whole, _VALUES)).is_not_null()))


def _general(frame: pl.DataFrame) -> pl.DataFrame:
    (name,) = _there(frame, KEYS)
    if name == "key_any":
        return frame
    column = pl.Series("key_any", list(map(ordered.encode_part, frame[name])), dtype=pl.Binary)
    return frame.drop(name).with_columns(column)


def _there(frame: pl.DataFrame, names: Iterable[str]) -> list[str]:
    return [name for name in names if name in frame.columns]


def from_frame(frame: pl.DataFrame, written: ValueCodec) -> Iterable[tuple[int, Any, Any]]:
    """Place, key and value (or ``GONE``) of each row."""
    keys = keys_of(frame)
    values = _together(frame, _VALUES, {"value_json": written.loads})
    return zip(frame[PLACE].to_list(), keys, values, strict=True)


def keys_of(frame: pl.DataFrame) -> list[Any]:
    """The keys of a frame that has a column of ``keys_column``."""
    return _together(frame, KEYS, {"key_any": _key})


def _key(data: bytes) -> Any:
    return ordered.decode_part(data)[0]


def _together(frame: pl.DataFrame, names: Iterable[str], read: Mapping[str, Any]) -> list[Any]:
    """One list out of columns of which at most one has a value in each row."""
    found: list[Any] = []
    for name in _there(frame, names):
        column, parse = frame[name].to_list(), read.get(name)
        if parse is not None:
            column = [GONE if one is None else parse(one) for one in column]
        elif frame[name].null_count():
            column = [GONE if one is None else one for one in column]
        if found:
            column = [old if new is GONE else new for old, new in zip(found, column, strict=True)]
        found = column
    return found
