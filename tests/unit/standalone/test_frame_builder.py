from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from muntin.model.aggregates import count
from muntin.standalone import WindowedAggregator, windowed
from muntin.stores import memory


@pytest.mark.parametrize(
    ("times", "warnings"),
    [
        ([1_780_000_000_000, 1_780_000_060_000], 1),  # milliseconds of 2026
        ([1_780_000_000, 1_780_000_060], 1),  # seconds of 2026
        ([1_780_000_000_000, 1_780_000_060_000_000], 0),
        ([0, 60_000_000], 0),
        ([datetime(1970, 1, 20, tzinfo=UTC)] * 2, 0),
    ],
)
def test_times_that_look_like_another_unit_are_warned_of_once(
    times: list[Any], warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    spec = windowed(key="key", time="at").tumbling("1 minute").agg(n=count())
    operator = WindowedAggregator(spec, memory())
    with caplog.at_level(logging.WARNING, "muntin.standalone"):
        for _ in range(2):
            operator.add_messages([{"key": "a", "at": at} for at in times])
    said = [record.getMessage() for record in caplog.records]
    assert [line[:15] for line in said] == ["time='at': all "] * warnings
