from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from muntin.model.axis import DAY, HOUR, MINUTE, SECOND, rows
from muntin.model.bounds import Bound, SessionBound, Together, Within, find_bound, format_windows
from muntin.model.cumulating import cumulating
from muntin.model.days import days
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES
from muntin.model.kinds import Kind
from muntin.model.sessions import Sessions, make_sessions
from muntin.model.sliding import sliding
from muntin.model.windows import Windows, hopping, tumbling

NEAR = Within(5, 2)


def test_positions_of_partners_by_distance() -> None:
    #          5 before  2 after
    # left          |----o-|
    # right       |-o----|           seen from the right: 2 before, 5 after
    assert NEAR.reach == 7
    assert NEAR.partners("left", 100, 110) == (95, 112)
    assert NEAR.partners("right", 100, 110) == (98, 115)
    assert NEAR.first_taken(100, grace=3) == 97
    for side in SIDES:
        first = NEAR.first_kept(side, 100)
        assert NEAR.partners(side, first, first)[1] == 100
    assert str(replace(NEAR, axis="rows")) == "from 5 rows before to 2 rows after"
    assert str(Within(10 * SECOND, -5 * SECOND)) == "from 10 seconds before to 5 seconds before"


BERLIN = days("1 day", "Europe/Berlin")
TOGETHER: dict[str, tuple[tuple[Any, ...], int, tuple[int, int], int]] = {
    # windows, a position, its partners (both included), reach
    "tumbling": ((Windows(10, 10),), 13, (10, 19), 10),
    "hopping": ((Windows(10, 4),), 13, (4, 21), 10),
    "hopping, slide doesn't divide": ((Windows(10, 7, 1),), 13, (8, 17), 10),
    "two kinds": ((Windows(10, 4), Windows(6, 6)), 13, (12, 17), 6),
    "cumulating": ((cumulating("12 s", "4 s"),), 13 * SECOND, (12 * SECOND, 24 * SECOND - 1), 0),
    "a day": ((BERLIN,), DAY, (23 * HOUR, 47 * HOUR - 1), DAY),
}


@pytest.mark.parametrize("case", TOGETHER)
def test_positions_of_partners_in_windows(case: str) -> None:
    windows, position, (low, high), reach = TOGETHER[case]
    bound = Together(windows)
    for side in SIDES:
        assert bound.partners(side, position, position) == (low, high)
        assert bound.first_kept(side, position) == low
    assert bound.reach == (reach or bound.reach)
    # Each accepted message lies in an open window of each kind.
    first_taken = bound.first_taken(position, grace=0)
    assert all(w.end(w.last_window(w.pane_of(first_taken))) > position for w in windows)
    assert any(w.end(w.last_window(w.pane_of(first_taken - 1))) <= position for w in windows)
    assert bound.first_taken(position + 2, grace=2) == first_taken


