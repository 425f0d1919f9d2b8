"""The events that an agent loops over, and the inboxes in which they wait.

An agent receives its events batch by batch without noticing: when it asks for an event and the
batch is used up, that batch can be committed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, Protocol

from muntin.model.errors import OptionError
from muntin.tables.clocks import EventArrival
from muntin.tables.current import CURRENT, Event, EventCursor
from muntin.tables.partition import Partition
from muntin.tables.record import Keying, parse_keying
from muntin.tables.time_values import Seconds, parse_seconds

EventRow = tuple[Any, Any, int, int, int, EventArrival]
"""Value, key, time, watermark on arrival, offset, and further facts about its arrival."""
Test = Callable[[Any], bool]

# Marks the end of a batch's values.
_END_OF_BATCH = object()


class Inbox:
    """Events of one topic that wait for one agent.

    Attributes:
        cursor: The event that the agent is processing.
        rows: The rest of the current batch.
        idle: Set while the agent waits and its inbox is empty.
        pending_count: Number of events handed to the agent since it was last idle.
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
        self.pending_count = 0

    def put(self, part: Partition, rows: Iterable[EventRow], count: int) -> None:
        """Add a batch of one partition."""
        self.pending_count += count
        self._waiting.append((part, rows))
        self.idle.clear()
        self._arrival.set()

    def close(self) -> None:
        """Let the stream end once its events are used up."""
        self._closed = True
        self._arrival.set()

    async def next_batch(self) -> bool:
        """Wait for the next batch and put it in ``rows``; return false if there will be none."""
        self.cursor.part = None
        while not self._waiting:
            self.idle.set()
            self.pending_count = 0
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
        """Return the inbox for a topic's events, partitioned by ``by``."""


RUNNING: ContextVar[EventReader | None] = ContextVar("muntin_running", default=None)
"""The run of the current agent, for streams that the agent opens itself."""


class Stream:
    """A topic's events; an agent is called with a stream and loops over it.

    Source: the streams of Faust.

    Args:
        reader: The run of the agent.
        topic: The topic's name.
        by: How the events are partitioned; ``None`` for by their own keys.
        tests: Predicates that a value has to pass.
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
        """Iterate over the values."""
        return self._iterate_values(self._open())

    async def events(self) -> AsyncIterator[Event]:
        """Iterate over events, with value, key, time, topic, partition and offset."""
        inbox = self._open()
        async for _ in self._iterate_values(inbox):
            yield inbox.cursor.event()

    async def items(self) -> AsyncIterator[tuple[Any, Any]]:
        """Iterate over pairs of key and value."""
        inbox = self._open()
        async for value in self._iterate_values(inbox):
            yield inbox.cursor.key, value

    async def enumerate(self, start: int = 0) -> AsyncIterator[tuple[int, Any]]:
        """Iterate over pairs of a running number, from ``start``, and a value."""
        number = start
        async for value in self:
            yield number, value
            number += 1

    async def take(self, most: int, within: Seconds | None = None) -> AsyncIterator[list[Any]]:
        """Iterate over lists of at most ``most`` values.

        A list also ends where its batch ends, so a commit never falls between reading an event and
        processing it. Tables are written as of the last event of a list; name an earlier one with
        ``table[key].current(value)``.

        Args:
            most: The maximum length of a list.
            within: How long to wait for a full list; lists never wait, so it is only checked.
        """
        if most < 1:
            raise OptionError("take", most, "takes nothing", "give 1 or more")
        if within is not None:
            parse_seconds("within", within)
        inbox = self._open()
        cursor = inbox.cursor
        # The cursor holds every unfinished event, because an error rejects all of them.
        async for value in self._iterate_values(inbox, ends=True):
            if value is not _END_OF_BATCH:
                cursor.gathered.append(cursor.copy())
            if cursor.gathered and (value is _END_OF_BATCH or len(cursor.gathered) == most):
                cursor.taken, cursor.gathered = cursor.gathered, []
                # Events that were filtered out may have followed the last of the list.
                cursor.move(cursor.taken[-1])
                yield [one.value for one in cursor.taken]
                cursor.taken = []

    def group_by(self, key: Any, *, name: str | None = None) -> Stream:
        """Partition the events by another key.

        Args:
            key: A field (``Withdrawal.country``), its name, or a function of the value. Events
                without a key are rejected.
            name: A name for the function.
        """
        return Stream(self._reader, self._topic, parse_keying("group_by", key, name), self._tests)

    def filter(self, test: Test) -> Stream:
        """Keep only the events whose value passes a test."""
        return Stream(self._reader, self._topic, self._by, (*self._tests, test))

    def _open(self) -> Inbox:
        inbox = self._reader.open(self._topic, self._by)
        # An agent that left its loop has finished the list it was handed.
        inbox.cursor.taken, inbox.cursor.gathered = [], []
        CURRENT.set(inbox.cursor)
        return inbox

    async def _iterate_values(self, inbox: Inbox, *, ends: bool = False) -> AsyncIterator[Any]:
        """Yield values that pass the tests; with ``ends``, also ``_END_OF_BATCH`` after each."""
        cursor, tests = inbox.cursor, self._tests
        while True:
            # The loop assigns the cursor's attributes directly, so no object is created per event.
            for (
                cursor.value, cursor.key, cursor.time,
                cursor.watermark, cursor.offset, cursor.arrival,
            ) in inbox.rows:  # fmt: skip
                if not tests or all(test(cursor.value) for test in tests):
                    yield cursor.value
            if ends:
                yield _END_OF_BATCH
            if not await inbox.next_batch():
                return
