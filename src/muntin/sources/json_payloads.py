"""JSON payloads as columns: many messages are decoded in one call.

Polars reads lines of JSON in columns and is strict: one broken line, or one value of another type
than its column's, fails the whole call. The broken lines are then identified by their syntax, for
all lines at once (``json_syntax``), and values of other types by reading them as text as well.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from muntin.engine.session_zone import SessionZone
from muntin.sources.byte_values import ByteValues, Integers
from muntin.sources.json_members import as_read, find_faults
from muntin.sources.json_patterns import JSON
from muntin.sources.json_syntax import find_objects
from muntin.sources.message_patterns import Pattern, decode_alike
from muntin.sources.payload_lines import PayloadLines, may_have_half_pairs
from muntin.sources.payloads import Decoded, Faults, no_faults
from muntin.sources.text_values import (
    convert_texts,
    null_malformed,
    spread_rows,
)

# So many messages take less time here than by lines.
FEW = 100
# A number of so many digits fits into 64 bits, and one of the others into the bits of a fraction.
_WHOLE_DIGITS, _REAL_DIGITS = 18, 15
_MOST_REAL = 10**_REAL_DIGITS


@dataclass(frozen=True)
class JsonPayloads:
    """Decodes JSON objects.

    Attributes:
        columns: Names and types of the columns to return; other members are skipped.
    """

    columns: dict[str, pl.DataType]
    zone: SessionZone

    # The pattern of the last messages; the next ones are likely to have it, too.
    _recent: list[Pattern] = field(default_factory=list, init=False, repr=False, compare=False)

    may_have_header: ClassVar[bool] = False

    @property
    def shape(self) -> str:
        """The format of a payload, for messages."""
        return "a JSON object"

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode payloads; a message whose member isn't of its column's type is malformed."""
        return decode_alike(values, self.columns, self.zone, JSON, self._decode_any, self._recent)

    def _decode_any(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode payloads that are written in any way."""
        schema = make_schema({name: as_read(dtype) for name, dtype in self.columns.items()})
        frame, rows = read_strictly(values, schema)
        faults = no_faults(len(values))
        if isinstance(frame, PayloadLines):
            frame, among, wrong, _ = read_each(frame, schema, self.columns)
            faults[rows] = wrong
            rows = rows[among]
        decoded, bad, unlike = convert_texts(frame, self.columns, self.zone)
        faults[rows] = unlike
        if len(rows) == len(values):
            return Decoded(null_malformed(decoded, bad), bad, faults)
        good = rows[~bad.to_numpy()]
        is_bad = np.ones(len(values), bool)
        is_bad[good] = False
        decoded = decoded if len(good) == len(rows) else decoded.filter(~bad)
        return Decoded(spread_rows(decoded, good, len(values)), pl.Series(is_bad), faults)


def make_schema(types: Mapping[str, pl.DataType]) -> pl.Schema:
    """Return a schema with a column that no message has: without any, Polars counts no rows."""
    return pl.Schema({"": pl.String(), **types})


def read_strictly(
    values: Sequence[bytes | None], schema: pl.Schema
) -> tuple[pl.DataFrame | PayloadLines, Integers]:
    """Read the values that begin and end as an object does, in types that Polars reads.

    The result is a row per value, or the values' lines if one of them can't be read; and the
    positions of these values.
    """
    if len(values) <= FEW and (few := read_few(values, schema)) is not None:
        return few, np.arange(len(values))
    frame, is_tried = _read_in_place(values, schema)
    if frame is not None:
        return frame, np.arange(len(values))
    lines, rows = PayloadLines.from_values(values)
    if not is_tried:
        frame = read_lines(lines, schema)
    return lines if frame is None else frame, rows


def _read_in_place(
    values: Sequence[bytes | None], schema: pl.Schema
) -> tuple[pl.DataFrame | None, bool]:
    """Read a row per value without copying each value, or return whether one can't be read."""
    lines = values.as_lines() if isinstance(values, ByteValues) else None
    if lines is None:
        return None, False
    joined = lines.tobytes()
    # Such escapes need a closer look.
    if may_have_half_pairs(joined):
        return None, False
    try:
        frame = pl.read_ndjson(io.BytesIO(joined), schema=schema)
    except PolarsError:
        return None, True
    return (frame if len(frame) == len(values) else None), True


def read_lines(
    lines: PayloadLines, schema: pl.Schema, *, lenient: bool = False
) -> pl.DataFrame | None:
    """Read a row per line; ``None`` if one of the lines can't be read."""
    try:
        return lines.read(schema, lenient=lenient)
    except PolarsError:
        return None


class Objects(NamedTuple):
    """The valid lines among some.

    Attributes:
        rows: A row of each.
        positions: Their positions among the lines.
        faults: The faults of all lines.
        are_sure: Whether all values are of their columns' types; otherwise those of columns which
            weren't asked for may be null instead.
    """

    rows: pl.DataFrame
    positions: Integers
    faults: Faults
    are_sure: bool


def read_each(lines: PayloadLines, schema: pl.Schema, names: Iterable[str]) -> Objects:
    """Read the valid ones among lines.

    A line isn't valid if a member of one of the columns ``names`` isn't of its type; they come
    first in the schema.
    """
    positions = find_objects(lines.texts).arg_true().to_numpy().astype(np.int64)
    objects, faults = lines.select(positions), no_faults(len(lines))
    faults[positions] = wrong = find_faults(objects, schema, names)
    typed = np.flatnonzero(wrong < 0)
    objects, positions = objects.select(typed), positions[typed]
    frame = read_lines(objects, schema)
    if frame is not None:
        return Objects(frame, positions, faults, are_sure=True)
    return Objects(objects.read(schema, lenient=True), positions, faults, are_sure=False)


class _NotPlainError(ValueError):
    """A message isn't a plain object."""


def read_few(values: Sequence[bytes | None], schema: pl.Schema) -> pl.DataFrame | None:
    """Read plain objects in the types that Polars reads; ``None`` if one of them isn't plain.

    Reading lines in columns costs the same for one message as for hundreds, most of it for waking
    another thread. Plain objects leave no doubt about their values: their members are texts without
    escapes, whole numbers of few digits, booleans and nulls, of their columns' types, and no name
    comes twice. Any other message is left to the reader of lines.

    Example:
        >>> schema = pl.Schema({"k": pl.Int64()})
        >>> read_few([b'{"k":1}', b'{"n":"x"}'], schema)["k"].to_list()
        [1, None]
        >>> read_few([b'{"k":1.5}'], schema) is None
        True
    """
    try:
        rows = [_read_object(value) for value in values]
        columns = {name: _make_column(rows, name, dtype) for name, dtype in schema.items()}
    except (ValueError, RecursionError):
        return None
    # One of the columns may have an empty name, which a list of columns doesn't keep.
    return pl.DataFrame(columns)


def _read_object(value: bytes | None) -> Mapping[str, Any]:
    if value is None or b"\\" in value:
        raise _NotPlainError
    row = _DECODER.decode(str(value, "utf-8"))
    if type(row) is not dict or not _SCALARS.issuperset(map(type, row.values())):
        raise _NotPlainError
    return row


def _make_column(rows: Iterable[Mapping[str, Any]], name: str, dtype: pl.DataType) -> pl.Series:
    values = [row.get(name) for row in rows]
    expected = _EXPECTED.get(type(dtype))
    if expected is None or not expected.issuperset(map(type, values)):
        raise _NotPlainError
    if isinstance(dtype, pl.Float64):
        values = [None if value is None else _to_real(value) for value in values]
    return pl.Series(name, values, dtype)


def _to_real(value: int) -> float:
    if not -_MOST_REAL < value < _MOST_REAL:
        raise _NotPlainError
    return float(value)


def _parse_whole(text: str) -> int:
    # As a fraction, the negative zero is another number.
    if len(text) > _WHOLE_DIGITS or text == "-0":
        raise _NotPlainError
    return int(text)


def _refuse(text: str) -> NoReturn:
    raise _NotPlainError(text)


def _pair(members: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(members)
    if len(row) < len(members):
        raise _NotPlainError
    return row


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pair, parse_float=_refuse, parse_int=_parse_whole, parse_constant=_refuse
)
_SCALARS = frozenset((str, int, bool, type(None)))
_EXPECTED: Mapping[type[pl.DataType], frozenset[type]] = {
    pl.Int64: frozenset((int, type(None))),
    pl.Float64: frozenset((int, type(None))),
    pl.Boolean: frozenset((bool, type(None))),
    pl.String: frozenset((str, type(None))),
}
