"""Chains of windows, a join and windows don't depend on how their messages are cut into batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tests.property.joined_chains import CLOSING, Message, Rows, Step, by_operators, by_oracles

LATE = 5  # seconds: as far as the watermark of the windows trails


@st.composite
def messages(draw: st.DrawFn) -> list[Message]:
    """Messages of one side, each at most ``LATE`` behind any before it."""
    found: list[Message] = []
    greatest = 0
    for _ in range(draw(st.integers(0, 15))):
        second = max(0, greatest + draw(st.integers(-LATE, 12)))
        greatest = max(greatest, second)
        key = draw(st.sampled_from(["a", "b", None]))
        found.append((key, second, draw(st.integers(-9, 9))))
    return found


@st.composite
def cuts(draw: st.DrawFn, left: Sequence[Message], right: Sequence[Message]) -> list[Step]:
    """Both sides in steps, of which some may be empty."""
    count = draw(st.integers(1, 6))
    sides = []
    for side in (left, right):
        places = sorted(draw(st.integers(0, len(side))) for _ in range(count - 1))
        ends = [0, *places, len(side)]
        sides.append([side[a:b] for a, b in pairwise(ends)])
    return [*zip(*sides, strict=True), *CLOSING]


def computed(left: Sequence[Message], right: Sequence[Message]) -> Rows:
    """The same, computed at once over all messages."""
    totals: list[dict[tuple[str, int], int]] = [{}, {}]
    for found, side in zip(totals, (left, right), strict=True):
        for key, second, value in side:
            if key is not None:
                place = key, int(second) // 10 * 10
                found[place] = found.get(place, 0) + value
    windows = defaultdict(list)
    for key, start in totals[0] | totals[1]:
        pair = tuple(one.get((key, start)) for one in totals)
        windows[key, start // 20 * 20].append(pair)
    rows = []
    for (key, start), pairs in windows.items():
        sums = [[one for one in side if one is not None] for side in zip(*pairs, strict=True)]
        rows.append((key, start, len(pairs), *(sum(side) if side else None for side in sums)))
    return sorted(rows, key=repr)


@given(data=st.data(), left=messages(), right=messages())
def test_cuts_change_nothing(
    data: st.DataObject, left: list[Message], right: list[Message]
) -> None:
    wanted = computed(left, right)
    assert by_oracles(data.draw(cuts(left, right))) == wanted
    assert by_operators(data.draw(cuts(left, right))) == wanted
