from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.transcripts.comparison import same
from tests.unit.engine.queries import combiner, compute_value, lower_partials, messages

from muntin.engine import columns
from muntin.model import aggregates
from muntin.model.aggregates import Aggregate
from muntin.model.errors import OptionError
from muntin.testing.oracle.values import value
from muntin.testing.oracle.window import Placed

NAN = math.nan
Rows = list[tuple[Any, ...]]
"""Key, time, value, amount and flag of each message."""


def make_rows(*values: Any) -> Rows:
    """Return messages of one key, one microsecond apart, with these amounts."""
    return [("a", time, None, amount) for time, amount in enumerate(values)]


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ([3.0], 3.0),
        ([5.0, 1.0, 2.0], 2.0),
        ([4.0, 1.0, 2.0, 9.0], 3.0),
        ([None, 4.0, NAN, 2.0, None], 3.0),
        ([None, NAN], None),
        ([2.0, 2.0, 2.0, 8.0], 2.0),
        ([math.inf, 1.0, -math.inf], 1.0),
        ([-math.inf, 1.0], -math.inf),
        ([1.0, math.inf], math.inf),
        ([-math.inf, -math.inf], -math.inf),
        ([3.0, -math.inf, math.inf, 1.0], 2.0),
    ],
)
def test_medians(amounts: list[float | None], expected: float | None) -> None:
    assert compute_value(aggregates.median("amount"), make_rows(*amounts)) == expected


def test_infinities_are_restored_only_where_the_median_lost_them() -> None:
    query = combiner(aggs={"x": aggregates.median("amount")})
    rows = [("a", 0, None, -math.inf), ("a", 0, None, 0.0), ("b", 0, None, None), ("c", 0, None, 7)]
    emitted = query.lift(messages(rows)).sort("k0")
    assert lower_partials(emitted, query) == [{"x": -math.inf}, {"x": None}, {"x": 7.0}]


def test_the_median_of_whole_numbers_is_a_double() -> None:
    median = compute_value(aggregates.median("value"), [("a", 0, 1), ("a", 1, 2)])
    assert (median, type(median)) == (1.5, float)


@pytest.mark.parametrize(
    ("q", "expected"), [(0, 1), (0.2, 1), (0.21, 2), (0.4, 2), (0.5, 3), (0.99, 5), (1, 5)]
)
def test_exact_quantiles(q: float, expected: int) -> None:
    rows = [("a", 0, n) for n in (4, 1, 5, 3, 2)]
    assert compute_value(aggregates.exact_quantile("value", q), rows) == expected


@pytest.mark.parametrize("q", [0, 0.5, 1])
def test_the_exact_quantile_of_nothing(q: float) -> None:
    assert compute_value(aggregates.exact_quantile("amount", q), make_rows(None, NAN)) is None


@pytest.mark.parametrize(
    ("k", "amounts", "expected"),
    [
        (2, [1.0, 3.0, 2.0], [3.0, 2.0]),
        (9, [1.0, 3.0, 2.0], [3.0, 2.0, 1.0]),
        (2, [3.0, 3.0, 3.0, 1.0], [3.0, 3.0]),
        (3, [None, 1.0, NAN], [1.0]),
        (1, [None, NAN], []),
    ],
)
def test_the_greatest_few(k: int, amounts: list[float | None], expected: list[float]) -> None:
    assert compute_value(aggregates.top_k("amount", k), make_rows(*amounts)) == expected


def test_a_partial_has_at_most_k_values() -> None:
    query = combiner(aggs={"top": aggregates.top_k("value", 3)})
    parts = [query.lift(messages([("a", 0, n + part) for n in range(50)])) for part in range(9)]
    assert {len(part["a0.v"][0]) for part in parts} == {3}
    assert query.merge(parts)["a0.v"].to_list() == [[57, 56, 56]]


