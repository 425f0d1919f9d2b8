"""What is said of an input once, whether windows or a join take it."""

from __future__ import annotations

from typing import Any

import pytest

from muntin.model.errors import OptionError
from muntin.model.inputs import AHEAD, InputOptions, InputSpec
from muntin.model.policies import Firing
from muntin.tables.app import App

SECOND = 1_000_000


def test_marks_are_read_with_their_durations() -> None:
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
def test_any_time_is_said_in_the_word_of_sql_and_toml_too(value: str | None) -> None:
    assert InputOptions.parse("at", {"max_ahead": value}).max_ahead is None
    assert App("shop", max_ahead=value).max_ahead is None


def test_in_rows_nothing_goes_by_time() -> None:
    position: Any = {"offset": ("part", "offset"), "max_ahead": None}
    options = InputOptions("at", "came", lateness=5, idle=7, **position)
    assert options.on("time") is options
    assert options.on("rows") == InputOptions(None, "came", **position)
    assert InputOptions().on("rows").max_ahead == AHEAD


@pytest.mark.parametrize("option", ["lateness", "idle"])
def test_a_time_is_refused_in_rows(option: str) -> None:
    spec = InputSpec(("k",), None, **{option: SECOND})  # type: ignore[arg-type]
    spec.check_input("time")
    with pytest.raises(OptionError, match=f"{option}='1 second on the left' isn't measured in"):
        spec.check_input("rows", " on the left")


def test_a_zone_may_change_where_nothing_depended_on_it() -> None:
    free, berlin = InputSpec(("k",), "at"), InputSpec(("k",), "at", zone="Europe/Berlin")
    assert berlin.free_of_input(free) == free.free_of_input(berlin) == {"idle", "watermark", "zone"}
    assert berlin.free_of_input(berlin) == {"idle", "watermark"}


def test_what_is_kept_is_not_less_than_what_is_taken() -> None:
    with pytest.raises(OptionError, match="keep='1 row' is below the grace 2 rows; keep at least"):
        InputSpec(("k",), None, firing=Firing(grace=2, retention=1)).check_input("rows")
