"""Operators that crash, and operators that are refused, tell what others tell."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle, repeat
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.agreement import in_order
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
    """Something that is done with an operator: messages or a timeout, and whether it flushes."""

    messages: list[dict[str, Any]]
    single: bool
    wall: int | None
    flushes: bool

    def do(self, operator: Operator, spec: WindowSpec, skip: int = 0) -> None:
        """Do it, leaving out the first messages."""
        if self.single:
            for message in self.messages[skip:]:
                operator.add_message(**as_arguments(spec, message))
        elif self.messages[skip:]:
            operator.add_messages(self.messages[skip:])
        if self.wall is not None:
            operator.timeout(self.wall)


@dataclass(frozen=True)
class Script:
    """A query, and what is done one after another; offsets count its messages."""

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


def opened(spec: WindowSpec, store: KeyValue, **options: Any) -> Operator:
    words = {"string": str, "long": int, "double": float, "boolean": bool}
    types: dict[str, Any] = {name: words[kind] for name, kind in spec.types.items()}
    if spec.time is not None:
        types[spec.time] = int
    made = SessionAggregator if isinstance(spec.windows, Sessions) else WindowedAggregator
    return made(spec, store, schema=types, clock=lambda: 0, **options)


def uninterrupted(script: Script) -> tuple[Rows, Rows]:
    results, rejected = [], []
    with opened(script.spec, memory()) as operator:
        for call in script.calls:
            call.do(operator, script.spec)
            if call.flushes:
                results += operator.get_result().to_dicts()
                rejected += operator.rejected.to_dicts()
                operator.flush()
    return results, rejected


def interrupted(
    script: Script, store: Callable[[], KeyValue], crashes: Sequence[bool], rewind: int
) -> tuple[Rows, Rows]:
    """The same with crashes: what wasn't flushed is done again, and some messages that were."""
    results, rejected, fails = [], [], chain(crashes, repeat(False))
    operator, at, flushed = opened(script.spec, store()), 0, 0
    while at < len(script.calls):
        call = script.calls[at]
        call.do(operator, script.spec)
        at += 1
        if next(fails):
            operator.close()
            operator, at = opened(script.spec, store()), flushed
            done = [m for c in script.calls[:at] for m in c.messages]
            assert operator.offsets == ({0: len(done)} if done else {})
            assert len(operator.get_result()) == len(operator.rejected) == 0
            if done[-rewind:]:
                operator.add_messages(done[-rewind:])
                assert len(operator.get_result()) == len(operator.rejected) == 0
        elif call.flushes:
            results += operator.get_result().to_dicts()
            rejected += operator.rejected.to_dicts()
            operator.flush()
            flushed = at
    operator.close()
    return results, rejected


crash_points = st.lists(st.booleans(), max_size=12)


@FEWER
@given(script=scripts(), crashes=crash_points, rewind=st.integers(1, 5))
def test_crashes_change_nothing(script: Script, crashes: list[bool], rewind: int) -> None:
    image = Image()
    found = interrupted(script, lambda: memory(image), crashes, rewind)
    assert repr(found) == repr(uninterrupted(script))


@FEWEST
@given(script=scripts(), crashes=crash_points)
def test_crashes_change_nothing_on_a_disk(script: Script, crashes: list[bool]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "state"
        found = interrupted(script, lambda: rocks(place, sync=False), crashes, 1)
    assert repr(found) == repr(uninterrupted(script))


class Downstream:
    """Takes outputs, but for some that it refuses, in either way."""

    def __init__(self, refusals: Sequence[str]) -> None:
        self.moods = cycle([*refusals, "take"])
        self.taken: Rows = []

    def __call__(self, output: dict[str, Any]) -> bool:
        mood = next(self.moods)
        if mood == "raise":
            raise RefusedError
        if mood == "refuse":
            return False
        self.taken.append(output)
        return True


def sent(script: Script, refusals: Sequence[str]) -> tuple[Rows, Rows]:
    """What goes downstream, and to the errors, when whoever is refused waits and tries again."""
    results, errors = Downstream(refusals), Downstream(refusals[::-1])
    now = min((call.wall for call in script.calls if call.wall is not None), default=0)
    with opened(script.spec, memory(), downstream=results, errors=errors) as operator:
        operator.timeout(now)
        for call in script.calls:
            singles = [replace(call, messages=[message], wall=None) for message in call.messages]
            for part in singles if call.single else [replace(call, wall=None)]:
                insist(operator, part, script.spec, now)
            now = now if call.wall is None else call.wall
            while not operator.timeout(now):
                pass
        assert len(operator.get_result()) == 0
    return results.taken, errors.taken


def insist(operator: Operator, call: Call, spec: WindowSpec, now: int) -> None:
    """Hand something over, again and again; the clock doesn't go on meanwhile."""
    while True:
        try:
            return call.do(operator, spec)
        except SelectorDisabledError:
            operator.timeout(now)


@FEWEST
@given(
    script=scripts(),
    refusals=st.lists(st.sampled_from(("take", "take", "refuse", "raise")), max_size=4),
)
def test_refusals_change_nothing(script: Script, refusals: list[str]) -> None:
    assert repr(sent(script, refusals)) == repr(sent(script, []))


@FEWER
@given(stream=any_streams(), downstream=st.booleans())
def test_a_rejected_message_leaves_at_once(stream: Any, downstream: bool) -> None:
    spec = replace(stream.spec, max_ahead=None)
    messages = [message for step in stream.steps for message in step.messages]
    emitted = OracleRunner().run(spec, [Batch([message], 0) for message in messages])
    rejected: Rows = []
    more = {"downstream": lambda row: None} if downstream else {}
    with opened(spec, memory(), errors=rejected.append, **more) as operator:
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
    taken: Rows = []
    expected: Rows = []
    with opened(spec, memory(), downstream=taken.append) as operator:
        for message, step in zip(messages, emitted, strict=True):
            operator.add_message(**as_arguments(spec, message))
            expected += step.firings
            assert len(taken) == len(expected)
    places = [
        (r["window_start"], r["key"], r["window_end"], r["revision"]) for r in in_order(taken)
    ]
    assert places == [
        (r["window_start"], r["key"], r["window_end"], r["revision"]) for r in in_order(expected)
    ]
