"""Tests that rejected messages are sent at once, in order, with a downstream and without one."""

from __future__ import annotations

from typing import Any

import pytest

from muntin.model.aggregates import count
from muntin.model.aggregates import max as greatest
from muntin.model.errors import SelectorDisabledError
from muntin.standalone import (
    JoinWindow,
    SessionAggregator,
    SessionJoinWindow,
    WindowedAggregator,
    join,
    windowed,
)
from muntin.stores import Image, memory

SECOND = 1_000_000
EVENTS = windowed(key="key", time="at")
NOW = 1_000 * SECOND


class Output:
    """Rows that both receivers accepted, in the order of their arrival."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, Any]] = []
        self.open = True

    def take_result(self, row: dict[str, Any]) -> None:
        self.taken.append(("result", row["n"]))

    def take_rejected(self, row: dict[str, Any]) -> bool:
        if self.open:
            self.taken.append((row["reason"], row["v"]))
        return self.open


def make_operator(
    emitted: Output, *, downstream: bool, windows: str = "tumbling", **options: Any
) -> Any:
    arguments = {"errors": emitted.take_rejected, "clock": lambda: NOW, **options}
    if downstream:
        arguments["downstream"] = emitted.take_result
    if windows == "session":
        spec = EVENTS.session("10 s").agg(n=count(), v=greatest("v"))
        return SessionAggregator(spec, **arguments)
    sentence = EVENTS.tumbling("10 s") if windows == "tumbling" else EVENTS.hopping("10 s", "5 s")
    return WindowedAggregator(sentence.agg(n=count(), v=greatest("v")), **arguments)


REJECTED = [
    ("late", {"key": "a", "time": 1 * SECOND}),
    ("null_key", {"key": None, "time": 101 * SECOND}),
    ("null_time", {"key": "a"}),
    ("malformed", {"key": "a", "time": "soon"}),
    ("malformed", {"key": 7, "time": 101 * SECOND}),
    ("malformed", {"key": "\ud800", "time": 101 * SECOND}),
    ("malformed", {"key": "a", "time": 101 * SECOND, "more": "x"}),
    ("malformed", {"key": "a", "time": 101 * SECOND, "more": 2**80}),
    ("late", {"key": "a", "time": -62_135_596_800_000_000}),
    ("malformed", {"key": "a", "time": -62_135_596_800_000_001}),
    ("malformed", {"key": "a", "time": 2**70}),
    ("future", {"key": "a", "time": NOW + 90_000 * SECOND}),
]


@pytest.mark.parametrize("downstream", [False, True])
@pytest.mark.parametrize("windows", ["tumbling", "hopping", "session"])
@pytest.mark.parametrize(("reason", "message"), REJECTED)
def test_a_rejected_message_is_heard_of_at_once(
    downstream: bool, windows: str, reason: str, message: dict[str, Any]
) -> None:
    emitted, message = Output(), dict(message)
    operator = make_operator(emitted, downstream=downstream, windows=windows)
    operator.add_message(key="a", time=100 * SECOND, value={"v": 0, "more": 1})
    operator.add_message(key="b", time=100 * SECOND, value={"v": 1, "more": 1})
    message["value"] = {"v": 2, "more": message.pop("more", 1)}
    operator.add_message(**message)
    assert emitted.taken == [(reason, 2)]
    assert len(operator.rejected) == 0


def test_messages_that_are_taken_wait_for_what_is_due() -> None:
    operator = make_operator(Output(), downstream=True)
    for second in range(100):
        operator.add_message(key="a", time=(100 + second % 10) * SECOND, value={"v": second})
    assert operator.counts == {"seen": 100, "counted": 100} | {
        name: 0 for name in operator.counts if name not in ("seen", "counted")
    }
    emitted: list[dict[str, Any]] = []
    operator = make_operator(Output(), downstream=True, errors=emitted.append)
    steps = []
    take = operator._windows.process_each
    operator._windows.process_each = lambda messages: steps.append(len(messages)) or take(messages)
    for second in range(100):
        operator.add_message(key="a", time=(100 + second % 10) * SECOND, value={"v": second})
    assert steps == [1]  # the first shows the columns, the others wait


@pytest.mark.parametrize("downstream", [False, True])
def test_order_is_that_of_the_messages(downstream: bool) -> None:
    emitted = Output()
    operator = make_operator(emitted, downstream=downstream)
    for number, second in enumerate([100, 111, 99, 112, 123, 110]):
        operator.add_message(key="a", time=second * SECOND, value={"v": number})
    results = [("result", 1)], [("result", 2)]
    first, second = results if downstream else ([], [])
    assert emitted.taken == [*first, ("late", 2), *second, ("late", 5)]
    if not downstream:
        assert operator.get_result()["n"].to_list() == [1, 2]


@pytest.mark.parametrize("hand_over", ["one", "batch"])
def test_flush_and_time_send_what_was_refused_and_lose_nothing(hand_over: str) -> None:
    emitted = Output()
    operator = make_operator(emitted, downstream=False)
    operator.add_message(key="a", time=100 * SECOND, value={"v": 0})
    emitted.open = False
    if hand_over == "one":
        operator.add_message(key="a", time=1 * SECOND, value={"v": 1})
    else:
        operator.add_messages([{"key": "a", "at": 1 * SECOND, "v": 1}])
    with pytest.raises(SelectorDisabledError):
        operator.add_message(key="a", time=100 * SECOND, value={"v": 2})
    with pytest.raises(SelectorDisabledError):
        operator.flush()
    assert not operator.timeout(NOW)
    emitted.open = True
    assert operator.timeout(NOW)
    assert emitted.taken == [("late", 1)]
    assert len(operator.flush().rejected) == 0


def test_late_is_late_also_after_a_restart() -> None:
    emitted, image = Output(), Image()
    operator = make_operator(emitted, downstream=False, store=memory(image))
    operator.add_message(key="a", time=100 * SECOND, value={"v": 0})
    operator.flush()
    operator.close()
    operator = make_operator(emitted, downstream=False, store=memory(image))
    operator.add_message(key="a", time=1 * SECOND, value={"v": 1})
    assert emitted.taken == [("late", 1)]


@pytest.mark.parametrize("downstream", [False, True])
@pytest.mark.parametrize("sessions", [False, True])
def test_joins_hand_on_rejected_messages_at_once(downstream: bool, sessions: bool) -> None:
    emitted: list[str] = []
    side = windowed(time="at")
    kind: Any = SessionJoinWindow if sessions else JoinWindow
    spec = (
        join(side.session("5 s"), side.session("5 s"), on="k")
        if sessions
        else join(side, side, on="k", within=("0 s", "5 s"))
    )
    receivers = {"downstream": lambda row: None} if downstream else {}
    operator = kind(spec, errors=lambda row: emitted.append(row["reason"]), **receivers)
    operator.add_message("left", key=1, time=100 * SECOND)
    operator.add_message("right", key=1, time=100 * SECOND)
    operator.add_message("left", key=None, time=100 * SECOND)
    assert emitted == ["null_key"]
    operator.add_message("right", key=1, time="soon")
    assert emitted == ["null_key", "malformed"]
    operator.flush()
    assert emitted == ["null_key", "malformed"]
