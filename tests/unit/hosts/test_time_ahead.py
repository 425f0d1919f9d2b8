"""Tests of the warning about a watermark that is ahead of the clock."""

from __future__ import annotations

import logging

import pytest

from muntin.hosts.health import warn_of_time_ahead
from muntin.hosts.progress import Progress


def test_a_watermark_ahead_of_the_clock_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    hour = 3_600_000_000
    with caplog.at_level(logging.WARNING):
        assert not warn_of_time_ahead(Progress(1, None), hour)
        assert not warn_of_time_ahead(Progress(1, hour), hour)
        assert not caplog.messages
        # The watermark of an upstream operator counts as well.
        assert warn_of_time_ahead(Progress(7, 0, left=Progress(7, 2 * hour)), hour)
    (line,) = caplog.messages
    assert line.startswith("batch 7: the watermark is 3600 s ahead of this machine's clock")
    assert "max_ahead=" in line


def test_the_clocks_of_a_progress_are_shown_as_times() -> None:
    progress = Progress(1, 0, clocks={"clicks[0]": 0})
    assert "clocks={'clicks[0]': '1970-01-01 00:00:00+00:00'}" in repr(progress)
