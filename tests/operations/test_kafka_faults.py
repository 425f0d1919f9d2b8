"""Tests of faults on a Kafka broker, and of the first line that each prints."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AclOperation, ResourceType
from tests.operations.test_first_lines import put
from tests.operations.test_first_lines import run as run_files
from tests.services.kafka import Kafka

import muntin as mt
from muntin.sources import kafka_broker
from muntin.sources.kafka_broker import Broker, Topics

DENIED = (
    "{} on {}: {} authorization failed. Allow the query's user to read and describe it, and start "
    "the query again"
)
WITHOUT_LOSS = {"failOnDataLoss": "false"}


def send(kafka: Kafka, topic: str, *minutes: int) -> None:
    value = '{{"k": "a", "at": "2026-01-01T00:{:02}:00Z"}}'
    kafka.send(topic, [(0, None, value.format(minute).encode()) for minute in minutes])


def start(servers: str, topic: str, folder: Path, **options: Any) -> Any:
    clicks = mt.kafka(servers, topic, columns="k string, at timestamp", **options)
    windows = mt.windowed(clicks, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
    return windows.start(checkpoint=folder / "checkpoint", results=mt.to_memory())


def run(*arguments: Any, **options: Any) -> Any:
    """Run a query until it has read all, and return its progress."""
    query = start(*arguments, **options)
    query.await_idle(60)
    query.stop()
    return query.progress


@pytest.mark.slow
@pytest.mark.parametrize("left", [AclOperation.DESCRIBE, AclOperation.ALTER_CONFIGS])
def test_rights_that_are_taken_away_during_a_run_are_named(
    kafka: Kafka, tmp_path: Path, left: AclOperation
) -> None:
    """The query continues when they are granted again."""
    topic = kafka.topic(1)
    send(kafka, topic, 0, 1)
    query = start(kafka.servers, topic, tmp_path)
    query.await_idle(60)
    kafka.allow(ResourceType.TOPIC, topic, left, AclOperation.WRITE)
    send(kafka, topic, 2)
    with pytest.raises(mt.SourceError) as caught:
        query.await_end(60)
    assert str(caught.value) == DENIED.format(f"topic {topic!r}", kafka.servers, "Topic")
    kafka.allow(ResourceType.TOPIC, topic)
    assert run(kafka.servers, topic, tmp_path).counts == {"seen": 3, "counted": 3}


@pytest.mark.parametrize("left", [AclOperation.DESCRIBE, AclOperation.ALTER_CONFIGS])
def test_rights_that_lack_at_the_start_are_named(
    kafka: Kafka, tmp_path: Path, left: AclOperation
) -> None:
    topic = kafka.topic(1)
    send(kafka, topic, 0)
    kafka.allow(ResourceType.TOPIC, topic, left)
    with pytest.raises(mt.SourceError) as caught:
        start(kafka.servers, topic, tmp_path).await_end(60)
    assert str(caught.value) == DENIED.format(f"topic {topic!r}", kafka.servers, "Topic")


def test_rights_to_a_group_that_lack_are_named(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    """They end a query that begins with the group's offsets; another one continues."""
    topic = kafka.topic(1)
    send(kafka, topic, 0)
    kafka.allow(ResourceType.GROUP, "audit", AclOperation.ALTER_CONFIGS)
    client = {"bootstrap.servers": kafka.servers}
    broker = Broker(Topics((topic,), "group", None, client, group="audit"))
    with pytest.raises(mt.SourceError) as caught:
        broker.first({topic: [0]})
    assert str(caught.value) == DENIED.format("group 'audit'", kafka.servers, "Group")
    for _ in range(2):
        broker.commit({topic: {"0": 1}})
    (line,) = caplog.messages
    denied = DENIED.format("group 'audit'", kafka.servers, "Group")
    assert (
        line == f"offsets of group audit aren't committed, and the query goes on without: {denied}"
    )


