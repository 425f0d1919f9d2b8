"""Tests of measuring the phases of batches, none of which counts twice."""

from __future__ import annotations

from itertools import count

import pytest

from muntin.hosts import phases
from muntin.hosts.phases import Phases


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the clock advance by a second each time it is read."""
    seconds = count()
    monkeypatch.setattr(phases.time, "perf_counter", lambda: float(next(seconds)))


def test_a_nested_part_counts_once() -> None:
    batch_phases = Phases()
    with batch_phases.measure("step"):
        assert [*batch_phases.measure_each("read", [1, 2])] == [1, 2]
    # Two items, and the attempt to read a third one.
    assert batch_phases.batch == {"read": 3.0, "step": 4.0}


def test_batches_add_up() -> None:
    batch_phases = Phases()
    for _ in range(3):
        batch_phases.begin_batch()
        with batch_phases.measure("plan"):
            pass
    assert batch_phases.batch == {"plan": 1.0}
    assert batch_phases.total == {"plan": 3.0}
