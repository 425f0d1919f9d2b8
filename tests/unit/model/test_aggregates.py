from __future__ import annotations

import operator

import pytest

from muntin.model import aggregates
from muntin.model.aggregates import Aggregate
from muntin.model.errors import OptionError
from muntin.model.shapes import Shape


@pytest.mark.parametrize(
    ("agg", "expected"),
    [
        (aggregates.count(), "count()"),
        (aggregates.count("a"), "count(a)"),
        (aggregates.count_if("a"), "count_if(a)"),
        (aggregates.sum("a"), "sum(a)"),
        (aggregates.min("a"), "min(a)"),
        (aggregates.max("a"), "max(a)"),
        (aggregates.mean("a"), "mean(a)"),
        (aggregates.variance("a"), "variance(a)"),
        (aggregates.stddev("a"), "stddev(a)"),
        (aggregates.first("a"), "first(a)"),
        (aggregates.last("a"), "last(a)"),
        (aggregates.arg_min("a", "b"), "arg_min(a, b)"),
        (aggregates.arg_max("a", by="b"), "arg_max(a, b)"),
        (aggregates.bool_and("a"), "bool_and(a)"),
        (aggregates.bool_or("a"), "bool_or(a)"),
        (aggregates.approx_distinct("a"), "approx_distinct(a, lg_k=12)"),
        (aggregates.quantile("a", 0.5), "quantile(a, q=0.5, k=200)"),
        (aggregates.top_k("a", 3), "top_k(a, k=3)"),
        (aggregates.median("a"), "median(a)"),
        (aggregates.exact_quantile("a", 1), "exact_quantile(a, q=1.0)"),
        (aggregates.collect_list("a"), "collect_list(a)"),
        (aggregates.distinct("a"), "distinct(a)"),
        (aggregates.mode("a"), "mode(a)"),
        (aggregates.count_distinct("a"), "count_distinct(a)"),
        (aggregates.sum_distinct("a"), "sum_distinct(a)"),
        (aggregates.apply(len, "a", "b"), "apply(a, b, result_type=double)"),
    ],
)
def test_aggregates_as_text(agg: Aggregate, expected: str) -> None:
    assert str(agg) == expected


def test_columns_and_options() -> None:
    assert aggregates.count().columns == ()
    assert aggregates.arg_min("a", "b").columns == ("a", "b")
    assert aggregates.quantile("a", 1).option("q") == 1.0


@pytest.mark.parametrize("q", [-0.1, 1.1, float("nan")])
def test_a_quantile_out_of_range_is_refused(q: float) -> None:
    with pytest.raises(OptionError, match="isn't a rank"):
        aggregates.quantile("a", q)


@pytest.mark.parametrize("k", [7, 65536])
def test_sketch_sizes_out_of_range_are_refused(k: int) -> None:
    with pytest.raises(OptionError, match="out of range"):
        aggregates.quantile("a", 0.5, k=k)


@pytest.mark.parametrize("lg_k", [3, 22])
def test_counter_sizes_out_of_range_are_refused(lg_k: int) -> None:
    with pytest.raises(OptionError, match="out of range"):
        aggregates.approx_distinct("a", lg_k=lg_k)


def test_aggregates_that_need_every_message() -> None:
    full_state_aggregates = [
        aggregates.median("a"),
        aggregates.exact_quantile("a", 0.5),
        aggregates.distinct("a"),
    ]
    full_state_aggregates += [
        aggregates.collect_list("a"),
        aggregates.apply(len, "a"),
        aggregates.mode("a"),
    ]
    full_state_aggregates += [aggregates.count_distinct("a"), aggregates.sum_distinct("a")]
    assert all(agg.entry.full_state for agg in full_state_aggregates)
    assert not any(agg.entry.full_state for agg in (aggregates.count(), aggregates.top_k("a", 3)))


@pytest.mark.parametrize("k", [0, 10_001])
def test_list_lengths_out_of_range_are_refused(k: int) -> None:
    with pytest.raises(OptionError, match="out of range"):
        aggregates.top_k("a", k)


@pytest.mark.parametrize("q", [-0.1, 1.1, float("nan")])
def test_an_exact_quantile_out_of_range_is_refused(q: float) -> None:
    with pytest.raises(OptionError, match="isn't a rank"):
        aggregates.exact_quantile("a", q)


def test_a_function_over_rows_names_its_columns_and_its_type() -> None:
    with pytest.raises(OptionError, match="names no column"):
        aggregates.apply(len)
    with pytest.raises(OptionError, match="result_type='decimal' isn't a type"):
        aggregates.apply(len, "a", result_type="decimal")
    assert aggregates.apply(len, "a", "b").columns == ("a", "b")


def make_product(**options: str) -> Aggregate:
    return aggregates.aggregate(
        "a",
        initializer=lambda: 1.0,
        aggregator=operator.mul,
        merger=operator.mul,
        **options,
    )


def test_a_users_aggregate() -> None:
    functions = make_product(state_type="long").functions
    assert functions is not None
    assert functions.finisher(functions.aggregator(functions.initializer(), 3)) == 3.0
    assert (functions.state_type, functions.result_type) == ("long", "long")


def test_users_aggregates_are_equal_by_column_and_types() -> None:
    assert make_product() == make_product()
    assert make_product() != make_product(result_type="string")


@pytest.mark.parametrize("option", ["state_type", "result_type"])
def test_users_aggregates_of_unknown_types_are_refused(option: str) -> None:
    with pytest.raises(OptionError, match=option):
        make_product(**{option: "decimal"})


def test_the_order_of_top_k():
    assert str(aggregates.top_k("v", 2, ascending=True)) == "top_k(v, k=2, ascending=True)"
    mixed = aggregates.top_k("v", 2, ascending=[True, False])
    assert str(mixed) == "top_k(v, k=2, fields=asc desc)"
    with pytest.raises(OptionError, match="orders by nothing"):
        aggregates.top_k("v", 2, ascending=[])
    with pytest.raises(OptionError, match="orders the fields of a column of type long"):
        aggregates.top_k("v", 2, ascending=[True]).check({"v": Shape("long", "integer")})
