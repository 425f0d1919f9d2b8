"""Tests of groups of NULL in standalone operators: they wait as others, and can be read."""

from __future__ import annotations

from typing import Any

from muntin.model.aggregates import count
from muntin.standalone import SessionAggregator, WindowedAggregator, windowed

SECOND = 1_000_000


def test_messages_of_a_group_of_null_wait_too() -> None:
    spec = windowed(key="key", time="time", nulls="group").tumbling("10 s").agg(n=count())
    rejected: list[dict[str, Any]] = []
    operator = WindowedAggregator(spec, errors=rejected.append)
    steps = []
    operator.add_message(key="a", time=SECOND)
    take = operator._windows.process_each
    operator._windows.process_each = lambda messages: steps.append(len(messages)) or take(messages)
    for key in (None, "null", None):
        operator.add_message(key=key, time=2 * SECOND)
    assert steps == []
    assert operator.get_windows(key=(None,))["n"].to_list() == [2]
    assert operator.get_windows()["n"].to_list() == [2, 1, 1]
    assert rejected == []


def test_sessions_and_messages_of_null_are_asked_for_as_a_tuple() -> None:
    sentence = windowed(key="key", time="time", offset=("p", "o"), nulls="group")
    operator = SessionAggregator(sentence.session("10 s").agg(n=count()), keep_messages=True)
    for number, key in enumerate([None, "null", None, ""]):
        operator.add_message(key=key, time=number * SECOND, offset=number)
    assert operator.get_windows(session_key=(None,))["n"].to_list() == [2]
    assert operator.get_messages(session_key=(None,))["o"].to_list() == [0, 2]
    assert operator.get_messages(session_key="null")["o"].to_list() == [1]
    assert len(operator.get_messages()) == 4
