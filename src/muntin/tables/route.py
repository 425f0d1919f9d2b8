"""The task before the shuffle: partitions a topic's events as the agents ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.admission import NOW, admit, find_watermarks_before
from muntin.engine.named_rows import list_values
from muntin.engine.operator import REJECTED, Part, Task
from muntin.engine.utf8 import decode_with_escapes
from muntin.model.axis import MIN_POSITION
from muntin.state.hashing import hash_rows
from muntin.tables.agent import find_topic
from muntin.tables.app import App
from muntin.tables.cells import KEYS, build_key_column, read_keys
from muntin.tables.clocks import FieldClock
from muntin.tables.copartition import assign_partitions
from muntin.tables.emitted import REJECTED_FRAME, TABLE, format_kind
from muntin.tables.event_loop import EventLoop
from muntin.tables.partition import Rules
from muntin.tables.record import Keying
from muntin.tables.rows import RowReader
from muntin.tables.spec import TableSpec

# The frame of a route's events, among those that a task sends.
EVENTS = "messages"
# The column of the watermark by which an event is judged.
WATERMARK_BEFORE = "__muntin_judged"
# The route number of the counts and rejected events of a task, which belong to no route.
NO_ROUTE = -1
_OWNER = "__muntin_owner"
# Some 250 000 years, microseconds: Polars panics when it formats times much further away.
_MOST_SHOWN = 8_000_000_000_000_000_000
_DETAIL = "__muntin_why"


@dataclass(frozen=True)
class Route:
    """A topic's events, partitioned in one way.

    Attributes:
        by: The key to partition by; ``None`` is the events' own key.
        agents: The agents that read this partitioning.
        first: Whether it is the topic's first route, which rejects malformed values.
    """

    topic: str
    by: Keying | None
    agents: tuple[str, ...]
    first: bool


@dataclass(frozen=True)
class TopicFormat:
    """The format of a topic's events on the workers.

    Attributes:
        schema: Polars types of the columns, without muntin's own.
        key: The events' own key; ``None`` where they have none.
        value: The column with the value; ``None`` takes the whole row as the value.
        zone: The session's time zone, where events depend on it.
    """

    schema: dict[str, pl.DataType]
    key: Keying | None
    value: str | None
    zone: str | None = None


@dataclass(frozen=True)
class AgentStage:
    """The description of an app that both sides of the shuffle use; it is sent to the workers.

    Attributes:
        routes: The partitionings that its agents ask for.
        formats: The topics that they read.
        wanted: The kinds of rows that are emitted.
        specs: The tables, with the types of their values as columns have them.
    """

    app: App
    routes: tuple[Route, ...]
    formats: dict[str, TopicFormat]
    wanted: frozenset[str]
    specs: Mapping[str, TableSpec]

    def rules(self) -> Rules:
        """Return the rules of all partitions, with the time zones that events depend on."""
        zones = {name: one.zone for name, one in self.formats.items() if one.zone is not None}
        return replace(self.app.get_rules(), zones=zones)

    @property
    def tables(self) -> frozenset[str]:
        """The tables whose changes are emitted."""
        return frozenset(
            name for name in self.app.tables if format_kind(TABLE, name) in self.wanted
        )

    def reader(self, topic: str) -> RowReader:
        """Return the reader that turns rows into values of a topic's type."""
        topic_format = self.formats[topic]
        return RowReader(self.app.topics[topic].value_type, topic_format.schema, topic_format.value)


def group_agents(app: App) -> tuple[Route, ...]:
    """Return the partitionings that agents ask for; each agent runs until it reads an event."""
    loop = EventLoop()
    routes: dict[tuple[Any, ...], Route] = {}
    for agent in app.agents.values():
        topic, by = loop.complete(find_topic(agent))
        # Each function partitions differently, even where two have the same name.
        route_key = (topic, by and (by.field, id(by.function)))
        first = not any(other[0] == topic for other in routes)
        route = routes.get(route_key, Route(topic, by, (), first))
        routes[route_key] = replace(route, agents=(*route.agents, agent.name))
    loop.close()
    return tuple(routes.values())


