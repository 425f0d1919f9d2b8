"""Chains of windows, a join and windows don't depend on how their messages are cut into batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tests.property.joined_chains import CLOSING, Message, Rows, Step, run_operators, run_oracles

LATE = 5  # seconds: the lateness of the windows


@st.composite
def messages(draw: st.DrawFn) -> list[Message]:
    """Draw messages of one side, each at most ``LATE`` behind any before it."""
    drawn: list[Message] = []
    greatest = 0
    for _ in range(draw(st.integers(0, 15))):
        second = max(0, greatest + draw(st.integers(-LATE, 12)))
        greatest = max(greatest, second)
        key = draw(st.sampled_from(["a", "b", None]))
        drawn.append((key, second, draw(st.integers(-9, 9))))
    return drawn


@st.composite
def cuts(draw: st.DrawFn, left: Sequence[Message], right: Sequence[Message]) -> list[Step]:
    """Draw a division of both sides into steps, some of which may be empty."""
    count = draw(st.integers(1, 6))
    sides = []
    for side in (left, right):
        positions = sorted(draw(st.integers(0, len(side))) for _ in range(count - 1))
        ends = [0, *positions, len(side)]
        sides.append([side[a:b] for a, b in pairwise(ends)])
    return [*zip(*sides, strict=True), *CLOSING]


def compute_at_once(left: Sequence[Message], right: Sequence[Message]) -> Rows:
    """Compute the windows over the join from all messages at once."""
    totals: list[dict[tuple[str, int], int]] = [{}, {}]
    for side_totals, side in zip(totals, (left, right), strict=True):
        for key, second, value in side:
            if key is not None:
                window = key, int(second) // 10 * 10
                side_totals[window] = side_totals.get(window, 0) + value
    windows = defaultdict(list)
    for key, start in totals[0] | totals[1]:
        pair = tuple(total.get((key, start)) for total in totals)
        windows[key, start // 20 * 20].append(pair)
    rows = []
    for (key, start), pairs in windows.items():
        columns = [
            [total for total in side if total is not None] for side in zip(*pairs, strict=True)
        ]
        rows.append((key, start, len(pairs), *(sum(side) if side else None for side in columns)))
    return sorted(rows, key=repr)


@given(data=st.data(), left=messages(), right=messages())
def test_cuts_change_nothing(
    data: st.DataObject, left: list[Message], right: list[Message]
) -> None:
    expected = compute_at_once(left, right)
    assert run_oracles(data.draw(cuts(left, right))) == expected
    assert run_operators(data.draw(cuts(left, right))) == expected
