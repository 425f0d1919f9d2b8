"""Tests of explanations of windows, sessions and messages, from the state."""

from __future__ import annotations

import pytest
from tests.unit.sql.twins import sentence

import muntin as mt
from muntin.explain.why import Clocks, describe_query_state, explain_sessions, explain_windows
from muntin.model.axis import format_time
from muntin.model.seen import SessionSeen, WindowSeen

SECOND = 1_000_000
AT = sentence(key="k", time="ts", lateness="5 seconds")


def build_spec(twin):
    return twin.spec(n=mt.count())


def build_clocks(watermark: int | None, wall: int | None = 12) -> Clocks:
    second = None if watermark is None else watermark * SECOND
    return Clocks(second, None if wall is None else wall * SECOND, {"seen": 9, "late": 2})


def build_window(number: int, **counts: int) -> WindowSeen:
    empty = dict.fromkeys(("messages", "fired", "late", "unemitted_early", "unemitted_late"), 0)
    start = number * 10 * SECOND
    return WindowSeen(start=start, end=start + 10 * SECOND, number=number, **{**empty, **counts})


def join_lines(lines) -> str:
    return " ".join(" ".join(lines).split())


TEN = AT.tumbling("10 seconds")


@pytest.mark.parametrize(
    ("twin", "watermark", "seen", "expected"),
    [
        (TEN, None, build_window(0, messages=1), "event time 1970-01-01 00:00:15 or later"),
        (TEN, 3, build_window(0, messages=2), "hasn't emitted early: there is no early policy"),
        (TEN, 3, build_window(0), "a window without messages doesn't emit"),
        (
            TEN.early(each=True),
            3,
            build_window(0, messages=1, fired=4),
            "early 4 times: nothing is new",
        ),
        (
            TEN.early(each=True),
            3,
            build_window(0, messages=1, unemitted_early=1),
            "1 new messages emit with the next batch",
        ),
        (
            TEN.early(every="10 seconds", at_least=5),
            3,
            build_window(0, messages=1, unemitted_early=1),
            "(every 10 seconds, with at least 5 of them)",
        ),
        (
            TEN.early(every="10 seconds"),
            3,
            build_window(0, messages=1, unemitted_early=1),
            "wait for the clock to pass 1970-01-01 00:00:20 (every 10 seconds)",
        ),
        (
            TEN.early(over=5),
            3,
            build_window(0, messages=1, unemitted_early=1),
            "1 new messages wait for it to end or to close, unless too many wait",
        ),
        (
            TEN.fill("previous", up_to="1 minute"),
            3,
            build_window(0),
            "a window without messages is filled if the key had a message in the 1 minute before",
        ),
        (
            TEN.fill("zero", up_to="1 minute"),
            33,
            build_window(0),
            "without a message of this key it is filled if the key had a message in the 1 minute",
        ),
        (
            TEN.late(grace="1 minute").fill("linear", up_to="1 minute"),
            33,
            build_window(0),
            "is filled if the key had a message in the 1 minute before; it emits when the next "
            "window with messages has closed",
        ),
        (
            TEN.early(after="10 seconds", since="last", rows=5),
            3,
            build_window(0, messages=1, unemitted_early=1),
            "1 of 5 new messages have arrived, or 1 new messages wait until 10 seconds of wall "
            "clock have passed since the last of them",
        ),
        (
            TEN.early(rows=3, then={"rows": 100}),
            3,
            build_window(0, messages=1, unemitted_early=1),
            "1 of 3 new messages have arrived",
        ),
        (
            TEN.early(rows=3, then={"rows": 100}),
            3,
            build_window(0, messages=4, fired=1, unemitted_early=1),
            "1 of 100 new messages have arrived",
        ),
        (
            TEN.late(grace="5 seconds", rows=3, then={"rows": 100}),
            11,
            build_window(0, messages=5, late=2, unemitted_late=2),
            "2 of 3 new messages have arrived",
        ),
        (
            TEN.late(grace="5 seconds", rows=3, then={"rows": 100}),
            11,
            build_window(0, messages=5, late=4, unemitted_late=1),
            "1 of 100 new messages have arrived",
        ),
        (TEN, 10, build_window(0), "closed: the watermark has passed its end; its"),
        (TEN, 10, build_window(0), "its state is gone (kept 0 seconds after its end)"),
        (
            TEN.keep("1 hour"),
            10,
            build_window(0, messages=3),
            "3 messages of it are still in the state",
        ),
        (TEN.late(grace="5 seconds"), 11, build_window(0, messages=3), "emitted in full when"),
        (
            TEN.late(grace="5 seconds"),
            11,
            build_window(0),
            "has ended without a message of this key",
        ),
        (
            TEN.late(grace="5 seconds", rows=4),
            11,
            build_window(0, messages=3, late=3, unemitted_late=3),
            "held only late messages when its end was passed: 3 now",
        ),
        (
            TEN.late(grace="5 seconds", rows=4),
            11,
            build_window(0, messages=5, late=3, unemitted_late=3),
            "not emitted again yet: 3 of 4 new messages have arrived",
        ),
        (
            TEN.late(grace="5 seconds", rows=4, every="1 minute"),
            11,
            build_window(0, messages=5, late=3, unemitted_late=3),
            "3 of 4 new messages have arrived, or 3 new messages wait for the clock to pass",
        ),
        (
            TEN.late(grace="5 seconds", each=True),
            11,
            build_window(0, messages=5, late=3),
            "its 3 late messages have been emitted",
        ),
    ],
)
def test_windows_are_explained(twin, watermark, seen, expected):
    assert expected in join_lines(
        explain_windows(build_spec(twin), build_clocks(watermark), [seen], 5 * SECOND)
    )


