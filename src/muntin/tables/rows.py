"""Converts rows of a frame to values of a topic's type, many at a time.

Columns that have the types of a dataclass's fields become instances without a check per row. All
other values are checked one by one.
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

_FITS_FIELD: dict[Any, Callable[[pl.DataType], bool]] = {
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
        kind: The type of the topic's values; ``None`` for dictionaries.
        schema: The types of the frames' columns, by name.
        value: The column that holds the value; ``None`` if the whole row is the value.

    Example:
        >>> RowReader(None, {"n": pl.Int64()}, "n")(pl.DataFrame({"n": [1, 2]}))
        ([1, 2], {})
    """

    def __init__(self, kind: Any, schema: Mapping[str, pl.DataType], value: str | None) -> None:
        self._value_type = kind
        self._value_column = value
        self._names = list(schema)
        self._read = make_reader(kind)
        self._fields = None if value is not None else _match_fields(kind, schema)

    def __call__(self, frame: pl.DataFrame) -> tuple[list[Any], Malformed]:
        """Return the values, with ``None`` for malformed rows, and the problems of those rows."""
        if (
            self._fields is not None
            and (values := self._construct_values(frame, self._fields)) is not None
        ):
            return values, {}
        if self._value_column is not None:
            return self._check_values(*list_values(frame[self._value_column]))
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
        """Return the malformed rows; without a type, only times and nested values are converted."""
        if self._value_type is not None:
            return self(frame)[1]
        names = self._names if self._value_column is None else [self._value_column]
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
            return list(map(self._value_type, *(frame[name].to_list() for name in fields)))
        except (TypeError, *CONVERSION_ERRORS):
            return None  # the check per row finds the values that the class refuses

    def _check_values(self, raw: list[Any], unreadable: Malformed) -> tuple[list[Any], Malformed]:
        if self._value_type is None:
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
    """Return whether each field that a column can fill directly may be null, by name.

    The result is ``None`` if the type validates its values itself, if a field without a default has
    no column, or if a column has another type than its field.
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
        if plain_type not in _FITS_FIELD or not _FITS_FIELD[plain_type](schema[name]):
            return None
        nullable_by_name[name] = nullable or plain_type is Any
    return nullable_by_name or None


def _split_optional(hint: Any) -> tuple[Any, bool]:
    """Return a type without ``None``, and whether ``None`` is allowed."""
    if get_origin(hint) in (Union, types.UnionType):
        rest = [one for one in get_args(hint) if one is not type(None)]
        return (rest[0] if len(rest) == 1 else None), True
    return hint, False
