"""Integers beyond 64 bits in columns, for sums of decimals.

A number consists of **limbs** of 32 bits in a column each, the lowest first. After ``carry``, all
but the highest are within 0 and 2**32. The highest has the sign. Limbs are stored in 64 bits, so
that they can be added billions of times before they must be carried.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

Limbs = list[NDArray[np.int64]]

_BITS = 32
_BASE = 1 << _BITS
_MASK = np.int64(_BASE - 1)
# Limbs of a decimal's unscaled value, and the precision up to which two limbs are enough.
_WHOLE, _SHORT = 4, 18
# Limbs of a magnitude, which leave room for the products in a mean.
_WIDE = 6


def count_limbs(precision: int) -> int:
    """Return the number of limbs of decimals of a precision."""
    return 2 if precision <= _SHORT else _WHOLE


def to_limbs(decimals: pl.Series, length: int) -> Limbs:
    """Return the unscaled values of decimals, with 0 for null."""
    array = decimals.rechunk().to_arrow()
    words = np.frombuffer(array.buffers()[1] or b"", dtype="<u4").reshape(-1, _WHOLE)
    words = words[array.offset : array.offset + len(array), :length]
    if decimals.null_count():
        words = np.where(decimals.is_not_null().to_numpy()[:, None], words, np.uint32(0))
    low = [words[:, i].astype(np.int64) for i in range(length - 1)]
    return [*low, np.ascontiguousarray(words[:, -1]).view(np.int32).astype(np.int64)]


def to_decimals(limbs: Sequence[NDArray[np.int64]], dtype: pl.Decimal) -> pl.Series:
    """Return decimals from unscaled values, which must fit the type."""
    words = np.zeros((len(limbs[0]), _WHOLE), dtype="<u4")
    whole = carry(limbs)
    for i in range(_WHOLE):
        # Missing limbs are filled with the sign of the highest one.
        limb = whole[i] if i < len(whole) else whole[-1] >> 63
        words[:, i] = (limb & _MASK).astype(np.uint32)
    return read_decimals(dtype, len(words), [None, pa.py_buffer(words.tobytes())])


def read_decimals(
    dtype: pl.Decimal, count: int, buffers: Sequence[pa.Buffer | None], offset: int = 0
) -> pl.Series:
    """Return decimals of a type from Arrow's buffers of their unscaled values."""
    kind = pa.decimal128(dtype.precision, dtype.scale)
    decimals = pl.from_arrow(pa.Array.from_buffers(kind, count, buffers, offset=offset))
    assert isinstance(decimals, pl.Series)
    return decimals


def carry(limbs: Sequence[NDArray[np.int64]]) -> Limbs:
    """Carry limbs over, so that all but the highest are below 2**32."""
    carried: Limbs = []
    over = np.zeros_like(limbs[0])
    for limb in limbs[:-1]:
        whole = limb + over
        carried.append(whole & _MASK)
        over = whole >> _BITS
    return [*carried, limbs[-1] + over]


def split_sign(limbs: Sequence[NDArray[np.int64]]) -> tuple[Limbs, NDArray[np.int64]]:
    """Return magnitudes, in more limbs that are all below 2**32, and the signs (1 or -1)."""
    whole = carry(limbs)
    sign = np.where(whole[-1] < 0, np.int64(-1), np.int64(1))
    *low, high = carry([limb * sign for limb in whole])
    limbs_found = [*low, high & _MASK, high >> _BITS]
    return limbs_found + [np.zeros_like(high)] * (_WIDE - len(limbs_found)), sign


def reaches(number: Limbs, power: int) -> NDArray[np.bool_]:
    """Return whether magnitudes are 10**power or greater."""
    bound = 10**power
    is_reached = np.ones(len(number[0]), dtype=np.bool_)
    for i, limb in enumerate(number):
        digit = (bound >> (_BITS * i)) & (_BASE - 1)
        is_reached = (limb > digit) | ((limb == digit) & is_reached)
    return is_reached


def multiply(number: Limbs, factor: int) -> Limbs:
    """Multiply magnitudes by a factor below 2**31; the product must fit the limbs."""
    return carry([limb * np.int64(factor) for limb in number])


def divide_limbs(number: Limbs, by: NDArray[np.int64]) -> tuple[Limbs, NDArray[np.int64]]:
    """Divide magnitudes by counts below 2**47; return quotients and remainders."""
    remainder = np.zeros(len(by), dtype=np.int64)
    quotient: Limbs = []
    for limb in reversed(number):
        digits = np.zeros(len(by), dtype=np.int64)
        for half in (limb >> 16, limb & np.int64(0xFFFF)):
            remainder = (remainder << 16) | half
            digits = (digits << 16) | remainder // by
            remainder = remainder % by
        quotient.insert(0, digits)
    return quotient, remainder
