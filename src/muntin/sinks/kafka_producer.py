"""Messages to a topic, each of which the broker has or doesn't want when this returns."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from muntin.model.errors import SinkError

Headers = list[tuple[str, bytes | str | None]]
# As Java's client has it where nothing is said: keys are in the partitions that it would choose.
_DEFAULTS = {
    "partitioner": "murmur2_random",
    "enable.idempotence": "true",
    "message.max.bytes": "1048576",
    "message.timeout.ms": "120000",
    "log_level": "2",
}
# Success is what isn't reported: Python isn't called for each message.
_OURS = {"delivery.report.only.error": True}
# How long the brokers may take to answer a new producer, seconds.
_CONNECTING = 5
_PRODUCERS: dict[str, Any] = {}
_LOCK = threading.Lock()


@dataclass
class Messages:
    """Messages, a list for each of their parts."""

    keys: list[Any]
    values: list[Any]
    headers: list[Headers]

    def __len__(self) -> int:
        return len(self.values)


def send(
    client: Mapping[str, str], topic: str, messages: Messages, rows: Sequence[int]
) -> dict[int, str]:
    """Send messages in their order, and wait until the brokers have them.

    Messages that are too large are left out. Which ones these are for a topic whose limit is below
    the client's shows only when each goes by itself: then all are sent once more, so that the last
    message of each key is the newest.

    Returns:
        Which ones are too large, and why.

    Raises:
        SinkError: When the brokers don't take them for another reason.
    """
    together = _Sending(client, topic)
    together.send(messages, rows)
    if not together.refused:
        return together.unfit
    alone = _Sending({**client, "batch.num.messages": "1"}, topic)
    alone.send(messages, [row for row in rows if row not in together.unfit])
    return together.unfit | alone.unfit


class _Sending:
    """Sends messages once.

    Attributes:
        unfit: Which are too large, and why.
        refused: Whether the brokers refused some that were sent together.
    """

    def __init__(self, client: Mapping[str, str], topic: str) -> None:
        from confluent_kafka import KafkaError

        self.topic = topic
        self.unfit: dict[int, str] = {}
        self.refused = False
        self._client = {**_DEFAULTS, **client, **_OURS}
        self._alone = "batch.num.messages" in client
        self._too_large = KafkaError.MSG_SIZE_TOO_LARGE
        self._error: Any = None

    def send(self, messages: Messages, rows: Sequence[int]) -> None:
        """Send some of the messages."""
        from confluent_kafka import KafkaException

        producer = _producer(self._client, self.topic)
        for row in rows:
            try:
                self._produce(producer, messages, row)
            except KafkaException as error:  # the client itself looks at sizes
                if error.args[0].code() != self._too_large:
                    raise self._refusal(error.args[0]) from error
                self.unfit[row] = _why(messages, row)
            if self._error is not None or self.refused:
                break
        while producer.flush(1.0):
            pass
        if self._error is not None:
            if self._error.fatal():
                _forget(self._client)
            raise self._refusal(self._error)

    def _produce(self, producer: Any, messages: Messages, row: int) -> None:
        parts = messages.values[row], messages.keys[row]
        said = partial(self._undelivered, messages, row) if self._alone else self._undelivered_any
        while True:
            try:
                headers = messages.headers[row]
                producer.produce(self.topic, *parts, on_delivery=said, headers=headers)
                return
            except BufferError:  # it sends what it holds before it takes more
                producer.poll(0.1)

    def _undelivered_any(self, error: Any, message: Any) -> None:
        """What brokers refuse is all that was sent together."""
        if error.code() == self._too_large:
            self.refused = True
        else:
            self._error = self._error or error

    def _undelivered(self, messages: Messages, row: int, error: Any, message: Any) -> None:
        if error.code() == self._too_large:
            self.unfit[row] = _why(messages, row)
        else:
            self._error = self._error or error

    def _refusal(self, error: Any) -> SinkError:
        where = f"Kafka {self._client['bootstrap.servers']}, topic {self.topic}"
        return SinkError(f"{where} takes no messages: {error.str()}")


def _why(messages: Messages, row: int) -> str:
    parts = [messages.keys[row], messages.values[row]]
    parts += [part for header in messages.headers[row] for part in header]
    size = sum(len(p.encode() if isinstance(p, str) else p) for p in parts if p is not None)
    return f"the message is too large: {size} bytes"


def _producer(client: Mapping[str, Any], topic: str) -> Any:
    """This process's producer with these settings."""
    from confluent_kafka import KafkaException, Producer

    name = json.dumps(client, sort_keys=True)
    with _LOCK:
        if name in _PRODUCERS:
            return _PRODUCERS[name]
        made = _PRODUCERS[name] = Producer(dict(client))
    # One that knows no broker when it is given its first message waits up to a second. What the
    # brokers don't answer now, sending says.
    with suppress(KafkaException):
        made.list_topics(topic, timeout=_CONNECTING)
    return made


def _forget(client: Mapping[str, Any]) -> None:
    with _LOCK:
        _PRODUCERS.pop(json.dumps(client, sort_keys=True), None)
