"""Reads values in Protobuf's wire types: varints, fixed numbers, and bytes with their size."""

from __future__ import annotations

import numpy as np
import polars as pl

from muntin.sources.byte_cursor import ByteCursor
from muntin.sources.byte_values import gather
from muntin.sources.varints import NumberArray, read_varints, unzigzag

# The wire types, which are the lowest bits of a tag.
VARINT, EIGHT, SIZED, FOUR = 0, 1, 2, 5
FIXED = {EIGHT: 8, FOUR: 4}
# The formats of fixed numbers of eight or four bytes.
_FORMS = {
    "double": "<f8", "fixed64": "<u8", "sfixed64": "<i8",
    "float": "<f4", "fixed32": "<u4", "sfixed32": "<i4",
}  # fmt: skip
_UNSIGNED = ("uint64", "fixed64")
_SIZED = ("string", "bytes", "message")
_MOST_BYTES = 10


def wire_of(kind: str) -> int:
    """Return the wire type of a kind of values."""
    if kind in _FORMS:
        return EIGHT if _FORMS[kind].endswith("8") else FOUR
    return SIZED if kind in _SIZED else VARINT


def read_numbers(cursor: ByteCursor, rows: NumberArray, kind: str) -> NumberArray:
    """Read the next number of some messages; a float is returned as its bits."""
    if kind in _FORMS:
        return _read_fixed(cursor, cursor.move(rows, FIXED[wire_of(kind)]), kind)
    return _convert_varints(cursor.varint(rows), kind)


def read_bytes(cursor: ByteCursor, rows: NumberArray) -> tuple[NumberArray, NumberArray]:
    """Read the size of some messages' next bytes; return their positions and sizes."""
    # A size that exceeds a signed number becomes negative, and is refused.
    return cursor.take(rows, cursor.varint(rows).view(np.int64))


def read_packed(
    cursor: ByteCursor, rows: NumberArray, kind: str
) -> tuple[NumberArray, NumberArray]:
    """Return the messages and the numbers of some messages' packed fields, in order."""
    starts, sizes = read_bytes(cursor, rows)
    if kind in _FORMS:
        width = FIXED[wire_of(kind)]
        wrong = sizes % width != 0
        counts = np.where(wrong, 0, sizes // width)
        fixed_numbers = _read_fixed(cursor, _spread_positions(starts, counts, width), kind)
        cursor.mark(rows, wrong)
        return np.repeat(rows, counts), fixed_numbers
    at = _spread_positions(starts, sizes, 1)
    stops = cursor.bytes[at] < 128
    # The last byte of each field has to end a number.
    ends = (np.cumsum(sizes) - 1)[sizes > 0]
    wrong = np.zeros(len(rows), bool)
    wrong[sizes > 0] = ~stops[ends]
    if wrong.any():
        cursor.mark(rows, wrong)
        fine = ~wrong
        rows, starts, sizes = rows[fine], starts[fine], sizes[fine]
        at = _spread_positions(starts, sizes, 1)
        stops = cursor.bytes[at] < 128
    last = np.flatnonzero(stops)
    first = np.concatenate([[0], last[:-1] + 1]) if len(last) else last
    owners = np.repeat(rows, sizes)[last]
    word, _, beyond = read_varints(cursor.bytes, at[first])
    cursor.mark(owners, beyond | (last - first >= _MOST_BYTES))
    return owners, _convert_varints(word, kind)


def convert_numbers(raw: NumberArray, kind: str) -> tuple[pl.Series, NumberArray]:
    """Convert raw numbers to their kind, and return which of them no column can hold."""
    wrong = raw < 0 if kind in _UNSIGNED else np.zeros(len(raw), bool)
    if kind == "double":
        return pl.Series(raw.view(np.float64)), wrong
    if kind == "float":
        return pl.Series(raw.astype(np.int32).view(np.float32)), wrong
    if kind == "bool":
        return pl.Series(raw != 0), wrong
    narrow = kind in ("int32", "sint32", "sfixed32")
    return pl.Series(raw.astype(np.int32) if narrow else raw), wrong


def _read_fixed(cursor: ByteCursor, at: NumberArray, kind: str) -> NumberArray:
    form = _FORMS[kind]
    if kind in ("double", "float"):
        form = form.replace("f", "i")
    return gather(cursor.data, at, form).astype(np.int64)


def _convert_varints(word: NumberArray, kind: str) -> NumberArray:
    """Convert varints to their kind; bits beyond 32 are cut off, as in Protobuf."""
    if kind in ("int32", "enum"):
        return word.astype(np.uint32).view(np.int32).astype(np.int64)
    if kind == "uint32":
        return word.astype(np.uint32).astype(np.int64)
    if kind == "sint32":
        return unzigzag(word.astype(np.uint32).astype(np.uint64))
    if kind == "sint64":
        return unzigzag(word)
    return (word != 0).astype(np.int64) if kind == "bool" else word.view(np.int64)


def _spread_positions(starts: NumberArray, counts: NumberArray, width: int) -> NumberArray:
    """Return ``counts`` positions from each start on, ``width`` bytes apart.

    Example:
        >>> _spread_positions(np.array([5, 20]), np.array([2, 1]), 4).tolist()
        [5, 9, 20]
    """
    before = np.cumsum(counts) - counts
    inside = np.arange(counts.sum()) - np.repeat(before, counts)
    return np.repeat(starts, counts) + width * inside
