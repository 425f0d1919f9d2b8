"""Converts texts to numbers, times and booleans, and reports the texts that can't be converted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from muntin.engine.session_zone import SessionZone
from muntin.sources.decimals import convert_decimals
from muntin.sources.payloads import Decoded, no_faults

WHOLE = (pl.Int8, pl.Int16, pl.Int32, pl.Int64)
REAL = (pl.Float32, pl.Float64)
_ZONED = ("%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f%#z")
_LOCAL = (
    "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"
)  # fmt: skip
_FIXED = re.compile(
    r"\d{4}-\d\d-\d\d(?P<between>[T ])\d\d:\d\d:\d\d(?P<fraction>\.\d{3}|\.\d{6}|)(?P<zone>Z|)"
)
# Every format begins with a year and a hyphen; the year may have a sign, and blanks before it.
_MAYBE_DATE = r"\A\s*[+-]?[0-9]+-"
_TRIED = 20
BOOLEAN_TEXTS = {"true": True, "false": False}


def is_readable(dtype: pl.DataType) -> bool:
    """Return whether a column of a type can be read from text."""
    return isinstance(dtype, (*WHOLE, *REAL, pl.Datetime, pl.Date, pl.Boolean, pl.String))


def convert_texts(
    texts: pl.DataFrame, schema: Mapping[str, pl.DataType], zone: SessionZone
) -> Decoded:
    """Convert columns of texts, or of values, to their types, and mark rows with an invalid one."""
    columns = {name: _convert(texts[name], dtype, zone) for name, dtype in schema.items()}
    faults = no_faults(len(texts))
    for number, (name, column) in enumerate(columns.items()):
        if column.null_count() > texts[name].null_count():
            wrong = (column.is_null() & texts[name].is_not_null()).to_numpy()
            faults[wrong & (faults < 0)] = number
    return Decoded(pl.DataFrame(list(columns.values())), pl.Series(faults >= 0), faults)


def null_malformed(frame: pl.DataFrame, bad: pl.Series) -> pl.DataFrame:
    """Return a frame whose malformed rows are null."""
    if not bad.any():
        return frame
    return frame.select(pl.when(~bad).then(pl.col(name)).alias(name) for name in frame.columns)


def find_order(positions: Sequence[Any], count: int) -> pl.Series:
    """Return where the rows of several parts, one after the other, stand in order.

    Of two rows with one position the later counts; a position without a row is null.

    Example:
        >>> find_order([np.array([0, 2]), np.array([3])], 4).to_list()
        [0, None, 1, 2]
    """
    order = np.full(count, -1)
    order[np.concatenate(positions)] = np.arange(sum(map(len, positions)))
    rows = pl.Series(order)
    return rows.set(rows < 0, None)


def spread_rows(frame: pl.DataFrame, rows: Any, count: int) -> pl.DataFrame:
    """Return ``count`` rows: those of a frame at some positions, and nulls at the others."""
    return frame.select(pl.all().gather(find_order([rows], count)))


def replace_rows(frame: pl.DataFrame, rows: Any, others: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with other values in some of its rows."""
    order = find_order([np.arange(len(frame)), rows], len(frame))
    return pl.concat([frame, others]).select(pl.all().gather(order))


def _convert(column: pl.Series, dtype: pl.DataType, zone: SessionZone) -> pl.Series:
    if column.dtype == dtype:
        return column
    if isinstance(dtype, pl.Decimal):
        return convert_decimals(column, dtype)
    if isinstance(dtype, pl.Date):
        return column.str.to_date("%Y-%m-%d", strict=False)
    if isinstance(dtype, pl.Datetime):
        return _parse_times(column, dtype, zone)
    if isinstance(dtype, pl.Boolean) and column.dtype == pl.String:
        return column.str.to_lowercase().replace_strict(
            BOOLEAN_TEXTS, default=None, return_dtype=dtype
        )
    return column.cast(dtype, strict=False)


def parse_times(text: pl.Expr) -> pl.Expr:
    """Return ISO 8601 texts as microseconds, in UTC if they have no zone; NULL for other texts.

    Example:
        >>> texts = pl.DataFrame({"at": ["1970-01-01 00:00:01", "1970-01-01", "now"]})
        >>> texts.select(parse_times(pl.col("at")))["at"].to_list()
        [1000000, 0, None]
    """
    return text.map_batches(_parse_utc_times, return_dtype=pl.Int64(), is_elementwise=True)


def _parse_utc_times(text: pl.Series) -> pl.Series:
    return _parse_times(text, pl.Datetime("us", "UTC"), SessionZone()).to_physical()


def _parse_times(text: pl.Series, dtype: pl.Datetime, zone: SessionZone) -> pl.Series:
    """Convert ISO 8601 texts to times, down to the minute or the day; others become null."""
    local: Sequence[str] = _LOCAL if dtype.time_zone is None else _ZONED + _LOCAL
    first, *others = [*_guess_formats(text, dtype), *local]
    times = _read_times(text, first, dtype, zone)
    for number, form in enumerate(others):
        # Most columns have times of one format only.
        if times.null_count() == text.null_count():
            break
        is_unparsed = times.is_null() & text.is_not_null()
        if not number:
            text = text.set(is_unparsed & ~text.str.contains(_MAYBE_DATE), None)
            is_unparsed &= text.is_not_null()
        if is_unparsed.any():
            read = _read_times(text.filter(is_unparsed), form, dtype, zone)
            times = times.scatter(is_unparsed.arg_true(), read)
    return times.alias(text.name)


def _read_times(text: pl.Series, form: str, dtype: pl.Datetime, zone: SessionZone) -> pl.Series:
    """Convert texts of one format to times; others become null."""
    zoned = form in _ZONED or form.endswith("Z")
    read = text.str.to_datetime(
        form, time_unit="us", time_zone="UTC" if zoned else None, strict=False
    )
    if not zoned and dtype.time_zone is not None:
        read = zone.to_instants(read)
    return read.cast(dtype)


def _guess_formats(text: pl.Series, dtype: pl.Datetime) -> list[str]:
    """Return the format of one of the first values, if Polars reads it four times faster."""
    texts = text.drop_nulls() if text.null_count() else text
    first = map(_FIXED.fullmatch, texts.head(_TRIED).to_list())
    likely = next(filter(None, first), None)
    if likely is None or (likely["zone"] and dtype.time_zone is None):
        return []
    digits = likely["fraction"]
    fraction = f".%{len(digits) - 1}f" if digits else ""
    return [f"%Y-%m-%d{likely['between']}%H:%M:%S{fraction}{likely['zone']}"]
