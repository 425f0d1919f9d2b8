"""What stands in for Kafka in Faust's programs: tables without a broker, in one process.

The stand-in takes the serialised changelog messages and says that they were sent.
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
    """Stands in for producer and consumer."""

    consumer_generation_id = 0

    def __init__(self) -> None:
        self.sent = 0

    def send_soon(self, future: Any) -> None:
        """Take a message, and say at once that it was sent."""
        message, place = future.message, TP(TOPIC, future.message.partition)
        emitted = RecordMetadata(place.topic, place.partition, place, self.sent, time.time(), 0)
        self.sent += 1
        future.set_result(emitted)
        if message.callback is not None:
            message.callback(future)

    def topic_partitions(self, topic: str) -> int:
        """Everything is in one partition."""
        return 1


class Event:
    """What a table asks of the current event."""

    __slots__ = ("__weakref__", "message")

    def __init__(self) -> None:
        self.message = SimpleNamespace(timestamp=0.0, partition=0, topic=TOPIC)


def app_without_broker(name: str) -> Any:
    """An app whose changelog messages go to the stand-in."""
    app = faust.App(name, broker="kafka://nowhere", store="memory://")
    app.producer = app.consumer = Broker()
    return app


def current_message() -> Any:
    """The message of the event that is current from now on; its ``timestamp`` may be set."""
    event = Event()
    _current_event.set(lambda: event)  # type: ignore[arg-type]
    return event.message
