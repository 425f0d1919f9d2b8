"""Which event an agent is at: tables are written and read as of it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muntin.model.errors import OptionError, OutsideStreamError
from muntin.tables.clocks import NOBODY, ArrivalMarks
from muntin.tables.moments import BEGINNING, moment, seconds

if TYPE_CHECKING:
    from muntin.tables.partition import Partition, SentMessage

# What timers send comes behind what events lead to, and before what closed windows do.
_BEHIND_EVENTS = 1 << 61


@dataclass(frozen=True, slots=True)
class Event:
    """One message of a topic, as ``stream.events()`` gives it.

    Attributes:
        value: The value, of the topic's type.
        key: What the stream is partitioned by; ``None`` where it isn't.
        time: Its time, microseconds since the epoch.
        topic: The topic's name.
        partition: The partition that it is worked on in.
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
        """Its time in seconds since the epoch."""
        return seconds(self.time)


class EventCursor:
    """Where an agent is in its stream; the attributes move from event to event.

    Attributes:
        agent: The agent's name.
        topic: The name of the topic that its times come from.
        part: The partition at work; ``None`` between batches.
        value: The event's value.
        key: Its key.
        time: Its time, microseconds.
        judged: The watermark in force when it arrived.
        offset: Its number in the source.
        arrival: What else it found when it arrived; no two events of a batch share one.
        taken: The events that ``take`` handed over together, each as a cursor at it.
        gathered: Those that it will hand over next.
    """

    __slots__ = (
        "agent", "arrival", "gathered", "judged", "key", "offset", "part", "taken", "time", "topic",
        "value",
    )  # fmt: skip

    def __init__(self, agent: str, topic: str) -> None:
        self.agent = agent
        self.topic = topic
        self.part: Partition | None = None
        self.value: Any = None
        self.key: Any = None
        self.time = 0
        self.judged = BEGINNING
        self.offset = -1
        self.arrival = NOBODY
        self.taken: list[EventCursor] = []
        self.gathered: list[EventCursor] = []

    def copy(self) -> EventCursor:
        """Another cursor at the same event, which stays there."""
        made = EventCursor(self.agent, self.topic)
        made.part = self.part
        made.move(self)
        return made

    def move(self, to: EventCursor) -> None:
        """Go to the event that another cursor is at."""
        self.value, self.key, self.time = to.value, to.key, to.time
        self.judged, self.offset, self.arrival = to.judged, to.offset, to.arrival

    @property
    def place(self) -> tuple[Any, ...]:
        """What no other event of the batch has."""
        return self.agent, self.topic, self.offset, id(self.arrival)

    @property
    def outbox(self) -> list[SentMessage] | None:
        """Where what is sent goes; ``None`` between batches."""
        return None if self.part is None else self.part.sent

    def event(self) -> Event:
        """The event itself."""
        number = self.part.number if self.part is not None else 0
        return Event(self.value, self.key, self.time, self.topic, number, self.offset)

    def meant(self, event: Any) -> Event:
        """The event that a user means: an event, its value, or a time."""
        if isinstance(event, Event):
            return event
        if event is self.value:
            return self.event()
        for one in self.taken:
            if event is one.value:
                return one.event()
        return Event(None, self.key, time_of(event), self.topic, 0, -1)


class TimerCursor(EventCursor):
    """Where a timer is: at no event and in no partition, and yet it may send.

    Args:
        timer: The timer's name.
        now: The wall clock, the time of what it sends.
        sent: Where that goes.
    """

    __slots__ = ("_sent",)

    def __init__(self, timer: str, now: int, sent: list[SentMessage]) -> None:
        super().__init__(timer, f"@timer {timer}")
        self.time = now
        self.arrival = ArrivalMarks(_BEHIND_EVENTS)
        self._sent = sent

    @property
    def outbox(self) -> list[SentMessage]:
        """See ``EventCursor``."""
        return self._sent


CURRENT: ContextVar[EventCursor | None] = ContextVar("muntin_current", default=None)


def current() -> EventCursor | None:
    """Where the running agent is; ``None`` outside of a stream."""
    cursor = CURRENT.get()
    return cursor if cursor is not None and cursor.part is not None else None


def current_cursor(what: str) -> EventCursor:
    """Where the running agent is."""
    cursor = current()
    if cursor is None:
        at = CURRENT.get()
        if isinstance(at, TimerCursor):
            where = f"in the timer {at.agent!r}, which is at no event and in no partition; "
            hint = "let it send to an agent that does it: await agent.send(value, key=key)"
            raise OutsideStreamError(f"{what} {where}{hint}")
        raise OutsideStreamError(
            f"{what} outside of a stream; do it in an agent, within its loop over events"
        )
    return cursor


def time_of(event: Any) -> int:
    """The time of an event, or a point in time as it is."""
    if isinstance(event, Event):
        return event.time
    try:
        return moment(event)
    except ValueError as error:
        hint = "give the event that the agent is at, one of stream.events(), or a point in time"
        raise OptionError("event", event, "has no time that is known", hint) from error
