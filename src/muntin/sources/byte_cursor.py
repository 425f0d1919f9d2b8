"""Reads the next value of many messages in bytes at once.

Each message has a position before its next value; reading a value of some messages advances their
positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import polars as pl

from muntin.sources.byte_values import ROOM, ByteValues, gather
from muntin.sources.payloads import Decoded, no_faults
from muntin.sources.text_values import null_malformed, replace_rows
from muntin.sources.varints import MalformedError, NumberArray, decode_varints, unzigzag

RowSelection = slice | NumberArray

# The positions and numbers of this many messages fit into a core's cache.
_MESSAGES, _BYTES = 20_000, 1 << 26
# After this many steps, a step for fewer messages than this costs more than reading them alone.
_STEPS, _FEW = 64, 100


class ByteCursor:
    """Messages in one buffer, and the position of the next value in each of them.

    The bytes have `ROOM` before and after the messages.

    Attributes:
        bad: Marks the malformed messages.
        field: Number of the column that is read now; -1 for none.
        faults: The column at which each message was marked.
        deferred: Marks the messages to be read one by one instead.
        steps: Number of steps so far in loops whose length depends on the messages.
    """

    def __init__(self, data: Any, at: NumberArray, end: NumberArray) -> None:
        self.data = data
        self.bytes = np.frombuffer(data, np.uint8)
        self.at = at
        self.end = end
        self.bad = np.zeros(len(at), bool)
        self.field = -1
        self.faults = no_faults(len(at))
        self.deferred = np.zeros(len(at), bool)
        self.steps = 0

    @classmethod
    def over(cls, values: Sequence[bytes], sizes: NumberArray, skip: int = 0) -> ByteCursor:
        """Return a cursor over messages of some sizes, each read after its first ``skip`` bytes."""
        room = bytes(ROOM)
        end = np.cumsum(sizes) + ROOM
        return cls(b"".join([room, *values, room]), end - sizes + skip, end)

    def narrow(self, starts: NumberArray, sizes: NumberArray) -> ByteCursor:
        """Return a cursor over parts of the messages, as if each were a message."""
        part = ByteCursor(self.data, starts.copy(), starts + sizes)
        part.steps = self.steps
        return part

    def wrong(self) -> NumberArray:
        """Return which messages are malformed: marked, or not read exactly to their ends."""
        return self.bad | (self.at != self.end)

    def count_unread(self, rows: RowSelection) -> NumberArray:
        """Return the numbers of bytes of some messages that weren't read yet."""
        return np.maximum(self.end[rows] - self.at[rows], 0)

    def move(self, rows: RowSelection, width: Any) -> NumberArray:
        """Return the positions of some messages, and advance them by ``width``."""
        at = self._clamp(rows)
        self.at[rows] += width
        return at

    def _clamp(self, rows: RowSelection) -> NumberArray:
        # A message that is read beyond its end is malformed; here, reads only mustn't exceed the
        # buffer.
        return np.minimum(self.at[rows], len(self.data) - ROOM)

    def mark(self, rows: RowSelection, wrong: NumberArray) -> None:
        """Mark some messages as malformed, and read no more of them."""
        if wrong.any():
            marked = self._skip(rows, wrong)
            self.faults[marked[~self.bad[marked]]] = self.field
            self.bad[marked] = True

    def defer(self, rows: RowSelection, late: NumberArray) -> None:
        """Leave some messages to be read one by one, and read no more of them here."""
        if late.any():
            self.deferred[self._skip(rows, late)] = True

    def _skip(self, rows: RowSelection, chosen: NumberArray) -> NumberArray:
        """Move some messages to their end, and return their positions."""
        skipped: NumberArray = np.arange(len(self.at))[rows][chosen]
        self.at[skipped] = self.end[skipped]
        return skipped

    def take_step(self, rows: NumberArray) -> NumberArray:
        """Begin another step for some messages; return those that take part in it.

        After many steps, the messages are deferred if only few are left; then none takes part.
        """
        if not len(rows):
            return rows
        self.steps += 1
        if self.steps > _STEPS and len(rows) < _FEW:
            self.defer(rows, np.ones(len(rows), bool))
            return rows[:0]
        return rows

    def varint(self, rows: RowSelection) -> NumberArray:
        """Read the next unsigned varint of some messages: seven bits a byte, the lowest first."""
        at = self._clamp(rows)
        # To gather again costs less than to shift what was gathered before.
        words = gather(self.data, at, "<u8")
        number, width, beyond = decode_varints(self.bytes, at, words)
        self.at[rows] += width
        self.mark(rows, beyond)
        return number

    def zigzag(self, rows: RowSelection) -> NumberArray:
        """Read the next number of some messages whose lowest bit is its sign."""
        return unzigzag(self.varint(rows))

    def take(self, rows: RowSelection, sizes: NumberArray) -> tuple[NumberArray, NumberArray]:
        """Read bytes of some sizes; return their positions and sizes, 0 for an invalid size."""
        wrong = (sizes < 0) | (sizes > self.count_unread(rows))
        self.mark(rows, wrong)
        sizes = np.where(wrong, 0, sizes)
        return self.move(rows, sizes), sizes


