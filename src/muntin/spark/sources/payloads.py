"""JSON payloads as columns: many messages in one call, and which of them can't be read.

Polars reads lines of JSON in columns and is strict: a value of another type than the column's is
an error, of the whole call. So a block that fails is divided until what can't be read stands alone.
What a message becomes depends on nothing but itself, whatever it was read with.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

# A block this small is sorted out message by message.
_FEW = 512
_WHOLE = (pl.Int8, pl.Int16, pl.Int32, pl.Int64)
_REAL = (pl.Float32, pl.Float64)
# Half a surrogate pair is no text; Polars reads one as a character of its own choice.
_SURROGATES = (b"\\ud", b"\\uD")
_ZONED = ("%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f%#z")
_LOCAL = (
    "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"
)  # fmt: skip


_FIXED = re.compile(
    r"\d{4}-\d\d-\d\d(?P<between>[T ])\d\d:\d\d:\d\d(?P<fraction>\.\d{3}|\.\d{6}|)(?P<zone>Z|)"
)


def readable(dtype: pl.DataType) -> bool:
    """Whether a column of a type can be read out of JSON here."""
    return isinstance(dtype, (*_WHOLE, *_REAL, pl.Datetime, pl.Date, pl.Boolean, pl.String))


def decode(
    values: Sequence[bytes | None], schema: Mapping[str, pl.DataType], zone: str
) -> tuple[pl.DataFrame, pl.Series]:
    """Payloads as columns.

    Args:
        values: One JSON object each.
        schema: The columns wanted; members that aren't among them are skipped.
        zone: Which zone a time without one is of.

    Returns:
        A row a payload, and which payloads couldn't be read: those that aren't one JSON object
        (also ``None`` and nothing), and those with a member of another type than its column. Their
        rows are null.
    """
    lines = [value for value in values if value]
    given = np.arange(len(values))
    if len(lines) < len(values):
        given = np.flatnonzero(np.fromiter(map(bool, values), bool, len(values)))
    # A column that no message has: without any, Polars would count no rows.
    raw = pl.Schema({name: _as_read(dtype) for name, dtype in schema.items()} | {"": pl.Boolean()})
    blocks = list(_blocks(lines, given, raw))
    if not blocks:
        whole = pl.DataFrame(schema=pl.Schema(schema)).clear(len(values))
        return whole, pl.repeat(True, len(values), eager=True)
    rows = np.concatenate([where for _, where in blocks])
    typed = _typed(pl.concat([frame for frame, _ in blocks]), schema, zone)
    if len(rows) < len(values):
        place = np.full(len(values), -1)
        place[rows] = np.arange(len(rows))
        number = pl.Series(place)
        typed = typed.select(pl.all().gather(number.set(number < 0, None)))
    found = typed.select(schema.keys())
    bad = typed.to_series(len(schema)).fill_null(True)
    if not bad.any():
        return found, bad
    return found.select(pl.when(~bad).then(pl.col(name)).alias(name) for name in schema), bad


def _blocks(
    lines: list[bytes], where: Any, schema: pl.Schema
) -> Iterator[tuple[pl.DataFrame, Any]]:
    """What can be read, in the order of the lines, with the positions of what was read."""
    if not lines:
        return
    found = _read(lines, schema)
    if found is not None:
        yield found, where
    elif len(lines) > _FEW:
        half = len(lines) // 2
        yield from _blocks(lines[:half], where[:half], schema)
        yield from _blocks(lines[half:], where[half:], schema)
    elif len(lines) > 1:
        # Most of what Polars refuses can be told apart without asking it for each message.
        kept = [i for i, line in enumerate(lines) if _may_be_read(line, schema)]
        rest, positions = [lines[i] for i in kept], where[kept]
        found = _read(rest, schema) if rest and len(rest) < len(lines) else None
        if found is not None:
            yield found, positions
            return
        for line, position in zip(rest, positions, strict=True):
            yield from _blocks([line], np.array([position]), schema)


def _read(lines: list[bytes], schema: pl.Schema) -> pl.DataFrame | None:
    """A row a line; ``None`` where one of them can't be read."""
    joined = b"\n".join(lines)
    if joined.count(b"\n") >= len(lines):
        # A line ends at a line feed; between values JSON takes a return as well.
        joined = b"\n".join(line.replace(b"\n", b"\r") for line in lines)
    # Most messages have no escapes at all, and to look for a single byte is a hundred times faster.
    escaped = b"\\" in joined and any(half in joined for half in _SURROGATES)
    if escaped and not all(map(_is_text, lines)):
        return None
    try:
        found = pl.read_ndjson(io.BytesIO(joined), schema=schema)
    except PolarsError:
        return None
    # Blank lines are skipped.
    return found if len(found) == len(lines) else None


