from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muntin.engine.windows.compose import Parts
from muntin.engine.windows.ranges import Ranges, search_positions

Pairs = list[tuple[int, int]]


@st.composite
def rows_and_ranges(draw: st.DrawFn, longest: int = 40) -> tuple[int, Pairs]:
    """Draw a number of rows and some ranges of them, none empty."""
    length = draw(st.integers(1, longest))
    starts = st.integers(0, length - 1)
    pairs = starts.flatmap(lambda start: st.tuples(st.just(start), st.integers(start + 1, length)))
    return length, draw(st.lists(pairs, max_size=12))


def build_ranges(pairs: Pairs) -> Ranges:
    start, stop = (np.array([pair[i] for pair in pairs], dtype=np.int64) for i in (0, 1))
    return Ranges(start, stop)


def aggregate_ranges(pairs: Pairs, values: Any, aggregate: Callable[[Any], Any]) -> list[Any]:
    return [aggregate(values[start:stop]) for start, stop in pairs]


@given(rows_and_ranges())
def test_integers_add(drawn: tuple[int, Pairs]) -> None:
    length, pairs = drawn
    values = np.arange(length) ** 2 - 7
    assert build_ranges(pairs).add_integers(values).tolist() == aggregate_ranges(
        pairs, values.tolist(), sum
    )


def test_integers_add_modulo_64_bits() -> None:
    values = np.array([2**63 - 1, 2**63 - 1, -5])
    sums = build_ranges([(0, 2), (1, 3), (2, 3)]).add_integers(values).tolist()
    assert sums == [-2, 2**63 - 6, -5]


@given(rows_and_ranges())
def test_floats_add_without_rows_outside_their_range(drawn: tuple[int, Pairs]) -> None:
    length, pairs = drawn
    values = np.arange(length) / 4
    assert build_ranges(pairs).add_floats(values).tolist() == aggregate_ranges(
        pairs, values.tolist(), sum
    )


def test_a_large_neighbour_costs_no_digits() -> None:
    sums = build_ranges([(1, 3), (0, 1), (3, 4)]).add_floats(np.array([1e300, 0.25, 0.5, np.nan]))
    assert sums[:2].tolist() == [0.75, 1e300]
    assert np.isnan(sums[2])


@given(rows_and_ranges(), st.randoms(use_true_random=False))
def test_extremes(drawn: tuple[int, Pairs], random: Any) -> None:
    length, pairs = drawn
    values = np.array([random.choice([-(2**63), -3, 0, 5, 2**63 - 1]) for _ in range(length)])
    assert build_ranges(pairs).greatest(values, True).tolist() == aggregate_ranges(
        pairs, values.tolist(), max
    )
    assert build_ranges(pairs).greatest(values, False).tolist() == aggregate_ranges(
        pairs, values.tolist(), min
    )


@given(rows_and_ranges(), st.randoms(use_true_random=False), st.booleans())
def test_the_highest_rank_wins(drawn: tuple[int, Pairs], random: Any, nulls: bool) -> None:
    length, pairs = drawn
    ranks = random.sample(range(1, length + 1), length)
    if nulls:
        ranks = [rank if random.random() < 0.5 else None for rank in ranks]
    values = [str(rank) for rank in ranks]

    def find_winner(inside: list[int | None]) -> str | None:
        non_nulls = [rank for rank in inside if rank is not None]
        return str(max(non_nulls)) if non_nulls else None

    winners = build_ranges(pairs).winner(pl.Series(ranks, dtype=pl.UInt32), pl.Series(values))
    assert winners.to_list() == aggregate_ranges(pairs, ranks, find_winner)


