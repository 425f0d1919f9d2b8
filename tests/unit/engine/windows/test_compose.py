from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest

from muntin.engine.windows.compose import Flat

Cells = list[tuple[int, int]]
"""Key and pane of each cell, in order."""

BASE = 4


def build_flat(cells: Cells, n: int) -> Flat:
    new_key = [True, *(a[0] != b[0] for a, b in pairwise(cells))]
    return Flat(np.array([pane for _, pane in cells]), np.array(new_key), n)


def list_window_cells(cells: Cells, flat: Flat) -> list[list[int]]:
    """Return the indices of the cells in each window, by checking all cells."""
    cells_by_window = []
    for owner, ahead in zip(flat.owner.tolist(), flat.ahead.tolist(), strict=True):
        key, end = cells[owner][0], cells[owner][1] + ahead
        inside = [i for i, (k, pane) in enumerate(cells) if k == key and end - flat.n < pane <= end]
        cells_by_window.append(inside)
    return cells_by_window


def random_cells(seed: int, gaps: int) -> Cells:
    """Return cells of a few keys, each with some panes at most ``gaps`` apart."""
    random = np.random.default_rng(seed)
    cells = []
    for key in range(int(random.integers(1, 5))):
        count = int(random.integers(1, 9))
        panes = int(random.integers(-20, 20)) + np.cumsum(random.integers(1, gaps + 1, count))
        cells += [(key, pane) for pane in panes.tolist()]
    return cells


CASES = [
    pytest.param(random_cells(seed, gaps), n, id=f"n{n}-gaps{gaps}-{seed}")
    for n in (1, 2, 3, 7, 12, 200)
    for gaps in (1, 2, 9, 40)
    for seed in (gaps * 10 + n, gaps * 100 + n)
]


@pytest.mark.parametrize(("cells", "n"), CASES)
def test_every_window_that_is_not_empty_has_one_row(cells: Cells, n: int) -> None:
    flat = build_flat(cells, n)
    ends = {(cells[o][0], cells[o][1] + a) for o, a in zip(flat.owner, flat.ahead, strict=True)}
    expected = {(key, pane + offset) for key, pane in cells for offset in range(n)}
    assert ends == expected
    assert flat.length == len(expected)


@pytest.mark.parametrize(("cells", "n"), CASES)
def test_sums(cells: Cells, n: int) -> None:
    flat = build_flat(cells, n)
    values = np.arange(len(cells)) ** 2 - 7
    expected = [sum(values[i] for i in inside) for inside in list_window_cells(cells, flat)]
    assert flat.add_integers(values).tolist() == expected
    assert flat.add_floats(values / 4).tolist() == [total / 4 for total in expected]


@pytest.mark.parametrize(("cells", "n"), CASES)
@pytest.mark.parametrize(("greatest", "pick"), [(True, max), (False, min)])
def test_extremes(cells: Cells, n: int, greatest: bool, pick: Callable[..., Any]) -> None:
    flat = build_flat(cells, n)
    values = np.random.default_rng(n).integers(-50, 50, len(cells))
    expected = [pick(values[i] for i in inside) for inside in list_window_cells(cells, flat)]
    assert flat.greatest(values, greatest).tolist() == expected


@pytest.mark.parametrize(("cells", "n"), CASES)
def test_winners(cells: Cells, n: int) -> None:
    flat = build_flat(cells, n)
    random = np.random.default_rng(n)
    ranks = (random.permutation(len(cells)) + 1).tolist()
    ranks = [None if random.random() < 0.3 else rank for rank in ranks]
    names = [f"cell {i}" for i in range(len(cells))]

    def find_winner(inside: list[int]) -> str | None:
        ranked = [i for i in inside if ranks[i] is not None]
        return names[max(ranked, key=lambda i: ranks[i])] if ranked else None

    winners = flat.winner(pl.Series(ranks, dtype=pl.UInt32), pl.Series(names))
    assert winners.to_list() == [find_winner(inside) for inside in list_window_cells(cells, flat)]


