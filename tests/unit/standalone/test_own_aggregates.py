"""Tests that a user's own aggregates don't depend on how their messages are read."""

from __future__ import annotations

from typing import Any

import pytest

from muntin.model import aggregates
from muntin.model.kinds import Kind
from muntin.model.sessions import Sessions, make_sessions
from muntin.model.sliding import sliding
from muntin.model.spec import WindowSpec
from muntin.model.windows import hopping, tumbling
from muntin.standalone import SessionAggregator, WindowedAggregator

JOINED = aggregates.aggregate(
    "v",
    initializer=lambda: "0",
    aggregator=lambda state, value: f"{state}+{value}",
    merger=lambda first, second: f"{first}+{second}",
    state_type="string",
)
MESSAGES = [{"k": "a", "v": str(number), "t": number} for number in (1, 2, 3, 9)]


@pytest.mark.parametrize(
    "windows",
    [tumbling("20 us"), hopping("20 us", "4 us"), sliding("20 us"), make_sessions("10 us")],
    ids=str,
)  # fmt: skip
def test_an_initializer_that_is_not_neutral(windows: Kind) -> None:
    spec = WindowSpec(("k",), "t", windows, {"x": JOINED}, lateness=50)
    operator_class = SessionAggregator if isinstance(windows, Sessions) else WindowedAggregator
    types = {"k": str, "v": str, "t": int}
    results = []
    for parts in (1, 2, 4):
        batches, size = operator_class(spec, schema=types), len(MESSAGES) // parts
        for start in range(0, len(MESSAGES), size):
            batches.add_messages(MESSAGES[start : start + size])
        batches.add_messages([], final=True)
        results.append(batches.get_result().to_dicts())
    rows: list[dict[str, Any]] = []
    single = operator_class(spec, schema=types, downstream=rows.append)
    for message in MESSAGES:
        single.add_message(key=message["k"], value={"v": message["v"]}, time=message["t"])
    single.add_messages([], final=True)
    results.append(rows)
    assert results[1:] == results[:1] * 3
    assert "0+1+0+2+0+3+0+9" in [row["x"] for row in results[0]]


def test_a_reducer_begins_with_the_first_value() -> None:
    """``reduce`` as in Kafka Streams: a window without a message has no state."""
    longest = aggregates.aggregate(
        "v",
        initializer=lambda: None,
        aggregator=lambda _, value: value,
        merger=lambda first, second: max(first, second, key=len),
        state_type="string",
    )
    operator = WindowedAggregator(WindowSpec(("k",), "t", tumbling("10 us"), {"x": longest}))
    for value, time in [("ox", 1), ("mouse", 3), (None, 4), ("cat", 5), (None, 12)]:
        operator.add_message(key="a", value={"v": value}, time=time)
    operator.add_messages([], final=True)
    assert operator.get_result()["x"].to_list() == ["mouse", None]
