"""The task before the shuffle: a topic's events, partitioned as the agents want them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.admission import admit
from muntin.engine.operator import REJECTED, Part, Task
from muntin.engine.utf8 import text
from muntin.spark.agents.rows import REJECTED_FRAME, TABLE, kind_of
from muntin.spark.sources.flags import NOW
from muntin.state.hashing import hash_rows
from muntin.tables.app import App
from muntin.tables.cells import KEYS, keys_column, keys_of
from muntin.tables.clocks import FieldClock
from muntin.tables.copartition import partitions_of
from muntin.tables.moments import BEGINNING
from muntin.tables.partition import Rules
from muntin.tables.record import Keying
from muntin.tables.rows import RowReader, listed
from muntin.tables.spec import TableSpec

# Of what a task sends: events of one route, and those that were rejected.
MESSAGES = "messages"
JUDGED = "__muntin_judged"
# The route of what belongs to none.
DOOR = -1
_OWNER = "__muntin_owner"
# Some 250 000 years, microseconds: Polars panics when it writes times much further away.
_MOST_SHOWN = 8_000_000_000_000_000_000
_WHY = "__muntin_why"


@dataclass(frozen=True)
class Route:
    """A topic's events, partitioned in one way.

    Attributes:
        topic: The topic.
        by: What by; ``None``: by the events' own keys.
        agents: The agents that read them so.
        first: Whether it is the topic's first route, which rejects malformed values.
    """

    topic: str
    by: Keying | None
    agents: tuple[str, ...]
    first: bool


@dataclass(frozen=True)
class TopicFormat:
    """How a topic's events reach the workers.

    Attributes:
        schema: Polars types of the columns, without muntin's own.
        key: What the events' own keys are.
        value: The column that is the value; ``None``: the whole row is.
        zone: The session's time zone, where events depend on it.
    """

    schema: dict[str, pl.DataType]
    key: Keying | None
    value: str | None
    zone: str | None = None

    def reader(self, kind: Any) -> RowReader:
        """What makes values of the topic's type out of rows."""
        return RowReader(kind, self.schema, self.value)


@dataclass(frozen=True)
class AgentStage:
    """What both sides of the shuffle know of an app; sent to the workers."""

    app: App
    routes: tuple[Route, ...]
    arrivals: dict[str, TopicFormat]
    wanted: frozenset[str]
    types: Mapping[str, Any]

    def rules(self) -> Rules:
        """What holds for all partitions, with the zones that events depend on."""
        zones = {name: one.zone for name, one in self.arrivals.items() if one.zone is not None}
        return replace(self.app.rules(), zones=zones)

    @property
    def tables(self) -> frozenset[str]:
        """The tables whose changes are emitted."""
        return frozenset(name for name in self.app.tables if kind_of(TABLE, name) in self.wanted)

    def spec(self, table: str) -> TableSpec:
        """A table, with the type of its values as columns have it."""
        return typed_spec(self.app, table, self.types)


def typed_spec(app: App, table: str, types: Mapping[str, Any]) -> TableSpec:
    """A table, with the type of its values where one was given."""
    spec = app.tables[table]
    return replace(spec, value_type=types[table]) if table in types else spec


