"""Tests of the warning about a machine's clock that is set while a query runs."""

from __future__ import annotations

import pytest

from muntin.hosts.health import ClockWatch
from muntin.model.axis import SECOND


@pytest.mark.parametrize(
    ("clock_times", "walls", "lines"),
    [
        # Seconds of the clock, at every tenth second, and the time of the batches.
        ([0, 10, 20, 30], [None] * 4, []),
        # Within the tolerance, as a clock that is adjusted.
        ([0, 13, 16, 30], [0, 13, 20, 30], []),
        ([0, 10, 3620, 3630], [None] * 4, ["was set forward by 3600 s while the query ran"]),
        ([0, 10, -3580, -3570], [None] * 4, ["was set back by 3600 s while the query ran"]),
        # Windows that wait for the clock continue; the warning is logged once.
        ([0, 10, -3580, -3570], [0, 10, 20, 30], ["is 3600 s behind the last batch"]),
        ([100, 110, 120, 130], [700, 710, 720, 730], ["is 600 s behind the last batch"]),
        (
            [0, 3610, 20, 30],
            [0, 3610, 3620, 3630],
            ["was set forward by 3600 s while the query ran", "is 3600 s behind the last batch"],
        ),
    ],
)
def test_a_clock_that_is_set_is_warned_of(
    clock_times: list[int],
    walls: list[int | None],
    lines: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    elapsed = iter(range(7, 100, 10))
    watch = ClockWatch(lambda: next(elapsed) * SECOND)
    for now, wall in zip(clock_times, walls, strict=True):
        watch.note_batch(now * SECOND, None if wall is None else wall * SECOND)
    assert len(caplog.messages) == len(lines)
    for line, expected in zip(caplog.messages, lines, strict=True):
        assert line.startswith(f"this machine's clock {expected}. ")
