"""Session zones as Spark has them: offsets, Java's short names, changes of clocks."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl
import pytest

from muntin.engine.session_zone import find_session_zone

NOON = datetime(2026, 7, 1, 12)


def moments(zone: str, *local: datetime | None) -> list[datetime | None]:
    known = find_session_zone(zone)
    assert known is not None
    found = known.to_instants(pl.Series([*local], dtype=pl.Datetime("us")))
    assert found.dtype == pl.Datetime("us", "UTC")
    return found.dt.replace_time_zone(None).to_list()


@pytest.mark.parametrize(
    ("zone", "hours"),
    {
        "UTC": 0, "Z": 0, "UT": 0, "GMT": 0, "GMT0": 0, "-00:00": 0, "UTC+00:00": 0,
        "+05:30": 5.5, "+0530": 5.5, "+5": 5, "-5:30": -5.5, "GMT+1": 1, "UTC+2": 2,
        "UT-03:30": -3.5,
        "+18": 18, "PST": -7, "EST": -5, "EST5EDT": -4, "MST": -7, "HST": -10, "CST": -5,
        "Etc/GMT+5": -5, "Europe/Berlin": 2, "Asia/Kolkata": 5.5,
    }.items(),
)  # fmt: skip
def test_a_zone_is_what_java_has_by_its_name(zone: str, hours: float) -> None:
    assert moments(zone, NOON, None) == [NOON - timedelta(hours=hours), None]


@pytest.mark.parametrize("zone", ["SystemV/PST8", "+05:30:15", "Mars/Olympus", "GMT+"])
def test_what_isnt_in_the_database_is_unknown(zone: str) -> None:
    assert find_session_zone(zone) is None


def test_a_time_that_is_skipped_is_read_by_the_offset_before() -> None:
    gap = datetime(2026, 3, 29, 2, 30)
    assert moments("Europe/Berlin", gap) == [datetime(2026, 3, 29, 1, 30)]
    # Samoa has no 30 December of 2011.
    whole_day = datetime(2011, 12, 30, 12)
    assert moments("MIT", whole_day, NOON) == [
        datetime(2011, 12, 30, 22), NOON - timedelta(hours=13)
    ]  # fmt: skip


def test_a_time_that_comes_twice_is_the_first() -> None:
    assert moments("Europe/Berlin", datetime(2026, 10, 25, 2, 30)) == [
        datetime(2026, 10, 25, 0, 30)
    ]


def test_moments_are_shown_by_the_zones_clock() -> None:
    at = pl.Series("at", [NOON]).dt.replace_time_zone("UTC").to_frame()
    for zone, text in (
        ("+05:30", "17:30+05:30"), ("GMT-7", "05:00-07:00"), ("PST", "05:00-07:00"),
        ("UTC", "12:00+00:00"),
    ):  # fmt: skip
        known = find_session_zone(zone)
        assert known is not None
        shown, end = known.local(pl.col("at"))
        assert at.select(shown.dt.strftime(f"%H:%M{end}")).item() == text
