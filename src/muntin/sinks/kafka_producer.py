"""Sends messages to a topic, and waits until the broker accepts or refuses each one."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from muntin.model.errors import SinkError
from muntin.model.patience import AwayError, Patience
from muntin.model.references import resolve_all
from muntin.sources.kafka_broker import MissingTopicError

Headers = list[tuple[str, bytes | str | None]]
# The defaults of Java's client, so that keys are in the same partitions.
DEFAULTS = {
    "partitioner": "murmur2_random",
    "enable.idempotence": "true",
    "message.max.bytes": "1048576",
    "message.timeout.ms": "120000",
    "log_level": "2",
}
# The longest time for which librdkafka can wait for a topic that isn't there.
_LONGEST_ABSENCE_MS = 3_600_000
# Only errors are reported, so that Python isn't called for each message.
_FIXED_SETTINGS = {"delivery.report.only.error": True}
# How long to wait for brokers to answer a new producer, in seconds.
_CONNECT_SECONDS = 5
_PRODUCERS: dict[str, Any] = {}
# The newest problem of each producer's connections since its last batch began.
_PROBLEMS: dict[str, str] = {}
_LOCK = threading.Lock()


@dataclass
class Messages:
    """Messages in columns: a list for each of their parts."""

    keys: list[Any]
    values: list[Any]
    headers: list[Headers]

    def __len__(self) -> int:
        return len(self.values)


def send_messages(
    client: Mapping[str, str], topic: str, messages: Messages, rows: Sequence[int]
) -> dict[int, str]:
    """Send messages in their order, and wait until the brokers have them.

    Messages that are too large are left out. If the topic's limit is below the client's, a refusal
    doesn't tell which one is too large unless it was sent alone. Then all are sent once more, one
    by one, so that the last message of each key is the newest.

    Returns:
        The messages that are too large, with reasons.

    Raises:
        SinkError: When the brokers refuse messages for another reason.
    """
    together = _SendAttempt(client, topic)
    together.send(messages, rows)
    if not together.refused:
        return together.unfit
    one_by_one = _SendAttempt({**client, "batch.num.messages": "1"}, topic)
    one_by_one.send(messages, [row for row in rows if row not in together.unfit])
    return together.unfit | one_by_one.unfit


class _SendAttempt:
    """Sends messages once.

    Attributes:
        unfit: The messages that are too large, with reasons.
        refused: True if the brokers refused messages that were sent together.
    """

    def __init__(self, client: Mapping[str, str], topic: str) -> None:
        from confluent_kafka import KafkaError

        self.topic = topic
        self.unfit: dict[int, str] = {}
        self.refused = False
        self._client = {**DEFAULTS, **client}
        patience = min(int(self._client["message.timeout.ms"]), _LONGEST_ABSENCE_MS)
        self._client.setdefault("topic.metadata.propagation.max.ms", str(patience))
        self._problem: AwayError | None = None
        self._sends_one_by_one = "batch.num.messages" in client
        self._too_large = KafkaError.MSG_SIZE_TOO_LARGE
        self._error: Any = None

    def send(self, messages: Messages, rows: Sequence[int]) -> None:
        """Send some of the messages."""
        from confluent_kafka import KafkaException

        producer = _get_producer(self._client, self.topic)
        for row in rows:
            try:
                self._produce(producer, messages, row)
            except KafkaException as error:  # the client itself looks at sizes
                if error.args[0].code() == self._too_large:
                    self.unfit[row] = _describe_size(messages, row)
                else:
                    self._error = error.args[0]
            if self._error is not None or self.refused:
                break
        self._flush(producer)
        if self._error is not None:
            _discard_producer(self._client)
            raise self._refusal_error(self._error)

    def _flush(self, producer: Any) -> None:
        """Wait until the brokers have accepted or refused all messages."""
        from confluent_kafka import KafkaError

        servers, seconds = (self._client[n] for n in ("bootstrap.servers", "message.timeout.ms"))
        waiting = Patience(f"Kafka at {servers}", float(seconds) / 1000)
        name = _name_producer(self._client)
        _PROBLEMS.pop(name, None)
        try:
            while producer.flush(1.0):
                topic_error = self._ask_for_topic_error(producer)
                if _is_forbidden(topic_error):
                    # No right comes by waiting, so the messages that wait are dropped.
                    self._error = topic_error
                    producer.purge()
                elif (problem := self._find_problem(topic_error)) is not None:
                    self._problem = problem
                    if not waiting.note_failure(problem):
                        # librdkafka itself may take longer to notice.
                        self._error = KafkaError(KafkaError._MSG_TIMED_OUT)
                        producer.purge()
                        break
            if self._error is None:
                waiting.note_answer()
            elif self._problem is None and self._error.code() == KafkaError._MSG_TIMED_OUT:
                # They gave up within the first second.
                topic_error = self._ask_for_topic_error(producer)
                self._problem = self._find_problem(topic_error)
                self._error = topic_error if _is_forbidden(topic_error) else self._error
        finally:
            waiting.end()

    def _ask_for_topic_error(self, producer: Any) -> Any:
        """Return what brokers that answer say against the topic, if anything."""
        from confluent_kafka import KafkaException

        if _name_producer(self._client) in _PROBLEMS:
            return None
        with suppress(KafkaException, KeyError):
            return producer.list_topics(self.topic, timeout=1.0).topics[self.topic].error
        return None

    def _find_problem(self, topic_error: Any) -> AwayError | None:
        """Return why messages wait: brokers are away, or lack the topic, which may come later."""
        if (problem := _PROBLEMS.get(_name_producer(self._client))) is not None:
            return AwayError(problem)
        if topic_error is None or _is_forbidden(topic_error):
            return None
        return MissingTopicError(topic_error.str(), f"topic {self.topic!r}")

    def _produce(self, producer: Any, messages: Messages, row: int) -> None:
        parts = messages.values[row], messages.keys[row]
        on_delivery = (
            partial(self._handle_refusal, messages, row)
            if self._sends_one_by_one
            else self._handle_group_refusal
        )
        while True:
            try:
                headers = messages.headers[row]
                producer.produce(self.topic, *parts, on_delivery=on_delivery, headers=headers)
                return
            except BufferError:  # it sends what it holds before it takes more
                producer.poll(0.1)

    def _handle_group_refusal(self, error: Any, message: Any) -> None:
        """Handle the refusal of messages that were sent together."""
        if error.code() == self._too_large:
            self.refused = True
        else:
            self._error = self._error or error

    def _handle_refusal(self, messages: Messages, row: int, error: Any, message: Any) -> None:
        if error.code() == self._too_large:
            self.unfit[row] = _describe_size(messages, row)
        else:
            self._error = self._error or error

    def _refusal_error(self, error: Any) -> SinkError:
        from confluent_kafka import KafkaError

        where = f"Kafka {self._client['bootstrap.servers']}, topic {self.topic}"
        problem = error.str().removeprefix("Unable to produce message: ")
        hint = "Correct the topic or the brokers"
        if error.code() == KafkaError._MSG_TIMED_OUT and self._problem is not None:
            seconds = float(self._client["message.timeout.ms"]) / 1000
            problem = f"{self._problem}, for {seconds:.0f} s"
            is_missing = isinstance(self._problem, MissingTopicError)
            hint = "Create it" if is_missing else "Bring the brokers back"
        elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            hint = "Allow the query's user to write and describe it"
        elif error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            hint = "Create it"
        return SinkError(f"{where} takes no messages: {problem}. {hint}, and start the query again")


def _is_forbidden(error: Any) -> bool:
    from confluent_kafka import KafkaError

    return error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def _describe_size(messages: Messages, row: int) -> str:
    parts = [messages.keys[row], messages.values[row]]
    parts += [part for header in messages.headers[row] for part in header]
    size = sum(len(p.encode() if isinstance(p, str) else p) for p in parts if p is not None)
    return f"the message is too large: {size} bytes"


def _get_producer(client: Mapping[str, Any], topic: str) -> Any:
    """Return this process's producer with these settings."""
    from confluent_kafka import KafkaException, Producer

    name = _name_producer(client)
    with _LOCK:
        if name in _PRODUCERS:
            return _PRODUCERS[name]
        settings = {**resolve_all(client), **_FIXED_SETTINGS}
        settings["error_cb"] = partial(_note_problem, name)
        producer = _PRODUCERS[name] = Producer(settings)
    # A producer without a broker delays its first message by up to a second. If brokers don't
    # answer now, sending reports it.
    with suppress(KafkaException):
        producer.list_topics(topic, timeout=_CONNECT_SECONDS)
    return producer


def _discard_producer(client: Mapping[str, Any]) -> None:
    with _LOCK:
        _PRODUCERS.pop(_name_producer(client), None)


def _note_problem(name: str, error: Any) -> None:
    from confluent_kafka import KafkaError

    # That no broker is reached follows the message that says why.
    if error.code() != KafkaError._ALL_BROKERS_DOWN or name not in _PROBLEMS:
        _PROBLEMS[name] = error.str()


def _name_producer(client: Mapping[str, Any]) -> str:
    return json.dumps(client, sort_keys=True)
