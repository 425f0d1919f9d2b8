from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.engine import columns
from muntin.engine.joins.pairs import find_pairs
from muntin.model.bounds import Bound, Together, Within
from muntin.model.cumulating import Cumulating
from muntin.model.days import Days
from muntin.model.joins import JoinSpec, Side
from muntin.model.windows import Windows
from muntin.testing.oracle.placing import bounds

SPEC = JoinSpec(Side(("k",), "time"), Side(("k",), "time"), Within(0, 0))
TEXT = {"k": pl.String, columns.TIME: pl.Int64}
FAR = 10**15

POSITIONS = st.integers(-25, 25) | st.sampled_from([-FAR, FAR])
MESSAGES = st.lists(
    st.tuples(st.sampled_from([0, 1, 2**40, -(2**62), 2**62]), POSITIONS), max_size=12
)
GRIDS = st.builds(
    lambda slide, more, origin: Windows(slide + more, slide, origin % slide),
    st.integers(1, 9), st.integers(0, 12), st.integers(0, 8),
)  # fmt: skip
KINDS = GRIDS | st.builds(lambda step, steps: Cumulating(step * steps, step),
                          st.integers(1, 4), st.integers(1, 4))  # fmt: skip
BOUNDS = st.builds(Within, st.integers(0, 9), st.integers(0, 9)) | st.builds(
    lambda kinds: Together(tuple(kinds)), st.lists(KINDS, min_size=1, max_size=2)
)


def frame(rows: list[tuple[Any, ...]], schema: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=schema, orient="row")


def list_pairs(left: pl.DataFrame, right: pl.DataFrame, spec: JoinSpec) -> list[tuple[int, int]]:
    indices = find_pairs(left, right, spec)
    return sorted(zip(*(side.tolist() for side in indices), strict=True))


def are_partners(left: int, right: int, bound: Bound) -> bool:
    """Return whether two positions are partners, by the definition of their bound."""
    if isinstance(bound, Within):
        return -bound.before <= right - left <= bound.after
    assert isinstance(bound, Together)
    return all(
        any(start <= right < end for start, end in bounds(windows, left))
        for windows in bound.windows
    )


@pytest.mark.parametrize("kind", [pl.Int64, pl.String])
@given(MESSAGES, MESSAGES, BOUNDS)
def test_pairs_are_those_of_the_definition_each_once(
    kind: Any, left: list[tuple[int, int]], right: list[tuple[int, int]], bound: Bound
) -> None:
    left_frame, right_frame = (
        frame(t, TEXT | {"k": pl.Int64}).cast({"k": kind}) for t in (left, right)
    )
    expected = [
        (i, j)
        for i, (key, position) in enumerate(left)
        for j, (other_key, other_position) in enumerate(right)
        if key == other_key and are_partners(position, other_position, bound)
    ]
    assert list_pairs(left_frame, right_frame, replace(SPEC, bound=bound)) == expected


def test_several_keys_of_other_names_and_widths() -> None:
    keys = replace(SPEC.left, keys=("a", "b")), replace(SPEC.right, keys=("x", "y"))
    spec = JoinSpec(*keys, Within(1, 0))
    left = frame([(1, "p", 5), (1, "q", 5), (2, "p", 5)],
                 {"a": pl.Int16, "b": pl.String, columns.TIME: pl.Int64})  # fmt: skip
    right = frame([(4, 1, "p"), (5, 1, "p"), (6, 1, "p"), (5, 2**40, "p"), (4, 2, "p")],
                  {columns.TIME: pl.Int64, "x": pl.Int64, "y": pl.String})  # fmt: skip
    assert list_pairs(left, right, spec) == [(0, 0), (0, 1), (2, 4)]


def test_both_ends_of_a_distance_belong_to_it() -> None:
    left, right = frame([("a", 10)], TEXT), frame([("a", n) for n in range(20)], TEXT)
    assert [j for _, j in list_pairs(left, right, replace(SPEC, bound=Within(3, 1)))] == [
        7,
        8,
        9,
        10,
        11,
    ]


def test_a_window_holds_its_start_and_not_its_end() -> None:
    left, right = frame([("a", 10)], TEXT), frame([("a", n) for n in range(30)], TEXT)
    hop = Together((Windows(10, 5),))
    assert [j for _, j in list_pairs(left, right, replace(SPEC, bound=hop))] == list(range(5, 20))


def test_a_day_may_have_23_hours() -> None:
    # The clocks of Berlin go forward on 29 March 2026: that day begins at 23:00 and has 23 hours.
    hour = 3_600_000_000
    midnight = 1_774_738_800 * 1_000_000
    day = Together((Days(Windows(1, 1), "Europe/Berlin"),))
    left = frame([("a", midnight)], TEXT)
    right = frame([("a", midnight + h * hour) for h in (-1, 0, 22, 23)], TEXT)
    assert list_pairs(left, right, replace(SPEC, bound=day)) == [(0, 1), (0, 2)]


def test_an_empty_side_has_no_pairs() -> None:
    empty, filled = frame([], TEXT), frame([("a", 1)], TEXT)
    for left, right in ((empty, filled), (filled, empty), (empty, empty)):
        assert list_pairs(left, right, SPEC) == []
