"""Whether a step gave what it must: firings in order, rejected messages in any order."""

from __future__ import annotations

import math
from typing import Any

Rows = list[dict[str, Any]]


def unordered_differences(kind: str, rows: Rows, expected: Rows) -> list[str]:
    """What differs, whatever the order."""
    in_order = sorted(rows, key=_in_any_order), sorted(expected, key=_in_any_order)
    return row_differences(kind, *in_order)


def row_differences(kind: str, rows: Rows, expected: Rows) -> list[str]:
    found = [
        f"{kind} {row}, expected {wanted}"
        for row, wanted in zip(rows, expected, strict=False)
        if not same_row(row, wanted)
    ]
    found += [f"{kind} {row} was not expected" for row in rows[len(expected) :]]
    return found + [f"{kind} {row} is missing" for row in expected[len(rows) :]]


def same_row(row: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return row.keys() == wanted.keys() and all(same(row[name], wanted[name]) for name in wanted)


def same(value: Any, wanted: Any) -> bool:
    """Equal; floats nearly so, NaN to itself, and a truth is no number; nested ones by cells."""
    if isinstance(value, dict) and isinstance(wanted, dict):
        return list(value) == list(wanted) and all(map(same, value.values(), wanted.values()))
    if isinstance(value, list) and isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(same, value, wanted))
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if not isinstance(value, float) and not isinstance(wanted, float):
        return value == wanted
    if not all(isinstance(one, int | float) for one in (value, wanted)):
        return False
    if math.isnan(value) or math.isnan(wanted):
        return math.isnan(value) and math.isnan(wanted)
    return math.isclose(value, wanted, rel_tol=1e-9, abs_tol=1e-12)


def _in_any_order(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))
