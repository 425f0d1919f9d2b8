"""Tests that messages with times far from the epoch are in a window or rejected, never lost."""

from __future__ import annotations

import pytest
from tests.join_runners import Columns, EngineJoinRunner, JoinBatch
from tests.property.agreement import accounting_differences, differences_of_output, join_differences
from tests.runners import Batch, EngineRunner

from muntin.model import aggregates
from muntin.model.axis import DAY, HOUR, MAX_TIME_DISTANCE, SECOND
from muntin.model.bounds import find_bound
from muntin.model.cumulating import Cumulating
from muntin.model.days import Days
from muntin.model.joins import HOWS, How, JoinSpec, Side
from muntin.model.kinds import Kind
from muntin.model.policies import Each, Firing
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.spec import WindowSpec
from muntin.model.windows import Windows

# Milliseconds that were read as seconds, a time before year 1, and the limits of 64 bits.
NEAR = [
    1_767_225_600_000_000_000,
    -219_966_000_000_000_000,
    MAX_TIME_DISTANCE - 1,
    1 - MAX_TIME_DISTANCE,
]
BEYOND = [MAX_TIME_DISTANCE, -MAX_TIME_DISTANCE, 2**62, 2**63 - 1, -(2**63)]
KINDS: list[Kind] = [
    Windows(10, 10, 0, "time"),
    Windows(DAY, 7 * HOUR, HOUR, "time"),
    Cumulating(10 * SECOND, 5 * SECOND, 0, "time"),
    Sessions(10, "both", "time"),
    Sessions(DAY, "left", "time"),
    Sliding(10 * SECOND, "time"),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("time", [*NEAR, *BEYOND])
@pytest.mark.parametrize("early", [None, Each()])
def test_in_windows(kind: Kind, time: int, early: Each | None) -> None:
    spec = WindowSpec(
        keys=("key",),
        time="time",
        windows=kind,
        aggregates={"n": aggregates.count()},
        firing=Firing(early, Each()),
        lateness=5,
        types={"key": "long"},
    )
    steps = [
        Batch([{"key": 1, "time": 0}, {"key": 1, "time": time}, {"key": 2, "time": 7}]),
        Batch([{"key": 1, "time": 20}, {"key": 1, "time": time}]),
        Batch(final=True),
    ]
    runner = EngineRunner() if early else EngineRunner(2, restart=True)
    emitted = runner.run(spec, steps)
    assert differences_of_output(runner, spec, steps, emitted) == []
    assert accounting_differences(steps, emitted) == []
    reasons = [row["reason"] for step in emitted for row in step.rejected]
    assert reasons.count("malformed") == (2 if time in BEYOND else 0)
    assert all(f["window_start"] <= f["window_end"] for s in emitted for f in s.firings)


@pytest.mark.parametrize("time", [*NEAR, *BEYOND])
def test_in_days_of_a_zone(time: int) -> None:
    spec = WindowSpec(
        keys=("key",),
        time="time",
        windows=Days(Windows(1, 1, 0, "rows"), "Europe/Berlin"),
        aggregates={"n": aggregates.count()},
        types={"key": "long"},
    )
    steps = [Batch([{"key": 1, "time": 0}, {"key": 1, "time": time}]), Batch(final=True)]
    emitted = EngineRunner().run(spec, steps)
    assert accounting_differences(steps, emitted) == []


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("time", [*NEAR, *BEYOND])
def test_in_joins(how: How, time: int) -> None:
    firing = Firing(Each(), Each())
    side = Side(("key",), "time", firing=firing, lateness=5)
    spec = JoinSpec(side, side, find_bound("10 seconds", None, None), how)
    side_types = {"key": "long", "time": "long"}
    types: Columns = {"left": side_types, "right": side_types}
    near, far = {"key": 1, "time": 0}, {"key": 1, "time": time}
    steps = [JoinBatch([near], [near, far], 0), JoinBatch([far], [], 0), JoinBatch(final=True)]
    assert join_differences(EngineJoinRunner(), spec, types, steps) == []
