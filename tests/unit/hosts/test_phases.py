"""The time of the parts of batches, none of which counts twice."""

from __future__ import annotations

from itertools import count

import pytest

from muntin.hosts import phases
from muntin.hosts.phases import Phases


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each look at the clock take a second."""
    seconds = count()
    monkeypatch.setattr(phases.time, "perf_counter", lambda: float(next(seconds)))


def test_a_nested_part_counts_once() -> None:
    measured = Phases()
    with measured.measure("step"):
        assert [*measured.measure_each("read", [1, 2])] == [1, 2]
    # Two items, and the look that finds no third one.
    assert measured.batch == {"read": 3.0, "step": 4.0}


def test_batches_add_up() -> None:
    measured = Phases()
    for _ in range(3):
        measured.begin_batch()
        with measured.measure("plan"):
            pass
    assert measured.batch == {"plan": 1.0}
    assert measured.total == {"plan": 3.0}
