"""Ranges of offsets, out of what a consumer gives: in order, once, and only what was asked for."""

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


def message(partition: int, offset: int, topic: str = "t") -> Any:
    return confluent_kafka.Message(
        topic=topic, partition=partition, offset=offset, value=b"%d-%d" % (partition, offset)
    )


def event(partition: int, code: int, offset: int = 0) -> Any:
    error = confluent_kafka.KafkaError(code, "")
    return confluent_kafka.Message(topic="t", partition=partition, offset=offset, error=error)


class Script:
    """A consumer that gives what a test wrote down, and says what it was assigned."""

    def __init__(self, *given: Sequence[Any], low: int = 0) -> None:
        self.given, self.low = list(given), low
        self.assigned: list[list[tuple[int, int]]] = []
        self.closed: list[tuple[str, int]] = []
        self.collected: list[bool] = []

    def assign(self, places: Sequence[Any]) -> None:
        self.assigned.append([(place.partition, place.offset) for place in places])

    def unassign(self) -> None:
        self.assigned.append([])

    def incremental_unassign(self, places: Sequence[Any]) -> None:
        self.closed += [(place.topic, place.partition) for place in places]

    def consume(self, most: int, timeout: float) -> Sequence[Any]:
        self.collected.append(gc.isenabled())
        return self.given.pop(0)

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        return self.low, 1000


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Any:
    def start(script: Script, *ranges: Range, lossy: bool = False) -> list[Columns]:
        monkeypatch.setattr(confluent_kafka, "Consumer", lambda settings: script)
        monkeypatch.setattr(kafka_consumer, "CONSUMERS", ConnectionPool())
        return [columns for parts in read(CLIENT, lossy, ranges, FIELDS) for columns in parts]

    return start


def test_a_range_ends_where_it_was_asked_to(reading: Any) -> None:
    script = Script([message(0, n) for n in range(3, 6)], [message(0, n) for n in range(6, 12)])
    (found,) = reading(script, Range("t", 0, 3, 9))
    assert found.lists["offset"] == [3, 4, 5, 6, 7, 8]
    assert found.lists["value"] == [b"0-%d" % n for n in range(3, 9)]
    assert (found.topic, found.partition, found.count) == ("t", 0, 6)
    assert found.size == 6 * len(b"0-3")
    assert script.assigned == [[(0, 3)], []]


def test_offsets_may_have_gaps(reading: Any) -> None:
    given = [message(0, 2), message(0, 5), message(0, 8)]
    ended = event(0, confluent_kafka.KafkaError._PARTITION_EOF, 10)
    (found,) = reading(Script(given, [ended]), Range("t", 0, 0, 10))
    assert found.lists["offset"] == [2, 5, 8]


def test_short_ranges_are_read_together_and_given_in_their_order(reading: Any) -> None:
    mixed = [message(1, 0), message(0, 7), message(1, 1), message(2, 0), message(0, 8)]
    found = reading(Script(mixed), Range("t", 0, 7, 9), Range("t", 1, 0, 2))
    assert [(one.partition, one.lists["offset"]) for one in found] == [(0, [7, 8]), (1, [0, 1])]


def test_a_range_that_is_done_is_fetched_no_further_while_others_are(reading: Any) -> None:
    script = Script([message(0, n) for n in range(3)], [message(0, 3), message(1, 0)])
    found = reading(script, Range("t", 0, 0, 2), Range("t", 1, 0, 1))
    assert [(one.partition, one.lists["offset"]) for one in found] == [(0, [0, 1]), (1, [0])]
    assert script.closed == [("t", 0)]


def test_partitions_of_two_topics_may_have_one_number(reading: Any) -> None:
    mixed = [message(0, 5), message(0, 5, "u"), message(0, 6, "u"), message(0, 6)]
    found = reading(Script(mixed), Range("t", 0, 5, 7), Range("u", 0, 5, 7))
    assert [(one.topic, one.lists["offset"]) for one in found] == [("t", [5, 6]), ("u", [5, 6])]


def test_partitions_are_read_together_up_to_the_size_of_a_frame(
    reading: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_consumer, "MOST_MESSAGES", 4)
    script = Script([message(1, 0), message(0, 0), message(0, 1), message(1, 1)], [message(2, 0)])
    found = reading(script, *(Range("t", p, 0, 2) for p in range(2)), Range("t", 2, 0, 1))
    assert [one.partition for one in found] == [0, 1, 2]
    assert script.assigned == [[(0, 0), (1, 0)], [], [(2, 0)], []]


def test_what_is_sent_again_after_a_loss_counts_once(reading: Any) -> None:
    lost = event(0, confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE)
    script = Script(
        [message(1, 0), lost, message(1, 1)],
        [message(0, 4), message(1, 1), message(1, 2)],
        low=4,
    )
    found = reading(script, Range("t", 0, 0, 5), Range("t", 1, 0, 3), lossy=True)
    assert [(one.partition, one.lists["offset"]) for one in found] == [(0, [4]), (1, [0, 1, 2])]
    assert script.assigned[1] == [(0, 4), (1, 1)]


def test_what_was_read_before_a_loss_is_kept(reading: Any) -> None:
    lost = event(0, confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE)
    script = Script([message(0, 0), message(0, 1), lost], [message(0, 4)], low=4)
    (found,) = reading(script, Range("t", 0, 0, 5), lossy=True)
    assert found.lists["offset"] == [0, 1, 4]


def test_a_loss_is_an_error_that_names_the_messages(reading: Any) -> None:
    lost = event(0, confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE)
    with pytest.raises(SourceError, match="messages 1 to 3 of partition 0 of topic 't' were"):
        reading(Script([message(0, 0), lost], low=4), Range("t", 0, 0, 5))


def test_the_collector_rests_only_while_messages_are_taken(reading: Any) -> None:
    script = Script([message(0, 0)], [message(0, 1)])
    reading(script, Range("t", 0, 0, 2))
    assert script.collected == [False, False]
    assert gc.isenabled()
