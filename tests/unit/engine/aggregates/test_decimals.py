"""Tests of sums and means of decimals against Python's own decimals."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.queries import combiner, lower_partials, messages

from muntin.engine.aggregates import wide
from muntin.engine.results import reject_overflows
from muntin.model import aggregates

TYPES = [(5, 5), (10, 2), (18, 0), (19, 3), (28, 28), (38, 0), (38, 18), (38, 34), (38, 38)]


def null_if_too_large(value: Decimal, precision: int, scale: int) -> Decimal | None:
    return value if abs(value.scaleb(scale)) < 10**precision else None


def aggregate_as_spark(values: list[Decimal], precision: int, scale: int) -> dict[str, Any]:
    """Return the sum and the mean as Spark does: it divides to 39 decimals and rounds twice."""
    if not values:
        return {"sum": None, "mean": None}
    total = sum(values)
    digits = min(38, precision + 4)
    places = min(scale + 4, digits - min(precision - scale, 16))
    mean = total / len(values)
    for rounded in (39, places):
        mean = mean.quantize(Decimal(1).scaleb(-rounded))
    return {
        "sum": null_if_too_large(total, min(38, precision + 10), scale),
        "mean": null_if_too_large(mean, digits, places),
    }


@given(data=st.data())
def test_any_values_in_any_parts(data: st.DataObject) -> None:
    precision, scale = data.draw(st.sampled_from(TYPES))
    greatest = 10**precision - 1
    unscaled = st.integers(-greatest, greatest) | st.sampled_from([0, 1, -1, greatest, -greatest])
    unscaled_values = data.draw(st.lists(st.none() | unscaled, min_size=1, max_size=9))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(unscaled_values)), max_size=3)))
    with localcontext(prec=200, rounding=ROUND_HALF_UP):
        values = [None if v is None else Decimal(v).scaleb(-scale) for v in unscaled_values]
        non_nulls = [v for v in values if v is not None]
        expected = aggregate_as_spark(non_nulls, precision, scale)
    types = {"value": pl.Decimal(precision, scale)}
    aggs = {"sum": aggregates.sum("value"), "mean": aggregates.mean("value")}
    query = combiner(aggs=aggs, schema=types)
    frame = messages([("a", 1, value) for value in values], types)
    parts = [query.lift(frame[a:b]) for a, b in pairwise([0, *cuts, len(frame)])]
    assert lower_partials(query.merge(parts, by=query.keys), query) == [expected]


@pytest.mark.parametrize(
    ("value_type", "mean_type"),
    [
        ((10, 2), (14, 6)),
        ((38, 36), (38, 36)),
        ((38, 37), (38, 37)),
        ((38, 18), (38, 22)),
        ((38, 2), (38, 6)),
    ],
)
def test_a_mean_has_a_smaller_scale_where_digits_run_out(
    value_type: tuple[int, int], mean_type: tuple[int, int]
) -> None:
    types = {"value": pl.Decimal(*value_type)}
    query = combiner(aggs={"x": aggregates.mean("value")}, schema=types)
    cells = query.lift(messages([("a", 1, Decimal("9.5"))] * 3, types))
    assert lower_partials(cells, query) == [{"x": Decimal("9.5")}]
    assert query.algebras[0].lower(cells).dtype == pl.Decimal(*mean_type)


def test_a_sum_that_exceeds_its_type_in_between_is_no_overflow() -> None:
    types = {"value": pl.Decimal(38, 0)}
    query = combiner(aggs={"x": aggregates.sum("value")}, schema=types)
    greatest = Decimal(10**38 - 1)
    frame = messages(
        [("a", 1, greatest)] * 3
        + [("a", 1, greatest.copy_negate())] * 2
        + [("b", 1, greatest)] * 2,
        types,
    )
    cells = query.lift(frame).sort("k0")
    assert lower_partials(cells, query) == [{"x": greatest}, {"x": None}]
    emitted = cells.rename({"pane": "window"})
    assert reject_overflows(emitted, query)["key"].to_list() == ["b"]


def test_decimals_are_split_into_limbs_and_put_together() -> None:
    values = [0, 1, -1, 2**32, -(2**32), 2**96, -(2**96), 10**38 - 1, 1 - 10**38]
    decimals = pl.Series(list(map(Decimal, values)), dtype=pl.Decimal(38, 0))
    limbs = wide.to_limbs(decimals, wide.count_limbs(38))
    assert [sum(int(x[i]) << 32 * n for n, x in enumerate(limbs)) for i in range(9)] == values
    assert wide.to_decimals(limbs, pl.Decimal(38, 0)).to_list() == decimals.to_list()
    products = wide.to_decimals(
        [x * 1000 for x in wide.to_limbs(decimals[:5], 4)], pl.Decimal(38, 0)
    )
    assert products[4] == Decimal(-(2**32) * 1000)
    tail = wide.to_limbs(decimals.slice(3, 2), 4)
    assert [sum(int(x[i]) << 32 * n for n, x in enumerate(tail)) for i in (0, 1)] == values[3:5]


def test_long_division() -> None:
    numbers = [10**38 - 1, 7, 0, 2**120]
    divisors = np.array([2**47 - 1, 10, 3, 1], dtype=np.int64)
    limbs = [
        np.array([n >> 32 * i & 0xFFFFFFFF for n in numbers], dtype=np.int64) for i in range(6)
    ]
    quotient, remainder = wide.divide_limbs(limbs, divisors)
    quotients = [sum(int(x[i]) << 32 * n for n, x in enumerate(quotient)) for i in range(4)]
    assert quotients == [n // int(d) for n, d in zip(numbers, divisors, strict=True)]
    assert remainder.tolist() == [n % int(d) for n, d in zip(numbers, divisors, strict=True)]
    for power in range(39):
        assert wide.reaches(limbs, power).tolist() == [n >= 10**power for n in numbers]
