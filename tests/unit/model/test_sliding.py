from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.model.axis import MINUTE, rows
from muntin.model.errors import OptionError
from muntin.model.sliding import Sliding, sliding

SIZES = st.builds(Sliding, st.integers(1, 30), st.sampled_from(("time", "rows")))
POSITIONS = st.integers(-100, 100)


def test_sliding() -> None:
    windows = sliding("1 minute")
    assert windows == Sliding(MINUTE)
    assert (windows.start(-3), windows.end(-3)) == (-3, MINUTE - 3)
    assert str(windows) == "sliding 1 minute"


def test_sliding_in_rows() -> None:
    windows = sliding(rows(3))
    assert windows == Sliding(3, "rows")
    assert (windows.start(-2), windows.end(-2), windows.panes_per_window) == (-2, 1, 3)
    assert str(windows) == "sliding 3 rows"


@pytest.mark.parametrize("size", ["0 s", "soon", 5, None])
def test_invalid_sizes_are_refused(size: object) -> None:
    with pytest.raises(OptionError, match="size="):
        sliding(size)  # type: ignore[arg-type]


@given(SIZES, POSITIONS)
def test_both_ends_of_a_window_belong_to_it(windows: Sliding, position: int) -> None:
    near = range(position - 2 * windows.size - 2, position + windows.size + 2)
    holding = [w for w in near if windows.start(w) <= position <= windows.start(w) + windows.span]
    first, last = windows.first_window(position), windows.last_window(position)
    assert holding == list(range(first, last + 1))
    assert len(holding) == windows.panes_per_window


@given(SIZES, POSITIONS)
def test_a_window_depends_on_its_messages_and_the_one_before_it(
    windows: Sliding, window: int
) -> None:
    assert windows.first_pane(window) == windows.start(window) - 1
    assert windows.last_pane(window) == windows.start(window) + windows.span


@given(SIZES, POSITIONS)
def test_a_window_has_ended_when_its_last_position_is_passed(
    windows: Sliding, position: int
) -> None:
    latest = windows.last_ended(position)
    assert windows.last_pane(latest) < position <= windows.last_pane(latest + 1)
