"""Tests of reading ahead, and of Kafka's own columns of messages."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest

from muntin.engine.admission import Flags
from muntin.sources.kafka_columns import KafkaReader, ReadAhead
from muntin.sources.kafka_consumer import Columns


def test_items_come_in_order() -> None:
    assert list(ReadAhead(iter(range(100)))) == [*range(100)]
    assert list(ReadAhead(iter(()))) == []


def test_the_next_item_is_computed_while_an_item_is_in_use() -> None:
    computed = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        computed.set()
        yield 2

    ahead = ReadAhead(items())
    assert next(ahead) == 1
    assert computed.wait(10)
    assert list(ahead) == [2]


def test_an_error_comes_after_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    ahead = ReadAhead(items())
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="broken"):
        next(ahead)


def test_a_caller_that_stops_early_closes_the_items() -> None:
    closed = threading.Event()

    def items() -> Iterator[int]:
        try:
            yield from range(100)
        finally:
            closed.set()

    ahead = ReadAhead(items())
    next(ahead)
    ahead.close()
    assert closed.is_set()


@pytest.mark.parametrize("in_columns", [True, False])
def test_a_message_without_a_timestamp_has_none(in_columns: bool) -> None:
    kind = pl.Datetime("us", "UTC")
    # Pairs of a type, where 0 is "no timestamp", and milliseconds, where -1 is no time.
    times = [(1, 1000), (1, -1), (2, -1), (0, 5)]
    lists = {"timestamp": np.array(times) if in_columns else times}
    reader = KafkaReader({}, None, {"timestamp": kind}, Flags("timestamp", None))
    frame = reader.frame([Columns("t", 0, lists, 4)])
    assert frame["timestamp"].dt.epoch("ms").to_list() == [1000, None, None, None]
