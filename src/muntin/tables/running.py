"""An app as it runs in this process: messages in, batch by batch, each committed whole.

A batch is worked through by all agents, then windows are closed, then everything that it changed is
written with the offsets of its messages in one flush. So after a crash at any moment the app goes
on from the last commit as if nothing had happened since.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, finalize

from muntin.model.axis import SECOND
from muntin.model.closeable import Closeable
from muntin.model.errors import MuntinError, OptionError
from muntin.stores import KeyValue
from muntin.tables.agent import AgentRun
from muntin.tables.changes import TableChanges
from muntin.tables.copartition import WHOLE, home
from muntin.tables.intake import Intake
from muntin.tables.loop import Loop
from muntin.tables.moments import PointInTime
from muntin.tables.partition import Partition, SentMessage
from muntin.tables.partition_store import PartitionStore
from muntin.tables.shard import TableShard
from muntin.tables.sources import Memory, NumberedMessage, Source, TopicMessage, source
from muntin.tables.timers import TimerQueue

if TYPE_CHECKING:
    from muntin.tables.app import App

_AT_ONCE = 1000
# How long a task may take until it opens its stream, and an agent to end, seconds.
_PATIENCE = 5.0


class Running(Closeable):
    """An open app; made by ``app.open`` and ``app.run``.

    Attributes:
        parts: The partitions.
        rejected: Everything that was rejected, also by earlier runs on the same store.
        topics: What agents sent to topics that no agent reads.
    """

    def __init__(
        self, app: App, store: KeyValue | None, partitions: int, clock: Callable[[], float]
    ) -> None:
        if app.running is not None:
            raise OptionError("app", app.name, "is open already", "close it first")
        if partitions < 1:
            raise OptionError("partitions", partitions, "is less than one", "give 1 or more")
        self._app = app
        self._clock = clock
        self._kept = PartitionStore(store, app, partitions)
        rules = app.rules()
        self.parts = [Partition(rules, number) for number in range(partitions)]
        self.topics = Memory()
        self.rejected = [*self._kept.rejected]
        self._begin_batch()
        self._intake = Intake(app, self.parts)
        self._timers = TimerQueue(app.timers, self._kept.timers, self.parts[0].wall)
        self._changes: WeakSet[TableChanges] = WeakSet()
        self._pending = self._kept.pending
        # The last message that this run read of each source, by topic.
        self._last_read: dict[str, TopicMessage] = {}
        self._loop = Loop()
        self._runs = [AgentRun(agent) for agent in app.agents.values()]
        self._tasks: dict[AgentRun, asyncio.Task[None]] = {}
        self._closed = False
        # Whoever loses an app without closing it sees no warning of tasks that were pending.
        self._end = finalize(self, _end, self._loop, self._runs, self._tasks)
        app.running = self
        self._loop.complete(self._start())

    @property
    def counts(self) -> dict[str, int]:
        """Messages so far: ``seen``, ``taken``, and each reason of rejection.

        ``seen`` is ``taken`` plus what was rejected before any agent saw it; ``late`` counts events
        that agents saw and some table didn't take.
        """
        total: Counter[str] = Counter()
        for part in self.parts:
            total.update(part.counts)
        return dict(total)

    def wall(self) -> int:
        """The wall clock, microseconds."""
        return round(self._clock() * SECOND)

    def partition_of(self, table: str, key: Any) -> Partition:
        """The partition that a key of a table lies in.

        Raises:
            PartitionError: When it lies in several.
        """
        return self.parts[home(table, key, [part.shards[table] for part in self.parts])]

    def send(
        self, topic: str, value: Any, *, key: Any = None, timestamp: PointInTime | None = None
    ) -> None:
        """Work through one message, and whatever agents send because of it.

        Args:
            topic: The topic's name.
            value: The value.
            key: What it is partitioned by; without one it goes to the first partition.
            timestamp: When it happened; now, where it isn't given.
        """
        self._require_read(topic)
        self._complete([(topic, None, TopicMessage.sent(value, key, timestamp))])

    def feed(self, sources: Memory | Mapping[str, Any], *, batch: int = _AT_ONCE) -> None:
        """Work through all that sources have and that hasn't been worked through before.

        Of a topic that was fed before, the data is what it was, with what is new behind it. Single
        messages go to `send`.

        Args:
            sources: Data by topic, or topics in memory.
            batch: How many messages of a topic are committed together.

        Raises:
            OptionError: When the data of a topic is shorter than what was read of it, or its last
                row that was read is another one now.
        """
        if batch < 1:
            raise OptionError("batch", batch, "is less than one", "give 1 or more")
        if isinstance(sources, Memory):
            self.topics = sources
        if self._pending or self._app.timers:
            self._complete([])
        for messages in self._batches(sources, batch):
            self._complete(messages)

    def tick(self) -> None:
        """Run timers that are due, and close what the wall clock lets expire, without a message.

        What goes by the times of events expires when later ones come, and not by this.
        """
        self._complete([])

    def changes(self, table: str) -> TableChanges:
        """What the batches to come change in a table, as ``open_table`` shows it on Spark.

        Each is a key (and a window) with its value, and ``new``, ``changed`` or ``gone``. What only
        expired isn't shown.

        Args:
            table: The table's name.

        Raises:
            OptionError: When the app has no such table.

        Example:
            >>> import muntin as mt
            >>> app = mt.App("shop", max_ahead=None)
            >>> views = app.Table("views", default=int)
            >>> @app.agent(app.topic("clicks"))
            ... def count(page):
            ...     views[page] += 1
            >>> with app.open() as shop:
            ...     changes = shop.changes("views")
            ...     shop.feed({"clicks": ["home", "home", "cart"]}, batch=2)
            ...     [(one.key, one.value, one.change) for one in changes]
            [('home', 2, 'new'), ('cart', 1, 'new')]
        """
        if table not in self._app.tables:
            hint = f"give one of {', '.join(self._app.tables)}"
            raise OptionError("table", table, "isn't the app's", hint)
        found = TableChanges(table, [part.shards[table] for part in self.parts])
        self._changes.add(found)
        return found

    def close(self) -> None:
        """End all agents, and close the store; everything is committed already."""
        if self._closed:
            return
        self._closed = True
        self._app.running = None
        self._end()
        self._kept.close()

    def _batches(
        self, sources: Memory | Mapping[str, Any], batch: int
    ) -> Iterator[list[NumberedMessage]]:
        readers: dict[str, Iterator[tuple[int, TopicMessage]]] = {}
        names = sources if isinstance(sources, Mapping) else filter(self._reads, sources.names())
        for topic in names:
            start = self._kept.offsets.get(topic, 0)
            before = max(0, start - 1)
            if isinstance(sources, Memory):
                messages = iter(sources.messages(topic, before))
            else:
                self._require_read(topic)
                data = sources[topic]
                messages = (data if isinstance(data, Source) else source(data)).messages(before)
            if start:
                self._refuse_other_source(topic, start, next(messages, None))
            readers[topic] = enumerate(messages, start)
        while readers:
            taken: list[NumberedMessage] = []
            for topic, numbered in list(readers.items()):
                part = [(topic, number, message) for number, message in islice(numbered, batch)]
                taken += part
                if len(part) < batch:
                    del readers[topic]
            if taken or self._pending:
                yield taken

    def _refuse_other_source(self, topic: str, read: int, last: TopicMessage | None) -> None:
        """Refuse a source that doesn't begin with the messages that were read of its topic."""
        hint = "give the whole of it with what is new behind, or hand new messages to send()"
        if last is None:
            problem = f"has fewer rows than the {read} that were read of the topic"
            raise OptionError("sources", topic, problem, hint)
        before = self._last_read.get(topic)
        # Texts are compared, since values such as arrays aren't simply equal.
        if before is not None and repr(before) != repr(last):
            problem = f"has another row {read} than the one that was read"
            raise OptionError("sources", topic, problem, hint)

    def _complete(self, messages: Sequence[NumberedMessage]) -> None:
        if self._closed:
            raise MuntinError(f"the app {self._app.name} is closed; open it again")
        try:
            self._loop.complete(self._work(messages))
        except BaseException:
            # What memory holds now isn't what was committed.
            self._kept.forget()
            self.close()
            raise

    async def _work(self, messages: Sequence[NumberedMessage]) -> None:
        waiting, self._pending = self._pending, []
        await self._step([*waiting, *messages])
        while self._pending:
            waiting, self._pending = self._pending[:_AT_ONCE], self._pending[_AT_ONCE:]
            await self._step(waiting)

    async def _step(self, messages: Sequence[NumberedMessage]) -> None:
        self._begin_batch()
        for topic, rows in self._intake.rows(messages).items():
            for run in self._runs:
                for inbox in run.inboxes:
                    if inbox.topic == topic:
                        self._intake.fill(inbox, rows)
        for run in self._runs:
            await self._until_rest(run)
        for part in self.parts:
            part.return_all()
        await self._timers.run(self.parts[0].wall, self.parts[0].sent)
        agree(self.parts)
        wanted = frozenset(one.table for one in self._changes)
        emitted = [await part.finish(self._intake.marks, emit=wanted) for part in self.parts]
        self._commit(messages)
        for one in self._changes:
            for part, changed in zip(self.parts, emitted, strict=True):
                one.take(part.batch, part.shards[one.table], changed[one.table])

    def _begin_batch(self) -> None:
        wall = self.wall()
        for part, blobs in zip(self.parts, self._kept.blobs, strict=True):
            part.begin(blobs, wall)

    def _commit(self, messages: Sequence[NumberedMessage]) -> None:
        offsets = dict(self._kept.offsets)
        for topic, number, message in messages:
            if number is not None:
                offsets[topic] = number + 1
                self._last_read[topic] = message
        # In the order of what they were sent at, whatever partition that was in.
        sent = [message for part in self.parts for message in part.sent]
        sent.sort(key=lambda message: message.cause)
        on_its_way = [_numbered(message) for message in sent]
        pending = [*self._pending, *(row for row in on_its_way if self._reads(row[0]))]
        rejected = [row for part in self.parts for row in part.rejected]
        self._kept.commit(offsets, pending, rejected, dict(self._timers.since))
        self._pending = pending
        self.rejected += rejected
        for topic, _, message in on_its_way:
            if not self._reads(topic):
                self.topics.send(topic, message.value, key=message.key, timestamp=message.time)

    def _reads(self, topic: str) -> bool:
        return any(inbox.topic == topic for run in self._runs for inbox in run.inboxes)

    def _require_read(self, topic: str) -> None:
        if not self._reads(topic):
            read = {inbox.topic for run in self._runs for inbox in run.inboxes}
            hint = f"give one of {', '.join(sorted(read))}" if read else "let an agent read it"
            raise OptionError("topic", topic, "is read by no agent", hint)

    async def _start(self) -> None:
        for run in self._runs:
            self._tasks[run] = asyncio.create_task(run.live())
        for run in self._runs:
            opened = asyncio.create_task(run.opened.wait())
            patience = None if run.agent.topic is not None else _PATIENCE
            waits = {opened, self._tasks[run]}
            await asyncio.wait(waits, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            opened.cancel()
            if self._tasks[run].done() and not run.inboxes:
                self._tasks[run].result()
                raise run.ends_early()

    async def _until_rest(self, run: AgentRun) -> None:
        """Wait until an agent has worked through its events."""
        restarts = 0
        while not run.at_rest:
            task = self._tasks[run]
            rest = asyncio.create_task(run.rest())
            await asyncio.wait({task, rest}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                continue
            rest.cancel()
            self._judge(run, task)
            if run.at_rest:
                continue
            restarts += 1
            if restarts > run.given:
                raise run.ends_early()
            self._tasks[run] = asyncio.create_task(run.live())

    def _judge(self, run: AgentRun, task: asyncio.Task[None]) -> None:
        """What an agent's end means: an error is raised, or costs the event that it was at."""
        error = task.exception()
        if error is not None:
            run.fail(error, self._app.errors)
        elif run.agent.topic is None:
            run.inboxes.clear()


def _end(loop: Loop, runs: list[AgentRun], tasks: dict[AgentRun, asyncio.Task[None]]) -> None:
    """Let agents end by themselves, or else end them."""

    async def stop() -> None:
        for run in runs:
            run.close()
        if tasks:
            await asyncio.wait(tasks.values(), timeout=_PATIENCE)
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    loop.complete(stop())
    loop.close()


def agree(parts: Sequence[Partition]) -> None:
    """Let all partitions know what one has learned of a table in this batch.

    A partition sees only its own events. Which clocks drive a table and how its keys lie is the
    table's, though, and so the same however many partitions it has.

    Raises:
        PartitionError: When a key is in several partitions.
    """
    if len(parts) == 1:
        return
    for name in parts[0].shards:
        shards = [part.shards[name] for part in parts]
        feeds = dict.fromkeys(feed for shard in shards for feed in shard.feeds)
        partitionings = dict.fromkeys(one for shard in shards for one in shard.partitionings)
        for shard in shards:
            shard.feeds, shard.partitionings = dict(feeds), dict(partitionings)
        if any(way != WHOLE for _, way in partitionings):
            _check_homes(name, shards)


def _check_homes(table: str, shards: Sequence[TableShard]) -> None:
    """Refuse keys that this batch has written while another partition has them."""
    if sum(any(entries.any() for entries in shard.entries.values()) for shard in shards) < 2:
        return
    for key in {emitted.key for shard in shards for emitted in shard.changes()}:
        home(table, key, shards)


def _numbered(sent: SentMessage) -> NumberedMessage:
    time = None if sent.time is None else sent.time / SECOND
    return sent.topic or "", None, TopicMessage.sent(sent.value, sent.key, time)
