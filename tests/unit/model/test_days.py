from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.model.axis import HOUR, format_time, parse_time
from muntin.model.days import Days, Hours, cumulating_days, days
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


@pytest.mark.parametrize(("zone", "day_of_change", "hours"), CHANGES)
def test_days_on_which_clocks_change(zone: str, day_of_change: str, hours: int) -> None:
    local = days("1 day", zone)
    day = local.day_of(parse_time("noon", f"{day_of_change}T16:00:00"))
    assert (local.end(day) - local.start(day)) / HOUR == hours


@pytest.mark.parametrize(("zone", "date"), [change[:2] for change in CHANGES])
def test_a_day_contains_its_times(zone: str, date: str) -> None:
    local = days("1 day", zone)
    noon = parse_time("noon", f"{date}T12:00:00")
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
    monday = parse_time("origin", "2026-03-30T00:00:00+02:00")
    weeks = days("1 week", "Europe/Berlin", origin=monday)
    week = weeks.pane_of(parse_time("day", "2026-03-29T12:00:00"))
    assert weeks.end(week) == monday
    assert weeks.end(week) - weeks.start(week) == 7 * 24 * HOUR - HOUR


@pytest.mark.parametrize(
    ("size", "zone", "slide", "problem"),
    [
        ("36 hours", "UTC", None, "size='1 day 12 hours' doesn't divide a day of a zone"),
        ("5 hours", "UTC", None, "size='5 hours' doesn't divide a day of a zone"),
        ("1 day", "UTC", "2 days", "is greater than the size"),
        ("0 s", "UTC", None, "is zero"),
        ("1 day", "Mars/Olympus", None, "isn't a known time zone"),
        ("1 day", "../etc/passwd", None, "isn't a known time zone"),
        ("1 day", "", None, "isn't a known time zone"),
    ],
)
def test_invalid_days_are_refused(size: str, zone: str, slide: str | None, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        days(size, zone, slide=slide)


@pytest.mark.parametrize("grid", [Windows(1, 1), Windows(3, 2, 1), Windows(7, 7, 3)], ids=str)
@pytest.mark.parametrize(("zone", "date"), [change[:2] for change in CHANGES[:3]])
def test_windows_of_days_are_their_panes(grid: Windows, zone: str, date: str) -> None:
    windows = Days(grid, zone)
    for time in range(
        parse_time("noon", f"{date}T12:00:00") - 60 * HOUR,
        parse_time("noon", f"{date}T12:00:00") + 60 * HOUR,
        HOUR // 2,
    ):
        pane = windows.pane_of(time)
        assert windows.pane_start(pane) <= time < windows.pane_start(pane + 1)
        numbers = range(windows.first_window(pane) - 2, windows.last_window(pane) + 3)
        holding = [w for w in numbers if windows.start(w) <= time < windows.end(w)]
        assert holding == list(numbers)[2:-2]
        latest = windows.last_ended(time)
        assert windows.end(latest) <= time < windows.end(latest + 1)
        assert windows.pane_start(windows.first_pane(latest)) == windows.start(latest)
        assert windows.pane_start(windows.last_pane(latest) + 1) == windows.end(latest)


FAR_EAST_AND_WEST = ["Europe/Berlin", "America/New_York", "Pacific/Kiritimati", "Pacific/Niue"]
# The first and last time of the calendar, and times far beyond it.
EDGES = [-62_135_596_800_000_000, 253_402_300_800_000_000, -(2**62), 2**62]


@pytest.mark.parametrize("zone", FAR_EAST_AND_WEST)
@pytest.mark.parametrize("edge", EDGES)
def test_days_at_the_ends_of_the_calendar(zone: str, edge: int) -> None:
    local = days("1 day", zone)
    for hour in range(-60, 60):
        for time in (edge + hour * HOUR, edge + hour * HOUR - 1):
            day = local.day_of(time)
            assert local.start(day) <= time < local.end(day)
            assert local.last_ended(time) == day - 1


def test_days_beyond_the_calendar_are_those_of_utc() -> None:
    local = days("1 day", "Asia/Tokyo")
    year_zero = EDGES[0] - 300 * 24 * HOUR
    assert local.start(local.day_of(year_zero + HOUR)) == year_zero


def list_starts(windows: Days, at: str, count: int = 2) -> list[str]:
    """Return the starts of consecutive windows; the first one holds the time."""
    first = windows.first_window(windows.pane_of(parse_time("at", at)))
    return [format_time(windows.start(first + n))[:16] for n in range(count)]


@pytest.mark.parametrize(
    ("origin", "zone", "offset", "at", "starts"),
    [
        # 06:00 by the wall, on the day on which clocks are set forward.
        ("2023-03-25T05:00:00", "Europe/Paris", 0, "2023-03-25T06:00",
         ["2023-03-25 05:00", "2023-03-26 04:00", "2023-03-27 04:00"]),
        (None, "Europe/Paris", 18 * HOUR, "2023-10-28T20:00",
         ["2023-10-28 16:00", "2023-10-29 17:00", "2023-10-30 17:00"]),
        # A time of day that is skipped, and one that occurs twice.
        (None, "Europe/Berlin", 5 * HOUR // 2, "2023-03-25T12:00",
         ["2023-03-25 01:30", "2023-03-26 01:00", "2023-03-27 00:30"]),
        (None, "Europe/Berlin", 5 * HOUR // 2, "2023-10-28T12:00",
         ["2023-10-28 00:30", "2023-10-29 00:30", "2023-10-30 01:30"]),
    ],
)  # fmt: skip
def test_days_begin_at_a_local_time(
    origin: str | None, zone: str, offset: int, at: str, starts: list[str]
) -> None:
    assert list_starts(days("1 day", zone, origin=origin, offset=offset), at, 3) == starts


@pytest.mark.parametrize("origin", ["2023-03-27", date(2023, 3, 27)])
def test_a_plain_date_is_the_day_of_the_zone(origin: str | date) -> None:
    weeks = days("1 week", "America/New_York", origin=origin)
    assert list_starts(weeks, "2023-03-27T04:00") == ["2023-03-27 04:00", "2023-04-03 04:00"]


@pytest.mark.parametrize(
    ("size", "zone", "at", "starts"),
    [
        ("1 hour", "Asia/Kolkata", "2023-03-28T05:00",
         ["2023-03-28 04:30", "2023-03-28 05:30", "2023-03-28 06:30"]),
        ("1 hour", "Asia/Kathmandu", "2023-03-28T05:00",
         ["2023-03-28 04:15", "2023-03-28 05:15", "2023-03-28 06:15"]),
        # The hour that the wall shows twice is one window of two hours.
        ("1 hour", "Europe/Berlin", "2023-10-29T01:10",
         ["2023-10-29 00:00", "2023-10-29 02:00", "2023-10-29 03:00"]),
        # An hour that the local clock skips has no length.
        ("30 minutes", "Europe/Berlin", "2023-03-26T00:40",
         ["2023-03-26 00:30", "2023-03-26 01:00", "2023-03-26 01:00"]),
        # Clocks are set forward by half an hour.
        ("1 hour", "Australia/Lord_Howe", "2023-09-30T15:00",
         ["2023-09-30 14:30", "2023-09-30 15:30", "2023-09-30 16:00"]),
    ],
)  # fmt: skip
def test_parts_of_a_local_day(size: str, zone: str, at: str, starts: list[str]) -> None:
    assert list_starts(days(size, zone), at, 3) == starts


def test_a_day_that_a_zone_skipped_has_no_length() -> None:
    samoa = days("1 day", "Pacific/Apia")
    before = samoa.pane_of(parse_time("at", "2011-12-30T09:59"))
    assert samoa.pane_of(parse_time("at", "2011-12-30T10:00")) == before + 2
    assert samoa.start(before + 1) == samoa.end(before + 1)


def test_steps_of_the_local_day() -> None:
    windows = cumulating_days("1 day", "6 hours", "Europe/Berlin")
    first = windows.first_window(windows.pane_of(parse_time("at", "2023-03-25T23:00")))
    numbers = range(first, first + 4)
    window_bounds = {(format_time(windows.start(n)), format_time(windows.end(n))) for n in numbers}
    ends = ["2023-03-26 04:00:00", "2023-03-26 10:00:00", "2023-03-26 16:00:00"]
    assert window_bounds == {("2023-03-25 23:00:00", end) for end in [*ends, "2023-03-26 22:00:00"]}
    for step, problem in (("1 hour", "may be skipped"), ("5 hours", "doesn't divide the size")):
        with pytest.raises(OptionError, match=problem):
            cumulating_days("1 day", step, "Europe/Berlin")


@settings(max_examples=200)
@given(
    st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "Antarctica/Troll"]),
    st.sampled_from([HOUR // 4, HOUR, 6 * HOUR]),
    st.integers(0, 6 * HOUR - 1),
    st.integers(0, 2**51),
)
def test_parts_follow_each_other(zone: str, part: int, shift: int, position: int) -> None:
    windows = Hours(Windows(1, 1), zone, shift % part, part)
    number = windows.day_of(position)
    assert windows.midnight(number) <= position < windows.midnight(number + 1)
    assert number in windows.numbers_around(position // (24 * HOUR))
