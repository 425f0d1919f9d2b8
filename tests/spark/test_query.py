"""Tests of the progress of a running query."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from muntin.spark.query import Progress


@pytest.mark.parametrize(
    ("counts", "adds_up"),
    [
        ({}, True),
        ({"seen": 7, "counted": 3, "filtered": 1, "duplicates": 1, "late": 2}, True),
        ({"seen": 7, "counted": 3, "late": 3}, False),
        ({"seen": 7, "counted": 3, "late": 5}, False),
        ({"seen": 7, "taken": 5, "malformed": 2}, True),
        # A table rejected two of the taken messages, and another table one of them, too.
        ({"seen": 7, "taken": 5, "malformed": 2, "late": 3}, True),
        ({"seen": 7, "taken": 5, "late": 1}, False),
    ],
    ids=str,
)
def test_every_message_is_accounted_for(counts: dict[str, int], adds_up: bool) -> None:
    assert Progress(counts=counts).adds_up() is adds_up
    assert Progress(join=Progress(counts=counts)).adds_up() is adds_up


@pytest.mark.parametrize(
    ("micros", "shown"),
    [
        (None, None),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (-1, datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        (2**62, datetime.max.replace(tzinfo=UTC)),
        (-(2**62), datetime.min.replace(tzinfo=UTC)),
    ],
)
def test_the_watermark_is_a_time(micros: int | None, shown: datetime | None) -> None:
    progress = Progress(3, micros, {"seen": 1})
    assert progress.watermark == shown
    assert repr(progress) == f"Progress(batch=3, watermark={shown}, counts={{'seen': 1}})"


def test_figures_are_the_same_when_they_are_read_back() -> None:
    upstream = Progress(3, None, {"seen": 2}, unwritable=1)
    progress = Progress(3, 5, {"seen": 1}, 1, 2, {"full": 1}, join=upstream, inner=upstream)
    assert Progress.from_dict(json.loads(json.dumps(progress.to_dict()))) == progress