def replace_nulls(
    values: Sequence[bytes | None],
) -> tuple[Sequence[bytes] | ByteValues, NumberArray]:
    """Return payloads with empty bytes in place of nulls, and which are null."""
    if isinstance(values, ByteValues):
        return values, values.nulls
    # If none is null or empty, no Python code runs for each message.
    if all(values):
        return cast("Sequence[bytes]", values), np.zeros(len(values), bool)
    nulls = np.fromiter((value is None for value in values), bool, len(values))
    return [value or b"" for value in values], nulls


def decode_in_batches(
    messages: Sequence[bytes] | ByteValues,
    bad: NumberArray,
    columns: dict[str, pl.DataType],
    read: Callable[[ByteCursor], pl.DataFrame],
    read_one: Callable[[bytes], list[Any]],
    skip: int = 0,
) -> Decoded:
    """Decode messages into a frame, and mark the malformed ones; see ``Payloads.decode``.

    ``bad`` are malformed already. ``read`` decodes many messages at once, ``read_one`` a single one
    into values, with times as numbers. ``skip`` bytes precede each message.
    """
    frames, wrong = [pl.DataFrame(schema=columns)], [pl.Series([], dtype=pl.Boolean)]
    faults = [no_faults(0)]
    if isinstance(messages, ByteValues):
        sizes = np.maximum(messages.sizes, 0)
    else:
        sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    for first, end in _split_ranges(sizes):
        if isinstance(messages, ByteValues):
            starts = messages.starts[first:end]
            cursor = ByteCursor(messages.data, starts + skip, starts + sizes[first:end])
        else:
            cursor = ByteCursor.over(messages[first:end], sizes[first:end], skip)
        cursor.mark(slice(None), bad[first:end])
        frame, faulty = read(cursor).cast(pl.Schema(columns)), cursor.wrong()
        if cursor.deferred.any():
            late = np.flatnonzero(cursor.deferred).tolist()
            frame = replace_rows(frame, late, _decode_one_by_one(
                [messages[first + row] or b"" for row in late], columns, read_one, late, faulty
            ))  # fmt: skip
        wrong.append(pl.Series(faulty))
        faults.append(np.where(faulty, cursor.faults, -1).astype(np.int16))
        frames.append(null_malformed(frame, wrong[-1]))
    return Decoded(pl.concat(frames), pl.concat(wrong), np.concatenate(faults))


def _decode_one_by_one(
    messages: Sequence[bytes],
    columns: dict[str, pl.DataType],
    read_one: Callable[[bytes], list[Any]],
    rows: Sequence[int],
    faulty: NumberArray,
) -> pl.DataFrame:
    """Decode messages one by one into columns, and note in ``faulty`` which are malformed."""
    values: list[list[Any]] = []
    for row, message in zip(rows, messages, strict=True):
        try:
            values.append(read_one(message))
            faulty[row] = False
        except MalformedError:
            values.append([None] * len(columns))
            faulty[row] = True
    series = [
        pl.Series(name, [value[i] for value in values], dtype=_scalar_type(dtype))
        for i, (name, dtype) in enumerate(columns.items())
    ]
    return pl.DataFrame(series).cast(pl.Schema(columns))


def _scalar_type(dtype: Any) -> Any:
    """Return a type with numbers in place of times, and lists of entries in place of maps."""
    if isinstance(dtype, pl.Struct):
        return pl.Struct({field.name: _scalar_type(field.dtype) for field in dtype.fields})
    if isinstance(dtype, pl.List):
        return pl.List(_scalar_type(dtype.inner))
    if isinstance(dtype, pl.Map):
        return pl.List(
            pl.Struct({"key": _scalar_type(dtype.key), "value": _scalar_type(dtype.value)})
        )
    if isinstance(dtype, pl.Date):
        return pl.Int32()
    return pl.Int64() if isinstance(dtype, (pl.Datetime, pl.Duration)) else dtype


def _split_ranges(sizes: NumberArray) -> Iterator[tuple[int, int]]:
    """Yield the ranges of messages that are read at once; a large message may be alone."""
    behind = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        before = behind[first - 1] if first else 0
        fit = int(np.searchsorted(behind, before + _BYTES, "right"))
        end = min(max(fit, first + 1), first + _MESSAGES)
        yield first, end
        first = end
