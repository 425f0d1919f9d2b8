"""Compares the output of a step with the expected one: rows in order, or in any order."""

from __future__ import annotations

import math
from typing import Any

Rows = list[dict[str, Any]]


def unordered_differences(kind: str, rows: Rows, expected: Rows) -> list[str]:
    """Return the differences between rows in any order."""
    sorted_rows = sorted(rows, key=_make_sort_key), sorted(expected, key=_make_sort_key)
    return row_differences(kind, *sorted_rows)


def row_differences(kind: str, rows: Rows, expected: Rows) -> list[str]:
    texts = [
        f"{kind} {row}, expected {expected_row}"
        for row, expected_row in zip(rows, expected, strict=False)
        if not same_row(row, expected_row)
    ]
    texts += [f"{kind} {row} was not expected" for row in rows[len(expected) :]]
    return texts + [f"{kind} {row} is missing" for row in expected[len(rows) :]]


def same_row(row: dict[str, Any], expected: dict[str, Any]) -> bool:
    return row.keys() == expected.keys() and all(
        same(row[name], expected[name]) for name in expected
    )


def same(value: Any, expected: Any) -> bool:
    """Return whether values are equal: floats approximately, NaN to itself, True not to 1."""
    if isinstance(value, dict) and isinstance(expected, dict):
        return list(value) == list(expected) and all(map(same, value.values(), expected.values()))
    if isinstance(value, list) and isinstance(expected, list):
        return len(value) == len(expected) and all(map(same, value, expected))
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    if not isinstance(value, float) and not isinstance(expected, float):
        return value == expected
    if not all(isinstance(v, int | float) for v in (value, expected)):
        return False
    if math.isnan(value) or math.isnan(expected):
        return math.isnan(value) and math.isnan(expected)
    return math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-12)


def _make_sort_key(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))
