"""Tests against a real broker: ids of topics, offsets of times and groups, and deleted topics."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.services.kafka import Kafka
from tests.services.machine import free_port

from muntin.model.errors import SourceError
from muntin.sources import kafka_broker, kafka_ranges
from muntin.sources.kafka_broker import Broker, Topics
from muntin.sources.kafka_consumer import Range
from muntin.sources.kafka_consumer import consume as read
from muntin.sources.kafka_ranges import TopicWatch, ranges_of, refuse_expired, refuse_recreated


def open_broker(kafka: Kafka, *names: str, **more: Any) -> Broker:
    client = {"bootstrap.servers": kafka.servers}
    return Broker(Topics(names, more.pop("starting", "earliest"), None, client, **more))


def send_numbers(kafka: Kafka, topic: str, count: int, partition: int = 0) -> None:
    kafka.send(topic, [(partition, None, b"%d" % n) for n in range(count)])


def test_a_topic_created_again_has_another_id(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    send_numbers(kafka, topic, 5)
    broker = open_broker(kafka, topic)
    first = broker.describe()
    assert first.partitions == {topic: [0, 1]}
    assert first.ids[topic]
    assert broker.describe() == first
    ends = broker.latest(first.partitions)
    assert ends == {topic: {"0": 5, "1": 0}}
    kafka.create_again(topic, 2)
    send_numbers(kafka, topic, 9)
    second = broker.describe()
    assert second.ids[topic] != first.ids[topic]
    with pytest.raises(SourceError, match="created again"):
        refuse_recreated(first.ids, second.ids, ends, second.partitions)


def test_a_topic_that_is_gone_isnt_one_that_never_was(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_broker, "_LOADING", 0.5)
    topic = kafka.topic(1)
    broker = open_broker(kafka, topic)
    ids = broker.describe().ids
    kafka.delete(topic)
    described = broker.describe()
    assert described.partitions == {}
    with pytest.raises(SourceError, match=f"'{topic}' was deleted: "):
        refuse_recreated(ids, described.ids, {topic: {"0": 0}}, described.partitions)
    with pytest.raises(SourceError, match=f"'{topic}' isn't on {kafka.servers}; create it first"):
        open_broker(kafka, topic).describe()


def test_expired_messages_are_seen_before_they_are_read(kafka: Kafka) -> None:
    topic = kafka.topic(1)
    send_numbers(kafka, topic, 30)
    for deletion in kafka.admin.delete_records([TopicPartition(topic, 0, 20)]).values():
        deletion.result(60)
    broker = open_broker(kafka, topic)
    # The planned end has expired, too.
    ranges = ranges_of({topic: {"0": 5}}, {topic: {"0": 15}})
    with pytest.raises(SourceError, match=f"messages 5 to 14 of partition 0 of topic '{topic}'"):
        refuse_expired(ranges, broker.earliest({topic: [0]}))


def test_reading_begins_at_a_time(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    kafka.send_at(topic, [(0, 1000), (0, 2000), (0, 3000), (1, 1000)])
    first = open_broker(kafka, topic, starting=2000).first({topic: [0, 1]})
    # A partition whose messages are all older begins with the next one.
    assert first == {topic: {"0": 1, "1": 1}}


def test_offsets_are_committed_to_a_group_and_read_from_it(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    send_numbers(kafka, topic, 5)
    send_numbers(kafka, topic, 3, 1)
    open_broker(kafka, topic, group="billing").commit({topic: {"0": 4}})
    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": "billing"})
    partitions = [TopicPartition(topic, n) for n in (0, 1)]
    assert [partition.offset for partition in consumer.committed(partitions, timeout=30)] == [
        4,
        -1001,
    ]
    consumer.close()
    broker = open_broker(kafka, topic, group="billing", starting="group")
    assert broker.first({topic: [0, 1]}) == {topic: {"0": 4, "1": 0}}


def test_a_reader_notices_that_its_topic_is_another_one(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_ranges, "_SILENCE", 0.2)
    topic = kafka.topic(1)
    send_numbers(kafka, topic, 5)
    client = {"bootstrap.servers": kafka.servers}
    ids = open_broker(kafka, topic).describe().ids
    watch = TopicWatch(client, ids, 60.0)
    (part,) = next(read(client, False, [Range(topic, 0, 0, 5)], ("value",), watch))
    assert part.count == 5
    watch.refuse_other_topics()
    kafka.create_again(topic)
    send_numbers(kafka, topic, 2)
    # The new topic doesn't have these messages.
    with pytest.raises(SourceError, match="created again while a batch read it"):
        list(read(client, False, [Range(topic, 0, 3, 5)], ("value",), watch))
    send_numbers(kafka, topic, 8)
    # The new topic has these messages, and they are discarded after they were read.
    list(read(client, False, [Range(topic, 0, 3, 5)], ("value",)))
    with pytest.raises(SourceError, match="The batch is discarded"):
        watch.refuse_other_topics()


@pytest.mark.slow
def test_a_broker_that_is_away_is_said_once_and_once_more_when_it_is_back(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    topic = kafka.topic(1)
    broker = open_broker(kafka, topic, patience=120.0)
    before = broker.describe()
    kafka.kill()
    with caplog.at_level(logging.WARNING):
        kafka.start_later(8)
        assert broker.describe() == before
    lines = [line for line in caplog.messages if line.startswith(f"Kafka at {kafka.servers}")]
    assert "doesn't answer" in lines[0]
    assert lines[0].endswith("retrying for 120 s")
    assert "answers again" in lines[1]
    assert len(lines) == 2


def test_a_server_that_isnt_there_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_broker, "_CONNECTING", 0.3)
    servers = f"127.0.0.1:{free_port()}"
    broker = Broker(Topics(("t",), "earliest", None, {"bootstrap.servers": servers}))
    with pytest.raises(SourceError, match=f"servers='{servers}': .*connection refused"):
        broker.describe()
