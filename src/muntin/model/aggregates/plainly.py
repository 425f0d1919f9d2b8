"""Spark's order of values, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any


def rank(value: Any) -> tuple[bool, Any]:
    """Return a sort key in Spark's order: NaN equals itself and is greater than every number.

    Arrays are compared by their first different element, structs by their first different field; a
    null inside is less than every value.
    """
    if isinstance(value, list):
        return (False, tuple(_rank_inside(one) for one in value))
    if isinstance(value, dict):
        return (False, tuple((rank(name), _rank_inside(one)) for name, one in value.items()))
    return (True, 0) if is_nan(value) else (False, value)


def _rank_inside(value: Any) -> tuple[bool, Any]:
    return (False, 0) if value is None else (True, rank(value))


def rank_of_any(value: Any) -> tuple[bool, Any]:
    """Return a sort key for values and nulls, with nulls last."""
    return (True, 0) if value is None else (False, rank(value))


def is_nan(value: Any) -> bool:
    """Return whether a value is NaN."""
    return isinstance(value, float) and math.isnan(value)


def sort_numbers(values: Iterable[Any]) -> list[Any]:
    """Return the values without NaN, in ascending order."""
    return sorted((value for value in values if not is_nan(value)), key=rank)


def sort_distinct(values: Iterable[Any]) -> list[Any]:
    """Return the distinct values in ascending order; NaN is one value."""
    return [value for _, value in sorted({rank(value): value for value in values}.items())]
