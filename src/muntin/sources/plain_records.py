"""Reads the fields of plain records of Kafka, which nearly all are, in fewer steps than others.

The records of a plain batch have consecutive offsets, short keys or none, and no headers. Where
each of them begins and ends is known, so that most of their framing is compared with what it has to
be, and isn't decoded. If a single record isn't as expected, all are read by the general reader.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from muntin.sources.byte_values import Bytes, ByteValues, Integers, gather
from muntin.sources.record_chain import RecordChain
from muntin.sources.varints import HIGH_BITS, NumberArray, decode_varints, unzigzag

# A timestamp and an offset of four bytes each are in a word of eight.
_MOST_BITS, _MOST_DELTAS = 32, 1 << 16
# A signed number of one byte is below 64, one of two bytes below 8192.
_ONE_BYTE, _TWO_BYTES = 1 << 6, 1 << 13
_NULL, _CONTINUES = 1, 128
# From each of these numbers on, a signed number has another byte.
_BOUNDS = 1 << np.array([6, 13, 20])
_ONE = np.uint64(1)


class RecordFields(NamedTuple):
    """The fields of records.

    Attributes:
        timestamps: The timestamp of each, relative to its batch's.
        offsets: The offset of each, relative to its batch's first.
        header_counts: How many headers each has.
        header_starts: Position of each record's headers in the buffer of the values.
    """

    timestamps: Integers
    offsets: Integers
    keys: ByteValues
    values: ByteValues
    header_counts: Integers
    header_starts: Integers


def read_plain(data: Bytes, chain: RecordChain, counts: Integers) -> RecordFields | None:
    """Read records; ``None`` if one of them isn't plain.

    Args:
        data: The buffer, with room around the records.
        chain: Where the records begin and end.
        counts: How many records each batch has.
    """
    if not len(chain.starts) or counts.max() > _MOST_DELTAS:
        return None
    words = gather(data, chain.fields, "<u8")
    stops = ~words & HIGH_BITS
    # All bits up to the end of the timestamp.
    bits = np.bitwise_count(stops ^ (stops - _ONE))
    if bits.max() > _MOST_BITS:
        return None
    numbers, expected, masks, widths = (
        np.concatenate([column[:count] for count in counts.tolist()])
        for column in _encode_deltas(int(counts.max()).bit_length())
    )
    if (((words >> bits.astype(np.uint64)) ^ expected) & masks).any():
        return None
    at = chain.fields + widths
    at += bits >> 3
    keys = _read_keys(data, at)
    if keys is None:
        return None
    values = _read_values(data, keys.starts + np.maximum(keys.sizes, 0), chain.ends)
    if values is None:
        return None
    times, _, _ = decode_varints(data, chain.fields, words)
    no_headers = np.zeros(len(at), np.int64)
    return RecordFields(unzigzag(times), numbers, keys, values, no_headers, chain.ends)


@cache
def _encode_deltas(bits: int) -> tuple[Integers, NumberArray, NumberArray, Integers]:
    """Return the numbers of some bits, how records have them, their bytes' masks, and widths.

    Example:
        >>> _, words, masks, widths = _encode_deltas(7)
        >>> [hex(column[64]) for column in (words, masks)], int(widths[64])
        (['0x180', '0xffff'], 2)
    """
    numbers = np.arange(1 << bits, dtype=np.int64)
    widths: Integers = 1 + np.searchsorted(_BOUNDS, numbers, "right")
    words = np.zeros(len(numbers), np.uint64)
    for byte in range(4):
        part = (2 * numbers >> 7 * byte & 127) | np.where(byte < widths - 1, _CONTINUES, 0)
        words |= part.astype(np.uint64) << np.uint64(8 * byte)
    masks: NumberArray = (_ONE << (8 * widths).astype(np.uint64)) - _ONE
    return numbers, words, masks, widths


def _read_keys(data: Bytes, at: Integers) -> ByteValues | None:
    """Read keys of less than 64 bytes, or none; ``None`` if one is longer."""
    first = data[at]
    is_null = first == _NULL
    if is_null.all():
        return ByteValues(data, at + 1, np.full(len(at), -1))
    if (((first & 1) | (first & _CONTINUES)).astype(bool) & ~is_null).any():
        return None
    return ByteValues(data, at + 1, np.where(is_null, -1, (first >> 1).astype(np.int64)))


def _read_values(data: Bytes, at: Integers, ends: Integers) -> ByteValues | None:
    """Read values up to the last byte of each record; ``None`` if one doesn't end there.

    The size follows from the end, so that it is only compared.
    """
    sizes = ends - at - 2
    least, most = sizes.min(), sizes.max()
    if least < 0 or most > _TWO_BYTES:
        return None
    first, starts = data[at], at + 1
    if most < _ONE_BYTE:
        expected = sizes << 1
    else:
        is_long = sizes >= _ONE_BYTE
        sizes -= is_long
        starts += is_long
        expected = np.where(is_long, (sizes << 1) & 127 | _CONTINUES, sizes << 1)
        if ((data[at + 1] != sizes >> 6) & is_long).any():
            return None
    differs = first != expected
    if differs.any():
        is_null = (first == _NULL) & (sizes == 0)
        if (differs & ~is_null).any():
            return None
        sizes[is_null] = -1
    return ByteValues(data, starts, sizes)
