from __future__ import annotations

import math
from typing import Any

import pytest

from muntin.model import aggregates
from muntin.model.aggregates import Aggregate
from muntin.testing.oracle.values import exceeds_type, value
from muntin.testing.oracle.window import Placed

NAN = math.nan


def compute_value(agg: Aggregate, *rows: tuple[int, Any]) -> Any:
    """Return the aggregate of messages at these positions with these values."""
    messages = [Placed((), at, {"v": v, "label": f"{at}{v}"}) for at, v in rows]
    return value(agg, messages)


def number_values(*values: Any) -> list[tuple[int, Any]]:
    return list(enumerate(values))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3], 3.0),
        ([3, 1], 2.0),
        ([5, 1, 2], 2.0),
        ([5, None, 1, NAN, 2, 3], 2.5),
        ([None, NAN], None),
        ([], None),
        ([2**63 - 1, 2**63 - 1], 2.0**63),
    ],
)
def test_median(values: list[Any], expected: float | None) -> None:
    median = compute_value(aggregates.median("v"), *number_values(*values))
    assert median == expected
    assert median is None or isinstance(median, float)


@pytest.mark.parametrize(
    ("q", "expected"), [(0, 1), (0.25, 1), (0.26, 2), (0.5, 2), (0.99, 4), (1, 4)]
)
def test_exact_quantile(q: float, expected: int) -> None:
    assert (
        compute_value(aggregates.exact_quantile("v", q), *number_values(4, None, 1, 3, NAN, 2))
        == expected
    )


def test_exact_quantile_of_nothing() -> None:
    assert compute_value(aggregates.exact_quantile("v", 0.5), (0, None), (1, NAN)) is None


def test_the_most_frequent() -> None:
    assert compute_value(aggregates.mode("v"), *number_values(2, 1, None, None, None, 2)) == 2
    assert compute_value(aggregates.mode("v"), *number_values("b", "a", "b", "a")) == "a"
    assert math.isnan(compute_value(aggregates.mode("v"), *number_values(NAN, 1.0, NAN)))
    assert compute_value(aggregates.mode("v"), (0, None)) is None


def test_over_distinct_values() -> None:
    rows = number_values(2, 1, None, 2, 2)
    assert compute_value(aggregates.count_distinct("v"), *rows) == 2
    assert compute_value(aggregates.sum_distinct("v"), *rows) == 3
    aggs = (aggregates.count_distinct("v"), aggregates.sum_distinct("v"))
    assert [compute_value(agg, (0, None)) for agg in aggs] == [0, None]


def test_top_k() -> None:
    assert compute_value(aggregates.top_k("v", 2), *number_values(1, NAN, 9, None, 9, 3)) == [9, 9]
    assert compute_value(aggregates.top_k("v", 5), *number_values("b", "c", "a")) == ["c", "b", "a"]
    assert compute_value(aggregates.top_k("v", 5), (0, None)) == []
    assert compute_value(
        aggregates.top_k("v", 2, ascending=True), *number_values(1, NAN, 9, None, 9, 3)
    ) == [1, 3]


def test_top_k_by_fields() -> None:
    rows = [{"a": a, "b": b} for a, b in [(1, "x"), (None, "y"), (2, None), (2, "z"), (2, "a")]]
    descending = compute_value(aggregates.top_k("v", 9, ascending=[False]), *number_values(*rows))
    assert [row["b"] for row in descending] == [None, "a", "z", "x", "y"]
    mixed = compute_value(aggregates.top_k("v", 4, ascending=[True, False]), *number_values(*rows))
    assert [row["b"] for row in mixed] == ["y", "x", "z", "a"]


def test_collect_list_by_time_and_then_value() -> None:
    rows = [(5, 3), (1, 9), (5, 1), (2, None), (1, 9)]
    assert compute_value(aggregates.collect_list("v"), *rows) == [9, 9, 1, 3]
    assert compute_value(aggregates.collect_list("v"), (0, None)) == []
    assert repr(compute_value(aggregates.collect_list("v"), (0, NAN), (0, 1.0))) == "[1.0, nan]"


def test_distinct() -> None:
    assert compute_value(aggregates.distinct("v"), *number_values(3, 1, None, 3)) == [1, 3]
    assert (
        repr(compute_value(aggregates.distinct("v"), *number_values(NAN, 2.0, -NAN, 1.0)))
        == "[1.0, 2.0, nan]"
    )
    assert compute_value(aggregates.distinct("v"), (0, None)) == []


def test_apply_sees_its_columns_by_time_and_then_row() -> None:
    rows = [(5, "b"), (5, None), (1, "z"), (5, "a")]
    value_rows = aggregates.apply(list, "v", result_type="string")
    assert compute_value(value_rows, *rows) == [{"v": "z"}, {"v": "a"}, {"v": "b"}, {"v": None}]
    column_names = aggregates.apply(lambda rows: list(rows[0]), "label", "v")
    assert compute_value(column_names, *rows) == ["label", "v"]
    values = aggregates.apply(lambda rows: [row["v"] for row in rows], "label", "v")
    assert compute_value(values, *rows) == ["z", None, "a", "b"]  # "5None" is less than "5a"


def test_first_and_last_go_by_position() -> None:
    rows = [(5, 1), (2, 7), (5, 4), (2, None)]
    assert (
        compute_value(aggregates.first("v"), *rows),
        compute_value(aggregates.last("v"), *rows),
    ) == (7, 4)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_overflows(number: int) -> None:
    assert exceeds_type(number)
    assert not exceeds_type(float(number))
    assert not exceeds_type(2**63 - 1)
    assert not exceeds_type(None)
