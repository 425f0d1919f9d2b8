"""No option of a join or of its sides is ignored, alone or beside another one."""

from __future__ import annotations

import pytest
from tests.options.joins import KINDS, SETTINGS, describe, emit, list_pairs
from tests.options.pairs import Stream

import muntin as mt
from muntin import standalone

# Options that `explain` doesn't show, and whose effect is visible in what a join emits.
_EMITTED = ("where", "clock")


@pytest.mark.parametrize("kind", KINDS)
def test_an_option_is_described_or_refused(kind: str) -> None:
    without = describe(kind, ())
    for one in SETTINGS:
        assert one.option in _EMITTED or describe(kind, (one,)) != without or without is None, one


@pytest.mark.parametrize("kind", ["within", "as of", "newest", "windows"])
def test_a_pair_of_options_is_described_or_refused(kind: str) -> None:
    for pair in list_pairs():
        both = describe(kind, pair)
        if both is not None and not {one.option for one in pair} & {*_EMITTED}:
            assert both not in [describe(kind, (one,)) for one in pair], [*map(str, pair)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_filter_and_a_clock_change_what_is_emitted(kind: str) -> None:
    without = emit(kind, ())
    for one in SETTINGS:
        # The right messages of the test have no clock that matters.
        if one.option in _EMITTED and (one.option, one.part) != ("clock", "right"):
            assert emit(kind, (one,)) != without, str(one)


def _side() -> object:
    return mt.windowed(Stream(), time="ts")


@pytest.mark.parametrize(
    ("left", "problem"),
    [
        (
            mt.windowed(Stream(), key=("page", "part"), time="ts"),
            "key='part on the left' isn't compared: on= names the columns of a join",
        ),
        (
            mt.windowed(Stream(), time="ts").deltas(),
            "deltas='on the left' isn't for joins: a pair is emitted once; leave out deltas",
        ),
        (
            mt.windowed(Stream(), time="ts").late(grace="1 hour").keep("1 hour"),
            "keep='1 hour on the left' has no effect: it isn't longer than the grace",
        ),
        (
            mt.windowed(Stream(), time="ts").session("1 hour"),
            "windows='session 1 hour on the left' has no effect beside within=",
        ),
    ],
)
def test_a_part_of_a_side_without_an_effect_is_refused(left: object, problem: str) -> None:
    with pytest.raises(mt.OptionError, match=problem):
        mt.join(left, _side(), on="page", within="1 minute")


def test_parts_of_a_side_that_have_an_effect_are_taken() -> None:
    left = mt.windowed(Stream(), key="page", time="ts").late(grace="1 hour").keep("2 hours")
    assert "kept" in mt.join(left, _side(), on="page", within="1 minute").explain()
    # Messages that wait for their turn are let in when their windows end.
    slow = mt.windowed(Stream(), time="ts").tumbling("1 minute").early(every="1 hour")
    assert "let in" in mt.join(slow, _side(), on="page", within="1 minute").explain()


def test_a_standalone_join_shows_the_windows_of_its_sides() -> None:
    left = standalone.windowed(time="ts").tumbling("1 minute")
    assert standalone.join(left, left, on="page", within="1 minute").left.windows is not None