def test_distinct_keeps_one_of_each() -> None:
    agg = aggregates.distinct("amount")
    values = compute_value(agg, make_rows(NAN, 2.0, None, 2.0, -1.0, NAN, math.inf), cuts=(2, 4))
    assert values[:3] == [-1.0, 2.0, math.inf]
    assert len(values) == 4
    assert math.isnan(values[3])
    assert compute_value(agg, make_rows(None, None)) == []
    query = combiner(aggs={"set": agg})
    parts = [query.lift(messages(make_rows(1.0, 1.0, 2.0))) for _ in range(9)]
    assert [len(part["a0.v"][0]) for part in [*parts, query.merge(parts)]] == [2] * 10


def test_a_list_is_in_order_of_time_then_value_without_nulls() -> None:
    rows = [("a", 5, 1), ("a", 2, 9), ("a", 2, None), ("a", 2, 3), ("a", 0, 7), ("a", 5, 1)]
    for cuts in ((), (1,), (2, 3), (1, 2, 3, 4, 5)):
        assert compute_value(aggregates.collect_list("value"), rows, cuts) == [7, 3, 9, 1, 1]
    assert compute_value(aggregates.collect_list("value"), [("a", 0, None)]) == []


def test_a_function_sees_whole_rows_with_nulls_and_in_order() -> None:
    agg = aggregates.apply(repr, "flag", "value", result_type="string")
    rows = [("a", 5, 1, None, True), ("a", 5, 1), ("a", 5, None, None, True), ("a", 0, 2)]
    assert compute_value(agg, rows, cuts=(1, 3)) == repr(
        [
            {"flag": None, "value": 2},
            {"flag": True, "value": 1},
            {"flag": True, "value": None},
            {"flag": None, "value": 1},
        ]
    )


@pytest.mark.parametrize(
    ("result_type", "emitted"),
    [("long", 3), ("double", 0.5), ("string", "é"), ("binary", b"\x00"), ("boolean", False)],
)
def test_a_function_may_return_any_type_or_nothing(result_type: str, emitted: Any) -> None:
    for result in (emitted, None):
        agg = aggregates.apply(lambda _, r=result: r, "value", result_type=result_type)
        assert compute_value(agg, [("a", 0, 1)]) == result


def test_a_function_is_called_once_a_window() -> None:
    calls: list[int] = []
    agg = aggregates.apply(lambda rows: calls.append(len(rows)), "value")
    query = combiner(aggs={"x": agg})
    cells = query.lift(messages([("a", 0), ("b", 0), ("a", 3), ("a", 10)]))
    assert lower_partials(cells.sort("k0", "pane"), query) == [{"x": None}] * 3
    assert calls == [2, 1, 1]


AMOUNTS = st.sampled_from([None, NAN, math.inf, -math.inf, -1.5, 0.0, 0.25, 2.0])
MESSAGES = st.lists(
    st.tuples(
        st.just("a"),
        st.integers(0, 3),
        st.none() | st.integers(-3, 3),
        AMOUNTS,
        st.sampled_from([None, True, False]),
    ),
    min_size=1,
    max_size=20,
)
EVERY = [
    aggregates.median("amount"),
    aggregates.median("value"),
    *(aggregates.exact_quantile(c, q) for c in ("value", "amount") for q in (0, 0.3, 1)),
    *(aggregates.collect_list(c) for c in ("value", "amount", "flag", "key")),
    *(aggregates.distinct(c) for c in ("value", "amount", "flag", "key")),
    *(aggregates.mode(c) for c in ("value", "amount", "flag", "key")),
    *(aggregates.count_distinct(c) for c in ("value", "amount", "flag", "key")),
    *(aggregates.sum_distinct(c) for c in ("value", "amount")),
    aggregates.top_k("amount", 1),
    aggregates.top_k("value", 4),
    aggregates.top_k("key", 2),
    aggregates.apply(repr, "amount", "value", "flag", "key", result_type="string"),
]


