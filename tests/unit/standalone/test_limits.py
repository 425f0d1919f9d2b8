"""Tests that windows which lost messages to a limit of rows aren't read, also after a restart."""

from __future__ import annotations

from typing import Any

import pytest

from muntin.model.aggregates import count
from muntin.standalone import SessionAggregator, WindowedAggregator, windowed
from muntin.stores import Image, memory

SECOND = 1_000_000


def add_messages(operator: Any, messages: list[tuple[str, int]]) -> None:
    for key, at in messages:
        operator.add_message(key=key, time=at * SECOND)
        operator.get_result()


def read_windows(operator: Any) -> list[tuple[str, int, int]]:
    windows = operator.get_windows().select("key", "window_start", "n")
    return [(key, start // SECOND, n) for key, start, n in windows.iter_rows()]


@pytest.mark.parametrize("restarted", [False, True])
def test_windows_that_the_limit_has_cut_are_not_shown(restarted: bool) -> None:
    sentence = windowed(key="key", time="at").hopping("20 s", "10 s").keep("160 s", rows=3)
    spec, image = sentence.agg(n=count()), Image()
    operator = WindowedAggregator(spec, memory(image))
    add_messages(operator, [("a", at) for at in (5, 15, 25, 35, 45, 55, 65)])
    if restarted:
        operator.flush()
        operator.close()
        operator = WindowedAggregator(spec, memory(image))
    # Three messages before 50 s, where all windows are closed, are retained.
    assert read_windows(operator) == [("a", start, 2) for start in (20, 30, 40, 50)] + [
        ("a", 60, 1)
    ]


@pytest.mark.parametrize("restarted", [False, True])
def test_sessions_that_the_limit_has_cut_are_not_shown(restarted: bool) -> None:
    sentence = windowed(key="key", time="at").session("5 s").keep("1 day", rows=2)
    spec, image = sentence.agg(n=count()), Image()
    operator = SessionAggregator(spec, memory(image))
    add_messages(operator, [("a", 0), ("b", 100), ("c", 200), ("d", 300), ("e", 400)])
    if restarted:
        operator.flush()
        operator.close()
        operator = SessionAggregator(spec, memory(image))
    assert read_windows(operator) == [("c", 200, 1), ("d", 300, 1), ("e", 400, 1)]