@given(rows_and_ranges())
@example((13, [(0, 13), (0, 8), (5, 6), (3, 10), (12, 13)]))
def test_any_associative_function_takes_earlier_rows_first(drawn: tuple[int, Pairs]) -> None:
    length, pairs = drawn
    letters = np.array([chr(ord("a") + n % 26) + str(n) for n in range(length)], dtype=object)
    matrices = [np.array([[1, n % 3], [n % 2, 1]]) for n in range(length)]

    def join(a: Parts, b: Parts) -> Parts:
        # A product of 2x2 matrices, entry by entry, and text that is put together.
        return [
            a[0] + b[0],
            a[1] * b[1] + a[2] * b[3],
            a[1] * b[2] + a[2] * b[4],
            a[3] * b[1] + a[4] * b[3],
            a[3] * b[2] + a[4] * b[4],
        ]

    entries = [np.array([m[i, j] for m in matrices]) for i in (0, 1) for j in (0, 1)]
    text, *columns = build_ranges(pairs).combine([letters, *entries], join)
    assert text.tolist() == aggregate_ranges(pairs, letters.tolist(), "".join)
    products = aggregate_ranges(
        pairs, matrices, lambda inside: reduce(np.matmul, inside).ravel().tolist()
    )
    assert [list(row) for row in zip(*(f.tolist() for f in columns), strict=True)] == products


@pytest.mark.parametrize(("length", "longest"), [(1000, 900), (1000, 3), (1000, 64), (1000, 63)])
def test_combining_costs_a_logarithm_of_the_longest_range(length: int, longest: int) -> None:
    starts = range(length - longest + 1)
    joined_rows = 0

    def join(a: Parts, b: Parts) -> Parts:
        nonlocal joined_rows
        joined_rows += len(a[0])
        return [a[0] + b[0]]

    combined = build_ranges([(s, s + longest) for s in starts]).combine(
        [np.ones(length, dtype=int)], join
    )
    assert set(combined[0].tolist()) == {longest}
    levels = longest.bit_length()
    assert joined_rows <= levels * (length + len(starts))


def test_the_values_are_not_changed() -> None:
    values, pairs = np.arange(9.0), build_ranges([(0, 9), (2, 5)])
    pairs.add_floats(values)
    assert values.tolist() == list(range(9))
    assert (pairs.start.tolist(), pairs.stop.tolist()) == ([0, 2], [9, 5])


@given(rows_and_ranges())
def test_rows_repeated(drawn: tuple[int, Pairs]) -> None:
    length, pairs = drawn
    row_frame = build_ranges(pairs).list_rows(pl.DataFrame({"at": range(length)}), "range")
    expected = [(row, n) for n, (start, stop) in enumerate(pairs) for row in range(start, stop)]
    assert row_frame.rows() == expected


POSITIONS = st.integers(-6, 6) | st.sampled_from((-(2**62), 2**62))


@given(
    st.lists(st.tuples(st.integers(0, 3), POSITIONS), min_size=1, max_size=25).map(sorted),
    st.lists(st.tuples(st.integers(0, 3), POSITIONS), max_size=12),
    st.sampled_from(["left", "right"]),
)
def test_positions_are_searched_within_their_keys(rows: Pairs, queries: Pairs, side: str) -> None:
    keys = {key: number for number, key in enumerate(sorted({key for key, _ in rows}))}
    rows = [(keys[key], position) for key, position in rows]
    queries = [(keys[key], position) for key, position in queries if key in keys]
    key, positions = (np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1))
    query_keys, query_positions = (
        np.array([row[i] for row in queries], dtype=np.int64) for i in (0, 1)
    )
    before = (lambda p, w: p <= w) if side == "right" else (lambda p, w: p < w)
    expected = [
        sum(k < query_key or (k == query_key and before(p, w)) for k, p in rows)
        for query_key, w in queries
    ]
    assert search_positions(key, positions, query_positions, side, query_keys).tolist() == expected


def test_by_default_each_row_searches_within_its_own_key() -> None:
    # row     0  1  2 | 3  4
    # position 0 4  9 | 0  5
    key, position = np.array([0, 0, 0, 1, 1]), np.array([0, 4, 9, 0, 5])
    assert search_positions(key, position, position - 5, "left").tolist() == [0, 0, 1, 3, 3]
    assert search_positions(key, position, position + 5, "right").tolist() == [2, 3, 3, 5, 5]
    assert all(
        a <= b for a, b in pairwise(search_positions(key, position, position, "left").tolist())
    )
