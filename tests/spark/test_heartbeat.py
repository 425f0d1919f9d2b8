"""Tests of the ticks of policies on the wall clock when that clock jumps."""

from __future__ import annotations

from typing import Any

import pytest

from muntin.engine import clocks
from muntin.model.axis import SECOND
from muntin.spark.host import heartbeat
from muntin.spark.host.heartbeat import Heartbeat, parse_tick


@pytest.mark.parametrize("period", [SECOND, 250_000])
def test_ticks_never_go_back(period: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the clock jumps back, they continue from the last one; if it jumps ahead, they skip."""
    moments = [100.0, 101.0, 40.0, 100.5, 102.0, 90_000.0, 103.0, 90_001.0]
    reader: Any = Heartbeat({"period": str(period)}).streamReader(None)
    offset, seen = reader.initialOffset(), []
    for moment in moments:
        monkeypatch.setattr(heartbeat.time, "time_ns", lambda now=moment: int(now * 1e9))
        offset = reader.latestOffset(offset)
        seen.append(offset["tick"] / SECOND)
    assert seen == [100.0, 101.0, 101.0, 101.0, 102.0, 90_000.0, 90_000.0, 90_001.0]
    earlier = {"tick": 5}
    assert [p.value for p in reader.partitions(earlier, offset)] == [offset["tick"]]


def test_ticks_go_on_after_a_start_with_a_clock_that_was_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader: Any = Heartbeat({"period": str(SECOND)}).streamReader(None)
    ticks, offset, monotonic = [], {"tick": 1_000 * SECOND}, clocks.read_elapsed_time()
    for seconds in (0.0, 0.5, 1.5, 3.0):
        now, elapsed = int((400 + seconds) * 1e9), int(monotonic * 1e3 + seconds * 1e9)
        monkeypatch.setattr(heartbeat.time, "time_ns", lambda now=now: now)
        monkeypatch.setattr(clocks, "monotonic_ns", lambda elapsed=elapsed: elapsed)
        offset = reader.latestOffset(offset)
        ticks.append(offset["tick"] // SECOND)
    assert ticks == [1_000, 1_000, 1_001, 1_003]


def test_a_change_of_the_period_doesnt_stop_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick of the old period is a time for the new one, so repeated batches have its clock."""
    monkeypatch.setattr(heartbeat.time, "time_ns", lambda: int(100.7 * 1e9))
    offset, emitted = {"tick": 0}, []
    for period in (500_000, SECOND, 250_000, 200_000):
        reader: Any = Heartbeat({"period": str(period)}).streamReader(None)
        emitted += [row for part in reader.partitions({}, offset) for row in reader.read(part)]
        offset = reader.latestOffset(offset)
    assert emitted == [(0,), (100_500_000,), (100_500_000,), (100_500_000,)]
    monkeypatch.setattr(heartbeat.time, "time_ns", lambda: int(102.1 * 1e9))
    assert reader.latestOffset(offset) == {"tick": 102_000_000}


@pytest.mark.parametrize(
    ("offset", "ours"),
    [
        ('{"tick": 1000000}', True),
        ('{"tick": {"0": 5}}', False),
        ('{"logOffset":0}', False),
        ("17", False),
        ("-", False),
    ],
)
def test_ticks_are_known_among_offsets(offset: str, ours: bool) -> None:
    """A topic of Kafka may be called ``tick``."""
    assert (parse_tick(offset) is not None) is ours
