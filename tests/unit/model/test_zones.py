from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

import muntin as mt
from muntin.model.errors import OptionError
from muntin.model.kinds import Kind, cumulating_in, of_size
from muntin.model.months import Months
from muntin.model.recall import load_spec
from muntin.model.spec import WindowSpec
from muntin.model.zones import ZonedWindows, list_zones
from muntin.standalone import WindowedAggregator, join, windowed

SALES = windowed(key="shop", time="at")


def build_spec(windows: Any, **aggregates: Any) -> WindowSpec:
    """Build the query as the hosts do; operators refuse it."""
    keys = windows._all_keys(windows._keys)
    return windows._spec(aggregates or {"n": mt.count()}, keys)


def test_windows_of_a_zone_are_those_that_name_it() -> None:
    zoned = of_size("7 days", "1 day", zone_column="tz", origin="2026-01-05T06:00")
    assert isinstance(zoned, ZonedWindows)
    for zone in ("Europe/Paris", "America/New_York"):
        # In a zone by name a time without an offset is UTC.
        local = date(2026, 1, 5)
        named = of_size("7 days", "1 day", zone=zone, origin=local, offset=6 * 3_600_000_000)
        assert zoned.in_zone(zone) == named
    months = of_size("3 months", zone_column="tz")
    assert isinstance(months, ZonedWindows)
    assert isinstance(months.in_zone("Asia/Tokyo"), Months)
    steps = cumulating_in("1 day", "6 hours", zone_column="tz")
    assert isinstance(steps, ZonedWindows)
    assert steps.in_zone("Asia/Tokyo") == cumulating_in("1 day", "6 hours", zone="Asia/Tokyo")


def test_the_zone_is_the_last_key_unless_the_query_names_it() -> None:
    assert build_spec(SALES.tumbling("1 day", zone_column="tz")).keys == ("shop", "tz")
    first = windowed(key=("tz", "shop"), time="at").tumbling("1 day", zone_column="tz")
    assert build_spec(first).keys == ("tz", "shop")
    assert build_spec(windowed(time="at").tumbling("1 day", zone_column="tz")).keys == ("tz",)


@pytest.mark.parametrize("nulls", ["reject", "group"])
def test_a_zone_is_never_null(nulls: Any) -> None:
    query = windowed(key="shop", time="at", nulls=nulls).tumbling("1 day", zone_column="tz")
    assert "tz" in build_spec(query).non_null_keys


def test_a_checkpoint_stores_the_column() -> None:
    spec = build_spec(SALES.hopping("1 month", "1 month", zone_column="tz"))
    assert load_spec(spec.to_dict()) == spec
    other_spec = build_spec(windowed(key=("shop", "tz"), time="at").hopping("1 month", "1 month"))
    assert [line.partition(":")[0] for line in other_spec.differences(spec)] == ["windows"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"zone": "Europe/Paris"}, "stands beside zone=Europe/Paris"),
        ({"zone_column": ""}, "isn't the name of a column"),
        ({"zone_column": 5}, "isn't the name of a column"),
        ({"origin": "2026-01-01T06:00Z"}, "is another local time in each zone"),
        ({"origin": "2026-01-01T06:00:00+02:00"}, "is another local time in each zone"),
        ({"origin": datetime(2026, 1, 1, tzinfo=UTC)}, "is another local time in each zone"),
        ({"origin": 3_600_000_000}, "is another local time in each zone"),
        ({"origin": "some day"}, "origin"),
    ],
)
def test_options_that_a_zone_per_key_cannot_be_combined_with(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(OptionError, match=problem):
        SALES.tumbling("1 day", **{"zone_column": "tz", **options})


@pytest.mark.parametrize("size", ["100 minutes", "36 hours", mt.rows(3)])
def test_sizes_other_than_days_or_their_parts_are_refused(size: Any) -> None:
    with pytest.raises(OptionError, match="leave the zone away"):
        SALES.tumbling(size, zone_column="tz")


def test_queries_that_refuse_a_zone_per_key() -> None:
    days = SALES.tumbling("1 day", zone_column="tz")
    with pytest.raises(OptionError, match="zone_column='tz' isn't taken by operators"):
        days.agg(n=mt.count())
    with pytest.raises(OptionError, match="zone_column='tz' isn't taken by operators"):
        WindowedAggregator(build_spec(days))
    for sides in ((days, SALES), (SALES, days)):
        with pytest.raises(OptionError, match="zone_column='tz' isn't taken by joins"):
            join(*sides, on="shop", within="1 hour")
    with pytest.raises(OptionError, match="have no zone without their key"):
        build_spec(days.sets(["tz"], ["shop", "tz"]))
    with pytest.raises(OptionError, match="can't be counted over zones"):
        build_spec(days.keep("1 day", rows=100))
    with pytest.raises(OptionError, match="over=5 can't be counted over zones"):
        build_spec(days.early(every="1 minute", over=5))
    with pytest.raises(OptionError, match="isn't a key column"):
        WindowSpec(
            keys=("shop",),
            time="at",
            windows=of_size("1 day", zone_column="tz"),
            aggregates={"n": mt.count()},
        )


def test_names_of_zones() -> None:
    assert {"UTC", "Europe/Paris", "America/Argentina/Ushuaia"} <= list_zones()
    # The zone of the machine is another one on each.
    assert not {"localtime", "posixrules", "", "europe/paris", "../UTC"} & list_zones()


def test_the_kind_as_text() -> None:
    kinds: list[Kind] = [
        of_size("1 day", zone_column="tz"),
        of_size("1 month", zone_column="tz", origin="2026-01-15"),
        of_size("6 hours", zone_column="tz"),
    ]
    assert list(map(str, kinds)) == [
        "tumbling 1 day in each key's zone (tz)",
        "tumbling 1 month in each key's zone (tz), from day 15",
        "tumbling 6 hours in each key's zone (tz)",
    ]