def test_an_address_that_brokers_name_and_that_doesnt_answer_is_named(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """``advertised.listeners`` often has a name that only containers know."""
    monkeypatch.setattr(kafka_broker, "_CONNECTING", 1.0)
    client = {"bootstrap.servers": kafka.misled}
    with pytest.raises(mt.SourceError) as caught:
        Broker(Topics(("clicks",), "earliest", None, client)).describe()
    assert str(caught.value).startswith(
        f"servers='{kafka.misled}': it takes connections, and names 127.0.0.1:{kafka.nobody} as "
        "the address of a broker, which doesn't (Connect to "
    )
    assert str(caught.value).endswith(
        "). Correct advertised.listeners of that broker, or bring it back"
    )
    assert not caplog.messages


@pytest.mark.slow
def test_messages_that_compaction_left_are_read_without_a_stop(
    kafka: Kafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The others aren't called lost, neither after a stop nor in batches without messages."""
    topic = kafka.topic(
        1, cleanup_policy="compact", segment_ms="50", max_compaction_lag_ms="1",
        min_cleanable_dirty_ratio="0.01",
    )  # fmt: skip
    value = b'{"k": "a", "at": "2026-01-01T00:00:00Z"}'
    kafka.send(topic, [(0, b"first", value)])
    assert run(kafka.servers, topic, tmp_path).counts["seen"] == 1
    for _ in range(4):
        kafka.send(topic, [(0, b"%d" % (number % 3), value) for number in range(12)])
        time.sleep(0.1)
    kafka.send(topic, [(0, b"last", value)])
    deadline = time.monotonic() + 60
    # The last message of each key remains.
    while len(kafka.read(topic)) > 5:
        assert time.monotonic() < deadline, "nothing was compacted"
        time.sleep(0.1)
    progress = run(kafka.servers, topic, tmp_path, per_batch=5)
    assert progress.counts == {"seen": 5, "counted": 5}
    assert progress.lag == {f"{topic}[0]": 0}
    assert not caplog.messages


def test_messages_that_expired_below_the_checkpoint_are_named(
    kafka: Kafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = kafka.topic(1)
    send(kafka, topic, 0, 1)
    run(kafka.servers, topic, tmp_path)
    send(kafka, topic, *range(2, 9))
    for done in kafka.admin.delete_records([TopicPartition(topic, 0, 5)]).values():
        done.result(60)
    lost = (
        f"messages 2 to 4 of partition 0 of topic {topic!r} were deleted before they were read: "
        "the partition begins with offset 5 now. "
    )
    with pytest.raises(mt.SourceError) as caught:
        start(kafka.servers, topic, tmp_path).await_end(60)
    assert str(caught.value).startswith(f"{lost}Keep messages for longer than the query may be")
    assert not caplog.messages
    progress = run(kafka.servers, topic, tmp_path, options=WITHOUT_LOSS)
    assert progress.counts["seen"] == 6
    assert caplog.messages == [f"{lost}The query goes on without them"]


@pytest.mark.parametrize("left", [AclOperation.DESCRIBE, AclOperation.ALTER_CONFIGS])
def test_rights_to_write_a_topic_that_lack_are_named(
    kafka: Kafka, tmp_path: Path, left: AclOperation, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path / "in", "1.jsonl", -9, -1)
    topic = kafka.topic(1)
    kafka.allow(ResourceType.TOPIC, topic, left)
    with pytest.raises(mt.SinkError) as caught:
        run_files(tmp_path, mt.to_kafka(kafka.servers, topic))
    assert str(caught.value) == (
        f"Kafka {kafka.servers}, topic {topic} takes no messages: Broker: Topic authorization "
        "failed. Allow the query's user to write and describe it, and start the query again"
    )
    assert not caplog.messages
    kafka.allow(ResourceType.TOPIC, topic)
    run_files(tmp_path, mt.to_kafka(kafka.servers, topic))
    assert len(kafka.read(topic)) == 1


def test_a_message_that_is_larger_than_a_fetch_is_read(kafka: Kafka, tmp_path: Path) -> None:
    size = 3_000_000
    topic = kafka.topic(1, largest=2 * size)
    value = '{{"k": "{}", "at": "2026-01-01T00:00:00Z"}}'
    messages = [(0, None, value.format("a" * length).encode()) for length in (1, size, 1)]
    kafka.send(topic, messages, 2 * size)
    for number, options in enumerate(
        ({}, {"fetch.max.bytes": "1000", "message.max.bytes": "1000"})
    ):
        progress = run(kafka.servers, topic, tmp_path / str(number), options=options)
        assert progress.counts == {"seen": 3, "counted": 3}


def test_messages_that_are_larger_than_the_client_takes_are_named(
    kafka: Kafka, tmp_path: Path
) -> None:
    """The rack is a setting that only librdkafka follows."""
    topic = kafka.topic(1, largest=3_000_000)
    large = b'{"k": "%s", "at": "2026-01-01T00:00:00Z"}' % (b"a" * 2_000_000)
    kafka.send(topic, [(0, None, large)], 3_000_000)
    sizes = dict.fromkeys(("fetch.max.bytes", "message.max.bytes"), "900000")
    options = {**sizes, "receive.message.max.bytes": "1000000", "client.rack": "a"}
    with pytest.raises(mt.SourceError) as caught:
        start(kafka.servers, topic, tmp_path, options=options).await_end(60)
    assert str(caught.value).startswith(
        f"messages of {topic}[0] 0–0 are larger than an answer may be: "
    )
    assert str(caught.value).endswith(". Raise it by options={'receive.message.max.bytes': …}")
