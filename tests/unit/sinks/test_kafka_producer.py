"""Tests of refused messages with a fake broker; tests/spark/test_kafka.py has a real one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.services.kafka import Kafka

import muntin as mt
from muntin.model.errors import OptionError, SinkError
from muntin.sinks import kafka_producer
from muntin.sinks.kafka_producer import Messages, send_messages

CLIENT = {"bootstrap.servers": "nowhere:9"}


class Broker:
    """A producer that refuses messages above a size, with the batches that they are in."""

    def __init__(self, most: int, client_most: int = 10_000, error: int | None = None) -> None:
        self.most = most
        self.client_most = client_most
        self.error = error
        self.sent: list[list[bytes]] = []
        self.full = True
        self._waiting: list[tuple[bytes, Callable[[Any, Any], None]]] = []
        self._alone = False

    def of(self, client: dict[str, str], topic: str) -> Broker:
        assert client["partitioner"] == "murmur2_random"
        self._alone = client.get("batch.num.messages") == "1"
        self.sent.append([])
        return self

    def produce(self, topic: str, value: bytes, key: Any, on_delivery: Any, headers: Any) -> None:
        if self.full:
            self.full = False
            raise BufferError
        if len(value) > self.client_most:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        self._waiting.append((value, on_delivery))
        if self._alone:
            self.flush(0)

    def poll(self, timeout: float) -> None:
        """Nothing waits for a poll."""

    def flush(self, timeout: float) -> int:
        code = self.error
        if any(len(value) > self.most for value, _ in self._waiting):
            code = KafkaError.MSG_SIZE_TOO_LARGE
        for value, on_delivery in self._waiting:
            if code is None:
                self.sent[-1].append(value)
            else:
                on_delivery(KafkaError(code), None)
        self._waiting = []
        return 0


def make_messages(*values: bytes) -> Messages:
    return Messages([None] * len(values), list(values), [[("batch", "0")]] * len(values))


@pytest.mark.parametrize("most", [10_000, 700, 0])
def test_what_is_too_large_is_left_out(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """A message is left out whether the client or the broker refuses it."""
    broker = Broker(most)
    monkeypatch.setattr(kafka_producer, "_get_producer", broker.of)
    values = [b"x" * 500, b"y" * 50_000, b"a", b"z" * 900, b"b"]
    unfit = send_messages(CLIENT, "t", make_messages(*values), range(len(values)))
    large = [n for n, value in enumerate(values) if len(value) > min(most, 10_000)]
    assert sorted(unfit) == large
    assert unfit[1] == "the message is too large: 50006 bytes"
    # In the end, the other messages were sent once more, in their order.
    assert broker.sent[-1] == [v for n, v in enumerate(values) if n not in large]
    assert len(broker.sent) == (1 if most == 10_000 else 2)


def test_only_some_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(1000)
    monkeypatch.setattr(kafka_producer, "_get_producer", broker.of)
    assert send_messages(CLIENT, "t", make_messages(b"a", b"b", b"c"), [0, 2]) == {}
    assert broker.sent == [[b"a", b"c"]]


def test_another_error_is_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(1000, error=KafkaError.TOPIC_AUTHORIZATION_FAILED)
    monkeypatch.setattr(kafka_producer, "_get_producer", broker.of)
    with pytest.raises(SinkError, match=r"Kafka nowhere:9, topic t takes no messages: .*authoriz"):
        send_messages(CLIENT, "t", make_messages(b"a"), [0])


def test_a_producer_that_was_refused_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It remembers the refusal, so that a query that starts again would be refused once more."""
    broker = Broker(1000)
    refusals = [KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))]

    class Remembering:
        def __init__(self, client: dict[str, Any]) -> None:
            self.refusal = refusals.pop() if refusals else None
            self.flush, self.poll = broker.flush, broker.poll
            broker.sent.append([])

        def list_topics(self, topic: str, timeout: float) -> None:
            """Nothing is known of topics."""

        def produce(self, *parts: Any, **more: Any) -> None:
            if self.refusal is not None:
                raise self.refusal
            broker.produce(*parts, **more)

    monkeypatch.setattr("confluent_kafka.Producer", Remembering)
    monkeypatch.setattr(kafka_producer, "_PRODUCERS", {})
    with pytest.raises(SinkError, match="Allow the query's user to write and describe it"):
        send_messages(CLIENT, "t", make_messages(b"a"), [0])
    assert send_messages(CLIENT, "t", make_messages(b"a"), [0]) == {}
    assert broker.sent[-1] == [b"a"]