class RouteTask:
    """Partitions the events of a task."""

    def __init__(self, stage: AgentStage, task: Task) -> None:
        self.stage = stage
        self.topic = task.input
        self.shards = task.shards

    def parts(self, frames: Iterable[pl.DataFrame]) -> list[Part]:
        """What each shard gets of the task's events."""
        arrival = self.stage.arrivals[self.topic]
        taken = [pl.DataFrame(schema={**arrival.schema, columns.TIME: pl.Int64()})]
        rejected: list[pl.DataFrame] = []
        seen = 0
        now: int | None = None
        for messages in frames:
            # Never this machine's clock: a batch that is repeated would be another one.
            if NOW in messages.columns and len(messages):
                now = messages[NOW][0]
            seen += len(messages)
            good, bad = admit(messages, [], None)
            taken.append(good.select(*arrival.schema, columns.TIME))
            rejected += [self._aside(frame, frame[columns.REASON][0]) for frame in bad]
        events = pl.concat(taken)
        if arrival.key is not None:
            events, refused = self._keyed(events, arrival.key, None)
            rejected += refused
        judged, latest = self._judged(events, now)
        return self._sent(judged, rejected, seen, {"latest": latest, "wall": now})

    def _judged(self, events: pl.DataFrame, now: int | None) -> tuple[pl.DataFrame, dict[str, int]]:
        """Events with the watermarks that each finds, as far as this task knows them."""
        lateness = self.stage.app.topics[self.topic].lateness
        times = {self.topic: (JUDGED, events[columns.TIME])}
        for clock in self.stage.app.clocks:
            times[clock.feed(self.topic)] = judged_by(clock), self._times(events, clock, now)
        # What is malformed moves no clock.
        kind = self.stage.app.topics[self.topic].value_type
        if wrong := list(self.stage.arrivals[self.topic].reader(kind).refused(events)):
            times = {clock: (to, at.scatter(wrong, None)) for clock, (to, at) in times.items()}
        judged = [
            (found.fill_null(BEGINNING) - lateness)
            .cum_max()
            .shift(1, fill_value=BEGINNING)
            .clip(lower_bound=BEGINNING)
            .alias(column)
            for column, found in times.values()
        ]
        greatest = {clock: found.max() for clock, (_, found) in times.items()}
        latest = {clock: most for clock, most in greatest.items() if isinstance(most, int)}
        return events.with_columns(judged), latest

    def _times(self, events: pl.DataFrame, clock: FieldClock, now: int | None) -> pl.Series:
        """The times in the values that a clock follows, microseconds; null where there is none."""
        arrival, by = self.stage.arrivals[self.topic], clock.by
        if by.field in arrival.schema and arrival.value is None and _is_time(events[by.field]):
            found = events[by.field].cast(pl.Datetime("us")).cast(pl.Int64)
        else:
            values, _ = arrival.reader(self.stage.app.topics[self.topic].value_type)(events)
            found = pl.Series([clock.time(value) for value in values], dtype=pl.Int64)
        ahead = self.stage.app.max_ahead
        if ahead is None or now is None:
            return found
        return found.set(found > now + ahead, None)

    def _sent(
        self,
        events: pl.DataFrame,
        rejected: list[pl.DataFrame],
        seen: int,
        header: dict[str, Any],
    ) -> list[Part]:
        counts = {"seen": seen, "taken": len(events)}
        found = []
        for number, route in enumerate(self.stage.routes):
            if route.topic != self.topic:
                continue
            wanted = events
            if route.by is not None:
                wanted, refused = self._keyed(events, route.by, route.agents)
                rejected += refused
            parts = self._parts(wanted)
            for shard in range(self.shards):
                mine = {MESSAGES: parts[shard]} if shard in parts else {}
                found.append(Part(shard, {**header, "route": number}, mine))
        for frame in rejected:
            reason = frame[columns.REASON][0]
            counts[reason] = counts.get(reason, 0) + len(frame)
        # What is emitted once goes to one shard.
        aside = {REJECTED: pl.concat(rejected)} if rejected else {}
        found.append(Part(0, {**header, "route": DOOR, "counts": counts}, aside))
        return found

    def _parts(self, events: pl.DataFrame) -> dict[int, pl.DataFrame]:
        """Events by bucket, the same bucket for a key as in process; without keys, one has all."""
        buckets = self.shards
        names = [name for name in events.columns if name in KEYS]
        if not len(events):
            return {}
        if not names or buckets == 1:
            return {0: events}
        if names[0] == "key_any":
            found = partitions_of(keys_of(events.select(names)), buckets)
        else:
            found = (hash_rows([events[names[0]]]) % buckets).tolist()
        owned = events.with_columns(pl.Series(_OWNER, found, dtype=pl.Int32))
        parts = owned.partition_by(_OWNER, as_dict=True, include_key=False)
        return {int(bucket): part for (bucket,), part in parts.items()}

    def _keyed(
        self, events: pl.DataFrame, by: Keying, agents: Sequence[str] | None
    ) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
        """Events with their keys, and those that have none.

        Args:
            events: The events.
            by: What their keys are.
            agents: Who wants these keys; ``None``: they are the events' own.
        """
        keys, wrong = self._keys(events, by, own=agents is None)
        there = (
            pl.Series([key is not None for key in keys])
            if isinstance(keys, list)
            else (keys.is_not_null())
        )
        rejected = []
        if not there.all():
            why = pl.Series([wrong.get(i) for i in (~there).arg_true()], dtype=pl.String)
            bad = events.filter(~there).with_columns(why.alias(_WHY))
            for reason, chosen in (("malformed", why.is_not_null()), ("null_key", why.is_null())):
                frame = bad.filter(chosen)
                whose: Sequence[str | None] = agents or [None]
                for agent in whose:
                    rejected += [self._aside(frame, reason, agent)] if len(frame) else []
            events = events.filter(there)
        if isinstance(keys, list):
            column = keys_column([key for key in keys if key is not None])
        else:
            column = _as_key(keys.filter(there))
        return events.drop(KEYS, strict=False).with_columns(column), rejected

    def _keys(
        self, events: pl.DataFrame, by: Keying, *, own: bool
    ) -> tuple[pl.Series | list[Any], dict[int, str]]:
        """The key of each event, and what surprised a function, by row."""
        arrival = self.stage.arrivals[self.topic]
        if by.field in arrival.schema and (own or arrival.value is None):
            column = events[by.field]
            if not column.dtype.is_temporal():
                return column, {}
            return listed(column)
        if own:
            values, bad = RowReader(None, arrival.schema, None)(events)
        else:
            values, _ = arrival.reader(self.stage.app.topics[self.topic].value_type)(events)
            bad = {}
        keys: list[Any] = []
        wrong = dict(bad)
        for number, value in enumerate(values):
            if number in bad:
                keys.append(None)
                continue
            try:
                keys.append(by.of(value))
            except Exception as error:
                # The function is the user's, and may be surprised by a value.
                keys.append(None)
                wrong[number] = f"group_by({by.name}): {error!r}"
        return keys, wrong

    def _aside(self, events: pl.DataFrame, reason: str, agent: str | None = None) -> pl.DataFrame:
        """Events as rejected ones."""
        arrival = self.stage.arrivals[self.topic]
        # Bytes are shown as text.
        binary = [name for name, dtype in events.schema.items() if dtype == pl.Binary]
        events = events.with_columns(text(events[name])[0] for name in binary)
        events = _showable(events)
        own = [name for name in events.columns if name in KEYS]
        if not own and arrival.key is not None and arrival.key.field in arrival.schema:
            own = [arrival.key.field]
        values = {
            "topic": pl.lit(self.topic),
            columns.REASON: pl.lit(reason),
            "agent": pl.lit(agent),
            "table": pl.lit(None),
            "key": pl.col(*own) if own else pl.lit(None),
            "value": _as_text(arrival),
            "time": pl.col(columns.TIME),
            "detail": pl.col(_WHY) if _WHY in events.columns else pl.lit(None),
            columns.WATERMARK: pl.lit(None),
        }
        return events.select(
            expr.cast(REJECTED_FRAME[name], strict=False).alias(name)
            for name, expr in values.items()
        )


