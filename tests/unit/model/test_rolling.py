"""Tests of rolling windows: their bounds, and the columns of the rows of messages."""

from __future__ import annotations

from typing import Any

import pytest

import muntin as mt
from muntin import standalone
from muntin.model.errors import OptionError
from muntin.model.pipeline import ROWS
from muntin.model.rolling import add_messages, message_columns
from muntin.model.sliding import rolling


@pytest.mark.parametrize(
    ("size", "closed", "part", "bounds"),
    [
        ("10 us", "right", (9, 0), (-10, 0)),
        ("10 us", "both", (10, 0), (-10, 0)),
        ("10 us", "left", (10, 1), (-10, 0)),
        ("10 us", "neither", (9, 1), (-10, 0)),
        (mt.rows(3), "right", (2, 0), (-2, 1)),
        (mt.rows(3), "both", (3, 0), (-3, 1)),
        (mt.rows(3), "left", (3, 1), (-3, 1)),
        (mt.rows(3), "neither", (2, 1), (-2, 1)),
    ],
)
def test_the_bounds_that_a_window_reads_and_emits(
    size: Any, closed: Any, part: tuple[int, int], bounds: tuple[int, int]
) -> None:
    windows = rolling(size, closed)
    assert windows.bound_part(None) == part
    number = windows.first_window(0)  # the one that ends with position 0
    assert (windows.start(number), windows.end(number)) == bounds
    assert windows.last_pane(number) == 0
    assert windows.bound_part(0) == (0, 0)


@pytest.mark.parametrize(
    ("size", "closed", "problem"),
    [("5 s", "none", "isn't a choice of ends"), (mt.rows(1), "neither", "holds no message")],
)
def test_invalid_rolling_windows_are_refused(size: Any, closed: Any, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        rolling(size, closed)


def make_spec(closed: Any = "right", **aggregates: Any) -> Any:
    aggs = aggregates or {"n": mt.count()}
    return standalone.windowed(key="k", time="at").rolling("5 s", closed=closed).agg(**aggs)


def test_names_that_would_occur_twice_in_a_row_are_refused() -> None:
    with pytest.raises(OptionError, match="agg='v' is a column of the messages"):
        message_columns(make_spec(v=mt.sum("v")), ["k", "at", "v"], chained=False)
    with pytest.raises(OptionError, match="column='revision'"):
        message_columns(make_spec(), ["k", "at", "revision"], chained=False)
    names = ["k", "window_start", "window_end", "m", "emission", "revision"]
    assert message_columns(make_spec(), names, chained=True) == ["k", "m"]


def test_collect_own_messages_are_read_also_where_the_window_excludes_them() -> None:
    assert add_messages(make_spec(), "row")[ROWS].frame is None
    assert add_messages(make_spec("neither"), "row")[ROWS].frame == 0


def test_a_side_of_a_join_does_not_roll() -> None:
    side = standalone.windowed(time="at")
    with pytest.raises(OptionError, match="rolling="):
        standalone.join(side.rolling("5 s"), side.rolling("5 s"), on="k")
