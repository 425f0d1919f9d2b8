"""The event that an agent is processing, which determines how tables are written and read."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muntin.model.axis import MIN_POSITION
from muntin.model.errors import OptionError, OutsideStreamError
from muntin.tables.clocks import NO_ARRIVAL, EventArrival
from muntin.tables.time_values import parse_point_in_time, to_seconds

if TYPE_CHECKING:
    from muntin.tables.partition import Partition, SentMessage

# Messages of timers come after those of events, and before those of closed windows.
_AFTER_EVENTS = 1 << 61


@dataclass(frozen=True, slots=True)
class Event:
    """One message of a topic, as ``stream.events()`` yields it.

    Attributes:
        value: The value, of the topic's type.
        key: The partition key; ``None`` if the stream has none.
        time: The time in microseconds since the epoch.
        topic: The topic's name.
        partition: The partition that processes it.
        offset: Its number in the source.
    """

    value: Any
    key: Any
    time: int
    topic: str
    partition: int
    offset: int

    @property
    def timestamp(self) -> float:
        """The time in seconds since the epoch."""
        return to_seconds(self.time)


class EventCursor:
    """The position of an agent in its stream; its attributes move from event to event.

    Attributes:
        topic: The name of the topic that defines its clock.
        part: The current partition; ``None`` between batches.
        time: The event's time, microseconds.
        watermark: The topic's watermark when the event arrived.
        offset: The event's number in the source.
        arrival: Further facts about the event's arrival; unique to the event within its batch.
        taken: The events of the list that ``take`` yielded, each as a cursor.
        gathered: The events of the list that ``take`` is collecting.
    """

    __slots__ = (
        "agent", "arrival", "gathered", "key", "offset", "part", "taken", "time", "topic", "value",
        "watermark",
    )  # fmt: skip

    def __init__(self, agent: str, topic: str) -> None:
        self.agent = agent
        self.topic = topic
        self.part: Partition | None = None
        self.value: Any = None
        self.key: Any = None
        self.time = 0
        self.watermark = MIN_POSITION
        self.offset = -1
        self.arrival = NO_ARRIVAL
        self.taken: list[EventCursor] = []
        self.gathered: list[EventCursor] = []

    def copy(self) -> EventCursor:
        """Return another cursor that stays at this event."""
        cursor = EventCursor(self.agent, self.topic)
        cursor.part = self.part
        cursor.move(self)
        return cursor

    def move(self, target: EventCursor) -> None:
        """Move to the event of another cursor."""
        self.value, self.key, self.time = target.value, target.key, target.time
        self.watermark, self.offset, self.arrival = target.watermark, target.offset, target.arrival

    @property
    def event_id(self) -> tuple[Any, ...]:
        """An identifier of the event, unique within its batch."""
        return self.agent, self.topic, self.offset, id(self.arrival)

    @property
    def outbox(self) -> list[SentMessage] | None:
        """The list that collects sent messages; ``None`` between batches."""
        return None if self.part is None else self.part.sent

    def event(self) -> Event:
        """Return the event itself."""
        number = self.part.number if self.part is not None else 0
        return Event(self.value, self.key, self.time, self.topic, number, self.offset)

    def resolve_event(self, event: Any) -> Event:
        """Return the event that a user refers to by an event, its value, or a time."""
        if isinstance(event, Event):
            return event
        if event is self.value:
            return self.event()
        for cursor in self.taken:
            if event is cursor.value:
                return cursor.event()
        return Event(None, self.key, event_time(event), self.topic, 0, -1)


class TimerCursor(EventCursor):
    """The cursor of a timer: it has no event and no partition, but can send messages.

    The wall clock becomes the time of the messages, which ``sent`` collects.
    """

    __slots__ = ("_sent",)

    def __init__(self, timer: str, now: int, sent: list[SentMessage]) -> None:
        super().__init__(timer, f"@timer {timer}")
        self.time = now
        self.arrival = EventArrival(_AFTER_EVENTS)
        self._sent = sent

    @property
    def outbox(self) -> list[SentMessage]:
        """The list that collects sent messages (``EventCursor``)."""
        return self._sent


CURRENT: ContextVar[EventCursor | None] = ContextVar("muntin_current", default=None)


def find_cursor() -> EventCursor | None:
    """Return the cursor of the running agent, or ``None`` outside of a stream."""
    cursor = CURRENT.get()
    return cursor if cursor is not None and cursor.part is not None else None


def require_cursor(what: str) -> EventCursor:
    """Return the cursor of the running agent; an error says ``what`` was attempted.

    Raises:
        OutsideStreamError: Outside of a stream.
    """
    cursor = find_cursor()
    if cursor is None:
        cursor_or_timer = CURRENT.get()
        if isinstance(cursor_or_timer, TimerCursor):
            where = f"in the timer {cursor_or_timer.agent!r}, which has no event and no partition; "
            hint = "let it send to an agent that does it: await agent.send(value, key=key)"
            raise OutsideStreamError(f"{what} {where}{hint}")
        raise OutsideStreamError(
            f"{what} outside of a stream; do it in an agent, within its loop over events"
        )
    return cursor


def event_time(event: Any) -> int:
    """Return the time of an event, or a point in time, in microseconds.

    Raises:
        OptionError: When it is neither.
    """
    if isinstance(event, Event):
        return event.time
    try:
        return parse_point_in_time(event)
    except ValueError as error:
        hint = "give the event that the agent is at, one of stream.events(), or a point in time"
        raise OptionError("event", event, "has no time that is known", hint) from error
