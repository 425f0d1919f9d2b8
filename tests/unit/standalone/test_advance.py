"""Tests of watermarks that are advanced by hand while an input is idle."""

from __future__ import annotations

from typing import Any

import pytest

import muntin as mt
from muntin.model.errors import OptionError
from muntin.standalone import (
    JoinWindow,
    SessionAggregator,
    WindowedAggregator,
    join,
    windowed,
)

SECOND = 1_000_000
EVENTS = windowed(key="key", time="at", max_ahead=None)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (WindowedAggregator, EVENTS.tumbling("10 s").agg(n=mt.count())),
        (SessionAggregator, EVENTS.session("10 s").agg(n=mt.count())),
    ],
)
def test_windows_of_an_idle_input_emit(kind: Any, spec: Any) -> None:
    emitted: list[dict[str, Any]] = []
    late: list[dict[str, Any]] = []
    operator = kind(spec, downstream=emitted.append, errors=late.append)
    for key in "ab":
        operator.add_message(key=key, time=2 * SECOND, value={})
    assert emitted == []
    assert operator.advance(60 * SECOND)
    assert [row["n"] for row in emitted] == [1, 1]
    assert operator.watermark == 60 * SECOND
    operator.advance(30 * SECOND)  # it never goes back
    assert operator.watermark == 60 * SECOND
    operator.add_message(key="a", time=3 * SECOND, value={})
    assert [row["reason"] for row in late] == ["late"]
    assert len(emitted) == 2


def test_it_is_where_it_is_asked_to_be_whatever_the_lateness() -> None:
    spec = windowed(key="key", time="at", lateness="1 minute", max_ahead=None)
    operator = WindowedAggregator(spec.tumbling("10 s").agg(n=mt.count()))
    operator.add_message(key="a", time=2 * SECOND, value={})
    operator.advance(10 * SECOND)
    assert operator.watermark == 10 * SECOND


@pytest.mark.parametrize("side", [None, "right"])
def test_a_sides_messages_dont_wait_for_a_silent_side(side: Any) -> None:
    emitted: list[dict[str, Any]] = []
    spec = join(EVENTS, EVENTS, on="key", within="5 s", how="left")
    operator = JoinWindow(spec, downstream=emitted.append)
    operator.add_message("left", key="a", time=2 * SECOND, value={"v": 1})
    operator.add_message("right", key="b", time=1 * SECOND, value={"v": 2})
    operator.advance(60 * SECOND, side)
    assert [row["key"] for row in emitted] == ["a"]
    assert operator.watermarks["right"] == 60 * SECOND
    assert operator.watermarks["left"] == (60 if side is None else 2) * SECOND


def test_what_cant_be_moved_is_refused() -> None:
    operator = WindowedAggregator(EVENTS.tumbling("10 s").agg(n=mt.count()))
    with pytest.raises(OptionError, match="no columns are known yet; hand a message over first"):
        operator.advance(1)
    rows = WindowedAggregator(windowed(key="key").tumbling(mt.rows(3)).agg(n=mt.count()))
    with pytest.raises(OptionError, match="rows have no watermark"):
        rows.advance(1)