def _is_text(line: bytes) -> bool:
    if not any(half in line for half in _SURROGATES):
        return True
    try:
        json.dumps(json.loads(line), ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


def _may_be_read(line: bytes, schema: pl.Schema) -> bool:
    """False only of what Polars refuses, too."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return False
    if not isinstance(message, dict):
        return False
    return all(_fits(message.get(name), dtype) for name, dtype in schema.items())


def _fits(value: Any, dtype: pl.DataType) -> bool:
    if value is None or isinstance(dtype, pl.String):
        return True
    if isinstance(dtype, pl.Boolean):
        return isinstance(value, bool)
    number = (int, float) if isinstance(dtype, pl.Float64) else int
    return isinstance(value, number) and not isinstance(value, bool)


def _as_read(dtype: pl.DataType) -> pl.DataType:
    """The type by which Polars' parser is asked: it knows fewer, and takes times only as text."""
    if isinstance(dtype, _WHOLE):
        return pl.Int64()
    if isinstance(dtype, _REAL):
        return pl.Float64()
    return pl.Boolean() if isinstance(dtype, pl.Boolean) else pl.String()


def _typed(found: pl.DataFrame, schema: Mapping[str, pl.DataType], zone: str) -> pl.DataFrame:
    """The columns wanted, and behind them whether one of a row's values isn't of its type."""
    columns = {name: _cast(found[name], dtype, zone) for name, dtype in schema.items()}
    bad = pl.repeat(False, len(found), dtype=pl.Boolean, eager=True)
    for name, column in columns.items():
        bad |= column.is_null() & found[name].is_not_null()
    return pl.DataFrame([*columns.values(), bad.alias("__muntin_bad")])


def _cast(column: pl.Series, dtype: pl.DataType, zone: str) -> pl.Series:
    if isinstance(dtype, pl.Date):
        return column.str.to_date("%Y-%m-%d", strict=False)
    if isinstance(dtype, pl.Datetime):
        return _times(column, _LOCAL if dtype.time_zone is None else _ZONED + _LOCAL, dtype, zone)
    return column.cast(dtype, strict=False)


def _times(text: pl.Series, formats: Sequence[str], dtype: pl.Datetime, zone: str) -> pl.Series:
    """Times out of ISO 8601, down to the minute or the day; null where it is none."""
    found = pl.Series(text.name, [None], dtype=dtype).new_from_index(0, len(text))
    for form in (*_likely(text, dtype), *formats):
        left = found.is_null() & text.is_not_null()
        if not left.any():
            break
        zoned = form in _ZONED or form.endswith("Z")
        read = text.filter(left).str.to_datetime(
            form, time_unit="us", time_zone="UTC" if zoned else None, strict=False
        )
        if not zoned and dtype.time_zone is not None:
            read = read.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
            read = read.dt.convert_time_zone("UTC")
        found = read.cast(dtype) if left.all() else found.scatter(left.arg_true(), read.cast(dtype))
    return found.alias(text.name)


def _likely(text: pl.Series, dtype: pl.Datetime) -> list[str]:
    """The first value's own format, where it is one that Polars reads four times faster."""
    whole = text.drop_nulls().head(1).to_list()
    likely = _FIXED.fullmatch(whole[0]) if whole else None
    if likely is None or (likely["zone"] and dtype.time_zone is None):
        return []
    digits = likely["fraction"]
    fraction = f".%{len(digits) - 1}f" if digits else ""
    return [f"%Y-%m-%d{likely['between']}%H:%M:%S{fraction}{likely['zone']}"]
