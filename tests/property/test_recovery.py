"""Operators that crash or whose outputs are refused emit what others emit."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle, repeat
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.agreement import sort_firings
from tests.property.streams import EVERYTHING, Range, any_streams
from tests.runners import Batch, OracleRunner, as_arguments

from muntin.model.errors import RefusedError, SelectorDisabledError
from muntin.model.sessions import Sessions
from muntin.model.spec import WindowSpec
from muntin.standalone import SessionAggregator, WindowedAggregator
from muntin.stores import Image, KeyValue, memory, rocks

FEWER = settings(max_examples=max(1, settings.default.max_examples // 2))
FEWEST = settings(max_examples=max(1, settings.default.max_examples // 6))
BY_TIME = Range(EVERYTHING.kinds, full_state=True)
Operator = WindowedAggregator | SessionAggregator
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Call:
    """A call of an operator: messages or a timeout, and whether a flush follows."""

    messages: list[dict[str, Any]]
    single: bool
    wall: int | None
    flushes: bool

    def perform(self, operator: Operator, spec: WindowSpec, skip: int = 0) -> None:
        """Make the call, without the first ``skip`` messages."""
        if self.single:
            for message in self.messages[skip:]:
                operator.add_message(**as_arguments(spec, message))
        elif self.messages[skip:]:
            operator.add_messages(self.messages[skip:])
        if self.wall is not None:
            operator.timeout(self.wall)


@dataclass(frozen=True)
class Script:
    """A query and the calls of its operator; offsets count its messages."""

    spec: WindowSpec
    calls: list[Call]


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    stream = draw(any_streams(BY_TIME))
    types = {**stream.spec.types, "partition": "long", "offset": "long"}
    spec = replace(stream.spec, offset=("partition", "offset"), types=types, max_ahead=None)
    calls, offset = [], 0
    for step in stream.steps:
        messages = []
        for message in step.messages:
            messages.append({**message, "partition": 0, "offset": offset})
            offset += 1
        wall = draw(st.sampled_from((None, step.wall)))
        calls.append(Call(messages, draw(st.booleans()), wall, draw(st.booleans())))
    return Script(spec, calls)


def open_operator(spec: WindowSpec, store: KeyValue, **options: Any) -> Operator:
    python_types = {"string": str, "long": int, "double": float, "boolean": bool}
    types: dict[str, Any] = {name: python_types[kind] for name, kind in spec.types.items()}
    if spec.time is not None:
        types[spec.time] = int
    operator_class = SessionAggregator if isinstance(spec.windows, Sessions) else WindowedAggregator
    return operator_class(spec, store, schema=types, clock=lambda: 0, **options)


def run_without_crashes(script: Script) -> tuple[Rows, Rows]:
    results, rejected = [], []
    with open_operator(script.spec, memory()) as operator:
        for call in script.calls:
            call.perform(operator, script.spec)
            if call.flushes:
                results += operator.get_result().to_dicts()
                rejected += operator.rejected.to_dicts()
                operator.flush()
    return results, rejected


def run_with_crashes(
    script: Script, store: Callable[[], KeyValue], crashes: Sequence[bool], rewind: int
) -> tuple[Rows, Rows]:
    """Run a script with crashes, and repeat what wasn't flushed and some messages that were."""
    results, rejected, fails = [], [], chain(crashes, repeat(False))
    operator, next_call, flushed = open_operator(script.spec, store()), 0, 0
    while next_call < len(script.calls):
        call = script.calls[next_call]
        call.perform(operator, script.spec)
        next_call += 1
        if next(fails):
            operator.close()
            operator, next_call = open_operator(script.spec, store()), flushed
            read_messages = [m for c in script.calls[:next_call] for m in c.messages]
            assert operator.offsets == ({0: len(read_messages)} if read_messages else {})
            assert len(operator.get_result()) == len(operator.rejected) == 0
            if read_messages[-rewind:]:
                operator.add_messages(read_messages[-rewind:])
                assert len(operator.get_result()) == len(operator.rejected) == 0
        elif call.flushes:
            results += operator.get_result().to_dicts()
            rejected += operator.rejected.to_dicts()
            operator.flush()
            flushed = next_call
    operator.close()
    return results, rejected


