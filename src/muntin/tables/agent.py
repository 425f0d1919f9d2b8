"""Functions that work through streams, and one run of such a function."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from muntin.model.errors import MuntinError, OptionError
from muntin.tables.current import EventCursor, current_cursor
from muntin.tables.moments import PointInTime
from muntin.tables.partition import SentMessage
from muntin.tables.record import Keying
from muntin.tables.stream import RUNNING, EventReader, Inbox, Stream
from muntin.tables.topic import Topic

AgentSink = Any
"""A function of a value, a topic or an agent."""


class Agent:
    """A function over a stream; made by ``app.agent`` and ``app.task``.

    A coroutine function is called with the stream and loops over it; an asynchronous generator may
    yield results. A plain function is called with one value after another, and what it returns is
    its result.

    Args:
        function: The function.
        topic: What it reads; ``None`` for a task, which opens its stream itself.
        name: Its name.
        sinks: Where its results go.
        result_type: What its results are, for runtimes that want to know.
        group_by: What a plain function's events are partitioned by.
    """

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
        """The same, without waiting for an answer."""
        self._channel().post(value, key=key, timestamp=timestamp)

    def _channel(self) -> Topic:
        if self.topic is None:
            raise OptionError("agent", self.name, "is a task", "send to the topic that it reads")
        return self.topic

    def begin(self, reader: EventReader) -> Any:
        """Call the function; what comes back is awaited, or looped over."""
        if self.topic is None:
            return self.function()
        stream = Stream(reader, self.topic.name, self.group_by)
        asynchronous = inspect.iscoroutinefunction(self.function)
        if asynchronous or inspect.isasyncgenfunction(self.function):
            return self.function(stream)
        return _each(self.function, stream)


async def _each(function: Callable[[Any], Any], stream: Stream) -> AsyncIterator[Any]:
    """Results of a plain function."""
    async for value in stream:
        result = function(value)
        if inspect.isgenerator(result):
            for one in result:
                yield one
        elif result is not None:
            yield result


class AgentRun:
    """One run of an agent: the inboxes that it reads, and its results."""

    def __init__(self, agent: Agent, *, keep_results: bool = False) -> None:
        self.agent = agent
        self.inboxes: list[Inbox] = []
        self._next = 0
        self._keep_results = keep_results
        self.opened = asyncio.Event()

    @property
    def at_rest(self) -> bool:
        """Whether all that came was worked through."""
        return all(inbox.idle.is_set() for inbox in self.inboxes)

    @property
    def given(self) -> int:
        """How many events the agent has been given since it was last at rest."""
        return sum(inbox.given for inbox in self.inboxes)

    async def rest(self) -> None:
        """Wait until all that came was worked through."""
        for inbox in self.inboxes:
            await inbox.idle.wait()

    def close(self) -> None:
        """Let all streams end."""
        for inbox in self.inboxes:
            inbox.close()

    def open(self, topic: str, by: Keying | None) -> Inbox:
        """See ``EventReader``; an agent that begins anew goes on where it was.

        Streams are known by the order in which they are opened: a function that an agent groups by
        is another one each time.
        """
        if self._next < len(self.inboxes) and self.inboxes[self._next].topic == topic:
            found = self.inboxes[self._next]
            found.by = by
        else:
            found = Inbox(self.agent.name, topic, by)
            self.inboxes.append(found)
        self._next = self.inboxes.index(found) + 1
        self.opened.set()
        return found

    async def live(self) -> None:
        """Run the function until it ends."""
        RUNNING.set(self)
        self._next = 0
        made = self.agent.begin(self)
        if not hasattr(made, "__aiter__"):
            await made
            return
        async for result in made:
            await self._deliver(result)

    def fail(self, error: BaseException, errors: str) -> None:
        """Raise what an agent raised, or let it cost the event that it was at.

        Of ``take`` it costs the whole list, and what was gathered for it when a filter raised.
        """
        at = [inbox.cursor for inbox in self.inboxes if inbox.cursor.part is not None]
        costs = isinstance(error, Exception) and not isinstance(error, MuntinError)
        if errors == "raise" or not costs or not at:
            raise error
        for cursor in at:
            assert cursor.part is not None
            for one in cursor.taken or [*cursor.gathered, cursor]:
                cursor.part.reject(one, "error", None, repr(error))
            cursor.taken, cursor.gathered = [], []

    def ends_early(self) -> OptionError:
        """What is wrong with an agent that ends and leaves its events unread."""
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
        return current_cursor(f"a result of {self.agent.name} is delivered")


class Traced(BaseException):
    """Ends an agent that was only to show what it reads."""

    def __init__(self, topic: str, by: Keying | None) -> None:
        super().__init__(topic)
        self.topic = topic
        self.by = by


class _Tracer:
    def open(self, topic: str, by: Keying | None) -> Inbox:
        raise Traced(topic, by)


async def reads(agent: Agent) -> tuple[str, Keying | None]:
    """Which topic an agent reads, and what it wants the events partitioned by.

    The function runs up to its first event, on nothing.
    """
    tracer = _Tracer()
    RUNNING.set(tracer)
    try:
        made = agent.begin(tracer)
        if hasattr(made, "__aiter__"):
            async for _ in made:
                break
        else:
            await made
    except Traced as traced:
        return traced.topic, traced.by
    finally:
        RUNNING.set(None)
    raise AgentRun(agent).ends_early()
