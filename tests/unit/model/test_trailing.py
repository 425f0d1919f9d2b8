"""Tests of trailing windows: their numbers, their bounds, and refused options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import muntin as mt
from muntin import standalone
from muntin.model.axis import HOUR, MINUTE
from muntin.model.errors import OptionError
from muntin.model.spec import WindowSpec
from muntin.model.trailing import LOOK_BACK, Trailing, trailing

WINDOWS = trailing(["20 minutes", "1 hour"], "10 minutes", origin=3 * MINUTE)


def make_windows() -> Any:
    return standalone.windowed(key="k", time="at").trailing("1 hour", every="1 minute")


def test_each_instant_has_a_window_of_each_size() -> None:
    assert Trailing((HOUR, 20 * MINUTE), 10 * MINUTE, 3 * MINUTE) == WINDOWS
    assert WINDOWS.labels == ("1 hour", "20 minutes")
    instant = 63 * MINUTE
    last = WINDOWS.last_ended(instant)
    assert [WINDOWS.start(k) for k in (last - 1, last)] == [3 * MINUTE, 43 * MINUTE]
    assert {WINDOWS.end(k) for k in (last - 1, last)} == {instant}
    assert WINDOWS.last_ended(instant - 1) == last - 2
    assert WINDOWS.next_edge(instant, 0) == 73 * MINUTE


@pytest.mark.parametrize("position", [3 * MINUTE, 12 * MINUTE, -1])
def test_windows_of_a_pane(position: int) -> None:
    pane = WINDOWS.pane_of(position)
    first, last = WINDOWS.first_window(pane), WINDOWS.last_window(pane)
    holding = [
        k for k in range(first - 4, last + 4) if WINDOWS.start(k) <= position < WINDOWS.end(k)
    ]
    assert (holding[0], holding[-1]) == (first, last)
    assert all(WINDOWS.first_inside(k) <= pane <= WINDOWS.last_pane(k) for k in holding)
    assert WINDOWS.first_pane(first) == WINDOWS.first_inside(first) - 1


@pytest.mark.parametrize(
    ("look_backs", "every", "problem"),
    [
        ([], "1 minute", "trailing=None has no look-back"),
        (["90 seconds"], "1 minute", "'90 seconds' isn't a multiple of 1 minute"),
        (["1 hour", "60 minutes"], "1 minute", "'60 minutes' is listed twice"),
        (["1 hour"], "0 seconds", "every='0 seconds' is zero"),
        (["1 month"], "1 minute", "has no fixed length"),
        (["2000000 days"], "1 day", "is longer than calendars are"),
    ],
)
def test_refused_lengths(look_backs: list[str], every: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        trailing(look_backs, every)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda w: w.early(each=True), "early='each message' doesn't apply to trailing 1 hour"),
        (lambda w: w.late(grace="1 minute"), "a late message counts from the next instant on"),
        (lambda w: w.keep("1 minute"), "only the newest row of each key is kept"),
        (lambda w: w.keep("0 minutes", rows=5), "only the newest row of each key is kept"),
        (lambda w: w.deltas(), "emit the whole look-back"),
        (lambda w: w.fill("zero", up_to="1 hour"), "fill='trailing 1 hour every 1 minute'"),
    ],
)
def test_refused_policies(change: Callable[[Any], Any], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        change(make_windows()).agg(n=mt.count())


def test_names_of_results_are_refused() -> None:
    windows = standalone.windowed(key=LOOK_BACK, time="at").trailing("1 hour", every="1 minute")
    with pytest.raises(OptionError, match="key='look_back' is a column of the output"):
        windows.agg(n=mt.count())
    with pytest.raises(OptionError, match="agg='look_back' is a column of the output"):
        make_windows().agg(look_back=mt.count())


def test_a_side_of_a_join_is_not_trailing() -> None:
    side = standalone.windowed(key="k", time="at")
    with pytest.raises(OptionError, match="trailing='trailing 1 hour every 1 minute'"):
        standalone.join(side.trailing("1 hour", every="1 minute"), side, on="k")


def test_the_spec_is_stored_and_read_back() -> None:
    spec = make_windows().agg(n=mt.count())
    assert spec.keys == ("k", LOOK_BACK)
    assert spec.key_columns == spec.state_keys == ("k",)
    assert spec.title == "trailing 1 hour every 1 minute by k"
    assert WindowSpec.from_dict(spec.to_dict()) == spec
