from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.model.axis import MINUTE, SECOND
from muntin.model.errors import OptionError
from muntin.model.windows import Windows, hopping, tumbling

TIMES = st.integers(-200, 200) | st.sampled_from((-(10**17), 10**17))


@st.composite
def any_windows(draw: st.DrawFn) -> Windows:
    size = draw(st.integers(1, 30))
    return Windows(size, draw(st.integers(1, size)), draw(st.integers(-40, 40)))


def list_windows_at(windows: Windows, time: int) -> list[int]:
    """Return the numbers of the windows that contain a time, by checking all windows near it."""
    near = (time - windows.origin) // windows.slide
    candidates = range(near - windows.size - 1, near + 2)
    return [k for k in candidates if windows.start(k) <= time < windows.end(k)]


def test_tumbling() -> None:
    windows = tumbling("10 minutes")
    assert windows == Windows(10 * MINUTE, 10 * MINUTE)
    assert (windows.start(-1), windows.end(-1)) == (-10 * MINUTE, 0)
    assert (windows.panes_per_slide, windows.panes_per_window) == (1, 1)
    assert str(windows) == "tumbling 10 minutes"


def test_hopping() -> None:
    windows = hopping("10 s", "4 s", origin=9 * SECOND)
    assert windows == Windows(10 * SECOND, 4 * SECOND, SECOND)
    assert windows.remainder == 2 * SECOND
    assert str(windows) == "hopping 10 seconds by 4 seconds"


def test_hopping_by_its_own_size_is_tumbling() -> None:
    assert hopping("1 minute", "60 s") == tumbling("1 minute")


@pytest.mark.parametrize(
    ("size", "slide", "problem"),
    [
        ("1 hour", "2 hours", "greater than the size"),
        ("1 s", "0 s", "zero"),
        ("0 s", "1 s", "zero"),
    ],
)
def test_invalid_sizes_are_refused(size: str, slide: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        hopping(size, slide)


def test_panes_of_a_slide_that_divides() -> None:
    windows = Windows(10, 5)
    assert (windows.panes_per_slide, windows.panes_per_window) == (1, 2)
    assert [windows.pane_of(t) for t in (-1, 0, 4, 5)] == [-1, 0, 0, 1]


def test_panes_of_a_slide_that_does_not_divide() -> None:
    windows = Windows(10, 4)
    assert (windows.panes_per_slide, windows.panes_per_window) == (2, 5)
    assert [windows.pane_start(p) for p in (-2, -1, 0, 1, 2)] == [-4, -2, 0, 2, 4]
    assert [windows.pane_of(t) for t in (-3, -2, 1, 2, 4)] == [-2, -1, 0, 1, 2]


@given(any_windows(), TIMES)
def test_a_time_falls_into_its_pane(windows: Windows, time: int) -> None:
    pane = windows.pane_of(time)
    assert windows.pane_start(pane) <= time < windows.pane_start(pane + 1)


@given(any_windows(), st.integers(-50, 50))
def test_a_window_is_its_panes(windows: Windows, window: int) -> None:
    first = windows.first_pane(window)
    assert windows.pane_start(first) == windows.start(window)
    assert windows.pane_start(first + windows.panes_per_window) == windows.end(window)


@given(any_windows(), TIMES)
def test_the_windows_of_a_pane_are_those_of_its_times(windows: Windows, time: int) -> None:
    pane = windows.pane_of(time)
    numbers = list(range(windows.first_window(pane), windows.last_window(pane) + 1))
    assert numbers == list_windows_at(windows, time)


@given(any_windows(), TIMES)
def test_the_latest_window_that_has_ended(windows: Windows, position: int) -> None:
    latest = windows.last_ended(position)
    assert windows.end(latest) <= position < windows.end(latest + 1)
