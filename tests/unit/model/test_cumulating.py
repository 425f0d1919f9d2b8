from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.model.axis import DAY, HOUR, Length, rows
from muntin.model.cumulating import Cumulating, cumulating
from muntin.model.errors import OptionError

TIMES = st.integers(-200, 200) | st.sampled_from((-(10**17), 10**17))


@st.composite
def any_windows(draw: st.DrawFn) -> Cumulating:
    step = draw(st.integers(1, 8))
    return Cumulating(step * draw(st.integers(1, 6)), step, draw(st.integers(-40, 40)))


def test_cumulating() -> None:
    windows = cumulating("1 day", "6 hours", origin=DAY + HOUR)
    assert windows == Cumulating(DAY, 6 * HOUR, HOUR)
    assert (windows.steps, windows.panes_per_window) == (4, 4)
    assert str(windows) == "cumulating 1 day by 6 hours"


def test_cumulating_in_rows() -> None:
    windows = cumulating(rows(10), rows(5))
    assert windows == Cumulating(10, 5, 0, "rows")
    assert str(windows) == "cumulating 10 rows by 5 rows"


def test_bounds_of_windows() -> None:
    # position   -4   0    4    8    12   16
    # window 0        [----)
    # window 1        [---------)
    # window 2        [--------------)
    # window 3                       [----)
    windows = Cumulating(12, 4)
    bounds = [(windows.start(w), windows.end(w)) for w in range(-1, 4)]
    assert bounds == [(-12, 0), (0, 4), (0, 8), (0, 12), (12, 16)]


@pytest.mark.parametrize(
    ("size", "step", "problem"),
    [
        ("1 hour", "7 minutes", "step='7 minutes' doesn't divide 1 hour"),
        ("1 hour", "2 hours", "doesn't divide"),
        ("1 hour", rows(3), "isn't measured in time"),
        (rows(3), "1 hour", "isn't measured in rows"),
        ("1 hour", "0 s", "is zero"),
        ("0 s", "1 hour", "is zero"),
    ],
)
def test_invalid_sizes_are_refused(size: Length, step: Length, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        cumulating(size, step)


@given(any_windows(), TIMES)
def test_a_time_falls_into_its_pane(windows: Cumulating, time: int) -> None:
    pane = windows.pane_of(time)
    assert windows.pane_start(pane) <= time < windows.pane_start(pane + 1)


@given(any_windows(), st.integers(-50, 50))
def test_a_window_is_its_panes(windows: Cumulating, window: int) -> None:
    first, last = windows.first_pane(window), windows.last_pane(window)
    assert windows.pane_start(first) == windows.start(window)
    assert windows.pane_start(last + 1) == windows.end(window)
    assert 1 <= last - first + 1 <= windows.panes_per_window


@given(any_windows(), TIMES)
def test_the_windows_of_a_pane_are_those_of_its_times(windows: Cumulating, time: int) -> None:
    pane = windows.pane_of(time)
    near = range(pane - 2 * windows.steps, pane + 2 * windows.steps + 1)
    containing = [w for w in near if windows.start(w) <= time < windows.end(w)]
    numbers = list(range(windows.first_window(pane), windows.last_window(pane) + 1))
    assert numbers == containing


@given(any_windows(), TIMES)
def test_the_latest_window_that_has_ended(windows: Cumulating, position: int) -> None:
    latest = windows.last_ended(position)
    assert windows.end(latest) <= position < windows.end(latest + 1)