crash_points = st.lists(st.booleans(), max_size=12)


@FEWER
@given(script=scripts(), crashes=crash_points, rewind=st.integers(1, 5))
def test_crashes_change_nothing(script: Script, crashes: list[bool], rewind: int) -> None:
    image = Image()
    outputs = run_with_crashes(script, lambda: memory(image), crashes, rewind)
    assert repr(outputs) == repr(run_without_crashes(script))


@FEWEST
@given(script=scripts(), crashes=crash_points)
def test_crashes_change_nothing_on_a_disk(script: Script, crashes: list[bool]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        outputs = run_with_crashes(script, lambda: rocks(path, sync=False), crashes, 1)
    assert repr(outputs) == repr(run_without_crashes(script))


class Downstream:
    """A receiver that refuses some outputs, by an error or by returning False."""

    def __init__(self, refusals: Sequence[str]) -> None:
        self.answers = cycle([*refusals, "take"])
        self.received: Rows = []

    def __call__(self, output: dict[str, Any]) -> bool:
        answer = next(self.answers)
        if answer == "raise":
            raise RefusedError
        if answer == "refuse":
            return False
        self.received.append(output)
        return True


def send_downstream(script: Script, refusals: Sequence[str]) -> tuple[Rows, Rows]:
    """Return what goes downstream and to the errors when refused calls are tried again."""
    results, errors = Downstream(refusals), Downstream(refusals[::-1])
    now = min((call.wall for call in script.calls if call.wall is not None), default=0)
    with open_operator(script.spec, memory(), downstream=results, errors=errors) as operator:
        operator.timeout(now)
        for call in script.calls:
            singles = [replace(call, messages=[message], wall=None) for message in call.messages]
            for part in singles if call.single else [replace(call, wall=None)]:
                retry(operator, part, script.spec, now)
            now = now if call.wall is None else call.wall
            while not operator.timeout(now):
                pass
        assert len(operator.get_result()) == 0
    return results.received, errors.received


def retry(operator: Operator, call: Call, spec: WindowSpec, now: int) -> None:
    """Make a call until the operator accepts it, at a fixed clock."""
    while True:
        try:
            return call.perform(operator, spec)
        except SelectorDisabledError:
            operator.timeout(now)


@FEWEST
@given(
    script=scripts(),
    refusals=st.lists(st.sampled_from(("take", "take", "refuse", "raise")), max_size=4),
)
def test_refusals_change_nothing(script: Script, refusals: list[str]) -> None:
    assert repr(send_downstream(script, refusals)) == repr(send_downstream(script, []))


@FEWER
@given(stream=any_streams(), downstream=st.booleans())
def test_a_rejected_message_leaves_at_once(stream: Any, downstream: bool) -> None:
    spec = replace(stream.spec, max_ahead=None)
    messages = [message for step in stream.steps for message in step.messages]
    emitted = OracleRunner().run(spec, [Batch([message], 0) for message in messages])
    rejected: Rows = []
    options = {"downstream": lambda row: None} if downstream else {}
    with open_operator(spec, memory(), errors=rejected.append, **options) as operator:
        expected = 0
        for message, step in zip(messages, emitted, strict=True):
            operator.add_message(**as_arguments(spec, message))
            expected += len(step.rejected)
            assert len(rejected) == expected


@FEWER
@given(stream=any_streams(BY_TIME))
def test_what_is_due_leaves_with_the_message_that_made_it_due(stream: Any) -> None:
    spec = replace(stream.spec, max_ahead=None)
    messages = [message for step in stream.steps for message in step.messages]
    emitted = OracleRunner().run(spec, [Batch([message], 0) for message in messages])
    received: Rows = []
    expected: Rows = []
    with open_operator(spec, memory(), downstream=received.append) as operator:
        for message, step in zip(messages, emitted, strict=True):
            operator.add_message(**as_arguments(spec, message))
            expected += step.firings
            assert len(received) == len(expected)
    windows = [
        (r["window_start"], r["key"], r["window_end"], r["revision"])
        for r in sort_firings(received)
    ]
    assert windows == [
        (r["window_start"], r["key"], r["window_end"], r["revision"])
        for r in sort_firings(expected)
    ]
