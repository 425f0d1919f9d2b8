"""Tests of the warning about rejected messages that no sink stores, once for each reason."""

from __future__ import annotations

import logging

import pytest

from muntin.hosts.health import warn_of_rejected
from muntin.hosts.progress import Progress


def test_each_reason_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    left_progress = Progress(counts={"seen": 4, "counted": 1, "malformed": 3})
    examples = {"late": "partition=0, offset=17, page='home'"}
    counts = {"seen": 5, "counted": 3, "late": 2, "future": 0}
    progress = Progress(7, counts=counts, left=left_progress, examples=examples)
    with caplog.at_level(logging.WARNING):
        warned_reasons = warn_of_rejected(progress, frozenset())
        assert warned_reasons == {"late", "malformed"}
        assert warn_of_rejected(progress, warned_reasons) == set()
    late, malformed = caplog.messages
    assert late.startswith(
        "batch 7: messages were rejected as late (2 so far; one has partition=0, offset=17, "
        "page='home'), and no sink keeps them. "
    )
    assert malformed.startswith("batch 7: messages were rejected as malformed (3 so far)")
    assert "rejected=" in late
