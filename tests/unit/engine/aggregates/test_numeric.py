from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from tests.transcripts.comparison import same
from tests.unit.engine.queries import combiner, compute_value, lower_partials, messages

import muntin as mt
from muntin.model import aggregates
from muntin.model.aggregates import Aggregate
from muntin.model.errors import OptionError
from muntin.testing.oracle import Oracle

LEAST, GREATEST = -(2**63), 2**63 - 1
NAN, INF = math.nan, math.inf

ROWS = [
    ("a", 5, 3, 0.5, True),
    ("a", 1, -2, None, False),
    ("a", 7, None, 2.5, None),
    ("a", 7, 9, -1.0, True),
    ("a", 2, 3, 2.5, True),
    ("a", 9, None, None, None),
]
EXPECTED = [
    (aggregates.count(), 6),
    (aggregates.count("value"), 4),
    (aggregates.count_if("flag"), 3),
    (aggregates.sum("value"), 13),
    (aggregates.sum("amount"), 4.5),
    (aggregates.min("value"), -2),
    (aggregates.max("value"), 9),
    (aggregates.min("amount"), -1.0),
    (aggregates.max("amount"), 2.5),
    (aggregates.max("flag"), True),
    (aggregates.mean("value"), 3.25),
    (aggregates.variance("value"), 20.25),
    (aggregates.stddev("value"), 4.5),
    (aggregates.first("value"), -2),
    (aggregates.last("amount"), None),
    (aggregates.arg_min("amount", "value"), None),
    (aggregates.arg_max("amount", "value"), -1.0),
    (aggregates.arg_max("value", "amount"), 3),
    (aggregates.bool_and("flag"), False),
    (aggregates.bool_or("flag"), True),
    (aggregates.approx_distinct("value"), 3),
    (aggregates.quantile("value", 0.5), 3.0),
]


@pytest.mark.parametrize(("agg", "expected"), EXPECTED, ids=lambda value: str(value))
def test_values_are_the_same_for_all_cuts_of_the_input(agg: Aggregate, expected: Any) -> None:
    oracle = Oracle(combiner(aggs={"x": agg}).spec)
    names = ("key", "time", "value", "amount", "flag")
    step = oracle.step([dict(zip(names, row, strict=True)) for row in ROWS], 0, final=True)
    assert same(step.firings[0]["x"], expected)
    for cuts in [(), (3,), (0, 1, 5), (1, 2, 3, 4, 5)]:
        assert same(compute_value(agg, ROWS, cuts), expected), cuts


@pytest.mark.parametrize(("agg", "_"), EXPECTED, ids=lambda value: str(value))
@pytest.mark.parametrize("cuts", [(), (1,)])
def test_only_nulls_give_null_or_a_count_of_zero(
    agg: Aggregate, _: Any, cuts: tuple[int, ...]
) -> None:
    value = compute_value(agg, [("a", 1), ("a", 2)], cuts)
    if agg.kind == "count" and agg.column is None:
        assert value == 2
    elif agg.kind in ("count", "count_if", "approx_distinct"):
        assert value == 0
    else:
        assert value is None


@pytest.mark.parametrize(("agg", "_"), EXPECTED, ids=lambda value: str(value))
def test_a_missing_partial_is_an_empty_one(agg: Aggregate, _: Any) -> None:
    # In delta mode, a window may be emitted without any new message.
    query = combiner(aggs={"x": agg})
    blank = pl.DataFrame({"k0": ["a"]}).join(query.no_cells, on="k0", how="left")
    value = lower_partials(blank, query)[0]["x"]
    assert value == (0 if agg.kind in ("count", "count_if", "approx_distinct") else None)


def test_a_mean_of_whole_numbers_is_their_sum_divided_once() -> None:
    # The count times the mean of the first 49 isn't their sum.
    values = [40978071] * 44 + [40978070] * 5 + [96_843_463]
    rows = [("a", 1, value) for value in values]
    for cuts in [(), (49,), (1, 2), tuple(range(1, 50))]:
        assert compute_value(aggregates.mean("value"), rows, cuts) == sum(values) / 50


def test_a_sliding_mean_of_whole_numbers_is_their_sum_divided_once() -> None:
    values = [(7919 * i * i) % 100_003 for i in range(200)]
    rows = pl.DataFrame({"k": "a", "at": range(200), "v": values})
    windows = mt.windowed(rows.with_columns(pl.from_epoch("at")), key="k", time="at")
    emitted = windows.hopping("50 s", "1 s").agg(mean=mt.mean("v")).results
    starts = emitted["window_start"].dt.epoch("s")
    parts = [values[max(0, start) : start + 50] for start in starts]
    assert emitted["mean"].to_list() == [sum(part) / len(part) for part in parts]


class TestIntegerSums:
    @pytest.mark.parametrize("cuts", [(), (1,), (1, 2)])
    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ([GREATEST, 0, 0], GREATEST),
            ([GREATEST, 1, 0], None),
            ([GREATEST, 1, -1], GREATEST),
            ([LEAST, 0, 0], LEAST),
            ([LEAST, -1, 0], None),
            ([GREATEST, LEAST, 1], 0),
            ([GREATEST, GREATEST, GREATEST], None),
            ([GREATEST, GREATEST, 2], None),
            ([2**53, 1, 0], 2**53 + 1),
        ],
    )
    def test_at_the_limits(
        self, values: list[int], expected: int | None, cuts: tuple[int, ...]
    ) -> None:
        rows = [("a", 1, value) for value in values]
        assert compute_value(aggregates.sum("value"), rows, cuts) == expected

    def test_a_sum_of_zero_modulo_64_bits_is_an_overflow(self) -> None:
        # Four times 2^62 is 2^64, which is 0 modulo 2^64.
        rows = [("a", 1, 2**62)] * 4
        assert compute_value(aggregates.sum("value"), rows) is None
        assert compute_value(aggregates.sum("value"), rows, (1, 2, 3)) is None

    @pytest.mark.parametrize("dtype", [pl.Int8(), pl.Int16(), pl.Int32(), pl.UInt8(), pl.UInt32()])
    def test_narrow_integers_add_wide(self, dtype: pl.DataType) -> None:
        query = combiner(schema={"value": dtype})
        frame = messages([("a", 1, 127)] * 1000, {"value": dtype})
        assert lower_partials(query.lift(frame), query)[0]["sum"] == 127_000


