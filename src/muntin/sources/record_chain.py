"""Finds the positions at which Kafka's records begin.

A record begins with its length, so the positions form a chain from one to the next. For records
without headers, the chain is recognised at once: such a record ends with a zero, the number of its
headers, and has another zero, its attributes, after its length. These positions are a guess, which
is accepted only if each record ends where the next one begins. Other records are followed one after
the other, in many batches at once or batch by batch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.engine.utf8 import Mask
from muntin.sources.byte_cursor import ByteCursor
from muntin.sources.byte_values import Bytes, Integers, gather
from muntin.sources.varints import read_varints, unzigzag

# From this many batches on, a step for all of them is faster than following each batch.
_IN_STEP = 256
# Attributes, two deltas, two lengths and the number of headers take a byte each.
_SHORTEST = 6
_PRUNINGS = 3
# So many bytes, and what is computed of them, fit into a core's cache.
_AT_ONCE = 1 << 17


class BrokenChainError(ValueError):
    """A record doesn't end within its batch."""


class RecordChain(NamedTuple):
    """The positions of records, batch after batch.

    Attributes:
        starts: Where each begins.
        fields: Where the fields after its length and attributes begin; empty if that isn't known.
        ends: Where it ends, with a zero as its last byte; empty if that isn't known.
    """

    starts: Integers
    fields: Integers
    ends: Integers

    @property
    def is_complete(self) -> bool:
        """True if all positions are known."""
        return len(self.fields) == len(self.starts)


_NONE = np.empty(0, np.int64)


def find_records(data: Bytes, begins: Integers, ends: Integers, counts: Integers) -> RecordChain:
    """Return the positions of records, or raise ``BrokenChainError``.

    ``data`` has a zero before and ten bytes after the records of the batches, which begin at
    ``begins``, end at ``ends`` and have ``counts`` records.
    """
    guess = _guess_records(data, begins, ends, counts)
    if guess is not None:
        return guess
    return RecordChain(_follow_records(data, begins, ends, counts), _NONE, _NONE)


def _guess_records(
    data: Bytes, begins: Integers, ends: Integers, counts: Integers
) -> RecordChain | None:
    """Find records without headers by their zeros; ``None`` if the guess isn't the chain."""
    total = int(counts.sum())
    if not total:
        return RecordChain(_NONE, _NONE, _NONE)
    first, end = int(begins[0]), int(ends[-1])
    if data[end - 1]:
        return None
    at = np.concatenate(
        [_find_zeros(data, at, min(at + _AT_ONCE, end)) for at in range(first, end, _AT_ONCE)]
    )
    # The length, and the attributes behind its one or two bytes.
    words = gather(data, at, "<u4")
    long = (words & 0x80).astype(bool)
    length = (words & 0x7F | np.where(long, words >> 1 & 0x3F80, 0)).astype(np.int64) >> 1
    attributes = at + 1 + long
    # Odd numbers are negative; a length of three bytes isn't guessed.
    plain = np.where(long, (words & 0xFF8081) == 0x80, (words & 0xFF01) == 0)
    plain &= length >= _SHORTEST
    if not plain.all():
        at, attributes, length = at[plain], attributes[plain], length[plain]
    next_positions = attributes + length
    for _ in range(_PRUNINGS):
        if len(at) <= total:
            break
        chained = _find_chained(at, next_positions, first, end)
        at, attributes, next_positions = at[chained], attributes[chained], next_positions[chained]
    if (
        len(at) != total
        or at[0] != first
        or next_positions[-1] != end
        or (next_positions[:-1] != at[1:]).any()
    ):
        return None
    has = counts > 0
    if (at[(np.cumsum(counts) - counts)[has]] != begins[has]).any():
        return None
    return RecordChain(at, attributes + 1, next_positions)


def _find_zeros(data: Bytes, begin: int, end: int) -> Integers:
    """Return the positions with a zero before them and another one two or three bytes later.

    The first one ends the record before, and the other has the attributes, which follow a length
    of one or two bytes.
    """
    zero = data[begin - 1 : end + 2] == 0
    return np.flatnonzero(zero[:-3] & (zero[2:-1] | zero[3:])) + begin


def _find_chained(at: Integers, next_positions: Integers, first: int, end: int) -> Mask:
    """Return which guessed records begin at the end of another, and end where one begins."""
    following = np.searchsorted(at, next_positions)
    follows = np.append(at, -1)[following] == next_positions
    preceded = at == first
    preceded[following[follows]] = True
    chained: Mask = (follows | (next_positions == end)) & preceded
    return chained


def _follow_records(data: Bytes, at: Integers, ends: Integers, counts: Integers) -> Integers:
    """Follow the chain of each batch: all batches in step while many are left, then one by one."""
    firsts = np.cumsum(counts) - counts
    order = np.argsort(-counts, kind="stable")
    at, ends, firsts, counts = at[order], ends[order], firsts[order], counts[order]
    steps = int(counts[_IN_STEP - 1]) if len(counts) >= _IN_STEP else 0
    # The number of batches with more than 0, 1, 2, … records.
    wide = np.searchsorted(-counts, -np.arange(steps), "left").tolist()
    starts = np.empty(int(counts.sum()), np.int64)
    cursor = ByteCursor(data, at, ends)
    for step, width in enumerate(wide):
        position = at[:width]
        starts[firsts[:width] + step] = position
        low = data[position].astype(np.int64)
        if (low < 128).all():
            position = position + 1 + (low >> 1)
        else:
            word, size, _ = read_varints(cursor.bytes, position)
            position = position + size + unzigzag(word)
        if ((position <= at[:width]) | (position > ends[:width])).any():
            raise BrokenChainError
        at[:width] = position
    has_more = counts > steps
    if has_more.any():
        whole = data.tobytes()
        rest = zip(*(part[has_more].tolist() for part in (at, ends, counts, firsts)), strict=True)
        for begin, end, count, first in rest:
            starts[first + steps : first + count] = _follow_one(whole, begin, end, count - steps)
    return starts


def _follow_one(data: bytes, at: int, end: int, count: int) -> list[int]:
    starts = []
    for _ in range(count):
        starts.append(at)
        low = data[at]
        if low < 128:
            at += 1 + (low >> 1)
        elif (high := data[at + 1]) < 128:
            at += 2 + ((low & 127 | high << 7) >> 1)
        else:
            number, position = read_zigzag(data, at)
            at = position + number
        if not 0 < at <= end:
            raise BrokenChainError
    return starts


def read_zigzag(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Read a number (64 bits at most) whose lowest bit is its sign; return it and its end."""
    number = shift = 0
    while True:
        low = data[at]
        number |= (low & 127) << shift
        at, shift = at + 1, shift + 7
        if low < 128:
            return (number >> 1) ^ -(number & 1), at
        if shift >= 70:
            raise BrokenChainError
