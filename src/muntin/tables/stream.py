"""The events that an agent loops over, and where they wait for it.

An agent gets its events batch by batch without noticing: when it asks for the next event and the
batch is used up, the batch can be committed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, Protocol

from muntin.model.errors import OptionError
from muntin.tables.clocks import ArrivalMarks
from muntin.tables.current import CURRENT, Event, EventCursor
from muntin.tables.moments import Seconds, length
from muntin.tables.partition import Partition
from muntin.tables.record import Keying, keying

EventRow = tuple[Any, Any, int, int, int, ArrivalMarks]
"""Value, key, time, the watermark it is judged by, offset, and what else it found."""
Test = Callable[[Any], bool]

# Stands behind the values of a batch.
_END = object()


class Inbox:
    """Events of one topic on their way to one agent.

    Attributes:
        cursor: Where the agent is.
        rows: What is left of the batch at work.
        idle: Set while the agent waits and nothing is there for it.
        given: How many events it was given since then.
    """

    def __init__(self, agent: str, topic: str, by: Keying | None) -> None:
        self.topic = topic
        self.by = by
        self.cursor = EventCursor(agent, topic)
        self.rows: Iterator[EventRow] = iter(())
        self.idle = asyncio.Event()
        self._waiting: deque[tuple[Partition, Iterable[EventRow]]] = deque()
        self._arrival = asyncio.Event()
        self._closed = False
        self.given = 0

    def put(self, part: Partition, rows: Iterable[EventRow], count: int) -> None:
        """Add a batch of one partition."""
        self.given += count
        self._waiting.append((part, rows))
        self.idle.clear()
        self._arrival.set()

    def close(self) -> None:
        """Let the stream end when it is used up."""
        self._closed = True
        self._arrival.set()

    async def more(self) -> bool:
        """Wait for the next batch, which is then in ``rows``; false when there will be none."""
        self.cursor.part = None
        while not self._waiting:
            self.idle.set()
            self.given = 0
            if self._closed:
                return False
            self._arrival.clear()
            await self._arrival.wait()
        self.cursor.part, rows = self._waiting.popleft()
        self.rows = iter(rows)
        return True


class EventReader(Protocol):
    """Opens the inbox when an agent asks for its first event."""

    def open(self, topic: str, by: Keying | None) -> Inbox:
        """The inbox for a topic's events, partitioned in one way."""


RUNNING: ContextVar[EventReader | None] = ContextVar("muntin_running", default=None)
"""What runs the present agent: for streams that are opened inside of it."""


class Stream:
    """A topic's events; an agent is called with one and loops over it.

    Source: the streams of Faust.

    Args:
        reader: What runs the agent.
        topic: The topic's name.
        by: What the events are partitioned by; ``None``: by their keys.
        tests: Which values to pass on.
    """

    def __init__(
        self,
        reader: EventReader,
        topic: str,
        by: Keying | None = None,
        tests: tuple[Test, ...] = (),
    ) -> None:
        self._reader = reader
        self._topic = topic
        self._by = by
        self._tests = tests

    def __aiter__(self) -> AsyncIterator[Any]:
        """The values, one by one."""
        return self._walk(self._open())

    async def events(self) -> AsyncIterator[Event]:
        """The events: each with value, key, time, topic, partition and offset."""
        inbox = self._open()
        async for _ in self._walk(inbox):
            yield inbox.cursor.event()

    async def items(self) -> AsyncIterator[tuple[Any, Any]]:
        """Keys and values."""
        inbox = self._open()
        async for value in self._walk(inbox):
            yield inbox.cursor.key, value

    async def enumerate(self, start: int = 0) -> AsyncIterator[tuple[int, Any]]:
        """Values with their number since the agent was started."""
        number = start
        async for value in self:
            yield number, value
            number += 1

    async def take(self, most: int, within: Seconds | None = None) -> AsyncIterator[list[Any]]:
        """Values in lists of at most ``most``.

        A list ends with its batch, too, so that a commit never parts what was read from what was
        done with it. Tables are written as of the last event of a list; an older one can be named:
        ``table[key].current(value)``.

        Args:
            most: The length of a list.
            within: How long to wait for a full one; no batch waits longer than it must, so this
                is only checked.
        """
        if most < 1:
            raise OptionError("take", most, "takes nothing", "give 1 or more")
        if within is not None:
            length("within", within)
        inbox = self._open()
        cursor = inbox.cursor
        # All that isn't done with is at the cursor: an error costs every one of those events.
        async for value in self._walk(inbox, ends=True):
            if value is not _END:
                cursor.gathered.append(cursor.copy())
            if cursor.gathered and (value is _END or len(cursor.gathered) == most):
                cursor.taken, cursor.gathered = cursor.gathered, []
                # Events that were filtered out may have followed the last of the list.
                cursor.move(cursor.taken[-1])
                yield [one.value for one in cursor.taken]
                cursor.taken = []

    def group_by(self, key: Any, *, name: str | None = None) -> Stream:
        """The same events, partitioned by something else.

        Args:
            key: A field (``Withdrawal.country``), its name, or a function of the value. Events
                without one are rejected.
            name: What to call a function.
        """
        return Stream(self._reader, self._topic, keying("group_by", key, name), self._tests)

    def filter(self, test: Test) -> Stream:
        """Only the events whose values pass a test."""
        return Stream(self._reader, self._topic, self._by, (*self._tests, test))

    def _open(self) -> Inbox:
        inbox = self._reader.open(self._topic, self._by)
        # An agent that broke off is done with what it was handed.
        inbox.cursor.taken, inbox.cursor.gathered = [], []
        CURRENT.set(inbox.cursor)
        return inbox

    async def _walk(self, inbox: Inbox, *, ends: bool = False) -> AsyncIterator[Any]:
        """Values that pass; with ``ends``, ``_END`` behind those of each batch."""
        cursor, tests = inbox.cursor, self._tests
        while True:
            # The loop's targets are the cursor's attributes: nothing is made for an event.
            for (
                cursor.value, cursor.key, cursor.time, cursor.judged, cursor.offset, cursor.arrival
            ) in inbox.rows:  # fmt: skip
                if not tests or all(test(cursor.value) for test in tests):
                    yield cursor.value
            if ends:
                yield _END
            if not await inbox.more():
                return