def _showable(events: pl.DataFrame) -> pl.DataFrame:
    """Events with times as microseconds where Polars has no text for one of them."""
    numbers = []
    for name, dtype in events.schema.items():
        if isinstance(dtype, pl.Datetime):
            place = events[name].dt.cast_time_unit("us").cast(pl.Int64)
            numbers += [] if place.is_between(-_MOST_SHOWN, _MOST_SHOWN).all() else [place]
    return events.with_columns(numbers)


def _as_text(arrival: TopicFormat) -> pl.Expr:
    """Values as JSON; text stays as it is."""
    if arrival.value is not None:
        return pl.col(arrival.value)
    return pl.struct(*arrival.schema).struct.json_encode()


def judged_by(clock: FieldClock) -> str:
    """The column of a clock's watermark in force."""
    return f"{JUDGED}_{clock.number}"


def _is_time(column: pl.Series) -> bool:
    return isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone in (None, "UTC")


def _as_key(keys: pl.Series) -> pl.Series:
    """Keys as entries have them: text and whole numbers as such, others as bytes."""
    if keys.dtype == pl.String:
        return keys.alias("key_str")
    if keys.dtype.is_integer() and keys.dtype != pl.UInt64:
        return keys.cast(pl.Int64).alias("key_int")
    return keys_column(keys.to_list())
