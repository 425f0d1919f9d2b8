"""Values in one buffer, by their positions and sizes, without an object per value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]

# Room before and after the values, so that a reader may read many bytes around each.
ROOM = 64


# A value of at most this many bytes is stored in its column's view itself.
_INLINE_BYTES = 12
_ALL, _HALF = np.uint64(2**64 - 1), np.uint64(32)


def gather(data: Any, at: Integers, kind: str) -> NDArray[Any]:
    """Return what begins at each position, aligned or not, as values of a NumPy type.

    The bytes of a value are copied together, whatever their number. All have to be in the buffer.

    Example:
        >>> gather(b"abcdef", np.array([1, 3]), "V2").tolist()
        [b'bc', b'de']
    """
    shape = (len(data) - np.dtype(kind).itemsize + 1,)
    return np.ndarray(shape, kind, data, strides=(1,))[at]


@dataclass(frozen=True, eq=False)
class ByteValues(Sequence[bytes | None]):
    """A sequence of values, some of which may be null, over a buffer.

    Values don't overlap, and lie in the buffer in their order.

    Attributes:
        data: The buffer, with `ROOM` bytes before the first value and after the last one.
        starts: Position where each value begins.
        sizes: Number of bytes of each; -1 for null.
    """

    data: Bytes
    starts: Integers
    sizes: Integers

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...
    @overload
    def __getitem__(self, index: slice) -> ByteValues: ...
    def __getitem__(self, index: int | slice) -> bytes | ByteValues | None:
        if isinstance(index, slice):
            return ByteValues(self.data, self.starts[index], self.sizes[index])
        start, size = int(self.starts[index]), int(self.sizes[index])
        return None if size < 0 else self.data[start : start + size].tobytes()

    def __iter__(self) -> Iterator[bytes | None]:
        data = self.data.tobytes()
        for start, size in zip(self.starts.tolist(), self.sizes.tolist(), strict=True):
            yield None if size < 0 else data[start : start + size]

    @property
    def nulls(self) -> NDArray[np.bool_]:
        """The mask of null values."""
        return self.sizes < 0

    def select(self, rows: Any) -> ByteValues:
        """Select some of the values, without a copy of their bytes."""
        return ByteValues(self.data, self.starts[rows], self.sizes[rows])

    def to_series(self, *, text: bool = False) -> pl.Series:
        """Copy the values into a binary column, or a column of text if they are valid UTF-8.

        A column of references would keep all messages in memory for as long as one of its rows.
        """
        nulls = self.nulls
        if nulls.all():
            dtype = pl.String if text else pl.Binary
            return pl.Series([None], dtype=dtype).new_from_index(0, len(self))
        sizes = np.maximum(self.sizes, 0)
        # Twelve bytes fit into the view itself; a longer view has the first four and a reference.
        inside = _mask_lowest(gather(self.data, self.starts + 4, "<u8"), sizes - 4)
        elsewhere = self.starts.astype(np.uint64) << _HALF
        first = _mask_lowest(gather(self.data, self.starts, "<u8"), np.minimum(sizes, 4)) << _HALF
        views = np.empty((len(self), 2), "<u8")
        views[:, 0] = sizes.astype(np.uint64) | first
        views[:, 1] = np.where(sizes <= _INLINE_BYTES, inside, elsewhere)
        buffers = [None, pa.py_buffer(views), pa.py_buffer(self.data)]
        view, copied = (
            (pa.string_view(), pa.large_string()) if text else (pa.binary_view(), pa.large_binary())
        )
        column = pl.Series(pa.Array.from_buffers(view, len(self), buffers).cast(copied))
        return column.set(pl.Series(nulls), None) if nulls.any() else column

    def as_lines(self) -> Bytes | None:
        """Copy the values as lines, with blanks between them, in the form of the buffer.

        ``None`` if a value is null, empty or holds a line feed itself, or if they lie far apart.
        """
        if not len(self) or self.sizes.min() <= 0:
            return None
        lines = self.data[self.starts[0] : self.starts[-1] + self.sizes[-1]].copy()
        for first in range(1, len(self), _VALUES_AT_ONCE):
            end = min(first + _VALUES_AT_ONCE, len(self))
            starts, before = self.starts[first:end], slice(first - 1, end - 1)
            gaps = starts - self.starts[before] - self.sizes[before]
            if not _overwrite_gaps(lines, starts - self.starts[0], gaps):
                return None
        return lines if np.count_nonzero(lines == _FEED) == len(self) - 1 else None


_BLANK, _FEED = 32, 10
# Framing between two values that is overwritten byte by byte.
_WIDEST = 64
# The arrays of more values don't fit into a core's cache.
_VALUES_AT_ONCE = 20_000


def _overwrite_gaps(lines: Bytes, starts: Integers, gaps: Integers) -> bool:
    """Write blanks and a line feed into the gap before each value, unless one is too wide."""
    smallest, largest = int(gaps.min()), int(gaps.max())
    if smallest < 1 or largest > _WIDEST:
        return False
    # A line feed replaces the byte before each value.
    feeds = starts - 1
    for distance in range(1, largest):
        wide = feeds if distance < smallest else feeds[gaps > distance]
        lines[wide - distance] = _BLANK
    lines[feeds] = _FEED
    return True


def join_values(parts: Sequence[ByteValues]) -> ByteValues:
    """Join values of several buffers into one."""
    if len(parts) == 1:
        return parts[0]
    if all(part.data is parts[0].data for part in parts):
        starts, sizes = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("starts", "sizes")
        )
        return ByteValues(parts[0].data, starts, sizes)
    before = np.cumsum([0, *(len(part.data) for part in parts[:-1])])
    return ByteValues(
        np.concatenate([part.data for part in parts]),
        np.concatenate([part.starts + moved for part, moved in zip(parts, before, strict=True)]),
        np.concatenate([part.sizes for part in parts]),
    )


def binary_column(values: Sequence[bytes | None]) -> pl.Series:
    """Copy values into a binary column."""
    if isinstance(values, ByteValues):
        return values.to_series()
    return pl.Series(values, dtype=pl.Binary)


def select_values(values: Sequence[bytes | None], rows: Integers) -> Sequence[bytes | None]:
    """Select some of the values.

    Example:
        >>> select_values([b"a", None, b"c"], np.array([0, 2]))
        [b'a', b'c']
    """
    if isinstance(values, ByteValues):
        return values.select(rows)
    return [values[row] for row in rows.tolist()]


def _mask_lowest(words: NDArray[np.uint64], count: Integers) -> NDArray[np.uint64]:
    """Return the lowest bytes of each word, with the others set to zero."""
    shift = (64 - 8 * np.clip(count, 1, 8)).astype(np.uint64)
    return np.where(count > 0, words & (_ALL >> shift), np.uint64(0))
