"""Tests that the clock of an operator before its first ``timeout`` is the time of its creation."""

from __future__ import annotations

from typing import Any

import pytest

import muntin as mt
from muntin import standalone
from muntin.stores import Image, memory

SECOND = 1_000_000
MINUTES = standalone.windowed(key="k", time="at").tumbling("1 minute")


class Clock:
    """A clock that a test sets, in seconds."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now * SECOND


def read_rows(operator: Any) -> list[tuple[Any, ...]]:
    return operator.get_result().select("n", "emission").rows()


@pytest.mark.parametrize("sent", [False, True])
def test_what_is_due_by_the_first_call_is_emitted(sent: bool) -> None:
    taken: list[Any] = []
    clock = Clock(100)
    operator = standalone.WindowedAggregator(
        MINUTES.early(every="1 minute").agg(n=mt.count()),
        downstream=(lambda row: taken.append((row["n"], row["emission"]))) if sent else None,
        clock=clock,
    )
    operator.add_message(key="a", time=1)
    clock.now = 119
    operator.timeout()
    operator.add_message(key="a", time=2)
    assert (taken if sent else read_rows(operator)) == []
    clock.now = 120
    operator.timeout()
    assert (taken if sent else read_rows(operator)) == [(2, "early")]


def test_late_messages_are_emitted_ten_seconds_later() -> None:
    clock = Clock(0)
    spec = MINUTES.late(grace="1 hour").agg(n=mt.count())
    operator = standalone.WindowedAggregator(spec, clock=clock)
    for second in (1, 61, 2, 3):
        operator.add_message(key="a", time=second * SECOND)
    assert read_rows(operator) == [(1, "full")]
    clock.now = 10
    operator.timeout()
    assert read_rows(operator) == [(1, "full"), (3, "late")]


def test_the_clock_of_a_call_may_be_before_the_machines() -> None:
    operator = standalone.WindowedAggregator(MINUTES.early(every="1 minute").agg(n=mt.count()))
    operator.add_message(key="a", time=1)
    for second in (0, 59):
        operator.timeout(second * SECOND)
        assert read_rows(operator) == []
    operator.timeout(60 * SECOND)
    assert read_rows(operator) == [(1, "early")]


def test_an_input_isnt_idle_by_the_first_call() -> None:
    clock = Clock(0)
    idling = standalone.windowed(key="k", time="at", idle="10 s").tumbling("1 minute")
    operator = standalone.WindowedAggregator(idling.agg(n=mt.count()), clock=clock)
    operator.add_message(key="a", time=30 * SECOND)
    clock.now = 100  # the message may have come just now
    operator.timeout()
    assert operator.watermark == 30 * SECOND
    clock.now = 140
    operator.timeout()
    assert read_rows(operator) == [(1, "full")]


def test_a_restart_continues_the_clock() -> None:
    image, clock = Image(), Clock(100)
    spec = MINUTES.early(every="1 minute").agg(n=mt.count())
    with standalone.WindowedAggregator(spec, memory(image), clock=clock) as operator:
        operator.timeout()
        operator.add_message(key="a", time=1)
        operator.flush()
    clock.now = 130  # a minute has passed meanwhile
    with standalone.WindowedAggregator(spec, memory(image), clock=clock) as operator:
        operator.timeout()
        assert read_rows(operator) == [(1, "early")]


def test_a_join_lets_messages_in_by_the_first_call() -> None:
    clock = Clock(0)
    side = standalone.windowed(time="at").early(every="1 minute")
    operator = standalone.JoinWindow(standalone.join(side, side, on="k", within=0), clock=clock)
    for name in ("left", "right"):
        operator.add_message(name, key="a", time=1)
    assert not len(operator.get_result())
    clock.now = 60
    operator.timeout()
    assert operator.get_result()["emission"].to_list() == ["early"]
