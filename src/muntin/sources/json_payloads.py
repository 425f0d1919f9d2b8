"""JSON payloads as columns: many messages in one call, and which of them can't be read.

Polars reads lines of JSON in columns and is strict: a value of another type than the column's is
an error, of the whole call. So a block that fails is divided until what can't be read stands alone.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from muntin.engine.session_zone import SessionZone
from muntin.sources.text_values import REAL, WHOLE, sound, spread, typed

# A block this small is sorted out message by message.
_FEW = 512
_BAD = "__muntin_bad"
# Half a surrogate pair is no text; Polars reads one as a character of its own choice.
_SURROGATES = (b"\\ud", b"\\uD")


@dataclass(frozen=True)
class JsonPayloads:
    """Decodes JSON objects.

    Attributes:
        columns: The columns wanted, and their types; members that aren't among them are skipped.
        zone: Which zone a time without one is of.
    """

    columns: dict[str, pl.DataType]
    zone: SessionZone

    def decode(self, values: Sequence[bytes | None]) -> tuple[pl.DataFrame, pl.Series]:
        """See ``Payloads``; a member of another type than its column can't be read either."""
        lines, given = [*filter(None, values)], np.arange(len(values))
        if len(lines) < len(values):
            given = np.flatnonzero(np.fromiter(map(bool, values), bool, len(values)))
        raw = {name: _as_read(dtype) for name, dtype in self.columns.items()}
        # A column that no message has: without any, Polars would count no rows.
        blocks = list(_blocks(lines, given, pl.Schema({**raw, "": pl.Boolean()})))
        if not blocks:
            whole = pl.DataFrame(schema=self.columns).clear(len(values))
            return whole, pl.repeat(True, len(values), eager=True)
        rows = np.concatenate([where for _, where in blocks])
        found, bad = typed(pl.concat([frame for frame, _ in blocks]), self.columns, self.zone)
        if len(rows) < len(values):
            whole = spread(found.with_columns(bad.alias(_BAD)), rows, len(values))
            found, bad = whole.drop(_BAD), whole[_BAD].fill_null(True)
        return sound(found, bad), bad


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
    if isinstance(dtype, WHOLE):
        return pl.Int64()
    if isinstance(dtype, REAL):
        return pl.Float64()
    return pl.Boolean() if isinstance(dtype, pl.Boolean) else pl.String()
