"""Integers beyond 64 bits in columns, for sums of decimals.

A number consists of **limbs** of 32 bits in a column each, the lowest first. After ``carried``, all
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


def length_of(precision: int) -> int:
    """Return the number of limbs of decimals of a precision."""
    return 2 if precision <= _SHORT else _WHOLE


def limbs_of(decimals: pl.Series, length: int) -> Limbs:
    """Return the unscaled values of decimals, with 0 for null."""
    array = decimals.rechunk().to_arrow()
    words = np.frombuffer(array.buffers()[1] or b"", dtype="<u4").reshape(-1, _WHOLE)
    words = words[array.offset : array.offset + len(array), :length]
    if decimals.null_count():
        words = np.where(decimals.is_not_null().to_numpy()[:, None], words, np.uint32(0))
    low = [words[:, i].astype(np.int64) for i in range(length - 1)]
    return [*low, np.ascontiguousarray(words[:, -1]).view(np.int32).astype(np.int64)]


def decimals_of(limbs: Sequence[NDArray[np.int64]], dtype: pl.Decimal) -> pl.Series:
    """Return decimals from unscaled values, which must fit the type."""
    four = np.zeros((len(limbs[0]), _WHOLE), dtype="<u4")
    whole = carried(limbs)
    for i in range(_WHOLE):
        # Missing limbs are filled with the sign of the highest one.
        limb = whole[i] if i < len(whole) else whole[-1] >> 63
        four[:, i] = (limb & _MASK).astype(np.uint32)
    kind = pa.decimal128(dtype.precision, dtype.scale)
    array = pa.Array.from_buffers(kind, len(four), [None, pa.py_buffer(four.tobytes())])
    found = pl.from_arrow(array)
    assert isinstance(found, pl.Series)
    return found


def carried(limbs: Sequence[NDArray[np.int64]]) -> Limbs:
    """Carry limbs over, so that all but the highest are below 2**32."""
    found: Limbs = []
    over = np.zeros_like(limbs[0])
    for limb in limbs[:-1]:
        whole = limb + over
        found.append(whole & _MASK)
        over = whole >> _BITS
    return [*found, limbs[-1] + over]


def magnitude(limbs: Sequence[NDArray[np.int64]]) -> tuple[Limbs, NDArray[np.int64]]:
    """Return magnitudes, in more limbs that are all below 2**32, and the signs (1 or -1)."""
    whole = carried(limbs)
    sign = np.where(whole[-1] < 0, np.int64(-1), np.int64(1))
    *low, high = carried([limb * sign for limb in whole])
    found = [*low, high & _MASK, high >> _BITS]
    return found + [np.zeros_like(high)] * (_WIDE - len(found)), sign


def reaches(number: Limbs, power: int) -> NDArray[np.bool_]:
    """Return whether magnitudes are 10**power or greater."""
    bound = 10**power
    found = np.ones(len(number[0]), dtype=np.bool_)
    for i, limb in enumerate(number):
        digit = (bound >> (_BITS * i)) & (_BASE - 1)
        found = (limb > digit) | ((limb == digit) & found)
    return found


def times(number: Limbs, factor: int) -> Limbs:
    """Multiply magnitudes by a factor below 2**31; the product must fit the limbs."""
    return carried([limb * np.int64(factor) for limb in number])


def divided(number: Limbs, by: NDArray[np.int64]) -> tuple[Limbs, NDArray[np.int64]]:
    """Divide magnitudes by counts below 2**47; return quotients and remainders."""
    left = np.zeros(len(by), dtype=np.int64)
    quotient: Limbs = []
    for limb in reversed(number):
        digits = np.zeros(len(by), dtype=np.int64)
        for half in (limb >> 16, limb & np.int64(0xFFFF)):
            left = (left << 16) | half
            digits = (digits << 16) | left // by
            left = left % by
        quotient.insert(0, digits)
    return quotient, left
