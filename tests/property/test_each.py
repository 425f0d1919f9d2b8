"""Single messages that an operator processes together emit what each would have emitted alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import muntin as mt
from muntin.engine.windows.each import EachShard
from muntin.model.policies import (
    After,
    Each,
    Every,
    EveryRows,
    Firing,
    FirstThen,
    Policy,
    RowsOrEvery,
)
from muntin.model.spec import WindowSpec
from muntin.standalone import WindowedAggregator, windowed

S = 1_000_000
POLICIES = st.one_of(
    st.just(Each()),
    st.integers(1, 5).map(EveryRows),
    st.just(RowsOrEvery(3, 10 * S)),
    st.builds(Every, st.just(7 * S), st.integers(1, 3)),
    st.just(FirstThen(EveryRows(2), Every(7 * S))),
    st.just(After(5 * S, "last", 3)),
)
AGGREGATES = {
    "n": mt.count(),
    "total": mt.sum("value"),
    "least": mt.min("value"),
    "last": mt.last("value"),
    "mean": mt.mean("amount"),
    "best": mt.arg_max("value", "amount"),
    "kinds": mt.approx_distinct("value"),
}
SCHEMA = {"key": str, "value": int, "amount": float}


@dataclass
class Script:
    """A query and its messages, with changes of the clock between some of them."""

    spec: WindowSpec
    calls: list[dict[str, Any] | int]


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    source: dict[str, Any] = {"key": "key", "time": "time", "max_ahead": None}
    source["lateness"] = draw(st.sampled_from(("0 s", "2 s", "10 s")))
    by_offset = draw(st.booleans())
    if by_offset:
        source["offset"] = ("partition", "offset")
    kinds = [
        lambda w: w.tumbling("10 seconds"),
        lambda w: w.hopping("10 seconds", "4 seconds"),
        lambda w: w.cumulating("20 seconds", "5 seconds"),
        lambda w: w.tumbling("1 day", zone="Europe/Berlin"),
    ]
    windows = draw(st.sampled_from(kinds))(windowed(**source))
    names = draw(st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, unique=True))
    spec: WindowSpec = windows.agg(**{name: AGGREGATES[name] for name in names})
    early: Policy | None = draw(st.none() | POLICIES)
    grace = draw(st.sampled_from((0, 3 * S, 20 * S)))
    repeat = early is None or draw(st.booleans())
    firing = Firing(early, draw(POLICIES), grace, grace, draw(st.booleans()), None, repeat)
    return Script(replace(spec, firing=firing), draw(calls(by_offset)))


@st.composite
def calls(draw: st.DrawFn, by_offset: bool) -> list[dict[str, Any] | int]:
    drawn: list[dict[str, Any] | int] = []
    now = wall = 0
    back = st.sampled_from((0, 0, 0, S, 5 * S, 15 * S, 40 * S))
    ahead = st.sampled_from((0, 0, 0, S // 10, S, 3 * S, 20 * S))
    for number in range(draw(st.integers(1, 60))):
        if draw(st.integers(0, 19)) == 0:
            wall += draw(st.integers(0, 9)) * S
            drawn.append(wall)
        now += draw(ahead)
        amount = draw(st.sampled_from((None, 0.25, 1.5)))
        value = {"value": draw(st.sampled_from((None, 1, 2, -5))), "amount": amount}
        message = {"key": draw(st.sampled_from("aaab") | st.none()), "value": value}
        message["time"] = draw(st.just(now - draw(back)) | st.sampled_from((None, "bad")))
        if by_offset:
            message |= {"offset": number - draw(st.sampled_from((0, 0, 0, 1))), "partition": 0}
        drawn.append(message)
    return drawn


def run_script(script: Script, alone: bool) -> list[Any]:
    """Return all results and state, with each message alone or as many at once as possible."""
    operator = WindowedAggregator(script.spec, schema=SCHEMA)
    for call in script.calls:
        if isinstance(call, int):
            operator.timeout(call)
        else:
            operator.add_message(**call)
            # Reading the counts makes the operator process the messages that wait.
            assert not alone or operator.counts is not None
    results = operator.get_result().rows()
    if not isinstance(script.spec.firing.early, Each | EveryRows | RowsOrEvery):
        # Windows that different messages end belong to one step, and are in its order.
        results = sorted(results, key=repr)
    rejected = sorted(operator.rejected.rows(), key=repr)
    windows = operator.get_windows(None, None).rows()
    return [results, rejected, sorted(operator.counts.items()), windows]


@settings(max_examples=max(1, settings.default.max_examples // 3))  # type: ignore[union-attr]
@given(script=scripts())
def test_many_at_once_emit_what_each_would_alone(script: Script) -> None:
    assert run_script(script, alone=False) == run_script(script, alone=True)


def test_they_are_taken_at_once(monkeypatch: Any) -> None:
    batch_sizes = []
    step = EachShard.step_each

    def record_size(self: EachShard, combined: Any, messages: Any, wall: int) -> Any:
        batch_sizes.append(len(messages))
        return step(self, combined, messages, wall)

    monkeypatch.setattr(EachShard, "step_each", record_size)
    spec = windowed(key="key", time="time").tumbling("1 hour").early(each=True).agg(n=mt.count())
    operator = WindowedAggregator(spec, schema={"key": str})
    for n in range(1000):
        operator.add_message(key=f"k{n % 7}", value={}, time=n)
    results = operator.get_result()
    assert sum(batch_sizes) == 999  # the first one sets the clock of the windows
    assert results["n"].to_list() == [n // 7 + 1 for n in range(1000)]
    assert results["revision"].to_list() == [n // 7 for n in range(1000)]