BOUNDS: dict[str, tuple[Any, Kind | None, Kind | None, Bound]] = {
    "either way": ("1 minute", None, None, Within(MINUTE, MINUTE)),
    "before alone": (("1 minute", 0), None, None, Within(MINUTE, 0)),
    "after alone": ((0, "1 minute"), None, None, Within(0, MINUTE)),
    "at once": ("0 s", None, None, Within(0, 0)),
    "at once, as a number": (0, None, None, Within(0, 0)),
    "at once, as two numbers": ((0, 0), None, None, Within(0, 0)),
    "wholly after": (("-5 s", "10 s"), None, None, Within(-5 * SECOND, 10 * SECOND)),
    "wholly before": (
        (timedelta(seconds=10), timedelta(seconds=-5)), None, None,
        Within(10 * SECOND, -5 * SECOND),
    ),
    "rows": (rows(3), None, None, Within(3, 3, "rows")),
    "rows before": ((rows(3), 0), None, None, Within(3, 0, "rows")),
    "a distance goes before windows": (
        "1 s", tumbling("1 minute"), sliding("1 s"), Within(SECOND, SECOND)
    ),
    "one side's windows": (None, None, hopping("6 s", "2 s"), Together((hopping("6 s", "2 s"),))),
    "the same on both": (None, tumbling("6 s"), tumbling("6 s"), Together((tumbling("6 s"),))),
    "two kinds": (
        None, tumbling("6 s"), cumulating("4 s", "2 s"),
        Together((tumbling("6 s"), cumulating("4 s", "2 s"))),
    ),
    "sliding": (None, sliding("6 s"), None, Within(6 * SECOND, 6 * SECOND)),
    # The message itself and the two before it.
    "sliding by rows": (None, sliding(rows(3)), None, Within(2, 2, "rows")),
    "sessions": (
        None, make_sessions("6 s"), make_sessions("6 s"), SessionBound(Sessions(6 * SECOND)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BOUNDS)
def test_each_combination_of_options_gives_its_bound(case: str) -> None:
    within, left, right, bound = BOUNDS[case]
    assert find_bound(within, left, right) == bound


UNBOUNDED: dict[str, tuple[Any, Kind | None, Kind | None, str, str]] = {
    "nothing": (None, None, None, "within", 'give within="10 minutes"'),
    "three lengths": (("1 s", "2 s", "3 s"), None, None, "within", "give one length, or two"),
    "a number": ((1, 0), None, None, "within", "for messages"),
    "two axes": (("1 s", rows(1)), None, None, "within", "both as durations, or both as"),
    "sessions on one side": (None, make_sessions("1 s"), None, "session", "the same gap"),
    "other gaps": (None, make_sessions("1 s"), make_sessions("2 s"), "session", "the same gap"),
    "sessions of rows": (
        None, make_sessions(rows(2)), make_sessions(rows(2)), "session", "on the time axis"
    ),
    "sliding and others": (None, sliding("1 s"), tumbling("1 s"), "sliding", "write within="),
}  # fmt: skip


@pytest.mark.parametrize("case", UNBOUNDED)
def test_options_that_give_no_bound_are_refused(case: str) -> None:
    within, left, right, option, hint = UNBOUNDED[case]
    with pytest.raises(OptionError) as refusal:
        find_bound(within, left, right)
    assert refusal.value.option == option
    assert hint in refusal.value.hint


@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_as_of_joins_have_no_other_direction(direction: str) -> None:
    with pytest.raises(OptionError, match="is no age of a version; give True for the newest"):
        find_bound(None, None, None, as_of=direction)


def test_a_message_shares_the_longest_windows_with_the_farthest_partners() -> None:
    kind = cumulating("12 s", "4 s", origin=SECOND)
    assert (Together((kind,)).longest, Together((kind,)).reach) == (12 * SECOND, 4 * SECOND)
    assert Together((kind, tumbling("9 s"))).longest == 9 * SECOND
    assert Together((Windows(10, 7, 1),)).longest == 10


KINDS_BY_TEXT: dict[str, Kind] = {
    "tumbling 10 seconds": tumbling("10 s"),
    "tumbling 10 seconds, origin 3000000 us": tumbling("10 s", origin=13 * SECOND),
    "hopping 4 rows by 2 rows, origin row 1": hopping(rows(4), rows(2), origin=1),
    "cumulating 4 seconds by 2 seconds, origin 1 us": cumulating("4 s", "2 s", origin=1),
    "tumbling 7 days in UTC": days("7 days", "UTC"),
    "tumbling 7 days in UTC, origin day 4": days("7 days", "UTC", origin=4 * DAY),
    "sliding 1 second": sliding("1 s"),
}


@pytest.mark.parametrize("text", KINDS_BY_TEXT)
def test_windows_are_formatted_with_their_origin_if_it_is_not_zero(text: str) -> None:
    assert format_windows(KINDS_BY_TEXT[text]) == text
