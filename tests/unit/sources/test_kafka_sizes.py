"""Tests that batches are bounded by bytes, against a real broker."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from tests.services.kafka import Kafka

import muntin as mt
from muntin.sources import kafka_sizes

KILOBYTE = 1 << 10


def measure_batches(source: Any) -> list[int]:
    """Read a topic to its end, and return the bytes of the payloads of each batch."""
    reader, sizes, end = source.open(), [], None
    while (planned := reader.plan(end, None)).has_new:
        frames = list(reader.read(end, planned.end))
        sizes.append(sum(frame["value"].bin.size().sum() for frame in frames))
        end = planned.end
    return sizes


@pytest.mark.parametrize("direct", [True, False])
def test_a_batch_has_about_as_many_bytes_as_it_may(
    broker: Kafka, monkeypatch: pytest.MonkeyPatch, direct: bool
) -> None:
    topic = broker.topic(2)
    # The first quarter of each partition has small messages, the rest large ones.
    payloads = [b"s" * (10 if n < 400 else 10 * KILOBYTE) for n in range(1_600)]
    broker.send(topic, [(n % 2, None, value) for n, value in enumerate(payloads)])
    if not direct:
        monkeypatch.setattr(kafka_sizes, "lend_fetcher", lambda client: nullcontext())
    sizes = measure_batches(mt.kafka(broker.servers, topic, bytes_per_batch="2 MB"))
    assert sum(sizes) == sum(map(len, payloads))
    assert max(sizes) < 3 * KILOBYTE**2
    assert len(sizes) <= 10


def test_a_batch_has_a_message_at_least(broker: Kafka) -> None:
    topic = broker.topic(1)
    broker.send(topic, [(0, None, b"m" * 10 * KILOBYTE) for _ in range(3)])
    assert measure_batches(mt.kafka(broker.servers, topic, bytes_per_batch=1)) == (
        [10 * KILOBYTE] * 3
    )


def test_small_ranges_are_read_without_a_sample(
    broker: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.topic(1)
    broker.send(topic, [(0, None, b"small") for _ in range(200)])
    monkeypatch.setattr(kafka_sizes, "lend_fetcher", None)
    assert measure_batches(mt.kafka(broker.servers, topic)) == [1_000]
