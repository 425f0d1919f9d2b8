"""Tests of the options of an input, which windows and joins share."""

from __future__ import annotations

from typing import Any

import pytest

from muntin.hosts.tick_period import find_tick_period
from muntin.model.errors import OptionError
from muntin.model.inputs import AHEAD, InputOptions, InputSpec
from muntin.model.joins import Side
from muntin.model.policies import Every, Firing
from muntin.tables.app import App

SECOND = 1_000_000


def test_options_are_parsed_with_their_durations() -> None:
    options = {"lateness": "5 s", "max_ahead": None, "offset": ("part", "n"), "idle": "1 minute"}
    assert InputOptions.parse("at", options) == InputOptions(
        "at", lateness=5 * SECOND, max_ahead=None, offset=("part", "n"), idle=60 * SECOND
    )
    assert InputOptions.parse("at", {}) == InputOptions("at")
    with pytest.raises(OptionError, match="idle='0 s' is zero"):
        InputOptions.parse("at", {"idle": "0 s"})
    with pytest.raises(OptionError, match="isn't a pair of columns"):
        InputOptions.parse("at", {"offset": ("topic", "part", "n")})


@pytest.mark.parametrize("value", [None, "any", "Any"])
def test_any_time_may_be_written_as_in_sql_and_toml(value: str | None) -> None:
    assert InputOptions.parse("at", {"max_ahead": value}).max_ahead is None
    assert App("shop", max_ahead=value).max_ahead is None


def test_options_of_time_are_removed_on_the_rows_axis() -> None:
    position: Any = {"offset": ("part", "offset"), "max_ahead": None}
    options = InputOptions("at", "came", lateness=5, idle=7, **position)
    assert options.on("time") is options
    assert options.on("rows") == InputOptions(None, "came", **position)
    assert InputOptions().on("rows").max_ahead == AHEAD


@pytest.mark.parametrize("option", ["lateness", "idle"])
def test_durations_are_refused_on_the_rows_axis(option: str) -> None:
    spec = InputSpec(("k",), None, **{option: SECOND})  # type: ignore[arg-type]
    spec.check_input("time")
    with pytest.raises(OptionError, match=f"{option}='1 second on the left' isn't measured in"):
        spec.check_input("rows", " on the left")


def test_a_zone_may_change_where_nothing_depended_on_it() -> None:
    without_zone, berlin = InputSpec(("k",), "at"), InputSpec(("k",), "at", zone="Europe/Berlin")
    assert (
        berlin.free_of_input(without_zone)
        == without_zone.free_of_input(berlin)
        == {"idle", "watermark", "zone"}
    )
    assert berlin.free_of_input(berlin) == {"idle", "watermark"}


def test_the_retention_is_at_least_the_grace() -> None:
    with pytest.raises(OptionError, match="keep='1 row' is below the grace 2 rows; keep at least"):
        InputSpec(("k",), None, firing=Firing(grace=2, retention=1)).check_input("rows")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, False),
        ({"max_ahead": 5}, True),
        ({"max_ahead": 5, "time": None}, False),
        ({"idle": 5}, True),
        ({"firing": Firing(late=Every(5))}, False),
        ({"firing": Firing(late=Every(5), grace=1, retention=1)}, True),
    ],
)
def test_a_query_reads_the_clock_if_one_of_its_options_depends_on_it(
    options: dict[str, Any], expected: bool
) -> None:
    spec = InputSpec(**{"keys": (), "time": "at", **options})
    assert spec.reads_clock is expected
    assert InputOptions("at", "came").find_clock(spec) == ("came" if expected else None)
    if expected:
        assert find_tick_period([spec], ["came"]) is None
    else:
        with pytest.raises(OptionError, match=r"without max_ahead=, idle= and policies"):
            find_tick_period([spec], ["came"])


def test_a_side_of_a_join_has_late_messages_without_a_grace() -> None:
    side = Side(("k",), "at", firing=Firing(late=Every(5)))
    assert side.reads_clock
    assert find_tick_period([side, side], [None, "came"]) == 5
