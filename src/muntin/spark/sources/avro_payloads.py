"""Avro payloads as columns: a field of many messages in a few steps, never a message by itself.

In each message a position stands before the next value. A field is read for all messages at once,
and moves their positions on. Text isn't copied: a column of text says where in the messages it is.
What a message becomes depends on nothing but itself, whatever it was read with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql.types import DecimalType

from muntin.engine.utf8 import text
from muntin.spark.sources.avro_schema import AvroType
from muntin.spark.sources.text_values import sound, spread

Numbers = np.ndarray[Any, Any]
Rows = slice | Numbers

_EACH = slice(None)
# Positions and numbers of so many messages stay in a core's cache.
_MESSAGES, _BYTES = 20_000, 1 << 26
# Before and behind the messages, so that a word may be read anywhere.
_ROOM = 16
# A text this short stands in its column's view itself.
_INSIDE = 12
_FLOATS = {"float": "<f4", "double": "<f8"}
# More of them aren't so many microseconds.
_MILLIS = (2**63 - 1) // 1000
_ALL = np.uint64(2**64 - 1)
_ONE, _HALF, _BYTE, _TOP = np.uint64(1), np.uint64(32), np.uint64(56), np.uint64(63)
# The bit that says that a number goes on, and the others.
_LAST, _REST = np.uint64(0x8080808080808080), np.uint64(0x7F7F7F7F7F7F7F7F)
# How seven bits of each byte are moved together: those that stay, those that move, how far.
_GAPS = [
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
]


@dataclass(frozen=True)
class AvroPayloads:
    """Decodes records of one schema, plain as they are.

    Attributes:
        kind: The schema.
        columns: The columns wanted, and their types.
        skip: How many bytes stand before a record.
    """

    kind: AvroType
    columns: dict[str, pl.DataType]
    skip: int = 0

    def decode(self, values: Sequence[bytes | None]) -> tuple[pl.DataFrame, pl.Series]:
        """Payloads as columns.

        Args:
            values: One record each.

        Returns:
            A row a payload, and which payloads couldn't be read: those that are null, end within
            a field or go on behind the last one, and those with a value that their schema doesn't
            have. Their rows are null.
        """
        frames, wrong = [pl.DataFrame(schema=self.columns)], [pl.Series([], dtype=pl.Boolean)]
        given, nulls = _given(values)
        sizes = np.fromiter(map(len, given), np.int64, len(values))
        for first, end in _chunks(sizes):
            cursor = _Cursor(given[first:end], sizes[first:end], self.skip)
            read = {field.name: _read(cursor, _EACH, field.kind) for field in self.kind.fields}
            bad = pl.Series(cursor.wrong() | nulls[first:end])
            frames.append(sound(pl.DataFrame(read).cast(pl.Schema(self.columns)), bad))
            wrong.append(bad)
        return pl.concat(frames), pl.concat(wrong)


def _given(values: Sequence[bytes | None]) -> tuple[Sequence[bytes], Numbers]:
    """Payloads, nothing in place of those that are null, and which these are."""
    # Where none is null or empty, no code of ours runs for each message.
    if all(values):
        return cast("Sequence[bytes]", values), np.zeros(len(values), bool)
    nulls = np.fromiter((value is None for value in values), bool, len(values))
    return [value or b"" for value in values], nulls


def _chunks(sizes: Numbers) -> Iterator[tuple[int, int]]:
    """From where to where the messages lie that are read at once; a large one may be alone."""
    behind = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        before = behind[first - 1] if first else 0
        fit = int(np.searchsorted(behind, before + _BYTES, "right"))
        end = min(max(fit, first + 1), first + _MESSAGES)
        yield first, end
        first = end


class _Cursor:
    """Messages one behind the other, and where in each of them the next value begins."""

    def __init__(self, values: Sequence[bytes], sizes: Numbers, skip: int) -> None:
        room = bytes(_ROOM)
        self.data = b"".join([room, *values, room])
        self.bytes = np.frombuffer(self.data, np.uint8)
        self.end = np.cumsum(sizes) + _ROOM
        self.at = self.end - sizes + skip
        self.bad = np.zeros(len(values), bool)

    def wrong(self) -> Numbers:
        """Which messages didn't hold just what was read of them."""
        return self.bad | (self.at != self.end)

    def move(self, rows: Rows, width: Any) -> Numbers:
        """Where the next value of some messages begins, and move on behind it."""
        # What goes beyond its message is wrong; here it only must not go beyond all of them.
        at = np.minimum(self.at[rows], len(self.data) - _ROOM)
        self.at[rows] += width
        return at

    def mark(self, rows: Rows, wrong: Numbers) -> None:
        """Say which of some messages hold what they can't, and read no more of them."""
        if wrong.any():
            marked = np.arange(len(self.at))[rows][wrong]
            self.bad[marked] = True
            self.at[marked] = self.end[marked]

    def words(self, at: Numbers, kind: str) -> Numbers:
        """Numbers of eight or four bytes, which may begin anywhere."""
        width = np.dtype(kind).itemsize
        shape = (len(self.data) - width + 1,)
        return np.ndarray(shape, kind, self.data, strides=(1,))[at]

    def whole(self, rows: Rows) -> Numbers:
        """The next whole number of some messages: seven bits a byte, the least first, zigzag."""
        at = self.move(rows, 0)
        word = self.words(at, "<u8")
        stops = ~word & _LAST
        # All bits up to the first byte that is the last one of its number; all where none is.
        mask = (stops & -stops) ^ ((stops & -stops) - _ONE)
        width = (np.bitwise_count(mask) >> 3).astype(np.int64)
        word &= mask & _REST
        for stay, moved, far in _GAPS:
            word = (word & stay) | ((word & moved) >> far)
        if not stops.all():
            self._longest(rows, at, np.flatnonzero(stops == 0), word, width)
        self.move(rows, width)
        return ((word >> _ONE) ^ -(word & _ONE)).view(np.int64)

    def _longest(
        self, rows: Rows, at: Numbers, long: Numbers, word: Numbers, width: Numbers
    ) -> None:
        """Numbers of nine or ten bytes."""
        ninth, tenth = self.bytes[at[long] + 8], self.bytes[at[long] + 9]
        goes_on = ninth >= 128
        word[long] |= (ninth & 127).astype(np.uint64) << _BYTE
        word[long] |= np.where(goes_on, tenth & 1, 0).astype(np.uint64) << _TOP
        width[long] += 1 + goes_on
        beyond = np.zeros(len(at), bool)
        beyond[long] = goes_on & (tenth > 1)
        self.mark(rows, beyond)

    def texts(self, rows: Rows, sizes: Numbers) -> pl.Series:
        """Bytes of given sizes, from the positions on."""
        left = self.end[rows] - self.at[rows]
        wrong = (sizes < 0) | (sizes > left)
        self.mark(rows, wrong)
        sizes = np.where(wrong, 0, sizes)
        at = self.move(rows, sizes)
        # Twelve bytes stand in the view itself; of more, the first four, and where they lie.
        inside = _lowest(self.words(at + 4, "<u8"), sizes - 4)
        elsewhere = at.astype(np.uint64) << _HALF
        first = _lowest(self.words(at, "<u8"), np.minimum(sizes, 4)) << _HALF
        views = np.empty((len(at), 2), "<u8")
        views[:, 0] = sizes.astype(np.uint64) | first
        views[:, 1] = np.where(sizes <= _INSIDE, inside, elsewhere)
        buffers = [None, pa.py_buffer(views), pa.py_buffer(self.data)]
        return pl.Series(pa.Array.from_buffers(pa.binary_view(), len(at), buffers))

    def decimals(self, rows: Rows, sizes: Numbers, column: pl.Decimal) -> pl.Series:
        """Numbers of given sizes in bytes, the most significant first, in two's complement."""
        wrong = (sizes < 1) | (sizes > 16) | (sizes > self.end[rows] - self.at[rows])
        self.mark(rows, wrong)
        sizes = np.where(wrong, 0, sizes)
        behind = self.move(rows, sizes) + sizes
        low = _signed(self.words(behind - 8, ">u8"), np.minimum(sizes, 8))
        high = np.where(sizes > 8, _signed(self.words(behind - 16, ">u8"), sizes - 8), low >> 63)
        self.mark(rows, ~_within(high, low.view(np.uint64), 10**column.precision))
        halves = np.stack([low, high], axis=1)
        kind = pa.decimal128(column.precision, column.scale)
        return pl.Series(pa.Array.from_buffers(kind, len(low), [None, pa.py_buffer(halves)]))


