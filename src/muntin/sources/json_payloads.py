"""JSON payloads as columns: many messages are decoded in one call.

Polars reads lines of JSON in columns and is strict: one broken line, or one value of another type
than its column's, fails the whole call. The broken lines are then identified by their syntax, for
all lines at once (``json_syntax``), and values of other types by reading them as text as well.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import ComputeError, PolarsError

from muntin.engine.session_zone import SessionZone
from muntin.engine.utf8 import decode_text
from muntin.sources.byte_values import ByteValues
from muntin.sources.json_patterns import find_pattern
from muntin.sources.json_syntax import find_objects, has_half_pairs
from muntin.sources.message_patterns import decode_alike
from muntin.sources.payloads import Decoded, Faults, no_faults
from muntin.sources.text_values import (
    REAL,
    WHOLE,
    convert_texts,
    null_malformed,
    spread_rows,
)

_BAD = "__muntin_bad"
# Half a surrogate pair isn't valid text; Polars reads it as a character of its own choice.
SURROGATES = (b"\\ud", b"\\uD")


@dataclass(frozen=True)
class JsonPayloads:
    """Decodes JSON objects.

    Attributes:
        columns: Names and types of the columns to return; other members are skipped.
    """

    columns: dict[str, pl.DataType]
    zone: SessionZone

    may_have_header: ClassVar[bool] = False

    @property
    def shape(self) -> str:
        """The format of a payload, for messages."""
        return "a JSON object"

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode payloads; a message whose member isn't of its column's type is malformed."""
        return decode_alike(values, self.columns, self.zone, find_pattern, self._decode_any)

    def _decode_any(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode payloads that are written in any way."""
        schema = make_schema({name: as_read(dtype) for name, dtype in self.columns.items()})
        frame, lines, rows = read_strictly(values, schema)
        faults = no_faults(len(values))
        if frame is None:
            frame, among, wrong = _read_each(lines, schema)
            faults[rows] = wrong
            rows = rows[among]
        decoded, bad, unlike = convert_texts(frame, self.columns, self.zone)
        faults[rows] = unlike
        if len(rows) < len(values):
            spaced = spread_rows(decoded.with_columns(bad.alias(_BAD)), rows, len(values))
            decoded, bad = spaced.drop(_BAD), spaced[_BAD].fill_null(True)
        return Decoded(null_malformed(decoded, bad), bad, faults)


def make_schema(types: Mapping[str, pl.DataType]) -> pl.Schema:
    """Return a schema with a column that no message has: without any, Polars counts no rows."""
    return pl.Schema({"": pl.String(), **types})


def read_strictly(
    values: Sequence[bytes | None], schema: pl.Schema
) -> tuple[pl.DataFrame | None, list[bytes], NDArray[np.int64]]:
    """Read the values that aren't null or empty, in types that Polars reads.

    The result is a row per value, or ``None`` if one can't be read; the values, unless they were
    read in place; and their positions.
    """
    frame, rows = _read_in_place(values, schema), np.arange(len(values))
    if frame is not None:
        return frame, [], rows
    lines = [*filter(None, values)]
    if len(lines) < len(values):
        rows = np.flatnonzero(np.fromiter(map(bool, values), bool, len(values)))
    return _read(lines, schema), lines, rows


def _read_in_place(values: Sequence[bytes | None], schema: pl.Schema) -> pl.DataFrame | None:
    """Read a row per value without copying each value; ``None`` if that isn't possible."""
    lines = values.as_lines() if isinstance(values, ByteValues) else None
    if lines is None:
        return None
    joined = lines.tobytes()
    # Such escapes need a closer look.
    if b"\\" in joined and any(half in joined for half in SURROGATES):
        return None
    try:
        frame = pl.read_ndjson(io.BytesIO(joined), schema=schema)
    except PolarsError:
        return None
    return frame if len(frame) == len(values) else None


def _read_each(
    lines: list[bytes], schema: pl.Schema
) -> tuple[pl.DataFrame, NDArray[np.int64], Faults]:
    """Return the valid rows of lines, their positions, and the faults of all lines."""
    rows = find_objects(_decode_lines(lines)).arg_true().to_numpy().astype(np.int64)
    objects = [lines[row] for row in rows.tolist()] if len(rows) < len(lines) else lines
    frame, wrong = _read_values(objects, schema)
    faults = no_faults(len(lines))
    faults[rows] = wrong
    is_readable = wrong < 0
    if not is_readable.all():
        frame, rows = frame.filter(pl.Series(is_readable)), rows[is_readable]
    return frame, rows, faults


def _read_values(lines: list[bytes], schema: pl.Schema) -> tuple[pl.DataFrame, Faults]:
    """Read a row per object, and the first column whose member isn't of its type."""
    frame = parse_lines(lines, schema, lenient=True)
    names = [name for name, dtype in schema.items() if dtype != pl.String]
    faults = no_faults(len(lines))
    if not names:
        return frame, faults
    # A null stands for a member that is missing, null, or of another type.
    wanting = frame.select(pl.any_horizontal(pl.col(names).is_null())).to_series().arg_true()
    some = [lines[row] for row in wanting]
    written = parse_lines(some, pl.Schema(dict.fromkeys(names, pl.String)))
    numbers = {name: number - 1 for number, name in enumerate(schema)}
    for name in names:
        differs = (frame[name].gather(wanting).is_null() & written[name].is_not_null()).to_numpy()
        unlike = wanting.to_numpy()[differs]
        faults[unlike[faults[unlike] < 0]] = numbers[name]
    return frame, faults


def _read(lines: list[bytes], schema: pl.Schema) -> pl.DataFrame | None:
    """Read a row per line; ``None`` if one of the lines can't be read."""
    joined = b"\n".join(lines)
    # Most messages have no escapes at all, and searching for a single byte is much faster.
    escaped = b"\\" in joined and any(half in joined for half in SURROGATES)
    if escaped and has_half_pairs(_decode_lines(lines)):
        return None
    try:
        return parse_lines(lines, schema)
    except PolarsError:
        return None


def _decode_lines(lines: list[bytes]) -> pl.Series:
    return decode_text(pl.Series(lines, dtype=pl.Binary))


def parse_lines(lines: list[bytes], schema: pl.Schema, *, lenient: bool = False) -> pl.DataFrame:
    """Read a row per line; where it is lenient, a value of another type becomes null."""
    joined = b"\n".join(lines)
    if joined.count(b"\n") >= len(lines):
        # A line ends at a line feed; between values, JSON also allows a carriage return.
        joined = b"\n".join(line.replace(b"\n", b"\r") for line in lines)
    if not joined:
        return pl.DataFrame(schema=schema)
    frame = pl.read_ndjson(io.BytesIO(joined), schema=schema, ignore_errors=lenient)
    if len(frame) != len(lines):
        raise ComputeError("blank lines are skipped")
    return frame


def as_read(dtype: pl.DataType) -> pl.DataType:
    """Return the type for Polars' parser, which knows fewer types, and times only as text."""
    if isinstance(dtype, WHOLE):
        return pl.Int64()
    if isinstance(dtype, REAL):
        return pl.Float64()
    return pl.Boolean() if isinstance(dtype, pl.Boolean) else pl.String()
