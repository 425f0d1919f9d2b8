"""Tests that ranges of offsets are read in order, once and completely."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import pytest

from muntin.model.errors import SourceError
from muntin.sources import kafka_consumer
from muntin.sources.kafka_connection import ConnectionPool
from muntin.sources.kafka_consumer import Columns, Range
from muntin.sources.kafka_consumer import consume as read

confluent_kafka = pytest.importorskip("confluent_kafka")

CLIENT = {"bootstrap.servers": "nowhere:9092"}
FIELDS = ("value", "offset")


def make_message(partition: int, offset: int, topic: str = "t") -> Any:
    return confluent_kafka.Message(
        topic=topic, partition=partition, offset=offset, value=b"%d-%d" % (partition, offset)
    )


def make_event(partition: int, code: int, offset: int = 0) -> Any:
    error = confluent_kafka.KafkaError(code, "")
    return confluent_kafka.Message(topic="t", partition=partition, offset=offset, error=error)


class Script:
    """A consumer that returns the messages of a test, and records its assignments."""

    def __init__(self, *polls: Sequence[Any], low: int = 0) -> None:
        self.polls, self.low = list(polls), low
        self.assigned: list[list[tuple[int, int]]] = []
        self.closed: list[tuple[str, int]] = []
        self.collector_states: list[bool] = []

    def assign(self, partitions: Sequence[Any]) -> None:
        self.assigned.append([(each.partition, each.offset) for each in partitions])

    def unassign(self) -> None:
        self.assigned.append([])

    def incremental_unassign(self, partitions: Sequence[Any]) -> None:
        self.closed += [(each.topic, each.partition) for each in partitions]

    def consume(self, most: int, timeout: float) -> Sequence[Any]:
        self.collector_states.append(gc.isenabled())
        return self.polls.pop(0)

    def get_watermark_offsets(self, partition: Any, timeout: float) -> tuple[int, int]:
        return self.low, 1000


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Any:
    def start(script: Script, *ranges: Range, lossy: bool = False) -> list[Columns]:
        monkeypatch.setattr(confluent_kafka, "Consumer", lambda settings: script)
        monkeypatch.setattr(kafka_consumer, "CONSUMERS", ConnectionPool())
        return [columns for parts in read(CLIENT, lossy, ranges, FIELDS) for columns in parts]

    return start


def test_a_range_ends_where_it_was_asked_to(reading: Any) -> None:
    script = Script(
        [make_message(0, n) for n in range(3, 6)], [make_message(0, n) for n in range(6, 12)]
    )
    (columns,) = reading(script, Range("t", 0, 3, 9))
    assert columns.lists["offset"] == [3, 4, 5, 6, 7, 8]
    assert columns.lists["value"] == [b"0-%d" % n for n in range(3, 9)]
    assert (columns.topic, columns.partition, columns.count) == ("t", 0, 6)
    assert columns.size == 6 * len(b"0-3")
    assert script.assigned == [[(0, 3)], []]


def test_offsets_may_have_gaps(reading: Any) -> None:
    messages = [make_message(0, 2), make_message(0, 5), make_message(0, 8)]
    end_event = make_event(0, confluent_kafka.KafkaError._PARTITION_EOF, 10)
    (columns,) = reading(Script(messages, [end_event]), Range("t", 0, 0, 10))
    assert columns.lists["offset"] == [2, 5, 8]


def test_short_ranges_are_read_together_and_given_in_their_order(reading: Any) -> None:
    mixed = [
        make_message(1, 0),
        make_message(0, 7),
        make_message(1, 1),
        make_message(2, 0),
        make_message(0, 8),
    ]
    parts = reading(Script(mixed), Range("t", 0, 7, 9), Range("t", 1, 0, 2))
    assert [(part.partition, part.lists["offset"]) for part in parts] == [(0, [7, 8]), (1, [0, 1])]


def test_a_range_that_is_done_is_fetched_no_further_while_others_are(reading: Any) -> None:
    script = Script(
        [make_message(0, n) for n in range(3)], [make_message(0, 3), make_message(1, 0)]
    )
    parts = reading(script, Range("t", 0, 0, 2), Range("t", 1, 0, 1))
    assert [(part.partition, part.lists["offset"]) for part in parts] == [(0, [0, 1]), (1, [0])]
    assert script.closed == [("t", 0)]


def test_partitions_of_two_topics_may_have_one_number(reading: Any) -> None:
    mixed = [
        make_message(0, 5),
        make_message(0, 5, "u"),
        make_message(0, 6, "u"),
        make_message(0, 6),
    ]
    parts = reading(Script(mixed), Range("t", 0, 5, 7), Range("u", 0, 5, 7))
    assert [(part.topic, part.lists["offset"]) for part in parts] == [("t", [5, 6]), ("u", [5, 6])]


def test_partitions_are_read_together_up_to_the_size_of_a_frame(
    reading: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_consumer, "MOST_MESSAGES", 4)
    script = Script(
        [make_message(1, 0), make_message(0, 0), make_message(0, 1), make_message(1, 1)],
        [make_message(2, 0)],
    )
    parts = reading(script, *(Range("t", p, 0, 2) for p in range(2)), Range("t", 2, 0, 1))
    assert [part.partition for part in parts] == [0, 1, 2]
    assert script.assigned == [[(0, 0), (1, 0)], [], [(2, 0)], []]


def test_what_is_sent_again_after_a_loss_counts_once(reading: Any) -> None:
    loss = make_event(0, confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE)
    script = Script(
        [make_message(1, 0), loss, make_message(1, 1)],
        [make_message(0, 4), make_message(1, 1), make_message(1, 2)],
        low=4,
    )
    parts = reading(script, Range("t", 0, 0, 5), Range("t", 1, 0, 3), lossy=True)
    assert [(part.partition, part.lists["offset"]) for part in parts] == [(0, [4]), (1, [0, 1, 2])]
    assert script.assigned[1] == [(0, 4), (1, 1)]


def test_what_was_read_before_a_loss_is_kept(reading: Any) -> None:
    loss = make_event(0, confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE)
    script = Script([make_message(0, 0), make_message(0, 1), loss], [make_message(0, 4)], low=4)
    (columns,) = reading(script, Range("t", 0, 0, 5), lossy=True)
    assert columns.lists["offset"] == [0, 1, 4]


def test_a_loss_is_an_error_that_names_the_messages(reading: Any) -> None:
    loss = make_event(0, confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE)
    with pytest.raises(SourceError, match="messages 1 to 3 of partition 0 of topic 't' were"):
        reading(Script([make_message(0, 0), loss], low=4), Range("t", 0, 0, 5))


def test_the_collector_rests_only_while_messages_are_taken(reading: Any) -> None:
    script = Script([make_message(0, 0)], [make_message(0, 1)])
    reading(script, Range("t", 0, 0, 2))
    assert script.collector_states == [False, False]
    assert gc.isenabled()