class TestFloats:
    @pytest.mark.parametrize("cuts", [(), (1,)])
    @pytest.mark.parametrize(
        ("values", "least", "greatest", "total"),
        [
            ([1.0, NAN], 1.0, NAN, NAN),
            ([NAN, NAN], NAN, NAN, NAN),
            ([NAN, None], NAN, NAN, NAN),
            ([INF, 1.0], 1.0, INF, INF),
            ([INF, -INF], -INF, INF, NAN),
            ([-0.0, 0.0], 0.0, 0.0, 0.0),
        ],
    )
    def test_nan_and_infinity(
        self, values: list[Any], least: float, greatest: float, total: float, cuts: tuple[int, ...]
    ) -> None:
        rows = [("a", 1, 0, value) for value in values]
        assert same(compute_value(aggregates.min("amount"), rows, cuts), least)
        assert same(compute_value(aggregates.max("amount"), rows, cuts), greatest)
        assert same(compute_value(aggregates.sum("amount"), rows, cuts), total)

    @pytest.mark.parametrize("cuts", [(), (1,), (2,)])
    def test_the_variance_of_close_values_far_from_nothing(self, cuts: tuple[int, ...]) -> None:
        # A sum of squares would have lost all digits here.
        rows = [("a", 1, 0, 1e9 + value) for value in (4, 7, 13, 16)]
        assert compute_value(aggregates.variance("amount"), rows, cuts) == pytest.approx(30.0)

    def test_one_value_has_a_mean_but_no_variance(self) -> None:
        rows = [("a", 1, 0, 2.5)]
        assert compute_value(aggregates.mean("amount"), rows) == 2.5
        assert compute_value(aggregates.variance("amount"), rows) is None
        assert compute_value(aggregates.stddev("amount"), rows) is None

    def test_equal_values_do_not_vary(self) -> None:
        rows = [("a", 1, 0, 0.1)] * 3
        assert compute_value(aggregates.variance("amount"), rows, (1, 2)) == pytest.approx(
            0, abs=1e-30
        )


class TestChosen:
    @pytest.mark.parametrize("cuts", [(), (1,), (1, 2)])
    def test_ties_go_to_the_least_or_greatest_value(self, cuts: tuple[int, ...]) -> None:
        rows = [("a", 3, 5), ("a", 3, None), ("a", 3, 2)]
        assert compute_value(aggregates.first("value"), rows, cuts) == 2
        assert compute_value(aggregates.last("value"), rows, cuts) == 5

    @pytest.mark.parametrize("cuts", [(), (1,)])
    def test_a_null_is_chosen_where_it_is_the_only_value(self, cuts: tuple[int, ...]) -> None:
        rows = [("a", 3, 5), ("a", 4, None)]
        assert compute_value(aggregates.last("value"), rows, cuts) is None
        assert compute_value(aggregates.first("value"), rows, cuts) == 5

    @pytest.mark.parametrize("cuts", [(), (1,)])
    def test_a_row_with_a_null_to_order_by_is_not_chosen(self, cuts: tuple[int, ...]) -> None:
        rows = [("a", 1, 5, None), ("a", 2, 3, 0.5)]
        assert compute_value(aggregates.arg_max("value", "amount"), rows, cuts) == 3

    def test_strings_are_chosen_too(self) -> None:
        rows = [("a", 1, 2), ("é", 2, 2), ("b", 3, 1)]
        query = combiner(aggs={"x": aggregates.arg_max("key", "value")})
        merged = query.merge([query.lift(messages(rows))], by=["pane"])
        assert lower_partials(merged, query) == [{"x": "é"}]


@pytest.mark.parametrize(
    ("agg", "dtype", "problem"),
    [
        (aggregates.sum("value"), pl.String(), r"agg='sum\(value\)' reads a column of type String"),
        (aggregates.mean("value"), pl.Boolean(), "cast it to a long or a double"),
        (aggregates.stddev("value"), pl.Date(), "cast it"),
        (aggregates.quantile("value", 0.5), pl.Duration("us"), "cast it"),
        (aggregates.count_if("value"), pl.Int64(), "give a condition"),
        (aggregates.bool_and("value"), pl.String(), "give a condition"),
    ],
)
def test_columns_that_an_aggregate_cannot_take(
    agg: Aggregate, dtype: pl.DataType, problem: str
) -> None:
    with pytest.raises(OptionError, match=problem):
        combiner(aggs={"x": agg}, schema={"value": dtype})


@pytest.mark.parametrize("dtype", [pl.String(), pl.Date(), pl.Decimal(9, 2), pl.Binary()], ids=str)
@pytest.mark.parametrize("agg", [aggregates.min("value"), aggregates.last("value")], ids=str)
def test_partials_of_every_type_that_has_an_order(agg: Aggregate, dtype: pl.DataType) -> None:
    query = combiner(aggs={"x": agg}, schema={"value": dtype})
    assert lower_partials(query.no_cells, query) == []
    assert query.no_cells["a0.v"].dtype == dtype
