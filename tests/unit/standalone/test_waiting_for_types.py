"""Tests that single messages wait until each field has had a value, which shows its type."""

from __future__ import annotations

from typing import Any

import pytest

import muntin as mt
from muntin.model.errors import OptionError
from muntin.standalone import JoinWindow, WindowedAggregator, join, windowed
from muntin.stores import Image, memory

SECOND = 1_000_000
SPEC = (
    windowed(key="k", time="at", offset=("p", "o"))
    .tumbling("1 s")
    .agg(n=mt.count(), total=mt.sum("v"))
)


def add(operator: WindowedAggregator, key: Any, second: Any, value: Any, offset: int) -> None:
    time = second * SECOND if isinstance(second, int) else second
    operator.add_message(key=key, time=time, value={"v": value}, offset=offset)


def test_messages_without_a_value_wait_for_the_first_one() -> None:
    sent: list[Any] = []
    operator = WindowedAggregator(
        SPEC, downstream=lambda row: sent.append((row["n"], row["total"]))
    )
    add(operator, "a", 0, None, 0)
    add(operator, None, 0, None, 1)
    add(operator, "a", None, None, 2)
    assert operator.timeout()
    assert (operator.counts, operator.watermark, sent) == ({}, None, [])
    add(operator, "a", 0, 5, 3)
    add(operator, "a", 1, 7, 4)
    assert sent == [(2, 5)]
    assert operator.counts == {"seen": 5, "counted": 3, "null_key": 1, "null_time": 1}


def test_what_waits_isnt_flushed_and_is_replayed() -> None:
    image = Image()
    with WindowedAggregator(SPEC, memory(image)) as operator:
        add(operator, "a", 0, None, 0)
        assert not len(operator.flush().results)
    with WindowedAggregator(SPEC, memory(image)) as operator:
        assert operator.offsets == {}
        add(operator, "a", 0, None, 0)
        add(operator, "a", 1, 5, 1)
        operator.flush()
        assert operator.offsets == {0: 2}
    with WindowedAggregator(SPEC, memory(image)) as operator:  # it knows the types
        add(operator, "a", 2, None, 2)
        assert operator.get_result()["total"].to_list() == [5]


def test_a_batch_that_shows_the_types_comes_behind_what_waits() -> None:
    operator = WindowedAggregator(SPEC)
    add(operator, "a", 0, None, 0)
    operator.add_messages([{"k": "a", "at": 5 * SECOND, "v": 3, "p": 0, "o": 1}])
    assert operator.get_result()["n"].to_list() == [1]
    assert operator.counts == {"seen": 2, "counted": 2}


def test_an_input_that_ends_without_a_value_has_no_types() -> None:
    operator = WindowedAggregator(SPEC)
    add(operator, "a", 0, None, 0)
    with pytest.raises(OptionError, match="schema='v' has no value yet"):
        operator.add_messages([], final=True)
    declared = WindowedAggregator(SPEC, schema={"k": str, "at": int, "v": int})
    add(declared, "a", 0, None, 0)
    declared.add_messages([], final=True)
    assert declared.get_result()["n"].to_list() == [1]


def test_a_join_waits_too() -> None:
    side = windowed(time="at")
    sent: list[Any] = []
    operator = JoinWindow(
        join(side, side, on="k", within="1 s"),
        downstream=lambda row: sent.append((row["v"], row["v_right"])),
    )
    operator.add_message("left", key="a", time=0, value={"v": None})
    operator.add_message("right", key="a", time=0, value={"v": 1})
    assert sent == []
    operator.add_message("left", key="a", time=1, value={"v": 2})
    assert sent == [(None, 1), (2, 1)]
