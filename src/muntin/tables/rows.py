"""Converts rows of a frame to values of a topic's type, many at a time.

Columns that already have the types of a dataclass's fields need no check per row; all other values
are checked one by one.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from datetime import date, datetime
from typing import Any, Union, get_args, get_origin, get_type_hints

import polars as pl

from muntin.engine.named_rows import CONVERSION_ERRORS, list_values
from muntin.tables.typed import InvalidValueError, make_reader

Malformed = dict[int, str]
"""The problem of each malformed row, by its number."""

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
    """Converts the rows of frames to values.

    Args:
        kind: The topic's type; ``None`` returns dictionaries.
        schema: The columns.
        value: The column of the value; ``None`` if the whole row is the value.

    Example:
        >>> RowReader(None, {"n": pl.Int64()}, "n")(pl.DataFrame({"n": [1, 2]}))
        ([1, 2], {})
    """

    def __init__(self, kind: Any, schema: Mapping[str, pl.DataType], value: str | None) -> None:
        self._kind = kind
        self._value = value
        self._names = list(schema)
        self._read = make_reader(kind)
        self._fields = None if value is not None else _match_fields(kind, schema)

    def __call__(self, frame: pl.DataFrame) -> tuple[list[Any], Malformed]:
        """Return the values, with ``None`` for malformed rows, and the problems."""
        if (
            self._fields is not None
            and (values := self._construct_values(frame, self._fields)) is not None
        ):
            return values, {}
        if self._value is not None:
            return self._check_values(*list_values(frame[self._value]))
        columns: list[list[Any]] = []
        malformed: Malformed = {}
        for name in self._names:
            column, problems = list_values(frame[name])
            columns.append(column)
            malformed |= {row: f"{name}: {why}" for row, why in problems.items()}
        rows = zip(*columns, strict=True)
        return self._check_values(
            [dict(zip(self._names, row, strict=True)) for row in rows], malformed
        )

    def find_malformed(self, frame: pl.DataFrame) -> Malformed:
        """Return the malformed rows, converting no more values than necessary."""
        if self._kind is not None:
            return self(frame)[1]
        names = self._names if self._value is None else [self._value]
        checked_columns = [
            n for n in names if frame.schema[n].is_temporal() or frame.schema[n].is_nested()
        ]
        return {
            row: why for name in checked_columns for row, why in list_values(frame[name])[1].items()
        }

    def _construct_values(self, frame: pl.DataFrame, fields: dict[str, bool]) -> list[Any] | None:
        """Construct instances from whole columns; ``None`` if some row needs a check."""
        if any(not nullable and frame[name].null_count() for name, nullable in fields.items()):
            return None
        try:
            return list(map(self._kind, *(frame[name].to_list() for name in fields)))
        except (TypeError, *CONVERSION_ERRORS):
            return None  # the check per row finds the values that the class refuses

    def _check_values(self, raw: list[Any], unreadable: Malformed) -> tuple[list[Any], Malformed]:
        if self._kind is None:
            if unreadable:
                raw = [None if row in unreadable else one for row, one in enumerate(raw)]
            return raw, unreadable
        values: list[Any] = []
        malformed = dict(unreadable)
        for number, one in enumerate(raw):
            value = None
            if number not in unreadable:
                try:
                    value = self._read(one)
                except InvalidValueError as error:
                    malformed[number] = str(error)
            values.append(value)
        return values, malformed


def _match_fields(kind: Any, schema: Mapping[str, pl.DataType]) -> dict[str, bool] | None:
    """Return the fields that columns fit, by name, and whether they may be null.

    ``None`` if columns can't be used directly: for a type with its own validation, a field without
    a column, or a column of another type.
    """
    if not (isinstance(kind, type) and is_dataclass(kind)):
        return None
    if hasattr(kind, "__pydantic_validator__"):
        return None
    hints = get_type_hints(kind)
    parameters = list(inspect.signature(kind).parameters.values())
    if any(one.kind is one.KEYWORD_ONLY for one in parameters):
        return None
    present = [one.name for one in parameters if one.name in schema]
    if present != [one.name for one in parameters[: len(present)]]:
        return None
    if any(one.default is one.empty for one in parameters[len(present) :]):
        return None
    nullable_by_name = {}
    for name in present:
        plain_type, nullable = _split_optional(hints[name])
        if plain_type not in _FITS or not _FITS[plain_type](schema[name]):
            return None
        nullable_by_name[name] = nullable or plain_type is Any
    return nullable_by_name or None


def _split_optional(hint: Any) -> tuple[Any, bool]:
    """Return a type without ``None``, and whether ``None`` is allowed."""
    if get_origin(hint) in (Union, types.UnionType):
        rest = [one for one in get_args(hint) if one is not type(None)]
        return (rest[0] if len(rest) == 1 else None), True
    return hint, False
