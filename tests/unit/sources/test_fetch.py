"""Tests of how much a fetch asks for."""

from __future__ import annotations

import pytest
from tests.unit.sources.batch_encoder import Record, encode_batch

from muntin.sources.fetch import FetchProgress
from muntin.sources.kafka_consumer import MOST_MESSAGES


@pytest.mark.parametrize(
    ("left", "asked"), [(10**9, MOST_MESSAGES), (50_000, 50_000)], ids=["many", "few"]
)
def test_a_fetch_asks_for_the_messages_of_a_frame_at_most(left: int, asked: int) -> None:
    data = encode_batch([Record(b"x" * 20, None, n) for n in range(1000)])
    progress = FetchProgress("t", 0, 0, 1000 + left)
    progress.add(memoryview(data), [])
    messages = progress.wanted / (len(data) / 1000)
    assert asked <= messages <= 1.2 * asked
