"""Avro payloads as columns: each field is read for all messages at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa

from muntin.engine.utf8 import decode_text
from muntin.sources.avro_scalar import MOST_MILLIS, TEXT, AvroReader
from muntin.sources.avro_schema import AvroType
from muntin.sources.byte_cursor import (
    ByteCursor,
    RowSelection,
    decode_in_batches,
    replace_nulls,
)
from muntin.sources.byte_values import ByteValues, gather
from muntin.sources.lists import drop_repeated_keys, list_of
from muntin.sources.payloads import MOST_ITEMS, Decoded
from muntin.sources.text_values import spread_rows
from muntin.sources.varints import NumberArray

_EACH = slice(None)
_FLOATS = {"float": "<f4", "double": "<f8"}


@dataclass(frozen=True)
class AvroPayloads:
    """Decodes records of one schema, without a registry."""

    kind: AvroType
    columns: dict[str, pl.DataType]
    skip: int = 0

    may_have_header: ClassVar[bool] = False

    @property
    def shape(self) -> str:
        """The format of a payload, for messages."""
        return "an Avro record of its schema"

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode payloads; each must end with the last field of its record."""
        return decode_in_batches(
            *replace_nulls(values), self.columns, self._record, self._one, self.skip
        )

    def _one(self, message: bytes) -> list[Any]:
        return AvroReader(message, self.skip).record(self.kind)

    def _record(self, cursor: ByteCursor) -> pl.DataFrame:
        columns = {}
        for cursor.field, field in enumerate(self.kind.fields):
            columns[field.name] = _read(cursor, _EACH, field.kind)
        return pl.DataFrame(columns)


def _read(cursor: ByteCursor, rows: RowSelection, kind: AvroType) -> pl.Series:
    """Read the next value of some messages."""
    if kind.null is not None:
        return _read_nullable(cursor, rows, kind)
    if kind.kind == "record":
        parts = {field.name: _read(cursor, rows, field.kind) for field in kind.fields}
        return pl.DataFrame(parts).to_struct()
    if kind.items is not None:
        return _read_items(cursor, rows, kind)
    if kind.kind in ("int", "long"):
        return _read_number(cursor, rows, kind)
    if kind.kind == "enum":
        which = cursor.zigzag(rows)
        wrong = (which < 0) | (which >= len(kind.symbols))
        cursor.mark(rows, wrong)
        return pl.Series(kind.symbols, dtype=pl.String).gather(np.where(wrong, 0, which))
    if kind.kind == "boolean":
        flags = cursor.bytes[cursor.move(rows, 1)]
        cursor.mark(rows, flags > 1)
        return pl.Series(flags == 1)
    if kind.kind in _FLOATS:
        form = _FLOATS[kind.kind]
        return pl.Series(gather(cursor.data, cursor.move(rows, np.dtype(form).itemsize), form))
    return _read_bytes(cursor, rows, kind)


def _read_nullable(cursor: ByteCursor, rows: RowSelection, kind: AvroType) -> pl.Series:
    """Read values of a union with null: the number of the branch comes first."""
    branch, plain = cursor.zigzag(rows), replace(kind, null=None)
    cursor.mark(rows, (branch != 0) & (branch != 1))
    has_value = branch == 1 - (kind.null or 0)
    if has_value.all():
        return _read(cursor, rows, plain)
    rows_with_value = np.flatnonzero(has_value)
    values = _read(cursor, np.arange(len(cursor.at))[rows][rows_with_value], plain)
    return spread_rows(values.to_frame(), rows_with_value, len(has_value)).to_series()


def _read_items(cursor: ByteCursor, rows: RowSelection, kind: AvroType) -> pl.Series:
    """Read arrays and maps: blocks of items after their counts, up to an empty block.

    The first items of all messages are read at once, then the second ones, and so on.
    """
    indexes = np.arange(len(cursor.at))[rows]
    remaining, read_counts = np.zeros(len(indexes), np.int64), np.zeros(len(indexes), np.int64)
    active = np.arange(len(indexes))
    owners, parts = [active[:0]], [_read_item(cursor, indexes[:0], kind)]
    while len(cursor.take_step(indexes[active])):
        starting = active[remaining[active] == 0]
        remaining[starting] = _read_block_count(cursor, indexes[starting], read_counts[starting])
        read_counts[starting] += remaining[starting]
        at = indexes[active]
        active = active[(remaining[active] > 0) & ~cursor.bad[at] & ~cursor.deferred[at]]
        owners.append(active)
        parts.append(_read_item(cursor, indexes[active], kind))
        remaining[active] -= 1
    owner = np.concatenate(owners)
    items = pl.concat(parts).gather(np.argsort(owner, kind="stable"))
    lists = list_of(items, np.bincount(owner, minlength=len(indexes)))
    return drop_repeated_keys(lists) if kind.kind == "map" else lists


