"""Rows of a frame as values of a topic's type, many at a time.

Columns that already have the types of a dataclass's fields need no checking row by row; everything
else is checked by the type's reader.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from datetime import date, datetime
from typing import Any, Union, get_args, get_origin, get_type_hints

import polars as pl

from muntin.engine.named_rows import UNHELD, listed
from muntin.tables.typed import MalformedError, reader

Malformed = dict[int, str]
"""What is wrong with a row, by its number."""

_FITS: dict[Any, Callable[[pl.DataType], bool]] = {
    int: lambda dtype: dtype.is_integer(),
    float: lambda dtype: dtype.is_float(),
    str: lambda dtype: dtype == pl.String,
    bool: lambda dtype: dtype == pl.Boolean,
    bytes: lambda dtype: dtype == pl.Binary,
    datetime: lambda dtype: isinstance(dtype, pl.Datetime),
    date: lambda dtype: dtype == pl.Date,
    Any: lambda dtype: True,
}


class RowReader:
    """Makes values out of frames.

    Args:
        kind: The topic's type; ``None`` gives dictionaries.
        schema: The columns.
        value: The column that holds the value; ``None``: the whole row is the value.

    Example:
        >>> RowReader(None, {"n": pl.Int64()}, "n")(pl.DataFrame({"n": [1, 2]}))
        ([1, 2], {})
    """

    def __init__(self, kind: Any, schema: Mapping[str, pl.DataType], value: str | None) -> None:
        self._kind = kind
        self._value = value
        self._names = list(schema)
        self._read = reader(kind)
        self._fields = None if value is not None else _fields(kind, schema)

    def __call__(self, frame: pl.DataFrame) -> tuple[list[Any], Malformed]:
        """The values, ``None`` in place of those that are malformed, and what is wrong."""
        if self._fields is not None and (made := self._made(frame, self._fields)) is not None:
            return made, {}
        if self._value is not None:
            return self._checked(*listed(frame[self._value]))
        columns: list[list[Any]] = []
        unheld: Malformed = {}
        for name in self._names:
            column, wrong = listed(frame[name])
            columns.append(column)
            unheld |= {row: f"{name}: {why}" for row, why in wrong.items()}
        rows = zip(*columns, strict=True)
        return self._checked([dict(zip(self._names, row, strict=True)) for row in rows], unheld)

    def refused(self, frame: pl.DataFrame) -> Malformed:
        """Which rows are malformed, without making more values than that takes."""
        if self._kind is not None:
            return self(frame)[1]
        names = self._names if self._value is None else [self._value]
        held = [n for n in names if frame.schema[n].is_temporal() or frame.schema[n].is_nested()]
        return {row: why for name in held for row, why in listed(frame[name])[1].items()}

    def _made(self, frame: pl.DataFrame, fields: dict[str, bool]) -> list[Any] | None:
        """Instances out of whole columns; ``None`` where some row needs a closer look."""
        if any(not nullable and frame[name].null_count() for name, nullable in fields.items()):
            return None
        try:
            return list(map(self._kind, *(frame[name].to_list() for name in fields)))
        except (TypeError, *UNHELD):
            return None  # what the class itself refuses is found row by row

    def _checked(self, raw: list[Any], unheld: Malformed) -> tuple[list[Any], Malformed]:
        if self._kind is None:
            if unheld:
                raw = [None if row in unheld else one for row, one in enumerate(raw)]
            return raw, unheld
        values: list[Any] = []
        malformed = dict(unheld)
        for number, one in enumerate(raw):
            value = None
            if number not in unheld:
                try:
                    value = self._read(one)
                except MalformedError as error:
                    malformed[number] = str(error)
            values.append(value)
        return values, malformed


def _fields(kind: Any, schema: Mapping[str, pl.DataType]) -> dict[str, bool] | None:
    """The fields that columns fit, by name, and whether they may be null.

    ``None`` where they can't simply be handed over: a type that checks more than types, a field
    without a column, a column of another type.
    """
    if not (isinstance(kind, type) and is_dataclass(kind)):
        return None
    if hasattr(kind, "__pydantic_validator__"):
        return None
    hints = get_type_hints(kind)
    given = list(inspect.signature(kind).parameters.values())
    if any(one.kind is one.KEYWORD_ONLY for one in given):
        return None
    there = [one.name for one in given if one.name in schema]
    if there != [one.name for one in given[: len(there)]]:
        return None
    if any(one.default is one.empty for one in given[len(there) :]):
        return None
    found = {}
    for name in there:
        plain, nullable = _optional(hints[name])
        if plain not in _FITS or not _FITS[plain](schema[name]):
            return None
        found[name] = nullable or plain is Any
    return found or None


def _optional(hint: Any) -> tuple[Any, bool]:
    """A type without ``None``, and whether it may be that."""
    if get_origin(hint) in (Union, types.UnionType):
        rest = [one for one in get_args(hint) if one is not type(None)]
        return (rest[0] if len(rest) == 1 else None), True
    return hint, False