@pytest.mark.parametrize("agg", EVERY, ids=str)
@settings(max_examples=max(1, settings.default.max_examples // 2))  # type: ignore[union-attr]
@given(rows=MESSAGES, data=st.data())
def test_the_value_is_the_same_for_all_cuts_and_orders_of_merging(
    agg: Aggregate, rows: Rows, data: st.DataObject
) -> None:
    names = ("key", "time", "value", "amount", "flag")
    window_messages = [
        Placed((row[0],), row[1], dict(zip(names, row, strict=True))) for row in rows
    ]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    query = combiner(aggs={"x": agg})
    frame = messages(rows)
    parts = [query.lift(frame[a:b]) for a, b in pairwise([0, *cuts, len(rows)])]
    while len(parts) > 1:
        left = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        right = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        parts.append(query.merge([left, right]))
    assert same(lower_partials(parts[0], query)[0]["x"], value(agg, window_messages))


@pytest.mark.parametrize("agg", EVERY, ids=str)
def test_a_missing_partial_is_an_empty_one(agg: Aggregate) -> None:
    query = combiner(aggs={"x": agg})
    cells = query.lift(messages([("a", 0, 1, 1.0, True)]))
    no_partials = cells.select(query.keys).with_columns(pl.lit(0).alias(columns.MESSAGES))
    emitted = pl.concat([no_partials, cells, no_partials], how="diagonal_relaxed")
    values = [row["x"] for row in lower_partials(emitted, query)]
    fields = {"key": "a", "value": 1, "amount": 1.0, "flag": True}
    assert values == [value(agg, []), value(agg, [Placed(("a",), 0, fields)]), value(agg, [])]


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ([3.0, 1.0, 3.0], 3.0),
        ([3.0, 1.0, None, None], 1.0),
        ([2.0, -0.0, 0.0, 2.0, 7.0], 0.0),
        ([NAN, 1.0, NAN], NAN),
        ([math.inf, NAN], math.inf),
        ([None], None),
    ],
)
def test_the_most_frequent_value_is_the_same_for_all_cuts(
    amounts: list[float | None], expected: float | None
) -> None:
    for cut in range(len(amounts)):
        assert same(
            compute_value(aggregates.mode("amount"), make_rows(*amounts), cuts=(cut,)), expected
        )


def test_the_most_frequent_keeps_a_count_of_each() -> None:
    query = combiner(aggs={"x": aggregates.mode("value")})
    parts = [query.lift(messages([("a", 0, n % 2) for n in range(50)])) for _ in range(4)]
    merged = query.merge(parts)
    assert (merged["a0.v"].to_list(), merged["a0.n"].to_list()) == ([[0, 1]], [[100, 100]])


def test_a_sum_of_distinct_values_beyond_64_bits_is_rejected() -> None:
    query = combiner(aggs={"x": aggregates.sum_distinct("value")})
    most = 2**63 - 1
    lifted = query.lift(messages([("a", 0, most), ("a", 1, most), ("b", 0, most), ("b", 1, 1)]))
    lifted = lifted.sort("k0")
    assert lower_partials(lifted, query) == [{"x": most}, {"x": None}]
    overflowed = query.algebras[0].find_overflows(lifted)
    assert overflowed is not None
    assert overflowed.to_list() == [False, True]


@pytest.mark.parametrize("column", ["key", "flag"])
def test_only_numbers_have_a_median(column: str) -> None:
    with pytest.raises(OptionError, match="reads a column of type"):
        combiner(aggs={"x": aggregates.median(column)})


@pytest.mark.parametrize(
    "dtype", [pl.Int8, pl.UInt64, pl.Date, pl.Datetime("us"), pl.Decimal(9, 2)]
)
def test_lists_keep_their_type(dtype: Any) -> None:
    aggs = {
        "list": aggregates.collect_list("value"),
        "set": aggregates.distinct("value"),
        "top": aggregates.top_k("value", 2),
        "third": aggregates.exact_quantile("value", 0.3),
    }
    query = combiner(aggs=aggs, schema={"value": dtype})
    frame = messages([("a", 0, None)], {"value": dtype})
    numbers = pl.Series("value", [2, 1, None, 2]).cast(dtype)
    filled = pl.concat([frame] * 4).with_columns(numbers)
    for input_frame in (frame, filled):
        emitted = query.lift(input_frame)
        types = [algebra.lower(emitted).dtype for algebra in query.algebras]
        assert types == [pl.List(dtype)] * 3 + [dtype]
    two, one = numbers[0], numbers[1]
    assert lower_partials(query.lift(filled), query) == [
        {"list": [one, two, two], "set": [one, two], "top": [two, two], "third": one}
    ]
