"""Whole numbers beyond 64 bits, in columns: what sums of decimals are made of.

A number is some **limbs** of 32 bits in a column each, the lowest first. All but the highest are
within 0 and 2**32, once they are ``carried``; the highest has the sign and takes what is over, so
that limbs can be added billions of times before they must be carried.
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
# The unscaled value of a decimal: four limbs, which two are enough for up to this precision.
_WHOLE, _SHORT = 4, 18
# Of a number without a sign: room for more than the product of two decimals' parts.
_WIDE = 6


def length_of(precision: int) -> int:
    """How many limbs decimals of a precision have."""
    return 2 if precision <= _SHORT else _WHOLE


def limbs_of(decimals: pl.Series, length: int) -> Limbs:
    """The unscaled values of decimals; of a null, 0."""
    array = decimals.rechunk().to_arrow()
    words = np.frombuffer(array.buffers()[1] or b"", dtype="<u4").reshape(-1, _WHOLE)
    words = words[array.offset : array.offset + len(array), :length]
    if decimals.null_count():
        words = np.where(decimals.is_not_null().to_numpy()[:, None], words, np.uint32(0))
    low = [words[:, i].astype(np.int64) for i in range(length - 1)]
    return [*low, np.ascontiguousarray(words[:, -1]).view(np.int32).astype(np.int64)]


def decimals_of(limbs: Sequence[NDArray[np.int64]], dtype: pl.Decimal) -> pl.Series:
    """Decimals of unscaled values that fit their type."""
    four = np.zeros((len(limbs[0]), _WHOLE), dtype="<u4")
    whole = carried(limbs)
    for i in range(_WHOLE):
        # The sign of the highest limb goes on through those that aren't there.
        limb = whole[i] if i < len(whole) else whole[-1] >> 63
        four[:, i] = (limb & _MASK).astype(np.uint32)
    kind = pa.decimal128(dtype.precision, dtype.scale)
    array = pa.Array.from_buffers(kind, len(four), [None, pa.py_buffer(four.tobytes())])
    found = pl.from_arrow(array)
    assert isinstance(found, pl.Series)
    return found


def carried(limbs: Sequence[NDArray[np.int64]]) -> Limbs:
    """The same numbers, with all limbs but the highest below 2**32."""
    found: Limbs = []
    over = np.zeros_like(limbs[0])
    for limb in limbs[:-1]:
        whole = limb + over
        found.append(whole & _MASK)
        over = whole >> _BITS
    return [*found, limbs[-1] + over]


def magnitude(limbs: Sequence[NDArray[np.int64]]) -> tuple[Limbs, NDArray[np.int64]]:
    """Numbers without their signs, in more limbs all below 2**32, and the signs (1 or -1)."""
    whole = carried(limbs)
    sign = np.where(whole[-1] < 0, np.int64(-1), np.int64(1))
    *low, high = carried([limb * sign for limb in whole])
    found = [*low, high & _MASK, high >> _BITS]
    return found + [np.zeros_like(high)] * (_WIDE - len(found)), sign


def reaches(number: Limbs, power: int) -> NDArray[np.bool_]:
    """Whether numbers without a sign are 10**power or greater."""
    bound = 10**power
    found = np.ones(len(number[0]), dtype=np.bool_)
    for i, limb in enumerate(number):
        digit = (bound >> (_BITS * i)) & (_BASE - 1)
        found = (limb > digit) | ((limb == digit) & found)
    return found


def times(number: Limbs, factor: int) -> Limbs:
    """Numbers without a sign times a factor below 2**31, which must leave room."""
    return carried([limb * np.int64(factor) for limb in number])


def divided(number: Limbs, by: NDArray[np.int64]) -> tuple[Limbs, NDArray[np.int64]]:
    """Numbers without a sign divided by counts below 2**47, and what is left over."""
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
