"""Topics: named streams of values of one type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muntin.model.attribute_hints import WithoutRows
from muntin.model.errors import OptionError, OutsideStreamError
from muntin.tables.current import CURRENT, event_time
from muntin.tables.partition import SentMessage
from muntin.tables.stream import RUNNING, Stream
from muntin.tables.time_values import PointInTime


@dataclass(frozen=True)
class Topic(WithoutRows):
    """A stream of values of one type, created by ``app.topic``.

    Attributes:
        name: The topic's name.
        value_type: A dataclass, pydantic model or other type that values are checked against;
            other values are rejected as ``malformed``. ``None`` accepts any value.
        key_type: The type of the keys, checked like ``value_type``.
        lateness: How far the watermark trails the greatest time, microseconds.
    """

    _kind_of_words = "topic"

    name: str
    value_type: Any = None
    key_type: Any = None
    lateness: int = 0

    def stream(self) -> Stream:
        """Return the topic's events, for the calling agent or task.

        Raises:
            OutsideStreamError: Outside of an agent or task.
        """
        reader = RUNNING.get()
        if reader is None:
            raise OutsideStreamError(
                f"{self.name}.stream() is opened outside of an agent or task; "
                "loop over it in a function with @app.task, or @app.agent(topic)"
            )
        return Stream(reader, self.name)

    async def send(
        self, *, value: Any = None, key: Any = None, timestamp: PointInTime | None = None
    ) -> None:
        """Send a message, which is delivered when the batch is committed.

        Args:
            value: The value.
            key: The partition key.
            timestamp: The message's time; by default that of the event being processed, and in a
                timer the wall clock.

        Raises:
            OutsideStreamError: Outside of an agent; send through the running app there.
        """
        self.post(value, key=key, timestamp=timestamp)

    def post(self, value: Any, *, key: Any = None, timestamp: PointInTime | None = None) -> None:
        """Send a message from a function that isn't a coroutine; see ``send`` for the arguments."""
        cursor = CURRENT.get()
        outbox = None if cursor is None else cursor.outbox
        if cursor is None or outbox is None:
            raise OutsideStreamError(
                f"a message is sent to {self.name} outside of an agent; "
                "use send() of what app.open() returned"
            )
        time = cursor.time if timestamp is None else event_time(timestamp)
        cause = cursor.arrival.number, cursor.time if cursor.topic[:1] == "@" else 0
        outbox.append(SentMessage(self.name, cursor.agent, value, key, time, cause))


def require_name(name: str, kind: str) -> str:
    """Return the name of a topic, table or agent; refuse an empty one."""
    if not isinstance(name, str) or not name:
        raise OptionError(kind, name, "is no name", "give it a name")
    return name
