"""Agents (functions that consume a stream) and their runs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from muntin.model.attribute_hints import NextWords
from muntin.model.errors import MuntinError, OptionError
from muntin.tables.current import EventCursor, require_cursor
from muntin.tables.partition import SentMessage
from muntin.tables.record import Keying
from muntin.tables.stream import RUNNING, EventReader, Inbox, Stream
from muntin.tables.time_values import PointInTime
from muntin.tables.topic import Topic

AgentSink = Any
"""A function of a value, a topic or an agent."""


class Agent(NextWords):
    """A function over a stream, created by ``app.agent`` or ``app.task``.

    A coroutine function is called with the stream and loops over it. An asynchronous generator may
    also yield results. A plain function is called once per value and returns its result.

    Args:
        function: The function.
        topic: The topic it reads; ``None`` for a task, which opens its own stream.
        name: The agent's name.
        sinks: Where its results go.
        result_type: The type of its results, for hosts that write them to typed columns.
        group_by: How the events of a plain function are partitioned.
    """

    _kind_of_words = "agent"

    def __init__(
        self,
        function: Callable[..., Any],
        topic: Topic | None,
        name: str,
        sinks: Sequence[AgentSink] = (),
        result_type: Any = None,
        group_by: Keying | None = None,
    ) -> None:
        self.function = function
        self.topic = topic
        self.name = name
        self.sinks = tuple(sinks)
        self.result_type = result_type
        self.group_by = group_by
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any) -> Any:
        """Call the function itself."""
        return self.function(*args)

    def __repr__(self) -> str:
        return f"<agent {self.name}>"

    async def send(
        self, value: Any = None, *, key: Any = None, timestamp: PointInTime | None = None
    ) -> None:
        """Send a message to the agent's topic."""
        self._channel().post(value, key=key, timestamp=timestamp)

    async def cast(
        self, value: Any = None, *, key: Any = None, timestamp: PointInTime | None = None
    ) -> None:
        """Send a message to the agent's topic without waiting for an answer."""
        self._channel().post(value, key=key, timestamp=timestamp)

    def _channel(self) -> Topic:
        if self.topic is None:
            raise OptionError("agent", self.name, "is a task", "send to the topic that it reads")
        return self.topic

    def call_function(self, reader: EventReader) -> Any:
        """Call the function and return its coroutine or asynchronous generator."""
        if self.topic is None:
            return self.function()
        stream = Stream(reader, self.topic.name, self.group_by)
        asynchronous = inspect.iscoroutinefunction(self.function)
        if asynchronous or inspect.isasyncgenfunction(self.function):
            return self.function(stream)
        return call_per_value(self.function, stream)


async def call_per_value(function: Callable[[Any], Any], stream: Stream) -> AsyncIterator[Any]:
    """Yield the results of a plain function, called once per value."""
    async for value in stream:
        result = function(value)
        if inspect.isgenerator(result):
            for one in result:
                yield one
        elif result is not None:
            yield result


