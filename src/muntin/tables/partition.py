"""One partition of all tables of an app: what one worker owns, batch by batch.

A batch begins from a commit, agents work through its events, and ``finish`` closes what has
expired, writes what has changed and leaves a manifest. The host makes that durable
together with the offsets of its source. A batch that fails leaves nothing behind: the next one
begins from the same commit.
"""

from __future__ import annotations

import inspect
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muntin.model.errors import SpecChangedError, StateCorruptedError
from muntin.model.sessions import Sessions
from muntin.model.windows import Windows
from muntin.state.blobs import Blobs
from muntin.state.manifest import Manifest, loads
from muntin.tables.clocks import ArrivalMarks, FieldClock
from muntin.tables.copartition import own
from muntin.tables.current import CURRENT, EventCursor
from muntin.tables.moments import BEGINNING
from muntin.tables.plain_shard import PlainTableShard
from muntin.tables.session_shard import SessionTableShard
from muntin.tables.set_shard import SetTableShard, SetWindowTableShard
from muntin.tables.shard import Emitted, TableShard
from muntin.tables.spec import TableSpec, window_range
from muntin.tables.window_shard import WindowTableShard

# What closed windows lead to comes behind what events do.
_CLOSED = 1 << 62


@dataclass(frozen=True)
class Rejected:
    """An event that was handed back.

    Attributes:
        topic: Its topic.
        reason: ``late``, ``future``, ``null_key``, ``null_time``, ``malformed`` or ``error``.
        value: What it was.
        key: Its key, if it had one.
        time: Its time in microseconds, if it had one.
        offset: Its number in the source.
        agent: The agent that worked on it; ``None`` when it got to none.
        table: The table that didn't take it; ``None`` when it got to none.
        detail: What exactly was wrong.
        watermark: The watermark in force, if there was one.
    """

    topic: str
    reason: str
    value: Any
    key: Any = None
    time: int | None = None
    offset: int = -1
    agent: str | None = None
    table: str | None = None
    detail: str | None = None
    watermark: int | None = None


@dataclass(frozen=True)
class SentMessage:
    """A message that an agent sends: to a topic, or as a result of its own (``topic`` is none)."""

    topic: str | None
    agent: str | None
    value: Any
    key: Any
    time: int | None
    cause: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Rules:
    """What holds for all partitions of an app.

    Attributes:
        tables: The tables, by name.
        lateness: How far the watermark of a topic trails its greatest time, by topic.
        clocks: The times in values that tables go by.
        idle: How long a clock may rest until no table waits for it; ``None``: indefinitely.
        max_ahead: How far ahead of the wall clock a time may be; ``None``: any.
        zones: The session's time zone, by the topics whose events depend on it.
    """

    tables: Mapping[str, TableSpec]
    lateness: Mapping[str, int]
    max_ahead: int | None
    clocks: Sequence[FieldClock] = ()
    idle: int | None = None
    zones: Mapping[str, str] = field(default_factory=dict)


def shard_of(spec: TableSpec, part: Partition) -> TableShard:
    """The shard of a table, by its kind."""
    if isinstance(spec.windows, Sessions):
        return SessionTableShard(spec, part)
    if isinstance(spec.windows, Windows):
        return (SetWindowTableShard if spec.sets else WindowTableShard)(spec, part)
    return (SetTableShard if spec.sets else PlainTableShard)(spec, part)