def test_a_message_is_accepted_by_its_open_windows():
    spec = build_spec(AT.hopping("20 seconds", "10 seconds"))
    windows = [
        WindowSeen(-10 * SECOND, 10 * SECOND, -1, 1, 0, 0, 0, 0),
        WindowSeen(0, 20 * SECOND, 0, 1, 0, 0, 0, 0),
    ]
    assert "taken now, by 2 of its 2 windows" in join_lines(
        explain_windows(spec, build_clocks(5), windows, 5 * SECOND)
    )
    assert "taken now, by 1 of its 2 windows" in join_lines(
        explain_windows(spec, build_clocks(10), windows, 5 * SECOND)
    )
    text = join_lines(explain_windows(spec, build_clocks(23), windows, 5 * SECOND))
    assert "rejected as late" in text
    assert "passed 1970-01-01 00:00:20, 3 seconds ago" in text


def test_only_some_of_many_windows_are_explained():
    spec = build_spec(AT.hopping("100 seconds", "1 second"))
    windows = [WindowSeen(n * SECOND, (n + 100) * SECOND, n, 1, 0, 0, 0, 0) for n in range(-99, 1)]
    lines = list(explain_windows(spec, build_clocks(None), windows, 0))
    assert sum(line.startswith("window") for line in lines) == 12
    assert "88 windows between" in join_lines(lines)


GAP = AT.session("10 seconds")


@pytest.mark.parametrize(
    ("twin", "watermark", "session", "at", "expected"),
    [
        (GAP, 5, SessionSeen(0, 5 * SECOND, 15 * SECOND, 2, 0, 2), 7, "there is no early policy"),
        (GAP, 5, SessionSeen(0, 5 * SECOND, 15 * SECOND, 2, 0, 2), 7, "would be taken now"),
        (
            GAP.early(each=True),
            5,
            SessionSeen(0, 5 * SECOND, 15 * SECOND, 2, 1, 2),
            7,
            "early: 2 new messages",
        ),
        (
            GAP,
            30,
            SessionSeen(0, 5 * SECOND, 15 * SECOND, 2, 1, 0),
            7,
            "closed: its final result has been emitted",
        ),
        (
            GAP,
            30,
            SessionSeen(0, 5 * SECOND, 15 * SECOND, 2, 1, 0),
            7,
            "rejected as late: no session",
        ),
        (GAP, 30, SessionSeen(0, 5 * SECOND, 15 * SECOND, 2, 1, 0), 29, "none around this time"),
        (
            GAP.late(grace="1 minute", rows=3),
            30,
            SessionSeen(0, 5 * SECOND, 15 * SECOND, 2, 1, 1),
            7,
            "not emitted again yet: 1 of 3 new messages have arrived",
        ),
        (
            GAP.late(grace="1 minute", rows=3, then={"rows": 100}),
            30,
            SessionSeen(0, 5 * SECOND, 15 * SECOND, 2, 1, 1, 0),
            7,
            "not emitted again yet: 1 of 3 new messages have arrived",
        ),
        (
            GAP.late(grace="1 minute", rows=3, then={"rows": 100}),
            30,
            SessionSeen(0, 5 * SECOND, 15 * SECOND, 5, 2, 1, 1),
            7,
            "not emitted again yet: 1 of 100 new messages have arrived",
        ),
        (
            GAP.late(grace="1 minute"),
            30,
            SessionSeen(0, 5 * SECOND, 15 * SECOND, 2, 1, 0),
            7,
            "late messages",
        ),
        (
            AT.session("10 seconds", start="opens"),
            5,
            SessionSeen(0, 5 * SECOND, 15 * SECOND, 2, 0, 2),
            7,
            "unless a message cuts it sooner",
        ),
        (
            AT.session("10 seconds", start="opens"),
            5,
            SessionSeen(0, 5 * SECOND, 15 * SECOND, 2, 0, 2),
            7,
            "or is rejected as outside if no session has it",
        ),
    ],
)
def test_sessions_are_explained(twin, watermark, session, at, expected):
    lines = explain_sessions(build_spec(twin), build_clocks(watermark), [session], at * SECOND)
    assert expected in join_lines(lines)


def test_the_state_of_a_query_is_described():
    spec = build_spec(TEN)
    assert "none: no message has moved it" in join_lines(
        describe_query_state(spec, build_clocks(None, None))
    )
    text = join_lines(describe_query_state(spec, build_clocks(10)))
    assert "watermark 1970-01-01 00:00:10, 5 seconds behind the latest event time" in text
    assert "clock 1970-01-01 00:00:12" in text
    assert "rejected 2 late, of all keys so far" in text
    clocks = Clocks(None, None, {"seen": 9, "taken": 3, "duplicates": 4, "filtered": 1})
    assert "rejected" not in join_lines(describe_query_state(spec, clocks))


def test_times_far_from_the_epoch_are_formatted():
    assert format_time(-1) == "1969-12-31 23:59:59.999999"
    assert format_time(10**18 * 9) == "287168-08-24 16:00:00"


def test_messages_that_came_too_late_for_some_of_their_windows_are_named() -> None:
    text = join_lines(
        describe_query_state(
            build_spec(TEN), Clocks(0, None, {"seen": 9, "counted": 9, "partly_late": 4})
        )
    )
    assert "4 of the counted were too late for some of their windows" in text
    assert "rejected" not in text
