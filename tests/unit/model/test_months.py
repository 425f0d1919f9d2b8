from __future__ import annotations

import pytest

from muntin.model.axis import DAY, HOUR, format_time, parse_duration, parse_time
from muntin.model.errors import OptionError
from muntin.model.kinds import of_size
from muntin.model.months import Months, count_months, months
from muntin.model.windows import Windows

MAX_TIME_DISTANCE = 2**61


def test_months() -> None:
    windows = months("1 quarter", "Europe/Berlin", slide="1 month")
    assert windows == Months(Windows(3, 1, 0, "rows"), "Europe/Berlin")
    assert (windows.axis, windows.panes_per_window) == ("time", 3)
    assert str(windows) == "hopping 3 months by 1 month in Europe/Berlin"
    assert str(months("1 month", None)) == "tumbling 1 month in UTC"


@pytest.mark.parametrize(
    ("size", "zone", "at", "start", "end"),
    [
        ("1 month", "UTC", "2024-02-29T23:59:59", "2024-02-01", "2024-03-01"),
        ("1 month", "UTC", "1969-12-31T23:59:59", "1969-12-01", "1970-01-01"),
        ("1 year", "UTC", "2026-07-01T00:00:00", "2026-01-01", "2027-01-01"),
        ("P3M", "UTC", "2026-05-01T00:00:00", "2026-04-01", "2026-07-01"),
        ("1 month", "Europe/Berlin", "2026-02-28T23:00:00", "2026-02-28T23:00:00",
         "2026-03-31T22:00:00"),
        ("1 month", "America/New_York", "2026-03-01T04:59:59", "2026-02-01T05:00:00",
         "2026-03-01T05:00:00"),
    ],
)  # fmt: skip
def test_a_month_begins_with_its_first_day(
    size: str, zone: str, at: str, start: str, end: str
) -> None:
    windows = months(size, zone)
    month = windows.pane_of(parse_time("at", at))
    assert windows.start(month) == parse_time("start", start)
    assert windows.end(month) == parse_time("end", end)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Pacific/Kiritimati"])
def test_each_time_is_in_its_month(zone: str) -> None:
    windows = months("1 month", zone)
    edges = [windows.midnight(month) for month in (-24_000, -1, 0, 1, 674, 96_360, 10**6)]
    ends = [-62_135_596_800_000_000, 253_402_300_800_000_000, -MAX_TIME_DISTANCE, MAX_TIME_DISTANCE]
    for edge in [*edges, *ends]:
        for off in (-DAY, -1, 0, 1, HOUR, 40 * DAY):
            month = windows.day_of(edge + off)
            assert windows.midnight(month) <= edge + off < windows.midnight(month + 1)
    lengths = {(windows.end(m) - windows.start(m)) // HOUR for m in range(600, 700)}
    assert {length // 24 for length in lengths} <= {27, 28, 29, 30, 31}


def test_the_origin_says_in_which_month_windows_start() -> None:
    april = parse_time("origin", "2026-04-15T00:00:00")
    years = months("1 year", "UTC", origin=april)
    year = years.pane_of(parse_time("day", "2026-03-31T00:00:00"))
    assert years.end(year) == parse_time("end", "2026-04-15T00:00:00")


@pytest.mark.parametrize(
    ("origin", "zone", "starts"),
    [
        ("2020-04-15", None, ["2020-01-15 00:00:00", "2020-02-15 00:00:00"]),
        ("2020-03-31T22:00:00Z", "Europe/Paris", ["2020-01-31 23:00:00", "2020-02-29 23:00:00"]),
        ("2020-03-31T22:00:00Z", None, ["2020-01-31 22:00:00", "2020-02-29 22:00:00"]),
        ("2020-01-30", "America/New_York", ["2020-01-30 05:00:00", "2020-02-29 05:00:00"]),
    ],
)
def test_months_start_with_the_day_and_hour_of_their_origin(
    origin: str, zone: str | None, starts: list[str]
) -> None:
    """A month that lacks the day starts with its last one."""
    windows = months("1 month", zone, origin=origin)
    first = windows.pane_of(parse_time("at", "2020-02-10T00:00:00"))
    assert [format_time(windows.start(first + n)) for n in range(2)] == starts


def test_sizes_in_months() -> None:
    month_sizes = [
        "1 month",
        "2 Quarters",
        "INTERVAL '1' YEAR",
        "interval 3 months",
        "P1Y",
        " p2m ",
    ]
    assert [count_months(size) for size in month_sizes] == [1, 6, 12, 3, 12, 2]
    other_sizes = ["1 day", "PT1M", "1m", "1 month 2 days", "month", "1.5 months", ""]
    assert [count_months(size) for size in other_sizes] == [None] * len(other_sizes)


@pytest.mark.parametrize(
    ("size", "zone", "slide", "problem"),
    [
        ("1 month", "UTC", "1 day", "slide='1 day' isn't a whole number of months"),
        ("1 month", "UTC", "1 year", "is greater than the size"),
        ("0 months", "UTC", None, "size='0 months' isn't a whole number of months"),
        ("1 month", "Mars/Olympus", None, "isn't a known time zone"),
    ],
)
def test_invalid_months_are_refused(size: str, zone: str, slide: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        months(size, zone, slide=slide)


def test_a_month_is_no_duration() -> None:
    with pytest.raises(OptionError, match="lateness='1 month' has no fixed length; give days"):
        parse_duration("lateness", "1 month")


@pytest.mark.parametrize("size", ["1001 years", "9999999 years", "99999999 quarters", "P12001M"])
def test_more_months_than_calendars_have_are_refused(size: str) -> None:
    assert str(of_size("1000 years")) == "tumbling 12000 months in UTC"
    with pytest.raises(OptionError, match="is longer than calendars are; give 1000 years or less"):
        of_size(size)