def _within(high: Numbers, low: Numbers, limit: int) -> Numbers:
    """Whether numbers of two halves are less than a limit, whatever their sign."""
    most, least = divmod(limit - 1, 2**64), divmod(1 - limit, 2**64)
    small = (high < most[0]) | ((high == most[0]) & (low <= np.uint64(most[1])))
    return small & ((high > least[0]) | ((high == least[0]) & (low >= np.uint64(least[1]))))


def _lowest(words: Numbers, count: Numbers) -> Numbers:
    """So many bytes of each word; the rest is nothing."""
    shift = (64 - 8 * np.clip(count, 1, 8)).astype(np.uint64)
    return np.where(count > 0, words & (_ALL >> shift), np.uint64(0))


def _signed(words: Numbers, count: Numbers) -> Numbers:
    """So many of the lowest bytes of each word, as a number with a sign."""
    shift = 64 - 8 * np.clip(count, 1, 8)
    return (words << shift.astype(np.uint64)).view(np.int64) >> shift


def _read(cursor: _Cursor, rows: Rows, kind: AvroType) -> pl.Series:
    """The next value of some messages."""
    if kind.null is not None:
        return _nullable(cursor, rows, kind)
    if kind.kind == "record":
        parts = {field.name: _read(cursor, rows, field.kind) for field in kind.fields}
        return pl.DataFrame(parts).to_struct()
    if kind.kind in ("int", "long"):
        return _number(cursor, rows, kind)
    if kind.kind == "enum":
        which = cursor.whole(rows)
        wrong = (which < 0) | (which >= len(kind.symbols))
        cursor.mark(rows, wrong)
        return pl.Series(kind.symbols, dtype=pl.String).gather(np.where(wrong, 0, which))
    if kind.kind == "boolean":
        found = cursor.bytes[cursor.move(rows, 1)]
        cursor.mark(rows, found > 1)
        return pl.Series(found == 1)
    if kind.kind in _FLOATS:
        form = _FLOATS[kind.kind]
        return pl.Series(cursor.words(cursor.move(rows, np.dtype(form).itemsize), form))
    return _bytes(cursor, rows, kind)


