"""Tests that the explanation of a join shows each option."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.options.calls import CALLS

import muntin as mt
from muntin.model.inputs import INPUT_OPTIONS
from muntin.model.join_options import JOIN_OPTIONS

CLICKS = pl.DataFrame({"page": ["a"], "ts": ["2026-01-01 00:00:00"], "n": [1], "part": [0]})
WITHIN = {"on": "page", "within": "1 minute"}
# For each option, the options of a join that uses it.
_OPTIONS_BY_NAME: dict[str, dict[str, Any]] = {
    "on": {**WITHIN, "on": "part"},
    "within": {**WITHIN, "within": "2 minutes"},
    "as_of": {"on": "page", "as_of": "1 hour"},
    "newest": {"on": "page", "newest": True},
    "how": {**WITHIN, "how": "left"},
    "layout": {**WITHIN, "layout": "keys"},
    "nulls": {**WITHIN, "nulls": "group"},
    "shared_time": {**WITHIN, "shared_time": True},
    "each_change": {"on": ["page", "window_start", "window_end"], "each_change": True},
}


def build_side(**options: Any) -> Any:
    return mt.windowed(CLICKS, time="ts", **options)


def explain(left: Any, **options: Any) -> str:
    return mt.join(left, build_side(), **{**WITHIN, **options}).explain()


@pytest.mark.parametrize("option", [option.name for option in INPUT_OPTIONS])
def test_an_option_of_a_side_is_shown(option: str) -> None:
    value, _ = CALLS["windowed"].options[option]
    assert explain(build_side(**{option: value})) != explain(build_side())


@pytest.mark.parametrize("option", [option.name for option in JOIN_OPTIONS])
def test_an_option_of_a_join_is_shown(option: str) -> None:
    sides = [build_side(), build_side()]
    if option == "each_change":
        views = build_side(key="page").tumbling("1 minute").agg(n=mt.count())
        sides = [mt.windowed(views, time="window_end") for _ in sides]
    other_options = {**WITHIN, "on": "page" if option == "on" else _OPTIONS_BY_NAME[option]["on"]}
    assert (
        mt.join(*sides, **_OPTIONS_BY_NAME[option]).explain()
        != mt.join(*sides, **other_options).explain()
    )


def test_the_options_of_a_side_are_listed_below_it() -> None:
    options = {"offset": ("part", "n"), "idle": "1 hour", "watermark": ["page"], "max_ahead": None}
    lines = explain(build_side(**options)).splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("left"))
    assert lines[first + 3 : first + 7] == [
        "          clocks: one for each page; the slowest holds the watermark, unless it was "
        "silent for 1 hour",
        "          offset: n of each part; a message that was read before is ignored",
        "          future: any time is taken",
        "          idle: after 1 hour without messages the watermark follows the clock",
    ]


def test_the_messages_that_a_side_keeps_at_most_are_shown() -> None:
    text = explain(build_side().keep("1 hour", rows=1000))
    assert "at most 1 hour behind its own; at most 1,000 messages of closed windows" in text
