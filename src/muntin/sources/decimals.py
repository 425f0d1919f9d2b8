"""Converts numbers in text to decimals."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import polars as pl

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_LONGEST = 400
_EXACT = Context(prec=500, rounding=ROUND_HALF_UP)


def decimal_of(value: Any, dtype: pl.Decimal) -> Decimal | None:
    """Convert a number or a text to a decimal of a type's scale; ``None`` if it doesn't fit.

    Example:
        >>> decimal_of("1.005", pl.Decimal(5, 2)), decimal_of(1000, pl.Decimal(5, 2))
        (Decimal('1.01'), None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    # A number of a million digits isn't converted.
    if isinstance(value, str) and (len(value) > _LONGEST or not _NUMBER.fullmatch(value)):
        return None
    number = Decimal(value)
    whole = (dtype.precision or 38) - dtype.scale
    if number and number.adjusted() >= whole:
        return None
    if not number or number.adjusted() < -dtype.scale - 2:
        number = Decimal(0)
    rounded = number.quantize(Decimal(1).scaleb(-dtype.scale), context=_EXACT)
    return rounded if not rounded or rounded.adjusted() < whole else None
