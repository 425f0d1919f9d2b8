from __future__ import annotations

import polars as pl
import pytest

from muntin.engine.firing import MAX_WINDOW, BatchClock, is_due, is_due_by_clock, may_be_due
from muntin.model.policies import Each, Every, EveryRows, Policy, RowsOrEvery
from muntin.model.windows import Windows


def make_clock(
    before: int | None = None,
    after: int | None = None,
    *,
    windows: Windows | None = None,
    grace: int = 0,
    walls: tuple[int | None, int] = (None, 0),
    final: bool = False,
) -> BatchClock:
    return BatchClock.of(windows or Windows(10, 10), grace, (before, after), walls, final)


def list_window_limits(clock: BatchClock) -> tuple[int, int, int, int]:
    return clock.before, clock.after, clock.closed_before, clock.closed_after


def test_before_the_first_message_nothing_has_ended() -> None:
    assert list_window_limits(make_clock()) == (-MAX_WINDOW,) * 4
    assert list_window_limits(make_clock(None, 25)) == (-MAX_WINDOW, 1, -MAX_WINDOW, 1)


def test_a_window_has_ended_when_the_watermark_reaches_its_end() -> None:
    # window  0         1         2
    #         [---------)[--------)[------
    #         0        10        20
    assert list_window_limits(make_clock(9, 10)) == (-1, 0, -1, 0)
    assert list_window_limits(make_clock(19, 20)) == (0, 1, 0, 1)


def test_grace_keeps_windows_open_after_their_end() -> None:
    # the watermark goes 14 -> 15: window 0 ended at 10, and closes at 15
    assert list_window_limits(make_clock(14, 15, grace=5)) == (0, 0, -1, 0)


def test_overlapping_windows_before_the_origin() -> None:
    # windows of 10 every 4 from 3: window -5 is [-17, -7), window -4 is [-13, -3)
    windows = Windows(10, 4, 3)
    assert list_window_limits(make_clock(-8, -3, windows=windows)) == (-6, -4, -6, -4)


def test_the_end_of_the_input_ends_and_closes_everything() -> None:
    clock = make_clock(5, 5, grace=10**9, final=True)
    assert (clock.after, clock.closed_after) == (MAX_WINDOW, MAX_WINDOW)
    assert clock.before == -1
    assert list_window_limits(make_clock(final=True)) == (
        -MAX_WINDOW,
        MAX_WINDOW,
        -MAX_WINDOW,
        MAX_WINDOW,
    )


@pytest.mark.parametrize(
    ("last", "wall", "has_passed"),
    [
        (None, 100, False),
        (100, 109, False),
        (100, 110, True),
        (109, 110, True),
        (100, 155, True),
        (110, 109, False),
        (-1, 0, True),
        (-11, -10, True),
        (100, 100, False),
    ],
)
def test_a_clock_passes_multiples_of_its_period(
    last: int | None, wall: int, has_passed: bool
) -> None:
    clock = make_clock(walls=(last, wall))
    assert clock.has_passed(10) is has_passed
    assert may_be_due(Every(10), clock) is has_passed
    assert is_due_by_clock(Every(10), clock) is has_passed
    assert list_due_rows(Every(10), clock) == ([1, 2, 3] if has_passed else [])
    assert may_be_due(RowsOrEvery(2, 10), clock)
    assert is_due_by_clock(RowsOrEvery(2, 10), clock) is has_passed
    assert list_due_rows(RowsOrEvery(2, 10), clock) == ([1, 2, 3] if has_passed else [2, 3])


def list_due_rows(policy: Policy, clock: BatchClock) -> list[int]:
    return pl.DataFrame({"n": [1, 2, 3]}).filter(is_due(policy, clock))["n"].to_list()


def test_each_is_always_due() -> None:
    assert may_be_due(Each(), make_clock())
    assert list_due_rows(Each(), make_clock()) == [1, 2, 3]


def test_rows_are_due_from_their_number_on() -> None:
    assert may_be_due(EveryRows(2), make_clock())
    assert list_due_rows(EveryRows(2), make_clock()) == [2, 3]
    assert list_due_rows(EveryRows(4), make_clock()) == []