class RouteTask:
    """Partitions the events of a task."""

    def __init__(self, stage: AgentStage, task: Task) -> None:
        self.stage = stage
        self.topic = task.input
        self.shards = task.shards
        self.format = stage.formats[self.topic]
        self.reader = stage.reader(self.topic)

    def parts(self, frames: Iterable[pl.DataFrame]) -> list[Part]:
        """Return the parts of the task's events, each for one shard."""
        admitted = [pl.DataFrame(schema={**self.format.schema, columns.TIME: pl.Int64()})]
        rejected: list[pl.DataFrame] = []
        seen = 0
        now: int | None = None
        for messages in frames:
            # Use the batch's clock, never this machine's: a repeated batch must have the same rows.
            if NOW in messages.columns and len(messages):
                now = messages[NOW][0]
            seen += len(messages)
            good, bad = admit(messages, [], None)
            admitted.append(good.select(*self.format.schema, columns.TIME))
            rejected += [self._to_rejected(frame, frame[columns.REASON][0]) for frame in bad]
        events = pl.concat(admitted)
        if self.format.key is not None:
            events, without_key = self._add_keys(events, self.format.key, None)
            rejected += without_key
        judged, latest = self._add_watermarks(events, now)
        return self._create_parts(judged, rejected, seen, {"latest": latest, "wall": now})

    def _add_watermarks(
        self, events: pl.DataFrame, now: int | None
    ) -> tuple[pl.DataFrame, dict[str, int]]:
        """Return events with the watermarks before each, as far as this task can compute them."""
        lateness = self.stage.app.topics[self.topic].lateness
        times = {self.topic: (WATERMARK_BEFORE, events[columns.TIME])}
        for clock in self.stage.app.clocks:
            times[clock.name_for(self.topic)] = (
                watermark_column(clock),
                self._read_times(events, clock, now),
            )
        # Malformed events advance no clock.
        if wrong := list(self.reader.find_malformed(events)):
            times = {clock: (to, at.scatter(wrong, None)) for clock, (to, at) in times.items()}
        judged = []
        for column, clock_times in times.values():
            watermarks = (clock_times - lateness).fill_null(MIN_POSITION).to_numpy()
            judged.append(pl.Series(column, find_watermarks_before(watermarks), dtype=pl.Int64))
        greatest = {clock: clock_times.max() for clock, (_, clock_times) in times.items()}
        latest = {clock: most for clock, most in greatest.items() if isinstance(most, int)}
        return events.with_columns(judged), latest

    def _read_times(self, events: pl.DataFrame, clock: FieldClock, now: int | None) -> pl.Series:
        """Return the times that a clock reads from values, microseconds; null without one."""
        field = clock.by.field
        if field in self.format.schema and self.format.value is None and _is_time(events[field]):
            clock_times = events[field].cast(pl.Datetime("us")).cast(pl.Int64)
        else:
            values, _ = self.reader(events)
            clock_times = pl.Series([clock.read_time(value) for value in values], dtype=pl.Int64)
        for limit in () if now is None else self.stage.app.limits:
            clock_times = clock_times.set(limit.excludes(clock_times, now), None)
        return clock_times

    def _create_parts(
        self, events: pl.DataFrame, rejected: list[pl.DataFrame], seen: int, header: dict[str, Any]
    ) -> list[Part]:
        counts = {"seen": seen, "taken": len(events)}
        parts_to_send = []
        for number, route in enumerate(self.stage.routes):
            if route.topic != self.topic:
                continue
            wanted = events
            if route.by is not None:
                wanted, without_key = self._add_keys(events, route.by, route.agents)
                rejected += without_key
            parts = self._split_by_shard(wanted)
            for shard in range(self.shards):
                frames = {EVENTS: parts[shard]} if shard in parts else {}
                parts_to_send.append(Part(shard, {**header, "route": number}, frames, self.topic))
        for frame in rejected:
            reason = frame[columns.REASON][0]
            counts[reason] = counts.get(reason, 0) + len(frame)
        # Counts and rejected events are emitted once, so they go to one shard.
        aside = {REJECTED: pl.concat(rejected)} if rejected else {}
        header |= {"route": NO_ROUTE, "counts": counts}
        parts_to_send.append(Part(0, header, aside, self.topic))
        return parts_to_send

    def _split_by_shard(self, events: pl.DataFrame) -> dict[int, pl.DataFrame]:
        """Split events by shard, with the same hash as in one process; without keys, into one."""
        shards = self.shards
        names = [name for name in events.columns if name in KEYS]
        if not len(events):
            return {}
        if not names or shards == 1:
            return {0: events}
        if names == ["key_any"]:
            shard_numbers = assign_partitions(read_keys(events), shards)
        else:
            shard_numbers = (hash_rows([events[names[0]]]) % shards).tolist()
        numbered = events.with_columns(pl.Series(_OWNER, shard_numbers, dtype=pl.Int32))
        parts = numbered.partition_by(_OWNER, as_dict=True, include_key=False)
        return {int(shard): part for (shard,), part in parts.items()}

    def _add_keys(
        self, events: pl.DataFrame, by: Keying, agents: Sequence[str] | None
    ) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
        """Add keys to events, and return those that have none as rejected frames.

        ``agents`` partition by the key ``by``; ``None`` is the events' own key.
        """
        keys, wrong = self._read_keys(events, by, own=agents is None)
        has_key = (
            pl.Series([key is not None for key in keys], dtype=pl.Boolean)
            if isinstance(keys, list)
            else keys.is_not_null()
        )
        rejected = []
        if not has_key.all():
            details = pl.Series([wrong.get(i) for i in (~has_key).arg_true()], dtype=pl.String)
            bad = events.filter(~has_key).with_columns(details.alias(_DETAIL))
            for reason, chosen in (
                ("malformed", details.is_not_null()),
                ("null_key", details.is_null()),
            ):
                if chosen.any():
                    frame = bad.filter(chosen)
                    rejected += [
                        self._to_rejected(frame, reason, agent) for agent in agents or (None,)
                    ]
            events = events.filter(has_key)
        if isinstance(keys, list):
            column = build_key_column([key for key in keys if key is not None])
        else:
            column = _to_key_column(keys.filter(has_key))
        return events.drop(KEYS, strict=False).with_columns(column), rejected

    def _read_keys(
        self, events: pl.DataFrame, by: Keying, *, own: bool
    ) -> tuple[pl.Series | list[Any], dict[int, str]]:
        """Return the key of each event, and the errors of the key function by row."""
        if by.field in self.format.schema and (own or self.format.value is None):
            column = events[by.field]
            return list_values(column) if column.dtype.is_temporal() else (column, {})
        # A topic's own key may be any column of the row, also one outside of the value.
        rows = RowReader(None, self.format.schema, None) if own else self.reader
        values, unread = rows(events)
        wrong = dict(unread) if own else {}
        keys: list[Any] = []
        for number, value in enumerate(values):
            key, problem = (None, None) if number in wrong else by.find_group(value)
            if problem is not None:
                wrong[number] = problem
            keys.append(key)
        return keys, wrong

    def _to_rejected(
        self, events: pl.DataFrame, reason: str, agent: str | None = None
    ) -> pl.DataFrame:
        # The frame of rejected events shows bytes as text.
        binary = [name for name, dtype in events.schema.items() if dtype == pl.Binary]
        events = events.with_columns(decode_with_escapes(events[name])[0] for name in binary)
        events = _convert_far_times(events)
        own = [name for name in events.columns if name in KEYS]
        key = self.format.key
        if not own and key is not None and key.field in self.format.schema:
            own = [key.field]
        values = {
            "topic": pl.lit(self.topic),
            columns.REASON: pl.lit(reason),
            "agent": pl.lit(agent),
            "table": pl.lit(None),
            "key": pl.col(*own) if own else pl.lit(None),
            "value": _value_as_text(self.format),
            "time": pl.col(columns.TIME),
            "detail": pl.col(_DETAIL) if _DETAIL in events.columns else pl.lit(None),
            columns.WATERMARK: pl.lit(None),
        }
        return events.select(
            expr.cast(REJECTED_FRAME[name], strict=False).alias(name)
            for name, expr in values.items()
        )