def test_a_new_producer_asks_for_its_topic_before_it_sends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics: list[str] = []
    broker = Broker(1000)

    class Asking:
        def __init__(self, client: dict[str, Any]) -> None:
            self.produce, self.flush, self.poll = broker.produce, broker.flush, broker.poll
            broker.sent.append([])

        def list_topics(self, topic: str, timeout: float) -> None:
            assert not broker.sent[-1]
            topics.append(topic)
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    monkeypatch.setattr("confluent_kafka.Producer", Asking)
    monkeypatch.setattr(kafka_producer, "_PRODUCERS", {})
    for value in (b"a", b"b"):
        assert send_messages(CLIENT, "t", make_messages(value), [0]) == {}
    assert (topics, broker.sent) == (["t"], [[b"a", b"b"]])


def test_all_that_is_waited_for_is_waited_for_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without these settings librdkafka gives up a missing topic after half a minute."""
    settings: dict[str, Any] = {}

    class Stopped:
        def __init__(self, client: dict[str, Any]) -> None:
            settings.update(client)
            raise RuntimeError

    monkeypatch.setattr("confluent_kafka.Producer", Stopped)
    monkeypatch.setattr(kafka_producer, "_PRODUCERS", {})
    for patience, milliseconds in (("5 minutes", "300000"), ("2 days", "172800000")):
        client = mt.to_kafka("nowhere:9", "t", patience=patience).client
        with pytest.raises(RuntimeError):
            send_messages(client, "t", make_messages(b"a"), [0])
        assert settings["message.timeout.ms"] == milliseconds
        longest = min(int(milliseconds), 3_600_000)
        assert settings["topic.metadata.propagation.max.ms"] == str(longest)


@pytest.mark.parametrize(
    "name", ["message.timeout.ms", "delivery.timeout.ms", "topic.metadata.propagation.max.ms"]
)
def test_a_second_patience_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match="is set by the sink itself; give patience="):
        mt.to_kafka("nowhere:9", "t", options={name: "5"})


@pytest.mark.slow
def test_brokers_that_are_away_are_an_error() -> None:
    """Brokers are a mock of librdkafka's, and one that isn't there."""
    mock = {"bootstrap.servers": "", "test.mock.num.brokers": "1"}
    assert send_messages(mock, "t", make_messages(b"a", b"b"), [0, 1]) == {}
    away = {"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": "300"}
    with pytest.raises(SinkError, match=r"refused.*, for 0 s\. Bring the brokers back, and start"):
        send_messages(away, "t", make_messages(b"a"), [0])


def test_a_topic_that_isnt_there_is_said_while_it_is_waited_for(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    client = {"bootstrap.servers": kafka.servers, "message.timeout.ms": "2500"}
    with pytest.raises(SinkError) as caught:
        send_messages(client, "nowhere", make_messages(b"a"), [0])
    problem = f"Kafka {kafka.servers}, topic nowhere takes no messages: "
    assert str(caught.value).startswith(f"{problem}Broker: Unknown topic or partition")
    assert str(caught.value).endswith(". Create it, and start the query again")
    (line,) = caplog.messages
    assert line == (
        f"Kafka at {kafka.servers} has no topic 'nowhere' now (Broker: Unknown topic or "
        "partition); retrying for 2 s"
    )
