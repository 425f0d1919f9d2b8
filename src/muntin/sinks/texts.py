"""Converts rows in this process to texts, with Spark's formats of values."""

from __future__ import annotations

import polars as pl

from muntin.engine.utf8 import decode_with_escapes
from muntin.sinks.json_text import format_objects, format_times, format_values


def list_json_objects(frame: pl.DataFrame) -> list[str]:
    """Return each row as a JSON object with all of its columns.

    Example:
        >>> list_json_objects(pl.DataFrame({"page": ["home"], "n": [None]}))
        ['{"page":"home","n":null}']
    """
    return format_objects(frame, frame.columns, "UTC").to_list()


def list_texts(frame: pl.DataFrame) -> list[tuple[str | None, ...]]:
    """Return each row's values as texts; nested values become JSON.

    Example:
        >>> from datetime import datetime
        >>> list_texts(pl.DataFrame({"at": [datetime(2026, 1, 1, 9)], "l": [[1]], "n": [None]}))
        [('2026-01-01 09:00:00', '[1]', None)]
    """
    columns = [_format_column(frame, name) for name in frame.columns]
    return list(zip(*(column.to_list() for column in columns), strict=True))


def _format_column(frame: pl.DataFrame, name: str) -> pl.Series:
    kind, column = frame.schema[name], frame[name]
    if isinstance(kind, pl.Binary):
        return decode_with_escapes(column)[0]
    return format_values(frame, name, "UTC") if kind.is_nested() else format_text(column, "UTC")


def format_text(column: pl.Series, zone: str) -> pl.Series:
    """Format values without parts as text, as Spark casts them."""
    if not isinstance(column.dtype, pl.Datetime):
        return column.cast(pl.String)
    text = format_times(column.to_frame("at"), "at", zone).str.replace("T", " ")
    return text.str.replace(r"(Z|[+-]\d\d:\d\d)$", "").str.replace(r"\.?0+$", "")