def _read_block_count(
    cursor: ByteCursor, rows: NumberArray, read_counts: NumberArray
) -> NumberArray:
    """Read the count of some messages' next blocks, after ``read_counts`` items of each."""
    count = cursor.zigzag(rows)
    # A negative count is followed by the size of the block in bytes.
    if (count < 0).any():
        cursor.zigzag(rows[count < 0])
    count = np.abs(count)
    # Each item takes at least a byte. (The least number has no positive counterpart.)
    wrong = (count < 0) | (count > np.minimum(cursor.count_unread(rows), MOST_ITEMS - read_counts))
    cursor.mark(rows, wrong)
    return np.where(wrong, 0, count)


def _read_item(cursor: ByteCursor, rows: NumberArray, kind: AvroType) -> pl.Series:
    """Read the next items of some messages' arrays, or the next entries of their maps."""
    assert kind.items is not None
    if kind.kind == "array":
        return _read(cursor, rows, kind.items).alias("")
    keys = _read_bytes(cursor, rows, TEXT)
    return pl.DataFrame({"key": keys, "value": _read(cursor, rows, kind.items)}).to_struct()


def _read_number(cursor: ByteCursor, rows: RowSelection, kind: AvroType) -> pl.Series:
    numbers = cursor.zigzag(rows)
    if kind.kind == "int":
        cursor.mark(rows, (numbers < -(2**31)) | (numbers >= 2**31))
        return pl.Series(numbers.astype(np.int32))
    if kind.logical.endswith("millis"):
        cursor.mark(rows, (numbers < -MOST_MILLIS) | (numbers > MOST_MILLIS))
        numbers = numbers * 1000
    return pl.Series(numbers)


def _read_bytes(cursor: ByteCursor, rows: RowSelection, kind: AvroType) -> pl.Series:
    if kind.kind == "fixed":
        sizes = np.full(len(cursor.at[rows]), kind.size)
    else:
        sizes = cursor.zigzag(rows)
    if isinstance(kind.column, pl.Decimal):
        return _read_decimals(cursor, rows, sizes, kind.column)
    values = ByteValues(cursor.data, *cursor.take(rows, sizes)).to_series()
    if kind.kind != "string":
        return values
    texts = decode_text(values)
    cursor.mark(rows, texts.is_null().to_numpy())
    return texts.fill_null("")


def _read_decimals(
    cursor: ByteCursor, rows: RowSelection, sizes: NumberArray, column: pl.Decimal
) -> pl.Series:
    """Read big-endian numbers in two's complement as decimals."""
    cursor.mark(rows, (sizes < 1) | (sizes > 16))
    at, sizes = cursor.take(rows, np.where((sizes < 1) | (sizes > 16), 0, sizes))
    ends = at + sizes
    low = _sign_extend(gather(cursor.data, ends - 8, ">u8"), np.minimum(sizes, 8))
    high = np.where(
        sizes > 8, _sign_extend(gather(cursor.data, ends - 16, ">u8"), sizes - 8), low >> 63
    )
    cursor.mark(rows, ~_are_below(high, low.view(np.uint64), 10**column.precision))
    halves = np.stack([low, high], axis=1)
    kind = pa.decimal128(column.precision, column.scale)
    return pl.Series(pa.Array.from_buffers(kind, len(low), [None, pa.py_buffer(halves)]))


def _are_below(high: NumberArray, low: NumberArray, limit: int) -> NumberArray:
    """Return whether the absolute values of numbers, in two halves, are below a limit."""
    most, least = divmod(limit - 1, 2**64), divmod(1 - limit, 2**64)
    small = (high < most[0]) | ((high == most[0]) & (low <= np.uint64(most[1])))
    return small & ((high > least[0]) | ((high == least[0]) & (low >= np.uint64(least[1]))))


def _sign_extend(words: NumberArray, count: NumberArray) -> NumberArray:
    """Return the lowest bytes of each word as a signed number."""
    shift = 64 - 8 * np.clip(count, 1, 8)
    return (words << shift.astype(np.uint64)).view(np.int64) >> shift
