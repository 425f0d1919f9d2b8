"""One partition of all tables of an app, which one worker owns, batch by batch.

A batch starts from a commit, agents process its events, and ``finish`` closes expired windows,
writes the changes and saves a manifest. The host makes the manifest durable together with the
offsets of its source. A batch that fails leaves nothing behind: the next one starts from the same
commit.
"""

from __future__ import annotations

import inspect
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muntin.model.axis import MIN_POSITION
from muntin.model.errors import SpecChangedError, StateCorruptedError
from muntin.model.inputs import Limits, find_exceeded
from muntin.state.blobs import Blobs
from muntin.state.manifest import Manifest, parse_manifest
from muntin.tables.clocks import EventArrival, FieldClock
from muntin.tables.copartition import derive_partition_key
from muntin.tables.current import CURRENT, EventCursor
from muntin.tables.session_shard import SessionTableShard
from muntin.tables.shard import PlainTableShard, TableEntry, TableShard
from muntin.tables.spec import TableSpec, to_window_range
from muntin.tables.window_shard import WindowTableShard

# Messages sent for closed windows come after those sent for events.
_AFTER_TIMERS = 1 << 62


@dataclass(frozen=True)
class Rejected:
    """A rejected event.

    Attributes:
        topic: The topic's name.
        reason: ``late``, ``future``, ``null_key``, ``null_time``, ``malformed`` or ``error``.
        value: The event's value.
        key: The event's key, if it had one.
        time: The event's time in microseconds, if it had one.
        offset: The event's number in the source.
        agent: The agent that processed it; ``None`` if no agent saw it.
        table: The table that rejected it; ``None`` if no table did.
        detail: The exact problem.
        watermark: The watermark on arrival, if there was one.
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
    """A message that an agent sends to a topic, or one of its results (``topic`` is ``None``)."""

    topic: str | None
    agent: str | None
    value: Any
    key: Any
    time: int | None
    cause: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Rules:
    """The definitions and options that all partitions of an app share.

    Attributes:
        lateness: How far the watermark of a topic trails its greatest time, by topic.
        clocks: The clocks that follow times in values.
        idle: How long a clock may rest until tables stop waiting for it; ``None`` for forever.
        follows_wall_clock: Whether watermarks follow the wall clock while no event comes.
        limits: How far from the wall clock a time may be.
        zones: The session's time zone, by the topics whose events depend on it.
    """

    tables: Mapping[str, TableSpec]
    lateness: Mapping[str, int]
    limits: Limits = ()
    clocks: Sequence[FieldClock] = ()
    idle: int | None = None
    follows_wall_clock: bool = False
    zones: Mapping[str, str] = field(default_factory=dict)


def create_shard(spec: TableSpec, part: Partition) -> TableShard:
    """Create the shard of a table, by its kind."""
    windows = spec.windows
    if windows is None:
        return PlainTableShard(spec, part)
    if windows.is_numbered:
        return WindowTableShard(spec, part, windows)
    return SessionTableShard(spec, part, windows)


class Partition:
    """All tables of one partition.

    Attributes:
        watermarks: The watermark of each clock: of topics, and of times in their values.
        moved: When each clock last advanced, by the wall clock.
        wall: The batch's wall clock, microseconds.
        batch: Number of committed batches.
        counts: Number of events by outcome.
        rejected: The events that this batch rejected.
        sent: The messages that this batch's agents sent.
    """

    def __init__(self, rules: Rules, number: int = 0) -> None:
        self.rules = rules
        self.number = number
        self.shards = {name: create_shard(spec, self) for name, spec in rules.tables.items()}
        self.watermarks: dict[str, int] = {}
        self.moved: dict[str, int] = {}
        self.wall = MIN_POSITION
        # The wall clock when the last event came.
        self._silent_since = MIN_POSITION
        # The wall clock when the app was opened: the time for which it was down isn't silence.
        self.opened_at = MIN_POSITION
        self.batch = 0
        self.counts: Counter[str] = Counter()
        self.rejected: list[Rejected] = []
        self.sent: list[SentMessage] = []
        self._version: str | None = None
        self._blobs: Blobs | None = None
        # Includes topics of earlier runs, whose agents may come back.
        self._zones = dict(rules.zones)

    def begin(self, blobs: Blobs | None, wall: int) -> None:
        """Start a batch from the last commit; without ``blobs`` everything is kept in memory only.

        Raises:
            SpecChangedError: When the commit has another definition of a table.
            StateCorruptedError: When the commit can't be read.
        """
        self.rejected, self.sent = [], []
        self.wall = max(wall, self.wall)
        self._blobs = blobs
        stored = None if blobs is None else self._load_manifest(blobs)
        for name, shard in self.shards.items():
            shard.begin(blobs, None if stored is None else stored.get(name, {}))

    def note_events(self) -> None:
        """Note that the batch has events, of any topic and partition."""
        self._silent_since = self.wall

    @property
    def silence(self) -> int:
        """The distance by which watermarks follow the wall clock in silence, microseconds."""
        since = max(self._silent_since, self.opened_at)
        if not self.rules.follows_wall_clock or since == MIN_POSITION:
            return 0
        return max(0, self.wall - since - (self.rules.idle or 0))

    def _load_manifest(self, blobs: Blobs) -> dict[str, Any] | None:
        """Return the manifest entry of each table; ``None`` if memory is that commit."""
        text = blobs.load()
        if text is None:
            self.watermarks, self.moved, self.counts = {}, {}, Counter()
            self.batch, self._version, self._zones = 0, None, dict(self.rules.zones)
            return {}
        manifest = parse_manifest(text, "tables")
        try:
            extra, tables = manifest.extra, read_tables(manifest)
            # This batch may fail, so memory isn't a commit until the batch is committed.
            own_version, self._version = self._version, None
            if extra["version"] == own_version:
                return None
            self.watermarks, self.moved, zones = extra["marks"], extra["moved"], extra["zones"]
            self.wall = max(self.wall, MIN_POSITION if manifest.wall is None else manifest.wall)
            self.counts, self.batch = Counter(manifest.counts), extra["batch"]
            self._silent_since = extra.get("silent_since", MIN_POSITION)
        except KeyError as error:
            raise StateCorruptedError("the manifest of a partition can't be read") from error
        self._zones = {**zones, **self.rules.zones}
        changed_zones = [topic for topic, zone in zones.items() if self._zones[topic] != zone]
        if changed_zones:
            topic = changed_zones[0]
            raise SpecChangedError(
                f"times of the topic {topic!r} were read in the time zone {zones[topic]}, "
                f"and are in {self._zones[topic]} now (spark.sql.session.timeZone); "
                "go back to it, or start with a new place for the state"
            )
        removed_tables = sorted(tables.keys() - self.shards.keys())
        if removed_tables:
            raise SpecChangedError(
                f"the state has a table {removed_tables[0]!r} that the app doesn't define; "
                "define it again, or start with a new place for the state"
            )
        return tables

    def judge_time(self, time: int) -> str | None:
        """Return the reason to reject a time that is too far from the wall clock."""
        return find_exceeded(self.rules.limits, time, self.wall)

    @property
    def watermark(self) -> int | None:
        """The greatest watermark of a topic."""
        return max(
            (watermark for clock, watermark in self.watermarks.items() if clock[:1] != "@"),
            default=None,
        )

    def reject(
        self,
        cursor: EventCursor,
        reason: str,
        table: str | None,
        detail: str | None,
        watermark: int | None = None,
    ) -> None:
        """Reject an event; the watermark is that by which it was judged, if not its topic's."""
        watermark = cursor.watermark if watermark is None else watermark
        reported_watermark = None if watermark == MIN_POSITION else watermark
        event = (cursor.value, cursor.key, cursor.time, cursor.offset, cursor.agent)
        self.record_rejected(
            Rejected(cursor.topic, reason, *event, table, detail, reported_watermark)
        )

    def record_rejected(self, event: Rejected) -> None:
        """Count a rejected event, and keep it until the batch is committed."""
        self.counts[event.reason] += 1
        self.rejected.append(event)

    def return_all(self) -> None:
        """Store the changes that agents made inside the values that they hold."""
        for shard in self.shards.values():
            shard.return_all()

    async def finish(
        self,
        watermarks: Mapping[str, int],
        *,
        emit: frozenset[str] = frozenset(),
        final: bool = False,
    ) -> dict[str, list[TableEntry]]:
        """End a batch: close expired windows (all if it is the final one) and write the changes.

        Returns:
            The changes of each table in ``emit``, with its closed windows.
        """
        for clock, watermark in watermarks.items():
            self._advance_clock(clock, watermark)
        closed_windows = {}
        for name, shard in self.shards.items():
            shard.return_all()
            shard.advance()
            callback = shard.spec.on_window_close
            closed_windows[name] = shard.close(
                emit=name in emit or callback is not None, final=final
            )
            if callback is not None:
                await self._call_window_close(shard, callback, closed_windows[name])
        emitted = {}
        for name, shard in self.shards.items():
            shard.return_all()
            if name in emit:
                emitted[name] = [*shard.changes(), *closed_windows[name]]
        self._commit()
        return emitted

    def _advance_clock(self, clock: str, watermark: int) -> None:
        if watermark > self.watermarks.get(clock, MIN_POSITION):
            self.watermarks[clock], self.moved[clock] = watermark, self.wall

    async def _call_window_close(
        self, shard: TableShard, callback: Callable[..., Any], closed: list[TableEntry]
    ) -> None:
        """Call ``on_window_close`` for closed windows; tables are written as of each window's end.

        The closed windows form a stream of their own, whose clock is at the end of the last window
        that was closed.
        """
        cursor = EventCursor(f"on_window_close of {shard.spec.name}", f"@closed {shard.spec.name}")
        cursor.part = self
        cursor.watermark = self.watermarks.get(cursor.topic, MIN_POSITION)
        if shard.watermark != MIN_POSITION:
            self._advance_clock(cursor.topic, shard.watermark - (shard.spec.expires or 0))
        token = CURRENT.set(cursor)
        try:
            for key, window, value, _ in closed:
                assert window is not None
                # The table's partition key, so that the callback may write other tables.
                cursor.key = derive_partition_key(key, shard.partitionings)
                cursor.value, cursor.time = value, window[1]
                cursor.arrival = EventArrival(_AFTER_TIMERS)
                result = callback((key, to_window_range(*window)), value)
                if inspect.isawaitable(result):
                    await result
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
                "marks": self.watermarks,
                "moved": self.moved,
                "silent_since": self._silent_since,
                "zones": self._zones,
                "tables": {name: shard.describe_state() for name, shard in shards},
            },
        )
        self._blobs.save(manifest.dumps())


def read_tables(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """Return the manifest entry of each table: its definition, progress and runs."""
    entries: dict[str, dict[str, Any]] = {
        name: {**part, "spec": manifest.spec[name], "runs": {}}
        for name, part in manifest.extra["tables"].items()
    }
    for table, runs in manifest.tables.items():
        name, _, journal = table.rpartition(" ")
        entries[name]["runs"][journal] = runs
    return entries
