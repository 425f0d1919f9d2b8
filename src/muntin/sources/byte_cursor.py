"""Many messages of bytes, of each of which the next value is read at once.

In each message a position stands before the next value; reading a value of some messages moves
their positions on. Text isn't copied: a column of text says where in the messages it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import polars as pl
import pyarrow as pa

from muntin.sources.byte_values import ROOM, ByteValues
from muntin.sources.text_values import sound

Numbers = np.ndarray[Any, Any]
Rows = slice | Numbers

# Positions and numbers of so many messages stay in a core's cache.
_MESSAGES, _BYTES = 20_000, 1 << 26
# A text this short stands in its column's view itself.
_INSIDE = 12
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


# Behind so many steps, one for fewer messages than these costs more than to read them alone.
_STEPS, _FEW = 64, 100


class MalformedError(ValueError):
    """A message isn't one of its schema."""


class ByteCursor:
    """Messages in one piece of bytes, and where in each of them the next value begins.

    Args:
        data: The bytes, with room before and behind the messages.
        at: Where each message begins.
        end: Where each ends.

    Attributes:
        bytes: All of them, as numbers.
        bad: Which messages hold what they can't.
        deferred: Which messages are read one by one instead.
        steps: How many steps were taken whose number depends on the messages.
    """

    def __init__(self, data: Any, at: Numbers, end: Numbers) -> None:
        self.data = data
        self.bytes = np.frombuffer(data, np.uint8)
        self.at = at
        self.end = end
        self.bad = np.zeros(len(at), bool)
        self.deferred = np.zeros(len(at), bool)
        self.steps = 0

    @classmethod
    def over(cls, values: Sequence[bytes], sizes: Numbers, skip: int = 0) -> ByteCursor:
        """One over messages of given sizes, so many bytes behind where each begins."""
        room = bytes(ROOM)
        end = np.cumsum(sizes) + ROOM
        return cls(b"".join([room, *values, room]), end - sizes + skip, end)

    def within(self, starts: Numbers, sizes: Numbers) -> ByteCursor:
        """One over parts of the messages, as if each were a message."""
        part = ByteCursor(self.data, starts.copy(), starts + sizes)
        part.steps = self.steps
        return part

    def wrong(self) -> Numbers:
        """Which messages didn't hold just what was read of them."""
        return self.bad | (self.at != self.end)

    def left(self, rows: Rows) -> Numbers:
        """How many bytes of some messages weren't read yet."""
        return np.maximum(self.end[rows] - self.at[rows], 0)

    def move(self, rows: Rows, width: Any) -> Numbers:
        """Where the next value of some messages begins, and move on behind it."""
        # What goes beyond its message is wrong; here it only must not go beyond all of them.
        at = np.minimum(self.at[rows], len(self.data) - ROOM)
        self.at[rows] += width
        return at

    def mark(self, rows: Rows, wrong: Numbers) -> None:
        """Say which of some messages hold what they can't, and read no more of them."""
        if wrong.any():
            marked = np.arange(len(self.at))[rows][wrong]
            self.bad[marked] = True
            self.at[marked] = self.end[marked]

    def defer(self, rows: Rows, late: Numbers) -> None:
        """Leave some of some messages to be read one by one, and read no more of them here."""
        if late.any():
            deferred = np.arange(len(self.at))[rows][late]
            self.deferred[deferred] = True
            self.at[deferred] = self.end[deferred]

    def take_step(self, rows: Numbers) -> Numbers:
        """Begin another step for some messages; returns those that still take part in it.

        Where they are few and steps were many, they are deferred, and none does.
        """
        if not len(rows):
            return rows
        self.steps += 1
        if self.steps > _STEPS and len(rows) < _FEW:
            self.defer(rows, np.ones(len(rows), bool))
            return rows[:0]
        return rows

    def words(self, at: Numbers, kind: str) -> Numbers:
        """Numbers of eight or four bytes, which may begin anywhere."""
        width = np.dtype(kind).itemsize
        shape = (len(self.data) - width + 1,)
        return np.ndarray(shape, kind, self.data, strides=(1,))[at]

    def varint(self, rows: Rows) -> Numbers:
        """The next number of some messages: seven bits a byte, the least first, without a sign."""
        word, width, beyond = self.varints(self.move(rows, 0))
        self.mark(rows, beyond)
        self.move(rows, width)
        return word

    def varints(self, at: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Such numbers at some places, of how many bytes each is, and which have over 64 bits."""
        low = self.bytes[at]
        if (low < 128).all():
            return low.astype(np.uint64), np.ones(len(at), np.int64), np.zeros(len(at), bool)
        word = self.words(at, "<u8")
        stops = ~word & _LAST
        # All bits up to the first byte that is the last one of its number; all where none is.
        mask = (stops & -stops) ^ ((stops & -stops) - _ONE)
        width = (np.bitwise_count(mask) >> 3).astype(np.int64)
        word &= mask & _REST
        for stay, moved, far in _GAPS:
            word = (word & stay) | ((word & moved) >> far)
        beyond = np.zeros(len(at), bool)
        if not stops.all():
            self._longest(at, np.flatnonzero(stops == 0), word, width, beyond)
        return word, width, beyond

    def _longest(
        self, at: Numbers, long: Numbers, word: Numbers, width: Numbers, beyond: Numbers
    ) -> None:
        """Numbers of nine or ten bytes."""
        ninth, tenth = self.bytes[at[long] + 8], self.bytes[at[long] + 9]
        goes_on = ninth >= 128
        word[long] |= (ninth & 127).astype(np.uint64) << _BYTE
        word[long] |= np.where(goes_on, tenth & 1, 0).astype(np.uint64) << _TOP
        width[long] += 1 + goes_on
        beyond[long] = goes_on & (tenth > 1)

    def zigzag(self, rows: Rows) -> Numbers:
        """The next number of some messages, with its sign in the lowest bit."""
        return unzigzag(self.varint(rows))

    def take(self, rows: Rows, sizes: Numbers) -> tuple[Numbers, Numbers]:
        """Where bytes of given sizes lie, and how many they are: none where a size can't be."""
        wrong = (sizes < 0) | (sizes > self.left(rows))
        self.mark(rows, wrong)
        sizes = np.where(wrong, 0, sizes)
        return self.move(rows, sizes), sizes

    def views(self, at: Numbers, sizes: Numbers) -> pl.Series:
        """Bytes at some places, as a column."""
        # Twelve bytes stand in the view itself; of more, the first four, and where they lie.
        inside = _lowest(self.words(at + 4, "<u8"), sizes - 4)
        elsewhere = at.astype(np.uint64) << _HALF
        first = _lowest(self.words(at, "<u8"), np.minimum(sizes, 4)) << _HALF
        views = np.empty((len(at), 2), "<u8")
        views[:, 0] = sizes.astype(np.uint64) | first
        views[:, 1] = np.where(sizes <= _INSIDE, inside, elsewhere)
        buffers = [None, pa.py_buffer(views), pa.py_buffer(self.data)]
        return pl.Series(pa.Array.from_buffers(pa.binary_view(), len(at), buffers))


def unzigzag(word: Numbers) -> Numbers:
    """Numbers whose sign is in the lowest bit.

    Example:
        >>> unzigzag(np.array([0, 1, 2, 3], np.uint64)).tolist()
        [0, -1, 1, -2]
    """
    return ((word >> _ONE) ^ -(word & _ONE)).view(np.int64)


def given(values: Sequence[bytes | None]) -> tuple[Sequence[bytes] | ByteValues, Numbers]:
    """Payloads, nothing in place of those that are null, and which these are."""
    if isinstance(values, ByteValues):
        return values, values.nulls
    # Where none is null or empty, no code of ours runs for each message.
    if all(values):
        return cast("Sequence[bytes]", values), np.zeros(len(values), bool)
    nulls = np.fromiter((value is None for value in values), bool, len(values))
    return [value or b"" for value in values], nulls


def decoded(
    messages: Sequence[bytes] | ByteValues,
    bad: Numbers,
    columns: dict[str, pl.DataType],
    read: Callable[[ByteCursor], pl.DataFrame],
    read_one: Callable[[bytes], list[Any]],
    skip: int = 0,
) -> tuple[pl.DataFrame, pl.Series]:
    """Messages as ``Payloads`` gives them.

    Args:
        messages: The messages.
        bad: Which of them aren't read.
        columns: The columns, and their types.
        read: Reads many messages at once.
        read_one: Reads one message, as a list of its columns' values; of a time the number.
        skip: How many bytes before each message aren't read.
    """
    frames, wrong = [pl.DataFrame(schema=columns)], [pl.Series([], dtype=pl.Boolean)]
    if isinstance(messages, ByteValues):
        sizes = np.maximum(messages.sizes, 0)
    else:
        sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    for first, end in _chunks(sizes):
        if isinstance(messages, ByteValues):
            starts = messages.starts[first:end]
            cursor = ByteCursor(messages.data, starts + skip, starts + sizes[first:end])
        else:
            cursor = ByteCursor.over(messages[first:end], sizes[first:end], skip)
        cursor.mark(slice(None), bad[first:end])
        frame, faulty = read(cursor).cast(pl.Schema(columns)), cursor.wrong()
        if cursor.deferred.any():
            late = np.flatnonzero(cursor.deferred).tolist()
            frame = _with_rows(frame, late, _one_by_one(
                [messages[first + row] or b"" for row in late], columns, read_one, late, faulty
            ))  # fmt: skip
        wrong.append(pl.Series(faulty))
        frames.append(sound(frame, wrong[-1]))
    return pl.concat(frames), pl.concat(wrong)


def _one_by_one(
    messages: Sequence[bytes],
    columns: dict[str, pl.DataType],
    read_one: Callable[[bytes], list[Any]],
    rows: Sequence[int],
    faulty: Numbers,
) -> pl.DataFrame:
    """Some messages as columns; which of them are faulty is written down."""
    values: list[list[Any]] = []
    for row, message in zip(rows, messages, strict=True):
        try:
            values.append(read_one(message))
            faulty[row] = False
        except MalformedError:
            values.append([None] * len(columns))
            faulty[row] = True
    series = [
        pl.Series(name, [value[i] for value in values], dtype=_stored(dtype))
        for i, (name, dtype) in enumerate(columns.items())
    ]
    return pl.DataFrame(series).cast(pl.Schema(columns))


def _with_rows(frame: pl.DataFrame, rows: Sequence[int], others: pl.DataFrame) -> pl.DataFrame:
    """A frame with other values in some of its rows."""
    order = np.arange(len(frame))
    order[rows] = len(frame) + np.arange(len(rows))
    return pl.concat([frame, others]).select(pl.all().gather(pl.Series(order)))


def _stored(dtype: Any) -> Any:
    """A type with numbers in place of times, and lists of entries in place of maps."""
    if isinstance(dtype, pl.Struct):
        return pl.Struct({field.name: _stored(field.dtype) for field in dtype.fields})
    if isinstance(dtype, pl.List):
        return pl.List(_stored(dtype.inner))
    if isinstance(dtype, pl.Map):
        return pl.List(pl.Struct({"key": _stored(dtype.key), "value": _stored(dtype.value)}))
    if isinstance(dtype, pl.Date):
        return pl.Int32()
    return pl.Int64() if isinstance(dtype, (pl.Datetime, pl.Duration)) else dtype


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


def _lowest(words: Numbers, count: Numbers) -> Numbers:
    """So many bytes of each word; the rest is nothing."""
    shift = (64 - 8 * np.clip(count, 1, 8)).astype(np.uint64)
    return np.where(count > 0, words & (_ALL >> shift), np.uint64(0))
