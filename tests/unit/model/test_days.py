from __future__ import annotations

import pytest

from muntin.model.axis import HOUR, instant
from muntin.model.days import Days, days
from muntin.model.errors import OptionError
from muntin.model.windows import Windows

CHANGES = [
    ("Europe/Berlin", "2026-03-29", 23),
    ("Europe/Berlin", "2026-10-25", 25),
    ("America/Sao_Paulo", "2018-02-17", 25),
    ("America/Sao_Paulo", "2018-11-04", 23),
    ("America/Havana", "2025-11-02", 25),
    ("America/St_Johns", "2010-11-07", 25),
    ("America/St_Johns", "2010-11-06", 24),
]


@pytest.mark.parametrize(("zone", "date", "hours"), CHANGES)
def test_days_on_which_clocks_change(zone: str, date: str, hours: int) -> None:
    local = days("1 day", zone)
    day = local.day_of(instant("noon", f"{date}T16:00:00"))
    assert (local.end(day) - local.start(day)) / HOUR == hours


@pytest.mark.parametrize(("zone", "date"), [change[:2] for change in CHANGES])
def test_a_day_contains_what_falls_into_it(zone: str, date: str) -> None:
    local = days("1 day", zone)
    noon = instant("noon", f"{date}T12:00:00")
    for time in range(noon - 36 * HOUR, noon + 36 * HOUR, HOUR // 4):
        day = local.day_of(time)
        assert local.start(day) <= time < local.end(day)


def test_days() -> None:
    windows = days("3 days", "Europe/Berlin", slide="1 day")
    assert windows == Days(Windows(3, 1, 0, "rows"), "Europe/Berlin")
    assert (windows.axis, windows.panes_per_window) == ("time", 3)
    assert str(windows) == "hopping 3 days by 1 day in Europe/Berlin"
    assert str(days("1 day", "UTC")) == "tumbling 1 day in UTC"


def test_the_origin_says_on_which_day_windows_start() -> None:
    monday = instant("origin", "2026-03-30T00:00:00+02:00")
    weeks = days("1 week", "Europe/Berlin", origin=monday)
    week = weeks.pane_of(instant("day", "2026-03-29T12:00:00"))
    assert weeks.end(week) == monday
    assert weeks.end(week) - weeks.start(week) == 7 * 24 * HOUR - HOUR


@pytest.mark.parametrize(
    ("size", "zone", "slide", "problem"),
    [
        ("36 hours", "UTC", None, "size='36 hours' isn't a whole number of days"),
        ("2 days", "UTC", "1 hour", "slide='1 hour' isn't a whole number of days"),
        ("1 day", "UTC", "2 days", "is greater than the size"),
        ("0 s", "UTC", None, "is zero"),
        ("1 day", "Mars/Olympus", None, "isn't a known time zone"),
        ("1 day", "../etc/passwd", None, "isn't a known time zone"),
        ("1 day", "", None, "isn't a known time zone"),
    ],
)
def test_days_that_cannot_be(size: str, zone: str, slide: str | None, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        days(size, zone, slide=slide)


@pytest.mark.parametrize("grid", [Windows(1, 1), Windows(3, 2, 1), Windows(7, 7, 3)], ids=str)
@pytest.mark.parametrize(("zone", "date"), [change[:2] for change in CHANGES[:3]])
def test_windows_of_days_are_their_panes(grid: Windows, zone: str, date: str) -> None:
    windows = Days(grid, zone)
    for time in range(
        instant("noon", f"{date}T12:00:00") - 60 * HOUR,
        instant("noon", f"{date}T12:00:00") + 60 * HOUR,
        HOUR // 2,
    ):
        pane = windows.pane_of(time)
        assert windows.pane_start(pane) <= time < windows.pane_start(pane + 1)
        numbers = range(windows.first_window(pane) - 2, windows.last_window(pane) + 3)
        holding = [w for w in numbers if windows.start(w) <= time < windows.end(w)]
        assert holding == list(numbers)[2:-2]
        latest = windows.ended(time)
        assert windows.end(latest) <= time < windows.end(latest + 1)
        assert windows.pane_start(windows.first_pane(latest)) == windows.start(latest)
        assert windows.pane_start(windows.last_pane(latest) + 1) == windows.end(latest)


FAR_EAST_AND_WEST = ["Europe/Berlin", "America/New_York", "Pacific/Kiritimati", "Pacific/Niue"]
# Where the calendar begins and ends, and where nobody has a calendar.
EDGES = [-62_135_596_800_000_000, 253_402_300_800_000_000, -(2**62), 2**62]


@pytest.mark.parametrize("zone", FAR_EAST_AND_WEST)
@pytest.mark.parametrize("edge", EDGES)
def test_days_at_the_ends_of_the_calendar(zone: str, edge: int) -> None:
    local = days("1 day", zone)
    for hour in range(-60, 60):
        for time in (edge + hour * HOUR, edge + hour * HOUR - 1):
            day = local.day_of(time)
            assert local.start(day) <= time < local.end(day)
            assert local.ended(time) == day - 1


def test_days_beyond_the_calendar_are_those_of_utc() -> None:
    local = days("1 day", "Asia/Tokyo")
    year_zero = EDGES[0] - 300 * 24 * HOUR
    assert local.start(local.day_of(year_zero + HOUR)) == year_zero
