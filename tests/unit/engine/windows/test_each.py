from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.engine.windows.each import Prefixes

GROUPS = st.lists(st.lists(st.integers(-99, 99), min_size=1, max_size=9), min_size=1, max_size=9)
# Few long groups are walked one by one, many short ones all at once.
SHAPES = [[[5, -2, 7]], [[1], [2], [3], [4, 4]], [list(range(20)), [1]]]


def build_prefixes(groups: list[list[int]]) -> tuple[Prefixes, np.ndarray]:
    first = [row == 0 for group in groups for row in range(len(group))]
    values = [value for group in groups for value in group]
    return Prefixes(np.array(first)), np.array(values, dtype=np.int64)


def accumulate_groups(groups: list[list[int]], join: object) -> list[int]:
    return [value for group in groups for value in accumulate(group, join)]  # type: ignore[arg-type]


@pytest.mark.parametrize("groups", SHAPES)
def test_sums_and_extremes_by_hand(groups: list[list[int]]) -> None:
    prefixes, values = build_prefixes(groups)
    assert prefixes.add_integers(values).tolist() == accumulate_groups(groups, lambda a, b: a + b)
    assert prefixes.greatest(values, True).tolist() == accumulate_groups(groups, max)
    assert prefixes.greatest(values, False).tolist() == accumulate_groups(groups, min)


@given(groups=GROUPS)
def test_any_function_is_folded_in_the_order_of_rows(groups: list[list[int]]) -> None:
    prefixes, values = build_prefixes(groups)
    # Not commutative, and not associative either: only the order of single steps gives this.
    combined = prefixes.combine([values], lambda a, b: [2 * a[0] + b[0]])[0]
    assert combined.tolist() == accumulate_groups(groups, lambda a, b: 2 * a + b)
    sums = prefixes.add_floats(values / 7)
    expected = [v for g in groups for v in accumulate(n / 7 for n in g)]
    assert sums.tolist() == expected