@pytest.mark.parametrize(("cells", "n"), CASES)
def test_combining_in_order(cells: Cells, n: int) -> None:
    # Texts of digits, as (length, number): joining them is associative, and the result differs if
    # cells are in another order, missing or repeated.
    flat = build_flat(cells, n)
    digits = np.random.default_rng(n).integers(1, BASE, len(cells))
    combined = flat.combine([np.ones(len(cells), dtype=np.int64), digits], join_digits)

    def join_numbers(inside: list[int]) -> int:
        return int("".join(str(digits[i]) for i in inside), BASE)

    cells_by_window = list_window_cells(cells, flat)
    assert combined[0].tolist() == [len(inside) for inside in cells_by_window]
    assert combined[1].tolist() == [join_numbers(inside) for inside in cells_by_window]


def join_digits(a: list[np.ndarray], b: list[np.ndarray]) -> list[np.ndarray]:
    return [a[0] + b[0], a[1] * BASE ** b[0] + b[1]]


@pytest.mark.parametrize(("cells", "n"), CASES)
def test_every_requested_window_holds_its_own_cells(cells: Cells, n: int) -> None:
    panes = [pane for _, pane in cells]
    for before, after in [(0, 0), (1, 2), (n - 1, n - 1), (3 * n, 2 * n)]:
        first, last = min(panes) - before, max(panes) + after
        new_key = [True, *(a[0] != b[0] for a, b in pairwise(cells))]
        flat = Flat(np.array(panes), np.array(new_key), n, (first, last))
        sums = flat.add_integers(np.ones(len(cells), dtype=np.int64))
        totals = {}
        for owner, ahead, total in zip(flat.owner, flat.ahead, sums, strict=True):
            key, end = cells[owner][0], cells[owner][1] + int(ahead)
            if first <= end - n + 1 and end <= last and total:
                assert totals.setdefault((key, end), total) == total
        expected = {}
        for key in {key for key, _ in cells}:
            for end in range(first + n - 1, last + 1):
                total = sum(k == key and end - n < pane <= end for k, pane in cells)
                expected |= {(key, end): total} if total else {}
        assert totals == expected


def test_windows_outside_the_range_have_no_rows() -> None:
    # pane   0 1 2 3      only the window over all four is requested: the keys are adjacent
    # a      1 . . 2
    # b      . 4 . .
    flat = Flat(np.array([0, 3, 1]), np.array([True, False, True]), 4, (0, 3))
    assert flat.length < build_flat([(0, 0), (0, 3), (1, 1)], 4).length


def test_keys_never_mix() -> None:
    # pane   0 1 2 3
    # a      1 2 . .     windows of 3 end at 0..3
    # b      . . 4 8     though 2 and 3 follow directly, no window contains both keys
    flat = build_flat([(0, 0), (0, 1), (1, 2), (1, 3)], 3)
    assert flat.add_integers(np.array([1, 2, 4, 8])).tolist() == [1, 3, 3, 2, 4, 12, 12, 8]


def test_distant_panes_cost_no_more_than_a_window() -> None:
    # pane   0 . . . ... 10^15
    flat = build_flat([(0, 0), (0, 10**15)], 4)
    assert flat.length == 8
    assert flat.add_integers(np.array([1, 2])).tolist() == [1] * 4 + [2] * 4


def test_integer_sums_wrap_around_and_recover() -> None:
    flat = build_flat([(0, 0), (0, 1), (0, 2)], 2)
    greatest = 2**63 - 1
    with np.errstate(over="ignore"):
        sums = flat.add_integers(np.array([greatest, greatest, -greatest])).tolist()
    assert sums == [greatest, -2, 0, -greatest]


def test_a_large_float_does_not_spoil_its_neighbours() -> None:
    # pane   0    1    2   3      a difference of prefix sums would give 0 for the last windows
    #        1  1e300  1   1
    flat = build_flat([(0, 0), (0, 1), (0, 2), (0, 3)], 2)
    values = np.array([1.0, 1e300, 1.0, 1.0])
    assert flat.add_floats(values).tolist() == [1.0, 1e300, 1e300, 2.0, 1.0]


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16])
def test_extremes_at_the_limits_of_a_type(dtype: type) -> None:
    limits = np.iinfo(dtype)
    flat = build_flat([(0, 0), (0, 5)], 2)
    values = np.array([limits.min, limits.max], dtype=dtype)
    for greatest in (True, False):
        extremes = flat.greatest(values, greatest)
        assert extremes.dtype == dtype
        assert extremes.tolist() == [limits.min] * 2 + [limits.max] * 2