class Partition:
    """All tables of one partition.

    Attributes:
        marks: The watermark in force of each clock: of topics, and of times in their values.
        moved: When each of them last advanced, by the wall clock.
        wall: The batch's wall clock, microseconds.
        batch: How many batches were committed.
        counts: Events so far, by what became of them.
        rejected: Events that this batch handed back.
        sent: What this batch's agents sent.
    """

    def __init__(self, rules: Rules, number: int = 0) -> None:
        self.rules = rules
        self.number = number
        self.shards = {name: shard_of(spec, self) for name, spec in rules.tables.items()}
        self.marks: dict[str, int] = {}
        self.moved: dict[str, int] = {}
        self.wall = BEGINNING
        self.batch = 0
        self.counts: Counter[str] = Counter()
        self.rejected: list[Rejected] = []
        self.sent: list[SentMessage] = []
        self._version: str | None = None
        self._blobs: Blobs | None = None
        # Of all topics ever read, whose agents may be away for a while.
        self._zones = dict(rules.zones)

    def begin(self, blobs: Blobs | None, wall: int) -> None:
        """Start a batch from the last commit.

        Args:
            blobs: Where it is; ``None`` keeps everything in memory only.
            wall: The wall clock.

        Raises:
            SpecChangedError: When another definition of a table wrote it.
            StateCorruptedError: When it can't be read.
        """
        self.rejected, self.sent = [], []
        self.wall = max(wall, self.wall)
        self._blobs = blobs
        stored = None if blobs is None else self._stored(blobs)
        for name, shard in self.shards.items():
            shard.begin(blobs, None if stored is None else stored.get(name, {}))

    def _stored(self, blobs: Blobs) -> dict[str, Any] | None:
        """What the manifest says of each table; ``None`` where memory is that commit."""
        text = blobs.load()
        if text is None:
            self.marks, self.moved, self.counts = {}, {}, Counter()
            self.batch, self._version, self._zones = 0, None, dict(self.rules.zones)
            return {}
        manifest = loads(text, "tables")
        try:
            extra, tables = manifest.extra, tables_of(manifest)
            # Nothing is taken for committed until this batch is: it may fail.
            mine, self._version = self._version, None
            if extra["version"] == mine:
                return None
            self.marks, self.moved, zones = extra["marks"], extra["moved"], extra["zones"]
            self.wall = max(self.wall, BEGINNING if manifest.wall is None else manifest.wall)
            self.counts, self.batch = Counter(manifest.counts), extra["batch"]
        except KeyError as error:
            raise StateCorruptedError("the manifest of a partition can't be read") from error
        self._zones = {**zones, **self.rules.zones}
        other = [topic for topic, zone in zones.items() if self._zones[topic] != zone]
        if other:
            raise SpecChangedError(
                f"times of the topic {other[0]!r} were read in the time zone {zones[other[0]]}, "
                f"and are in {self._zones[other[0]]} now (spark.sql.session.timeZone); "
                "go back to it, or start with a new place for the state"
            )
        lost = sorted(tables.keys() - self.shards.keys())
        if lost:
            raise SpecChangedError(
                f"the state has a table {lost[0]!r} that the app doesn't define; "
                "define it again, or start with a new place for the state"
            )
        return tables

    def is_future(self, time: int) -> bool:
        """Whether a time is further ahead of the wall clock than may be."""
        return self.rules.max_ahead is not None and time > self.wall + self.rules.max_ahead

    @property
    def watermark(self) -> int | None:
        """The greatest watermark of a topic."""
        return max((m for clock, m in self.marks.items() if clock[:1] != "@"), default=None)

    def reject(
        self,
        cursor: EventCursor,
        reason: str,
        table: str | None,
        detail: str | None,
        judged: int | None = None,
    ) -> None:
        """Hand an event back; ``judged`` is the watermark, where it isn't that of its topic."""
        judged = cursor.judged if judged is None else judged
        mark = None if judged == BEGINNING else judged
        event = (cursor.value, cursor.key, cursor.time, cursor.offset, cursor.agent)
        self.set_aside(Rejected(cursor.topic, reason, *event, table, detail, mark))

    def set_aside(self, event: Rejected) -> None:
        """Count an event that is handed back, and keep it for whoever wants it."""
        self.counts[event.reason] += 1
        self.rejected.append(event)

    def return_all(self) -> None:
        """Store what agents changed inside of the values that they hold."""
        for shard in self.shards.values():
            shard.return_all()

    async def finish(
        self,
        marks: Mapping[str, int],
        *,
        emit: frozenset[str] = frozenset(),
        final: bool = False,
    ) -> dict[str, list[Emitted]]:
        """End a batch: close windows that have expired, write what has changed."""
        for clock, mark in marks.items():
            self._move(clock, mark)
        closed = {}
        for name, shard in self.shards.items():
            shard.return_all()
            shard.advance()
            callback = shard.spec.on_window_close
            closed[name] = shard.close(emit=name in emit or callback is not None, final=final)
            if callback is not None:
                await self._call_back(shard, callback, closed[name])
        emitted = {}
        for name, shard in self.shards.items():
            shard.return_all()
            if name in emit:
                emitted[name] = [*shard.changes(), *closed[name]]
        self._commit()
        return emitted

    def _move(self, clock: str, mark: int) -> None:
        if mark > self.marks.get(clock, BEGINNING):
            self.marks[clock], self.moved[clock] = mark, self.wall

    async def _call_back(
        self, shard: TableShard, callback: Callable[..., Any], closed: list[Emitted]
    ) -> None:
        """Call back for closed windows; what the callback writes, it writes as of the window's end.

        That is a stream, too: its clock is at the end of the last window that was called
        back for.
        """
        cursor = EventCursor(f"on_window_close of {shard.spec.name}", f"@closed {shard.spec.name}")
        cursor.part = self
        cursor.judged = self.marks.get(cursor.topic, BEGINNING)
        if shard.watermark != BEGINNING:
            self._move(cursor.topic, shard.watermark - (shard.spec.expires or 0))
        token = CURRENT.set(cursor)
        try:
            for key, window, value, _ in closed:
                assert window is not None
                # Partitioned as the table's stream, so that the same keys may be written elsewhere.
                cursor.key = own(key, shard.partitionings)
                cursor.value, cursor.time = value, window[1]
                cursor.arrival = ArrivalMarks(_CLOSED)
                called = callback((key, window_range(*window)), value)
                if inspect.isawaitable(called):
                    await called
        finally:
            CURRENT.reset(token)

    def _commit(self) -> None:
        for shard in self.shards.values():
            shard.commit()
        self.batch += 1
        if self._blobs is None:
            return
        self._version = f"{secrets.randbits(62):x}"
        shards = self.shards.items()
        manifest = Manifest(
            "tables",
            {name: shard.spec.to_dict() for name, shard in shards},
            wall=self.wall,
            counts=self.counts,
            tables={
                f"{name} {journal}": entries.journal.entries()
                for name, shard in shards
                for journal, entries in shard.entries.items()
            },
            extra={
                "version": self._version,
                "batch": self.batch,
                "marks": self.marks,
                "moved": self.moved,
                "zones": self._zones,
                "tables": {name: shard.manifest() for name, shard in shards},
            },
        )
        self._blobs.save(manifest.dumps())


def tables_of(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """What a manifest says of each table: what it is, how far it has come, and its runs."""
    found: dict[str, dict[str, Any]] = {
        name: {**part, "spec": manifest.spec[name], "runs": {}}
        for name, part in manifest.extra["tables"].items()
    }
    for table, runs in manifest.tables.items():
        name, _, journal = table.rpartition(" ")
        found[name]["runs"][journal] = runs
    return found
