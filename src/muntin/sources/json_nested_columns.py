"""Structs, arrays and decimals of JSON as columns, for many messages at once.

Polars reads nested JSON into types that it knows; `fit_column` then converts decimals, times and
narrow integers. It also marks the messages whose values depend on how they were written, so that
the reader of single messages decides on them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from muntin.engine.session_zone import SessionZone
from muntin.engine.utf8 import Mask
from muntin.sources.decimals import convert_plain_decimals
from muntin.sources.json_payloads import as_read
from muntin.sources.lists import items_of, list_of, mark_lists, struct_of
from muntin.sources.text_values import convert_texts

# The text of a member that may be a number, array or object, which Polars formats in its own way.
# A short whole number has one form, with or without quotes.
_MAYBE_NO_TEXT = r"^(\[|\{|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$)"
_ONE_FORM = r"^(0|-?[1-9][0-9]{0,14})$"


def choose_read_type(dtype: pl.DataType) -> pl.DataType | None:
    """Return the type in which Polars reads a column of JSON; ``None`` if it can't."""
    if isinstance(dtype, pl.Struct):
        inner = {field.name: choose_read_type(instance_of(field.dtype)) for field in dtype.fields}
        types = {name: kind for name, kind in inner.items() if kind is not None}
        return pl.Struct(types) if len(types) == len(inner) else None
    if isinstance(dtype, pl.List):
        item = choose_read_type(instance_of(dtype.inner))
        return None if item is None else pl.List(item)
    return None if isinstance(dtype, pl.Map) else as_read(dtype)


def instance_of(dtype: Any) -> pl.DataType:
    """Return an instance of a type, which Polars may give as its class."""
    instance: pl.DataType = dtype() if isinstance(dtype, type) else dtype
    return instance


def fit_column(column: pl.Series, dtype: Any, zone: SessionZone) -> tuple[pl.Series, Mask]:
    """Convert a column as Polars reads it to its type, and mark rows to be read one by one."""
    dtype = instance_of(dtype)
    if isinstance(dtype, pl.Struct):
        unsure = np.zeros(len(column), bool)
        parts = []
        for field in dtype.fields:
            part, is_unsure = fit_column(column.struct.field(field.name), field.dtype, zone)
            unsure |= is_unsure
            parts.append(part.alias(field.name))
        return struct_of(parts, column.is_null()), unsure
    if isinstance(dtype, pl.List):
        items, sizes = items_of(column)
        fitted, is_unsure = fit_column(items, dtype.inner, zone)
        lists = list_of(fitted, sizes, column.is_null().to_numpy())
        return lists.alias(column.name), mark_lists(is_unsure, sizes)
    if isinstance(dtype, pl.String):
        unclear = column.str.contains(_MAYBE_NO_TEXT) & ~column.str.contains(_ONE_FORM)
        return column, unclear.fill_null(False).to_numpy()
    if isinstance(dtype, pl.Decimal):
        decimals, is_other = convert_plain_decimals(column, dtype)
        return decimals, is_other.to_numpy()
    if isinstance(dtype, (pl.Date, pl.Datetime)):
        converted = convert_texts(pl.DataFrame({"": column}), {"": dtype}, zone).rows.to_series()
    else:
        converted = column.cast(dtype, strict=False)
    return converted, (converted.is_null() & column.is_not_null()).to_numpy()


def mark_doubtful(column: pl.Series) -> Mask:
    """Return which rows of a column that was read leniently may have had other values.

    A value of another type has become null, and in an array it may have been converted.
    """
    doubtful = column.is_null().to_numpy().copy()
    if isinstance(column.dtype, pl.Struct):
        for field in column.dtype.fields:
            doubtful |= mark_doubtful(column.struct.field(field.name))
    elif isinstance(column.dtype, pl.List):
        doubtful |= column.list.len().fill_null(0).to_numpy() > 0
    return doubtful