def _nullable(cursor: _Cursor, rows: Rows, kind: AvroType) -> pl.Series:
    """A value, or null: which of both stands before it."""
    branch, plain = cursor.whole(rows), replace(kind, null=None)
    cursor.mark(rows, (branch != 0) & (branch != 1))
    there = branch == 1 - (kind.null or 0)
    if there.all():
        return _read(cursor, rows, plain)
    among = np.flatnonzero(there)
    found = _read(cursor, np.arange(len(cursor.at))[rows][among], plain)
    return spread(found.to_frame(), among, len(there)).to_series()


def _number(cursor: _Cursor, rows: Rows, kind: AvroType) -> pl.Series:
    found = cursor.whole(rows)
    if kind.kind == "int":
        cursor.mark(rows, (found < -(2**31)) | (found >= 2**31))
        return pl.Series(found.astype(np.int32))
    if kind.logical.endswith("millis"):
        cursor.mark(rows, (found < -_MILLIS) | (found > _MILLIS))
        found = found * 1000
    return pl.Series(found)


def _bytes(cursor: _Cursor, rows: Rows, kind: AvroType) -> pl.Series:
    if kind.kind == "fixed":
        sizes = np.full(len(cursor.at[rows]), kind.size)
    else:
        sizes = cursor.whole(rows)
    if isinstance(kind.column, DecimalType):
        return cursor.decimals(rows, sizes, pl.Decimal(kind.column.precision, kind.column.scale))
    found = cursor.texts(rows, sizes)
    if kind.kind != "string":
        return found
    texts, wrong = text(found)
    cursor.mark(rows, wrong.to_numpy())
    return texts
