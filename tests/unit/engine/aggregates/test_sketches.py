from __future__ import annotations

import random
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.unit.engine.queries import combiner, compute_value, lower_partials, messages

from muntin.model import aggregates
from muntin.model.aggregates import Aggregate


def aggregate_in_parts(
    agg: Aggregate, values: list[Any], parts: int, shuffled: bool = False
) -> Any:
    """Return the aggregate of numbers that arrive in several batches."""
    if shuffled:
        values = random.Random(parts).sample(values, len(values))
    rows = [("a", 1, v if isinstance(v, int) else None, float(v)) for v in values]
    size = -(-len(rows) // parts)
    return compute_value(agg, rows, tuple(range(size, len(rows), size)))


class TestDistinct:
    @pytest.mark.parametrize("count", [1, 2, 10])
    def test_few_values_are_counted_exactly(self, count: int) -> None:
        assert (
            aggregate_in_parts(aggregates.approx_distinct("value"), list(range(count)) * 3, 1)
            == count
        )

    @pytest.mark.parametrize("lg_k", [4, 8, 12, 14])
    @pytest.mark.parametrize("count", [10, 1000, 100_000])
    def test_many_are_counted_within_the_error(self, count: int, lg_k: int) -> None:
        agg = aggregates.approx_distinct("value", lg_k=lg_k)
        estimate = aggregate_in_parts(agg, list(range(count)), 1)
        assert abs(estimate - count) <= max(1, 3 * 1.04 / 2 ** (lg_k / 2) * count)

    def test_the_error_has_no_bias(self) -> None:
        agg = aggregates.approx_distinct("value", lg_k=10)
        starts = range(0, 20 * 10**6, 10**6)
        errors = [aggregate_in_parts(agg, list(range(s, s + 5000)), 1) / 5000 - 1 for s in starts]
        assert abs(float(np.mean(errors))) < 3 * 0.0325 / len(errors) ** 0.5
        assert 0.0325 / 2 < float(np.std(errors)) < 0.0325 * 2

    @pytest.mark.parametrize("parts", [2, 7, 50])
    def test_the_same_set_gives_the_same_count_in_any_order_and_split(self, parts: int) -> None:
        agg, values = aggregates.approx_distinct("value", lg_k=6), list(range(2000))
        assert aggregate_in_parts(
            agg, values + values[:500], parts, shuffled=True
        ) == aggregate_in_parts(agg, values, 1)

    def test_registers_take_no_more_than_their_number_for_each_rank(self) -> None:
        query = combiner(aggs={"x": aggregates.approx_distinct("value", lg_k=4)})
        cells = query.lift(messages([("a", 1, n) for n in range(10_000)]))
        assert cells["a0.h"].list.len().item() <= 16 * 41

    def test_nulls_are_no_value(self) -> None:
        rows = [("a", 1, 1), ("a", 1, None), ("a", 1, None)]
        assert compute_value(aggregates.approx_distinct("value"), rows, (2,)) == 1

    def test_golden_registers(self) -> None:
        # They are in checkpoints, so they can never change.
        query = combiner(aggs={"x": aggregates.approx_distinct("value", lg_k=12)})
        cells = query.lift(messages([("a", 1, n) for n in (0, 1, -1)]))
        assert cells["a0.h"].dtype == pl.List(pl.UInt32)
        assert sorted(cells["a0.h"].item().to_list()) == [96001, 96517, 171011]


class TestQuantile:
    @pytest.mark.parametrize("parts", [1, 2, 9])
    @pytest.mark.parametrize(
        ("q", "expected"), [(0.0, 1), (0.1, 10), (0.5, 50), (0.505, 51), (0.99, 99), (1.0, 100)]
    )
    def test_it_is_exact_up_to_k(self, q: float, expected: int, parts: int) -> None:
        agg = aggregates.quantile("amount", q, k=100)
        assert aggregate_in_parts(agg, list(range(1, 101)), parts, shuffled=True) == expected

    @pytest.mark.parametrize("parts", [1, 5, 40])
    @pytest.mark.parametrize("q", [0.0, 0.05, 0.5, 0.95, 1.0])
    def test_beyond_it_is_within_the_rank_error(self, q: float, parts: int) -> None:
        pytest.importorskip("datasketches")
        agg = aggregates.quantile("amount", q, k=200)
        estimate = aggregate_in_parts(agg, list(range(20_000)), parts, shuffled=True)
        assert abs(estimate / 20_000 - q) < 3 * 2.3 / 200

    def test_a_sketch_replaces_its_values(self) -> None:
        pytest.importorskip("datasketches")
        query = combiner(aggs={"x": aggregates.quantile("amount", 0.5, k=8)})
        cells = query.merge(
            [query.lift(messages([("a", 1, 0, float(n)) for n in range(9)]))], by=["k0"]
        )
        assert cells["a0.v"].list.len().item() == 0
        assert cells["a0.k"].list.len().item() == 1

    def test_one_row_beyond_k_leaves_the_others_exact(self) -> None:
        pytest.importorskip("datasketches")
        query = combiner(aggs={"x": aggregates.quantile("amount", 0.5, k=8)})
        rows = [("a", 1, 0, float(n)) for n in range(100)] + [("b", 1, 0, 7.0)]
        cells = query.lift(messages(rows)).sort("k0")
        medians = [row["x"] for row in lower_partials(cells, query)]
        assert abs(medians[0] - 50) < 40
        assert medians[1] == 7.0

    def test_nan_and_nulls_are_skipped(self) -> None:
        rows = [("a", 1, 0, value) for value in (1.0, float("nan"), None, 3.0)]
        assert compute_value(aggregates.quantile("amount", 1.0), rows) == 3.0
        nothing = [("a", 1, 0, float("nan"))]
        assert compute_value(aggregates.quantile("amount", 1.0), nothing) is None
