from __future__ import annotations

import pytest
from tests.unit.testing.oracle.queries import build_arrival_spec, build_time_spec, place_messages

from muntin.model.axis import DAY, HOUR
from muntin.model.cumulating import Cumulating
from muntin.model.days import Days
from muntin.model.kinds import Paned
from muntin.model.sliding import Sliding
from muntin.model.windows import Windows
from muntin.testing.oracle.marks import Watermarks
from muntin.testing.oracle.placing import FixedPlacing, SlidingPlacing, bounds

PANED = [
    Windows(10, 10),
    Windows(10, 3, 1),
    Windows(4, 2, 1, "rows"),
    Cumulating(12, 4),
    Cumulating(12, 3, 5),
    Cumulating(6, 6, 2, "rows"),
]


@pytest.mark.parametrize("kind", PANED, ids=str)
@pytest.mark.parametrize("position", [-25, -1, 0, 1, 4, 7, 12, 100])
def test_the_windows_of_a_position_are_those_that_contain_it(kind: Paned, position: int) -> None:
    numbers = range(-200, 200)
    containing = [
        (kind.start(number), kind.end(number))
        for number in numbers
        if kind.start(number) <= position < kind.end(number)
    ]
    assert sorted(bounds(kind, position)) == sorted(containing)


def test_the_days_of_a_time() -> None:
    days = Days(Windows(2, 1, axis="rows"), "UTC")
    assert sorted(bounds(days, 5 * HOUR)) == [(-DAY, DAY), (0, 2 * DAY)]


def test_a_message_is_late_when_all_of_its_windows_are_closed() -> None:
    placing = FixedPlacing(Windows(10, 5), grace=2)
    watermarks = Watermarks(build_time_spec(Windows(10, 5)), watermark=12)
    assert placing.take(place_messages(3, 4, 5), watermarks).late == {0, 1}
    assert [identity[:2] for identity in placing.windows] == [(5, 15)]


def test_a_sliding_window_is_created_once_with_all_its_messages() -> None:
    placing = SlidingPlacing(Sliding(10), grace=0)
    watermarks = Watermarks(build_time_spec(Sliding(10)))
    # The window after 0 is the one that ends with 11.
    placing.take(place_messages(0, 11), watermarks)
    positions_by_window = {
        identity[:2]: [m.position for m in w.messages] for identity, w in placing.windows.items()
    }
    assert positions_by_window == {(-10, 1): [0], (1, 12): [11]}
    placing.take(place_messages(5), watermarks)
    window = placing.windows[1, 12, ("a",)]
    assert [message.position for message in window.messages] == [11, 5]
    assert (window.start, window.end, window.over) == (1, 11, 12)


def test_by_rows_a_window_is_a_message_and_those_before_it() -> None:
    placing = SlidingPlacing(Sliding(3, "rows"), grace=0)
    outcome = placing.take(
        place_messages(0, 1, 2, 3), Watermarks(build_arrival_spec(Sliding(3, "rows")))
    )
    assert outcome.late == set()
    assert sorted(identity[:2] for identity in placing.windows) == [(0, 1), (0, 2), (0, 3), (1, 4)]
