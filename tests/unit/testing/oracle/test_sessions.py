from __future__ import annotations

import pytest
from tests.unit.testing.oracle.queries import build_time_spec, place_messages

from muntin.model.sessions import Closed, Sessions
from muntin.testing.oracle.marks import Watermarks
from muntin.testing.oracle.sessions import SessionPlacing

GAP = Sessions(10)
WATERMARKS = Watermarks(build_time_spec(GAP))


def list_sessions(placing: SessionPlacing) -> dict[tuple[int, int], list[int]]:
    """Return the positions in each session, by its first and last position."""
    return {
        identity[:2]: [message.position for message in window.messages]
        for identity, window in placing.windows.items()
    }


@pytest.mark.parametrize(
    ("closed", "expected"), [("both", [(0, 10)]), ("left", [(0, 0), (10, 10)])]
)
def test_just_a_gap_apart(closed: Closed, expected: list[tuple[int, int]]) -> None:
    placing = SessionPlacing(Sessions(10, closed), grace=0)
    placing.take(place_messages(0, 10), WATERMARKS)
    assert sorted(list_sessions(placing)) == expected


def test_a_session_ends_with_its_gap() -> None:
    placing = SessionPlacing(GAP, grace=0)
    placing.take(place_messages(3, 5), WATERMARKS)
    window = placing.windows[3, 5, ("a",)]
    assert (window.start, window.end, window.over) == (3, 15, 16)


def test_a_bridging_message_replaces_the_old_sessions() -> None:
    placing = SessionPlacing(GAP, grace=0)
    placing.take(place_messages(0, 16, 40), WATERMARKS)
    placing.windows[0, 0, ("a",)].revision = 1
    placing.take(place_messages(8), WATERMARKS)
    assert list_sessions(placing) == {(40, 40): [40], (0, 16): [0, 16, 8]}
    replaced = placing.windows[0, 16, ("a",)].replaced
    assert [(window.start, window.end) for window in replaced] == [(0, 10)]


def test_a_message_within_a_session_changes_nothing_but_its_content() -> None:
    placing = SessionPlacing(GAP, grace=0)
    placing.take(place_messages(0, 8), WATERMARKS)
    placing.take(place_messages(8, 3), WATERMARKS)
    assert placing.windows[0, 8, ("a",)].replaced == []
    assert list_sessions(placing) == {(0, 8): [0, 8, 8, 3]}


def test_a_long_session_reaches_beyond_a_short_one_within_it() -> None:
    placing = SessionPlacing(GAP, grace=0)
    placing.take(place_messages(0, 9, 18, 27), WATERMARKS)
    placing.take(place_messages(2, 36), WATERMARKS)
    assert list(list_sessions(placing)) == [(0, 36)]


def test_messages_of_one_batch_are_classified_together() -> None:
    watermarks = Watermarks(build_time_spec(GAP), watermark=30)
    placing = SessionPlacing(GAP, grace=0)
    assert placing.take(place_messages(15, 19), watermarks).late == {0, 1}
    assert placing.take(place_messages(15, 20), watermarks).late == set()
    assert placing.take(place_messages(1, 10), watermarks).late == set()
    assert list(list_sessions(placing)) == [(1, 20)]


def test_a_closed_session_is_stored_until_the_watermark_is_a_gap_past_its_end() -> None:
    def take(watermark: int, *positions: int) -> set[int]:
        placing = SessionPlacing(GAP, grace=0)
        placing.take(place_messages(0, 30), WATERMARKS)
        placing.forget_closed(Watermarks(build_time_spec(GAP), watermark=watermark))
        return placing.take(
            place_messages(*positions), Watermarks(build_time_spec(GAP), watermark=watermark)
        ).late

    assert take(20, 10, 9, 21) == {0, 1}
    assert take(21, 10, 9, 20) == set()  # 20 and 10 lead to the session of 30


def test_keys_have_their_own_sessions() -> None:
    placing = SessionPlacing(GAP, grace=0)
    placing.take(place_messages(0) + place_messages(5, key=("b",)), WATERMARKS)
    assert sorted(list_sessions(placing)) == [(0, 0), (5, 5)]
