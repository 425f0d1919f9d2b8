"""Converts numbers in text to decimals."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import polars as pl

# Digits that a double keeps, so that a number that was parsed as one still has all of them.
_SAFE_DIGITS = 15
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
# More than what rounding to a double adds.
_ROUNDED = 1 + 1e-12
_WHOLE_NUMBER = rf"\A(?:{_NUMBER.pattern})\z"
_LONGEST = 400
_EXACT = Context(prec=500, rounding=ROUND_HALF_UP)


def convert_plain_decimals(texts: pl.Series, dtype: pl.Decimal) -> tuple[pl.Series, pl.Series]:
    """Convert texts of short numbers without exponents, and mark rows with another text.

    A number qualifies if it has at most 15 digits, and no more decimal places than its type.
    """
    places = rf"(\.[0-9]{{1,{dtype.scale}}})?" if dtype.scale else ""
    is_plain = texts.str.contains(rf"^-?[0-9]{{1,{_SAFE_DIGITS}}}{places}$")
    is_plain &= texts.str.count_matches("[0-9]") <= _SAFE_DIGITS
    decimals = texts.set(~is_plain, None).cast(dtype, strict=False)
    return decimals, decimals.is_null() & texts.is_not_null()


def find_no_decimals(texts: pl.Series, dtype: pl.Decimal) -> pl.Series:
    """Return which texts are no numbers, or too great ones, even if they were rounded before.

    Example:
        >>> find_no_decimals(pl.Series(["1.5", "1e4", "9999", "x"]), pl.Decimal(4, 2)).to_list()
        [False, True, True, True]
    """
    limit = 10.0 ** ((dtype.precision or 38) - dtype.scale) * _ROUNDED
    is_great = texts.cast(pl.Float64, strict=False).abs() > limit
    return ~texts.str.contains(_WHOLE_NUMBER) | is_great.fill_null(False)


def convert_decimals(texts: pl.Series, dtype: pl.Decimal) -> pl.Series:
    """Convert texts to decimals; a text that isn't a number, or doesn't fit, becomes null."""
    decimals, is_other = convert_plain_decimals(texts, dtype)
    rows = is_other.arg_true()
    if not len(rows):
        return decimals
    left = texts.gather(rows)
    left = left.set(find_no_decimals(left, dtype), None)
    others = [decimal_of(text, dtype) for text in left]
    return decimals.scatter(rows, pl.Series(others, dtype=dtype))


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
