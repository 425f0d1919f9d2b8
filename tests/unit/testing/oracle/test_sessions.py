from __future__ import annotations

import pytest
from tests.unit.testing.oracle.queries import by_time, placed

from muntin.model.sessions import Closed, Sessions
from muntin.testing.oracle.marks import Watermarks
from muntin.testing.oracle.sessions import SessionPlacing

GAP = Sessions(10)
MARKS = Watermarks(by_time(GAP))


def spans(placing: SessionPlacing) -> dict[tuple[int, int], list[int]]:
    """The positions in each session, by its first and last."""
    return {
        place[:2]: [message.position for message in window.messages]
        for place, window in placing.windows.items()
    }


@pytest.mark.parametrize(
    ("closed", "expected"), [("both", [(0, 10)]), ("left", [(0, 0), (10, 10)])]
)
def test_just_a_gap_apart(closed: Closed, expected: list[tuple[int, int]]) -> None:
    placing = SessionPlacing(Sessions(10, closed), grace=0)
    placing.take(placed(0, 10), MARKS)
    assert sorted(spans(placing)) == expected


def test_a_session_tells_its_gap_and_has_ended_when_that_is_passed() -> None:
    placing = SessionPlacing(GAP, grace=0)
    placing.take(placed(3, 5), MARKS)
    window = placing.windows[3, 5, ("a",)]
    assert (window.start, window.end, window.over) == (3, 15, 16)


def test_old_sessions_vanish_into_the_one_that_joins_them() -> None:
    placing = SessionPlacing(GAP, grace=0)
    placing.take(placed(0, 16, 40), MARKS)
    placing.windows[0, 0, ("a",)].revision = 1
    placing.take(placed(8), MARKS)
    assert spans(placing) == {(40, 40): [40], (0, 16): [0, 16, 8]}
    replaced = placing.windows[0, 16, ("a",)].replaced
    assert [(window.start, window.end) for window in replaced] == [(0, 10)]


def test_a_message_within_a_session_changes_nothing_but_its_content() -> None:
    placing = SessionPlacing(GAP, grace=0)
    placing.take(placed(0, 8), MARKS)
    placing.take(placed(8, 3), MARKS)
    assert placing.windows[0, 8, ("a",)].replaced == []
    assert spans(placing) == {(0, 8): [0, 8, 8, 3]}


def test_a_long_session_reaches_beyond_a_short_one_within_it() -> None:
    placing = SessionPlacing(GAP, grace=0)
    placing.take(placed(0, 9, 18, 27), MARKS)
    placing.take(placed(2, 36), MARKS)
    assert list(spans(placing)) == [(0, 36)]


def test_messages_are_judged_together() -> None:
    marks = Watermarks(by_time(GAP), watermark=30)
    placing = SessionPlacing(GAP, grace=0)
    assert placing.take(placed(15, 19), marks).late == {0, 1}
    assert placing.take(placed(15, 20), marks).late == set()
    assert placing.take(placed(1, 10), marks).late == set()
    assert list(spans(placing)) == [(1, 20)]


def test_a_closed_session_is_remembered_until_the_watermark_is_a_gap_past_its_end() -> None:
    def take(watermark: int, *positions: int) -> set[int]:
        placing = SessionPlacing(GAP, grace=0)
        placing.take(placed(0, 30), MARKS)
        placing.forget_closed(Watermarks(by_time(GAP), watermark=watermark))
        return placing.take(placed(*positions), Watermarks(by_time(GAP), watermark=watermark)).late

    assert take(20, 10, 9, 21) == {0, 1}
    assert take(21, 10, 9, 20) == set()  # 20 and 10 lead to the session of 30


def test_keys_have_their_own_sessions() -> None:
    placing = SessionPlacing(GAP, grace=0)
    placing.take(placed(0) + placed(5, key=("b",)), MARKS)
    assert sorted(spans(placing)) == [(0, 0), (5, 5)]
