"""Tests of the times when a crontab is due, by the calendar of its zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import muntin as mt
from muntin.model.axis import parse_time, to_datetime
from muntin.tables.crontab import Crontab


def list_due_times(text: str, since: str, count: int, zone: Any = "UTC") -> list[str]:
    """Return the first due times after a time, in UTC."""
    crontab, time, times = Crontab.parse(text, zone), parse_time("since", since), []
    for _ in range(count):
        time = crontab.next_due(time)
        times.append(f"{to_datetime(time):%Y-%m-%d %H:%M}")
    return times


@pytest.mark.parametrize(
    ("text", "since", "times"),
    [
        ("* * * * *", "2026-01-01T00:00:30", ["2026-01-01 00:01", "2026-01-01 00:02"]),
        ("0 9 * * *", "2026-01-01T09:00", ["2026-01-02 09:00", "2026-01-03 09:00"]),
        ("0 9 * * MON-fri", "2026-01-02T10:00", ["2026-01-05 09:00", "2026-01-06 09:00"]),
        ("*/40 7,9-10 1 * *", "2026-01-01T07:30", ["2026-01-01 07:40", "2026-01-01 09:00"]),
        ("30/10 8 * * *", "2026-01-01T00:00", ["2026-01-01 08:30", "2026-01-01 08:40"]),
        ("0 0 1 jan,7 *", "2026-01-01T00:00", ["2026-07-01 00:00", "2027-01-01 00:00"]),
        ("0 0 * * 7", "2026-01-01T00:00", ["2026-01-04 00:00", "2026-01-11 00:00"]),
        ("0 0 * * 0", "2026-01-01T00:00", ["2026-01-04 00:00", "2026-01-11 00:00"]),
        # Either the 3rd or a Friday; with a * both.
        ("0 0 3 * fri", "2026-01-01T00:00", ["2026-01-02 00:00", "2026-01-03 00:00"]),
        ("0 0 13 * */5", "2026-01-01T00:00", ["2026-02-13 00:00", "2026-03-13 00:00"]),
        ("0 0 29 2 *", "2096-03-01T00:00", ["2104-02-29 00:00", "2108-02-29 00:00"]),
        ("0 0 31 * *", "2026-01-31T00:00", ["2026-03-31 00:00", "2026-05-31 00:00"]),
    ],
)
def test_due_times(text: str, since: str, times: list[str]) -> None:
    assert list_due_times(text, since, len(times)) == times


def test_every_minute_of_a_week_that_fits_and_no_other() -> None:
    start = datetime(2026, 2, 26, tzinfo=UTC)
    minutes = [start + timedelta(minutes=n) for n in range(7 * 1440)]
    expected = [
        f"{at:%Y-%m-%d %H:%M}"
        for at in minutes
        if at.minute % 20 == 0 and 6 <= at.hour <= 8 and at.isoweekday() <= 5
    ]
    assert list_due_times("*/20 6-8 * * 1-5", "2026-02-25T23:59", len(expected)) == expected


@pytest.mark.parametrize(
    ("text", "since", "times"),
    [
        # In spring the hour from 2 to 3 is missing, in autumn it comes twice.
        ("30 2 * * *", "2026-03-28T12:00", ["2026-03-29 01:30", "2026-03-30 00:30"]),
        ("30 2 * * *", "2026-10-24T12:00", ["2026-10-25 00:30", "2026-10-26 01:30"]),
        ("30 * * * *", "2026-10-24T23:30", ["2026-10-25 00:30", "2026-10-25 01:30"]),
        ("30 * * * *", "2026-03-29T00:00", ["2026-03-29 00:30", "2026-03-29 01:30"]),
    ],
)
def test_clocks_that_change(text: str, since: str, times: list[str]) -> None:
    assert list_due_times(text, since, 2, "Europe/Berlin") == times
    assert list_due_times(text, since, 2, ZoneInfo("Europe/Berlin")) == times


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0 9 * *", r"crontab='0 9 \* \*' has 4 fields; write minute, hour, .*0 9 \* \* mon-fri"),
        ("@daily", "crontab='@daily' has 1 fields"),
        ("60 * * * *", r"has '60' for its minute; give 0 to 59, lists"),
        ("0 9-24 * * *", "has '9-24' for its hour"),
        ("0 0 0 * *", "has '0' for its day"),
        ("0 0 * dec-jan *", "has 'dec-jan' for its month"),
        ("0 0 * * funday", "has 'funday' for its weekday"),
        ("*/0 * * * *", "for its minute"),
        ("1,,2 * * * *", "has '1,,2' for its minute"),
        ("0 0 31 2 *", "crontab='0 0 31 2 .*is never due; give a day"),
    ],
)
def test_what_is_no_crontab_is_refused(text: str, problem: str) -> None:
    with pytest.raises(mt.OptionError, match=problem):
        mt.App("app").crontab(text)


def test_a_zone_that_is_none_is_refused() -> None:
    with pytest.raises(mt.OptionError, match="timezone='Mars' isn't a known time zone"):
        mt.App("app").crontab("0 9 * * *", timezone="Mars")
