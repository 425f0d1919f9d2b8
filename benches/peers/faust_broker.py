"""Replaces Kafka in Faust's programs: tables without a broker, in one process.

The replacement accepts serialised changelog messages and acknowledges them.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import faust
from faust.streams import _current_event
from faust.types import TP
from faust.types.tuples import RecordMetadata

TOPIC = "rows"


class Broker:
    """Replaces producer and consumer."""

    consumer_generation_id = 0

    def __init__(self) -> None:
        self.sent = 0

    def send_soon(self, future: Any) -> None:
        """Accept a message, and acknowledge it at once."""
        message, partition = future.message, TP(TOPIC, future.message.partition)
        metadata = RecordMetadata(
            partition.topic, partition.partition, partition, self.sent, time.time(), 0
        )
        self.sent += 1
        future.set_result(metadata)
        if message.callback is not None:
            message.callback(future)

    def topic_partitions(self, topic: str) -> int:
        """Return the only partition."""
        return 1


class Event:
    """The parts of the current event that a table reads."""

    __slots__ = ("__weakref__", "message")

    def __init__(self) -> None:
        self.message = SimpleNamespace(timestamp=0.0, partition=0, topic=TOPIC)


def app_without_broker(name: str) -> Any:
    """Return an app whose changelog messages go to the replacement."""
    app = faust.App(name, broker="kafka://nowhere", store="memory://")
    app.producer = app.consumer = Broker()
    return app


def current_message() -> Any:
    """Set the message of the current event; its ``timestamp`` may be changed."""
    event = Event()
    _current_event.set(lambda: event)  # type: ignore[arg-type]
    return event.message
