"""Topics: named streams of values of one type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muntin.model.errors import OptionError, OutsideStreamError
from muntin.tables.current import CURRENT, time_of
from muntin.tables.moments import PointInTime
from muntin.tables.partition import SentMessage
from muntin.tables.stream import RUNNING, Stream


@dataclass(frozen=True)
class Topic:
    """A stream of values; made by ``app.topic``.

    Attributes:
        name: Its name.
        value_type: A dataclass, pydantic model or other type that values are checked against;
            what isn't of it is rejected as ``malformed``. ``None`` takes anything.
        key_type: The same for keys.
        lateness: How far the watermark trails the greatest time, microseconds.
    """

    name: str
    value_type: Any = None
    key_type: Any = None
    lateness: int = 0

    def stream(self) -> Stream:
        """The topic's events, for the agent or task that calls this.

        Raises:
            OutsideStreamError: Outside of one.
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
        """Send a message; it is on its way when the batch is committed.

        Args:
            value: The value.
            key: What the message is partitioned by.
            timestamp: Its time; where it isn't given, that of the event that the agent is at, in a
                timer the wall clock.

        Raises:
            OutsideStreamError: Outside of an agent; there, the app's runtime sends.
        """
        self.post(value, key=key, timestamp=timestamp)

    def post(self, value: Any, *, key: Any = None, timestamp: PointInTime | None = None) -> None:
        """The same, for functions that aren't coroutines."""
        cursor = CURRENT.get()
        outbox = None if cursor is None else cursor.outbox
        if cursor is None or outbox is None:
            raise OutsideStreamError(
                f"a message is sent to {self.name} outside of an agent; "
                "use send() of what app.open() returned"
            )
        time = cursor.time if timestamp is None else time_of(timestamp)
        cause = cursor.arrival.number, cursor.time if cursor.topic[:1] == "@" else 0
        outbox.append(SentMessage(self.name, cursor.agent, value, key, time, cause))


def checked(name: str, kind: str) -> str:
    """The name of a topic, table or agent."""
    if not isinstance(name, str) or not name:
        raise OptionError(kind, name, "is no name", "give it a name")
    return name
