"""Values in plain Python, in the order that Spark has of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any


def rank(value: Any) -> tuple[bool, Any]:
    """Orders values as Spark does: NaN equals itself and is greater than every number.

    Of arrays the first element that differs decides, of structs the first field; a null among
    them is less than every value.
    """
    if isinstance(value, list):
        return (False, tuple(_rank_inside(one) for one in value))
    if isinstance(value, dict):
        return (False, tuple((rank(name), _rank_inside(one)) for name, one in value.items()))
    return (True, 0) if is_nan(value) else (False, value)


def _rank_inside(value: Any) -> tuple[bool, Any]:
    return (False, 0) if value is None else (True, rank(value))


def rank_of_any(value: Any) -> tuple[bool, Any]:
    """Orders values and nulls, the nulls last."""
    return (True, 0) if value is None else (False, rank(value))


def is_nan(value: Any) -> bool:
    """Whether a value is no number that has an order."""
    return isinstance(value, float) and math.isnan(value)


def numbers(values: Iterable[Any]) -> list[Any]:
    """In ascending order, without NaN."""
    return sorted((value for value in values if not is_nan(value)), key=rank)


def once(values: Iterable[Any]) -> list[Any]:
    """One of each in ascending order; NaN is one value."""
    return [value for _, value in sorted({rank(value): value for value in values}.items())]
