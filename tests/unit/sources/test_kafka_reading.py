"""Tests that record batches have the messages that librdkafka reads, against a real broker."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Sequence
from typing import Any

import pytest
from tests.services.kafka import Kafka

from muntin.model.errors import SourceError
from muntin.sources import fetch, fetch_requests, kafka_reading
from muntin.sources.fetch import Fetcher, FetchProgress, lend_fetcher
from muntin.sources.kafka_connection import FetchError
from muntin.sources.kafka_consumer import Range, consume
from muntin.sources.kafka_reading import MessagePart, decode_parts, read

confluent_kafka = pytest.importorskip("confluent_kafka")

FIELDS = ("value", "key", "offset", "timestamp", "headers")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def produce(broker: Kafka, topic: str, codec: str, size: int, count: int = 400) -> None:
    """Send messages of all shapes to two partitions."""
    settings = {"compression.type": codec, "batch.size": size, "linger.ms": 20}
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.servers, **settings})
    for n in range(count):
        value = [b'{"n":%d}' % n, None, b"", b"v" * (n * 7 % 9000), b"\n\xff"][n % 5]
        key = [None, b"k%d" % n, b""][n % 3]
        headers = [[], [("h", b"1"), ("h", None)], [("é", b"x" * 200)]][n // 5 % 3]
        producer.produce(topic, value, key, n % 2, timestamp=1_700_000_000_000 - n, headers=headers)
    assert producer.flush(60) == 0


def list_messages(parts: Sequence[Sequence[MessagePart]]) -> list[tuple[Any, ...]]:
    """Return messages by partition, one tuple each; partitions have no order among each other."""
    rows = [
        (part.topic, part.partition, *(_convert_array(row) for row in rows))
        for part_list in parts
        for part in decode_parts(part_list, FIELDS)
        for rows in zip(*(part.lists[name] for name in FIELDS), strict=True)
    ]
    return sorted(rows, key=lambda row: row[:2])


def _convert_array(value: Any) -> Any:
    return tuple(int(part) for part in value) if hasattr(value, "tolist") and value.shape else value


def read_both_ways(client: dict[str, str], ranges: list[Range]) -> list[tuple[Any, ...]]:
    """Read ranges both ways, and return the messages, which must be the same."""
    expected = list_messages(list(consume(client, False, ranges, FIELDS)))
    fetcher = Fetcher(client)
    progress = [fetch.FetchProgress(*item) for item in ranges]
    while any(item.is_open for item in progress):
        fetcher.fetch(progress)
    fetcher.close()
    assert list_messages(list(read(client, False, ranges, FIELDS))) == expected
    return expected


@pytest.fixture
def client(broker: Kafka) -> dict[str, str]:
    return {"bootstrap.servers": broker.servers}


@pytest.mark.parametrize(("codec", "size"), [*itertools.product(CODECS, (200, 16_000, 900_000))])
def test_both_ways_read_the_same(
    broker: Kafka, client: dict[str, str], codec: str, size: int
) -> None:
    topic = broker.topic()
    produce(broker, topic, codec, size)
    messages = read_both_ways(client, [Range(topic, 0, 0, 200), Range(topic, 1, 0, 200)])
    assert len(messages) == 400
    assert messages[201:310] == read_both_ways(client, [Range(topic, 1, 1, 110)])


def test_a_range_is_read_in_pieces(
    broker: Kafka, client: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.topic(1)
    settings = {"bootstrap.servers": broker.servers, "batch.num.messages": 100}
    producer = confluent_kafka.Producer(settings)
    for n in range(5000):
        producer.produce(topic, b"%d" % n, partition=0)
    assert producer.flush(60) == 0
    for module in (fetch, fetch_requests):
        monkeypatch.setattr(module, "MOST_BYTES", 2000)
    monkeypatch.setattr(kafka_reading, "MOST_MESSAGES", 700)
    parts = list(read(client, False, [Range(topic, 0, 10, 4990)], FIELDS))
    assert len(parts) > 3
    assert [row[2] for row in list_messages(parts)] == [b"%d" % n for n in range(10, 4990)]


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_transactions_are_read_as_librdkafka_does(
    broker: Kafka, client: dict[str, str], level: str
) -> None:
    topic = broker.topic(1)
    settings = {"bootstrap.servers": broker.servers, "linger.ms": 0}
    producers = [
        confluent_kafka.Producer({**settings, "transactional.id": f"{topic}-{n}"}) for n in (0, 1)
    ]
    for producer in producers:
        producer.init_transactions(60)
    for turn, commits in enumerate([(True, False), (False, True), (False, False), (True, True)]):
        for producer in producers:
            producer.begin_transaction()
        for n, number in itertools.product(range(5), (0, 1)):
            producers[number].produce(topic, b"%d-%d-%d" % (turn, number, n), partition=0)
            producers[number].flush(60)
        for producer, commit in zip(producers, commits, strict=True):
            (producer.commit_transaction if commit else producer.abort_transaction)(60)
    broker.send(topic, [(0, None, b"plain")])
    end = 4 * 12 + 1
    values = [
        row[2]
        for row in read_both_ways({**client, "isolation.level": level}, [Range(topic, 0, 0, end)])
    ]
    assert values[-1] == b"plain"
    assert len(values) == (21 if level == "read_committed" else 41)
    assert (b"0-1-0" in values) is (level == "read_uncommitted")


def test_messages_that_were_deleted_are_an_error(broker: Kafka, client: dict[str, str]) -> None:
    topic = broker.topic(1)
    broker.send(topic, [(0, None, b"%d" % n) for n in range(10)])
    deleted = confluent_kafka.TopicPartition(topic, 0, 5)
    for deletion in broker.admin.delete_records([deleted]).values():
        deletion.result(timeout=60)
    with pytest.raises(SourceError, match=f"messages 0 to 4 of partition 0 of topic '{topic}'"):
        list(read(client, False, [Range(topic, 0, 0, 10)], FIELDS))
    remaining = list_messages(list(read(client, True, [Range(topic, 0, 0, 10)], FIELDS)))
    assert [row[2] for row in remaining] == [b"%d" % n for n in range(5, 10)]


def test_a_broker_that_was_away_is_asked_again(broker: Kafka, client: dict[str, str]) -> None:
    topic = broker.topic(1)
    broker.send(topic, [(0, None, b"%d" % n) for n in range(10)])
    ranges = [Range(topic, 0, 0, 10)]
    before = list_messages(list(read(client, False, ranges, FIELDS)))
    for fetcher in itertools.chain.from_iterable(fetch.FETCHERS.idle.values()):
        for connection in fetcher._connections.values():
            connection.close()
    assert list_messages(list(read(client, False, ranges, FIELDS))) == before
    assert list_messages(list(read(client, False, ranges, FIELDS))) == before


def test_a_broker_that_is_away_when_leaders_are_asked_for_is_left_to_librdkafka(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "_PATIENCE", 0.5)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        fetcher = Fetcher({"bootstrap.servers": f"127.0.0.1:{closed.getsockname()[1]}"})
        with pytest.raises(FetchError, match="the leaders of 'clicks' can't be asked for"):
            fetcher.fetch([FetchProgress("clicks", 0, 0, 10)])


def test_readers_at_the_same_time_have_connections_of_their_own() -> None:
    servers = {"bootstrap.servers": "h:1"}
    with lend_fetcher(servers) as first, lend_fetcher(servers) as second:
        assert first is not None
        assert first is not second
    with lend_fetcher(servers) as third:
        assert third in (first, second)


def test_settings_that_arent_followed_are_left_to_librdkafka() -> None:
    servers = {"bootstrap.servers": "h:1"}
    with lend_fetcher({**servers, "fetch.wait.max.ms": "5", "client.id": "c"}) as fetcher:
        assert fetcher is not None
    for unsupported in (
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
        {"security.protocol": "SASL_PLAINTEXT"},
        {"ssl.keystore.location": "x.p12"},
        {"client.rack": "a"},
    ):
        with lend_fetcher({**servers, **unsupported}) as fetcher:
            assert fetcher is None
