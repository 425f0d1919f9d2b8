from __future__ import annotations

import pytest

from muntin.model.axis import HOUR, instant
from muntin.model.days import days

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