class AgentRun:
    """One run of an agent: its inboxes and its results.

    Attributes:
        inboxes: The inboxes that it has opened.
        has_opened: Set once the agent has opened an inbox.
    """

    task: asyncio.Task[None]

    def __init__(self, agent: Agent, *, keep_results: bool = False) -> None:
        self.agent = agent
        self.inboxes: list[Inbox] = []
        self._next = 0
        self._keep_results = keep_results
        self._is_closed = False
        self.has_opened = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """True once the agent has processed every event in its inboxes."""
        return all(inbox.idle.is_set() for inbox in self.inboxes)

    def start(self) -> None:
        """Start the function, which waits for events."""
        self.task = asyncio.create_task(self.run())

    async def process_events(self, errors: str) -> None:
        """Wait until the agent has processed every event in its inboxes.

        An agent that wasn't started is. One that leaves its loop, or whose error rejects an event,
        is started again. If the inboxes are closed, wait until the function has ended.

        Args:
            errors: How to handle an error of the agent (``App``).

        Raises:
            OptionError: When the agent ends again and again without reading its events.
        """
        restarts = 0
        if not hasattr(self, "task"):
            self.start()
        while not self.is_idle:
            idle = asyncio.create_task(self._wait_until_idle())
            waits = {self.task} if self._is_closed else {self.task, idle}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if not self.task.done():
                continue
            idle.cancel()
            error = self.task.exception()
            if error is not None:
                self.fail(error, errors)
            elif self.agent.topic is None and not self._is_closed:
                self.inboxes.clear()
            if not self.is_idle:
                restarts += 1
                if restarts > sum(inbox.pending_count for inbox in self.inboxes):
                    raise self.unread_stream_error()
                self.start()

    async def _wait_until_idle(self) -> None:
        for inbox in self.inboxes:
            await inbox.idle.wait()

    def close(self) -> None:
        """Let all streams of the agent end."""
        self._is_closed = True
        for inbox in self.inboxes:
            inbox.close()

    def open(self, topic: str, by: Keying | None) -> Inbox:
        """Open an inbox (``EventReader``); a restarted agent gets the inbox it had before.

        Inboxes are matched by the order in which the agent opens its streams, because the functions
        that it groups by are new objects in each run.
        """
        if self._next < len(self.inboxes) and self.inboxes[self._next].topic == topic:
            inbox = self.inboxes[self._next]
            inbox.by = by
        else:
            inbox = Inbox(self.agent.name, topic, by)
            self.inboxes.append(inbox)
            if self._is_closed:
                inbox.close()
        self._next = self.inboxes.index(inbox) + 1
        self.has_opened.set()
        return inbox

    async def run(self) -> None:
        """Run the function until it ends."""
        RUNNING.set(self)
        self._next = 0
        running_call = self.agent.call_function(self)
        if not hasattr(running_call, "__aiter__"):
            await running_call
            return
        async for result in running_call:
            await self._deliver(result)

    def fail(self, error: BaseException, errors: str) -> None:
        """Raise the error of an agent, or reject the event that it was processing.

        Within ``take``, the whole list is rejected, or the events collected if a filter raised.
        """
        cursors = [inbox.cursor for inbox in self.inboxes if inbox.cursor.part is not None]
        is_rejectable = isinstance(error, Exception) and not isinstance(error, MuntinError)
        if errors == "raise" or not is_rejectable or not cursors:
            raise error
        for cursor in cursors:
            assert cursor.part is not None
            for event_cursor in cursor.taken or [*cursor.gathered, cursor]:
                cursor.part.reject(event_cursor, "error", None, repr(error))
            cursor.taken, cursor.gathered = [], []

    def unread_stream_error(self) -> OptionError:
        """Return the error for an agent that ends without reading its events."""
        hint = "write async for ... in stream"
        return OptionError("agent", self.agent.name, "ends without reading its stream", hint)

    async def _deliver(self, result: Any) -> None:
        for sink in self.agent.sinks:
            if isinstance(sink, Agent):
                sink = sink._channel()
            if isinstance(sink, Topic):
                sink.post(result, key=self._cursor().key)
                continue
            returned = sink(result)
            if inspect.isawaitable(returned):
                await returned
        if self._keep_results:
            cursor = self._cursor()
            assert cursor.part is not None
            sent = SentMessage(None, self.agent.name, result, cursor.key, cursor.time)
            cursor.part.sent.append(sent)

    def _cursor(self) -> EventCursor:
        return require_cursor(f"a result of {self.agent.name} is delivered")


class StreamOpened(BaseException):
    """Stops an agent once it is clear which topic it reads."""

    def __init__(self, topic: str, by: Keying | None) -> None:
        super().__init__(topic)
        self.topic = topic
        self.by = by


class _StreamDetector:
    def open(self, topic: str, by: Keying | None) -> Inbox:
        raise StreamOpened(topic, by)


async def find_topic(agent: Agent) -> tuple[str, Keying | None]:
    """Find the topic that an agent reads, and how it wants the events partitioned.

    Runs the function on no events, until it asks for its first one.
    """
    detector = _StreamDetector()
    RUNNING.set(detector)
    try:
        running_call = agent.call_function(detector)
        if hasattr(running_call, "__aiter__"):
            async for _ in running_call:
                break
        else:
            await running_call
    except StreamOpened as opened_stream:
        return opened_stream.topic, opened_stream.by
    finally:
        RUNNING.set(None)
    raise AgentRun(agent).unread_stream_error()
