"""Converts entries of a table to frames and back: one row per position and key.

Keys and values that are all text, all integers or all floats become columns of that type; other
values are encoded one by one. Each type has its own column name, so that frames of several batches
can be concatenated. A row without a value marks a deleted entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from muntin.stores import keys as ordered
from muntin.tables.typed import ValueCodec

ValuesByPosition = Mapping[int, Mapping[Any, Any]]
"""Values by position, then key."""

POSITION_COLUMN = "place"
KEYS = ("key_str", "key_int", "key_any")
_VALUES = ("value_int", "value_float", "value_str", "value_json")
_PLAIN: dict[type, tuple[str, str, type[pl.DataType]]] = {
    str: ("key_str", "value_str", pl.String),
    int: ("key_int", "value_int", pl.Int64),
    float: ("", "value_float", pl.Float64),
}


class _Placeholder:
    """A placeholder for an absent value, compared by identity."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __deepcopy__(self, memo: object) -> _Placeholder:
        return self  # compared by identity


GONE = _Placeholder("GONE")
"""The value of a deleted entry."""
MISSING = _Placeholder("MISSING")
"""The value of an entry that doesn't exist."""


def sort_keys(keys: Iterable[Any]) -> list[Any]:
    """Sort keys, by their stored form if they can't be compared."""
    keys = list(keys)
    try:
        return sorted(keys)
    except TypeError:
        return sorted(keys, key=ordered.encode_part)


def to_frame(entries: ValuesByPosition, codec: ValueCodec) -> pl.DataFrame:
    """Convert changed entries to a frame; ``GONE`` marks a deleted entry."""
    positions: list[int] = []
    keys: list[Any] = []
    values: list[Any] = []
    for position, changed in entries.items():
        positions += [position] * len(changed)
        keys += changed
        values += changed.values()
    series = [
        pl.Series(POSITION_COLUMN, positions, dtype=pl.Int64),
        build_key_column(keys),
        _build_value_column(values, codec),
    ]
    return pl.DataFrame(series)


def build_key_column(keys: Sequence[Any]) -> pl.Series:
    """Convert keys to a column of one of the three types."""
    kinds = set(map(type, keys))
    if len(kinds) == 1:
        name, _, dtype = _PLAIN.get(kinds.pop(), ("", "", pl.Null))
        if name and (column := _try_column(name, keys, dtype)) is not None:
            return column
    return pl.Series("key_any", list(map(ordered.encode_part, keys)), dtype=pl.Binary)


def _build_value_column(values: list[Any], codec: ValueCodec) -> pl.Series:
    kinds = set(map(type, values)) - {type(GONE)}
    if len(kinds) <= 1:
        _, name, dtype = _PLAIN.get(kinds.pop() if kinds else int, ("", "", pl.Null))
        plain = [None if value is GONE else value for value in values]
        if name and (column := _try_column(name, plain, dtype)) is not None:
            return column
    texts = [None if value is GONE else codec.dumps(value) for value in values]
    return pl.Series("value_json", texts, dtype=pl.String)


def _try_column(name: str, values: Sequence[Any], dtype: type[pl.DataType]) -> pl.Series | None:
    """Return a column, or ``None`` if a value doesn't fit its type."""
    try:
        return pl.Series(name, values, dtype=dtype, strict=True)
    except (OverflowError, TypeError, UnicodeEncodeError, pl.exceptions.PolarsError):
        return None


def keep_newest_entries(frames: Iterable[pl.DataFrame], *, keep_deleted: bool) -> pl.DataFrame:
    """Concatenate frames, oldest first, keeping the newest row of each entry."""
    frames = list(frames)
    key_columns = {name for frame in frames for name in _select_present(frame, KEYS)}
    if len(key_columns) > 1:
        # A key may have been written in two types; encoded, it is the same key.
        frames = [_encode_keys(frame) for frame in frames]
        key_columns = {"key_any"}
    whole = pl.concat(frames, how="diagonal")
    whole = whole.unique([POSITION_COLUMN, *key_columns], keep="last", maintain_order=True)
    if keep_deleted:
        return whole
    return whole.filter(pl.any_horizontal(pl.col(*_select_present(whole, _VALUES)).is_not_null()))


def _encode_keys(frame: pl.DataFrame) -> pl.DataFrame:
    (name,) = _select_present(frame, KEYS)
    if name == "key_any":
        return frame
    column = pl.Series("key_any", list(map(ordered.encode_part, frame[name])), dtype=pl.Binary)
    return frame.drop(name).with_columns(column)


def _select_present(frame: pl.DataFrame, names: Iterable[str]) -> list[str]:
    return [name for name in names if name in frame.columns]


def from_frame(frame: pl.DataFrame, codec: ValueCodec) -> Iterable[tuple[int, Any, Any]]:
    """Return the position, key and value (or ``GONE``) of each row."""
    keys = read_keys(frame)
    values = _coalesce(frame, _VALUES, {"value_json": codec.loads})
    return zip(frame[POSITION_COLUMN].to_list(), keys, values, strict=True)


def read_keys(frame: pl.DataFrame) -> list[Any]:
    """Return the keys of a frame that has a column of ``build_key_column``."""
    return _coalesce(frame, KEYS, {"key_any": _decode_key})


def _decode_key(data: bytes) -> Any:
    return ordered.decode_part(data)[0]


def _coalesce(frame: pl.DataFrame, names: Iterable[str], read: Mapping[str, Any]) -> list[Any]:
    """Combine columns, of which at most one has a value in each row, into a list."""
    values: list[Any] = []
    for name in _select_present(frame, names):
        column, parse = frame[name].to_list(), read.get(name)
        if parse is not None:
            column = [GONE if raw is None else parse(raw) for raw in column]
        elif frame[name].null_count():
            column = [GONE if raw is None else raw for raw in column]
        if values:
            column = [old if new is GONE else new for old, new in zip(values, column, strict=True)]
        values = column
    return values
