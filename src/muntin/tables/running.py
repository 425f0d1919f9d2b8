"""An app that runs in this process: each batch of messages is committed as a whole.

All agents process a batch, then windows are closed, then all changes are written with the offsets
of the messages in one flush. So after a crash at any moment the app continues from the last commit.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet, finalize

from muntin.model.axis import SECOND, to_datetime
from muntin.model.closeable import Closeable
from muntin.model.errors import MuntinError, OptionError
from muntin.model.option_types import check_count
from muntin.stores import KeyValue
from muntin.tables.agent import AgentRun
from muntin.tables.batch import run_batch
from muntin.tables.cells import GONE, MISSING
from muntin.tables.copartition import find_partition
from muntin.tables.event_loop import EventLoop
from muntin.tables.intake import Intake
from muntin.tables.partition import Partition, SentMessage
from muntin.tables.partition_store import PartitionStore
from muntin.tables.shard import TableEntry, TableShard
from muntin.tables.sources import Memory, NumberedMessage, Source, TopicMessage, source
from muntin.tables.time_values import PointInTime
from muntin.tables.timers import TimerQueue

if TYPE_CHECKING:
    from muntin.tables.app import App

_BATCH_SIZE = 1000
# How long to wait for a task to open its stream, and for an agent to end, in seconds.
_TIMEOUT_SECONDS = 5.0


class Running(Closeable):
    """An open app, created by ``app.open`` or ``app.run``.

    Attributes:
        parts: The partitions.
        rejected: All rejected events, including those of earlier runs on the same store.
        topics: The messages that agents sent to topics that no agent reads.
    """

    def __init__(
        self, app: App, store: KeyValue | None, partitions: int, clock: Callable[[], float]
    ) -> None:
        if app.running is not None:
            raise OptionError("app", app.name, "is open already", "close it first")
        check_count("partitions", partitions)
        self._app = app
        self._clock = clock
        self._store = PartitionStore(store, app, partitions)
        rules = app.get_rules()
        self.parts = [Partition(rules, number) for number in range(partitions)]
        self.topics = Memory()
        self.rejected = [*self._store.rejected]
        self._begin_batch()
        for part in self.parts:
            # Events that came while the app was down may wait to be fed.
            part.opened_at = part.wall
        self._intake = Intake(app, self.parts)
        self._timers = TimerQueue(app.timers, self._store.timers, self.parts[0].wall)
        self._changes: WeakSet[TableChanges] = WeakSet()
        self._pending = self._store.pending
        # The last message that this run read of each source, by topic.
        self._last_read: dict[str, TopicMessage] = {}
        self._loop = EventLoop()
        self._runs = [AgentRun(agent) for agent in app.agents.values()]
        self._closed = False
        # An app that is garbage-collected while open shows no warnings of pending tasks.
        self._abandon = finalize(self, _abandon_agents, self._loop, self._runs)
        app.running = self
        self._loop.complete(self._start_agents())

    @property
    def counts(self) -> dict[str, int]:
        """Number of messages: ``seen``, ``taken``, and by reason of rejection.

        ``seen`` is ``taken`` plus the messages rejected before an agent saw them; ``late`` counts
        events that agents saw and a table rejected.
        """
        total: Counter[str] = Counter()
        for part in self.parts:
            total.update(part.counts)
        return dict(total)

    def read_wall_clock(self) -> int:
        """Return the wall clock in microseconds since the epoch."""
        return round(self._clock() * SECOND)

    def find_partition(self, table: str, key: Any) -> Partition:
        """Find the partition of a key of a table.

        Raises:
            PartitionError: When several partitions have the key.
        """
        return self.parts[find_partition(table, key, [part.shards[table] for part in self.parts])]

    def send(
        self, topic: str, value: Any, *, key: Any = None, timestamp: PointInTime | None = None
    ) -> None:
        """Process one message, and the messages that agents send because of it.

        Args:
            topic: The topic's name.
            value: The value.
            key: The partition key; without one the message goes to the first partition.
            timestamp: The message's time; now by default.
        """
        self._require_read(topic)
        self._process([(topic, None, TopicMessage.from_values(value, key, timestamp))])

    def feed(self, sources: Memory | Mapping[str, Any], *, batch: int = _BATCH_SIZE) -> None:
        """Process all messages of the sources that haven't been processed before.

        Of a topic that was fed before, the data is what it was, with what is new behind it. Single
        messages go to `send`.

        Args:
            sources: Data by topic, or topics in memory.
            batch: How many messages of a topic are committed together.

        Raises:
            OptionError: When the data of a topic is shorter than what was read of it, or its last
                row that was read is another one now.
        """
        check_count("batch", batch)
        if isinstance(sources, Memory):
            self.topics = sources
        if self._pending or self._app.timers:
            self._process([])
        for messages in self._read_batches(sources, batch):
            self._process(messages)

    def tick(self) -> None:
        """Run due timers, and close the windows that expire by the wall clock, without a message.

        Windows that follow the times of events expire when later events arrive, or, with
        ``App(idle="1 minute")``, once no event has come for that long.
        """
        self._process([])

    def changes(self, table: str) -> TableChanges:
        """Follow the changes of a table from now on, as ``open_table`` shows them on Spark.

        Each change is a key (and a window) with its value, and ``new``, ``changed`` or ``gone``.
        Expiry isn't a change.

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
        changes = TableChanges(table, [part.shards[table] for part in self.parts])
        self._changes.add(changes)
        return changes

    def close(self) -> None:
        """End all agents and close the store; every processed message is committed already."""
        if self._closed:
            return
        self._closed = True
        self._app.running = None
        self._abandon.detach()
        self._loop.complete(_end_agents(self._runs))
        self._loop.close()
        self._store.close()

    def _read_batches(
        self, sources: Memory | Mapping[str, Any], batch: int
    ) -> Iterator[list[NumberedMessage]]:
        readers: dict[str, Iterator[tuple[int, TopicMessage]]] = {}
        names = sources if isinstance(sources, Mapping) else filter(self._is_read, sources.names())
        for topic in names:
            start = self._store.offsets.get(topic, 0)
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
            batch_messages: list[NumberedMessage] = []
            for topic, numbered in list(readers.items()):
                part = [(topic, number, message) for number, message in islice(numbered, batch)]
                batch_messages += part
                if len(part) < batch:
                    del readers[topic]
            if batch_messages or self._pending:
                yield batch_messages

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

    def _process(self, messages: Sequence[NumberedMessage]) -> None:
        if self._closed:
            raise MuntinError(f"the app {self._app.name} is closed; open it again")
        try:
            self._loop.complete(self._process_with_replies(messages))
        except BaseException:
            # Memory now differs from the last commit.
            self._store.discard_batch()
            self.close()
            raise

    async def _process_with_replies(self, messages: Sequence[NumberedMessage]) -> None:
        replies, self._pending = self._pending, []
        await self._process_batch([*replies, *messages])
        while self._pending:
            replies, self._pending = self._pending[:_BATCH_SIZE], self._pending[_BATCH_SIZE:]
            await self._process_batch(replies)

    async def _process_batch(self, messages: Sequence[NumberedMessage]) -> None:
        self._begin_batch()
        for part in self.parts if messages else ():
            part.note_events()
        for topic, rows in self._intake.convert_messages(messages).items():
            for run in self._runs:
                for inbox in run.inboxes:
                    if inbox.topic == topic:
                        self._intake.fill(inbox, rows)
        followed_tables = frozenset(changes.table for changes in self._changes)
        emitted = await run_batch(
            self.parts, self._runs, self._intake.watermarks, errors=self._app.errors,
            emit=followed_tables, timers=self._timers,
        )  # fmt: skip
        self._commit(messages)
        for changes in self._changes:
            for part, changed in zip(self.parts, emitted, strict=True):
                changes.add_batch(part.batch, part.shards[changes.table], changed[changes.table])

    def _begin_batch(self) -> None:
        wall = self.read_wall_clock()
        for part, blobs in zip(self.parts, self._store.blobs, strict=True):
            part.begin(blobs, wall)

    def _commit(self, messages: Sequence[NumberedMessage]) -> None:
        offsets = dict(self._store.offsets)
        for topic, number, message in messages:
            if number is not None:
                offsets[topic] = number + 1
                self._last_read[topic] = message
        # In the order of what they were sent at, whatever partition that was in.
        sent = [message for part in self.parts for message in part.sent]
        sent.sort(key=lambda message: message.cause)
        replies = [_to_message(message) for message in sent]
        pending = [*self._pending, *(row for row in replies if self._is_read(row[0]))]
        rejected = [row for part in self.parts for row in part.rejected]
        self._store.commit(offsets, pending, rejected, dict(self._timers.since))
        self._pending = pending
        self.rejected += rejected
        for topic, _, message in replies:
            if not self._is_read(topic):
                self.topics.send(topic, message.value, key=message.key, timestamp=message.time)

    def _is_read(self, topic: str) -> bool:
        return any(inbox.topic == topic for run in self._runs for inbox in run.inboxes)

    def _require_read(self, topic: str) -> None:
        if not self._is_read(topic):
            read = {inbox.topic for run in self._runs for inbox in run.inboxes}
            hint = f"give one of {', '.join(sorted(read))}" if read else "let an agent read it"
            raise OptionError("topic", topic, "is read by no agent", hint)

    async def _start_agents(self) -> None:
        for run in self._runs:
            run.start()
        for run in self._runs:
            opened = asyncio.create_task(run.has_opened.wait())
            patience = None if run.agent.topic is not None else _TIMEOUT_SECONDS
            waits = {opened, run.task}
            await asyncio.wait(waits, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            opened.cancel()
            if run.task.done() and not run.inboxes:
                run.task.result()
                raise run.unread_stream_error()


async def _end_agents(runs: Sequence[AgentRun]) -> None:
    """Let agents end by themselves, and cancel them if they don't."""
    tasks = [run.task for run in runs]
    for run in runs:
        run.close()
    if tasks:
        await asyncio.wait(tasks, timeout=_TIMEOUT_SECONDS)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _abandon_agents(loop: EventLoop, runs: Sequence[AgentRun]) -> None:
    """End the agents of an app that nobody refers to any more."""
    loop.finish(_end_agents(runs))


def _to_message(sent: SentMessage) -> NumberedMessage:
    time = None if sent.time is None else sent.time / SECOND
    return sent.topic or "", None, TopicMessage.from_values(sent.value, sent.key, time)


class Change(NamedTuple):
    """A change of a key, or of one of its windows, in a batch.

    Attributes:
        key: The key.
        window_start: The start of the window; ``None`` without windows.
        window_end: The end of the window.
        value: The new value; for ``gone``, the last value.
        change: ``new``, ``changed`` or ``gone`` (deleted, or merged into another session).
        batch: The number of the batch.
    """

    key: Any
    window_start: datetime | None
    window_end: datetime | None
    value: Any
    change: str
    batch: int


class TableChanges:
    """The changes of a table, created by ``Running.changes``.

    Iterating yields the changes committed since the last iteration, and then ends. Changes that
    nobody reads accumulate. A copy of the table's values is held, to compare new values with.

    Args:
        table: The table's name.
        shards: The table's shard of each partition, between two batches.
    """

    def __init__(self, table: str, shards: Iterable[TableShard]) -> None:
        self.table = table
        entries = (entry for shard in shards for entry in shard.snapshot())
        self._values_before = {
            (entry.key, entry.window): deepcopy(entry.value) for entry in entries
        }
        self._unread: deque[Change] = deque()

    def __iter__(self) -> Iterator[Change]:
        while self._unread:
            yield self._unread.popleft()

    def add_batch(self, batch: int, shard: TableShard, emitted: Iterable[TableEntry]) -> None:
        """Add the changes of a batch; a window that only expired isn't a change."""
        for key, window, value, closed in emitted:
            before = self._values_before.pop((key, window), MISSING)
            if closed or (window is not None and shard.is_expired_session(window)):
                continue
            if value is GONE:
                change, shown = "gone", before
            else:
                change, shown = "new" if before is MISSING else "changed", deepcopy(value)
                self._values_before[key, window] = deepcopy(value)
            if shown is not MISSING and (change != "changed" or before != value):
                start, end = [to_datetime(position) for position in window or ()] or (None, None)
                self._unread.append(Change(key, start, end, shown, change, batch))