def _convert_far_times(events: pl.DataFrame) -> pl.DataFrame:
    """Return events with times as microseconds in columns that Polars can't format."""
    numbers = []
    for name, dtype in events.schema.items():
        if isinstance(dtype, pl.Datetime):
            times = events[name].dt.cast_time_unit("us").cast(pl.Int64)
            numbers += [] if times.is_between(-_MOST_SHOWN, _MOST_SHOWN).all() else [times]
    return events.with_columns(numbers)


def _value_as_text(topic: TopicFormat) -> pl.Expr:
    """Return an expression of values as text: JSON of a row, or the value's column."""
    if topic.value is not None:
        return pl.col(topic.value)
    return pl.struct(*topic.schema).struct.json_encode()


def watermark_column(clock: FieldClock) -> str:
    """Return the column of the watermark of a clock by which events are judged."""
    return f"{WATERMARK_BEFORE}_{clock.number}"


def _is_time(column: pl.Series) -> bool:
    return isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone in (None, "UTC")


def _to_key_column(keys: pl.Series) -> pl.Series:
    """Return keys in the columns of entries: text and integers as they are, others as bytes."""
    if keys.dtype == pl.String:
        return keys.alias("key_str")
    if keys.dtype.is_integer() and keys.dtype != pl.UInt64:
        return keys.cast(pl.Int64).alias("key_int")
    return build_key_column(keys.to_list())
