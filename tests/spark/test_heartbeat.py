"""The ticks by which policies on the wall clock go, when that clock jumps."""

from __future__ import annotations

from typing import Any

import pytest

from muntin.model.axis import SECOND
from muntin.spark import heartbeat
from muntin.spark.heartbeat import Heartbeat


@pytest.mark.parametrize("period", [SECOND, 250_000])
def test_ticks_never_go_back(period: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Backwards they wait until the clock is there again; forwards they skip."""
    moments = [100.0, 101.0, 40.0, 100.5, 102.0, 90_000.0, 103.0, 90_001.0]
    reader: Any = Heartbeat({"period": str(period)}).streamReader(None)
    offset, seen = reader.initialOffset(), []
    for moment in moments:
        monkeypatch.setattr(heartbeat.time, "time_ns", lambda now=moment: int(now * 1e9))
        offset = reader.latestOffset(offset)
        seen.append(offset["tick"] * period / SECOND)
    assert seen == [100.0, 101.0, 101.0, 101.0, 102.0, 90_000.0, 90_000.0, 90_001.0]
    before = {"tick": 5}
    assert [p.value for p in reader.partitions(before, offset)] == [offset["tick"]]
