"""Decodes varints: whole numbers with seven bits in each byte, the lowest first."""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.sources.byte_values import gather

NumberArray = np.ndarray[Any, Any]

_ONE, _BYTE, _TOP = np.uint64(1), np.uint64(56), np.uint64(63)
# The bit of each byte that says that its number continues, and the other bits.
HIGH_BITS, _LOW_BITS = np.uint64(0x8080808080808080), np.uint64(0x7F7F7F7F7F7F7F7F)
# The same of the first byte, of the first two, and of the second.
_HIGH_BIT, _TWO_BYTES = np.uint64(0x80), np.uint64(0x8080)
_LOW_BYTE, _SECOND_BYTE, _SEVEN = np.uint64(0x7F), np.uint64(0x7F00), np.uint64(7)
# How seven bits of each byte are joined: the bits that stay, the bits that move, and how far.
_GAPS = [
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
]


# The last gap is between the fourth byte and the fifth.
_FOUR_BYTES = 32


class MalformedError(ValueError):
    """A message doesn't conform to its schema."""


def read_varints(
    data: NumberArray, at: NumberArray
) -> tuple[NumberArray, NumberArray, NumberArray]:
    """Return the varints at some positions, their sizes, and which have more than 64 bits."""
    low = data[at]
    if (low < 128).all():
        return low.astype(np.uint64), np.ones(len(at), np.int64), np.zeros(len(at), bool)
    return decode_varints(data, at, gather(data, at, "<u8"))


def decode_varints(
    data: NumberArray, at: NumberArray, word: NumberArray
) -> tuple[NumberArray, NumberArray, NumberArray]:
    """Return the varints with which words begin, as ``read_varints`` does."""
    beyond = np.zeros(len(word), bool)
    goes_on = (word & _HIGH_BIT) >> _SEVEN
    if not goes_on.any():
        return word & _LOW_BYTE, np.ones(len(word), np.int64), beyond
    if ((word & _TWO_BYTES) != _TWO_BYTES).all():
        second = ((word & _SECOND_BYTE) >> _ONE) * goes_on
        return word & _LOW_BYTE | second, (goes_on + _ONE).view(np.int64), beyond
    stops = ~word & HIGH_BITS
    # All bits up to the first byte that ends its number, or all bits if none does.
    mask = stops ^ (stops - _ONE)
    bits = np.bitwise_count(mask)
    mask &= _LOW_BITS
    number: NumberArray = word & mask
    for stays, moved, far in _GAPS[: 3 if bits.max() > _FOUR_BYTES else 2]:
        high: NumberArray = number & moved
        high >>= far
        number &= stays
        number |= high
    width = (bits >> 3).astype(np.int64)
    if not stops.all():
        _complete_long(data, at, np.flatnonzero(stops == 0), number, width, beyond)
    return number, width, beyond


def _complete_long(
    data: NumberArray,
    at: NumberArray,
    long: NumberArray,
    word: NumberArray,
    width: NumberArray,
    beyond: NumberArray,
) -> None:
    """Complete numbers of nine or ten bytes."""
    ninth, tenth = data[at[long] + 8], data[at[long] + 9]
    goes_on = ninth >= 128
    word[long] |= (ninth & 127).astype(np.uint64) << _BYTE
    word[long] |= np.where(goes_on, tenth & 1, 0).astype(np.uint64) << _TOP
    width[long] += 1 + goes_on
    beyond[long] = goes_on & (tenth > 1)


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read the next unsigned varint of one message; return it and its end."""
    if at < end and data[at] < 128:
        return data[at], at + 1
    word = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        # Only one bit of the tenth byte belongs to a number of 64 bits.
        if shift == 63 and byte > 1:
            break
        word |= (byte & 127) << shift
        if byte < 128:
            return word, at
        shift += 7
    raise MalformedError


def unzigzag(word: NumberArray) -> NumberArray:
    """Decode numbers whose lowest bit is the sign.

    Example:
        >>> unzigzag(np.array([0, 1, 2, 3], np.uint64)).tolist()
        [0, -1, 1, -2]
    """
    return ((word >> _ONE) ^ -(word & _ONE)).view(np.int64)
