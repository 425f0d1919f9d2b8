"""Tests of Spark's session zones: offsets, Java's short names, changes of clocks."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl
import pytest

from muntin.engine.session_zone import find_session_zone

NOON = datetime(2026, 7, 1, 12)


def convert_to_instants(zone: str, *local: datetime | None) -> list[datetime | None]:
    session_zone = find_session_zone(zone)
    assert session_zone is not None
    instants = session_zone.to_instants(pl.Series([*local], dtype=pl.Datetime("us")))
    assert instants.dtype == pl.Datetime("us", "UTC")
    return instants.dt.replace_time_zone(None).to_list()


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
def test_a_zone_has_the_offset_that_java_has(zone: str, hours: float) -> None:
    assert convert_to_instants(zone, NOON, None) == [NOON - timedelta(hours=hours), None]


@pytest.mark.parametrize("zone", ["SystemV/PST8", "+05:30:15", "Mars/Olympus", "GMT+"])
def test_a_zone_that_isnt_in_the_database_is_unknown(zone: str) -> None:
    assert find_session_zone(zone) is None


def test_a_time_that_is_skipped_is_read_by_the_offset_before() -> None:
    gap = datetime(2026, 3, 29, 2, 30)
    assert convert_to_instants("Europe/Berlin", gap) == [datetime(2026, 3, 29, 1, 30)]
    # Samoa has no 30 December of 2011.
    whole_day = datetime(2011, 12, 30, 12)
    assert convert_to_instants("MIT", whole_day, NOON) == [
        datetime(2011, 12, 30, 22), NOON - timedelta(hours=13)
    ]  # fmt: skip


def test_a_time_that_occurs_twice_is_the_first() -> None:
    assert convert_to_instants("Europe/Berlin", datetime(2026, 10, 25, 2, 30)) == [
        datetime(2026, 10, 25, 0, 30)
    ]


def test_times_are_shown_by_the_zones_clock() -> None:
    at = pl.Series("at", [NOON]).dt.replace_time_zone("UTC").to_frame()
    for zone, text in (
        ("+05:30", "17:30+05:30"), ("GMT-7", "05:00-07:00"), ("PST", "05:00-07:00"),
        ("UTC", "12:00+00:00"),
    ):  # fmt: skip
        session_zone = find_session_zone(zone)
        assert session_zone is not None
        local_time, suffix = session_zone.local(pl.col("at"))
        assert at.select(local_time.dt.strftime(f"%H:%M{suffix}")).item() == text
