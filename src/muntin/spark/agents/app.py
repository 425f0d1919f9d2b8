"""Runs an app of agents and tables on Spark, over DataFrames.

Source: Faust's agents. The runtime is Spark's ``transformWithState``: a topic is a DataFrame, a
partition is a shard of Spark's state, ``group_by`` is a shuffle, and each batch is a commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from muntin.engine.operator import REJECTED
from muntin.model.axis import SECOND, Duration
from muntin.model.errors import OptionError
from muntin.model.inputs import MAX_AHEAD
from muntin.model.option_types import parse_folder
from muntin.spark.agents.schemas import (
    make_agent_schema,
    make_agent_table_schema,
    make_rejected_schema,
)
from muntin.spark.host.internals.jvm import is_connected
from muntin.spark.host.plan import build_output
from muntin.spark.host.processor import unpack_rows
from muntin.spark.host.shards import count_shards, read_stored_shards, slots
from muntin.spark.host.task import Stage, identity
from muntin.spark.host.zones import zone_of
from muntin.spark.session import require
from muntin.spark.sources.inputs import Input, OperatorInput, check_ticks
from muntin.tables.app import App
from muntin.tables.emitted import RESULT, SENT, TABLE, format_kind
from muntin.tables.route import AgentStage, Route, TopicFormat, group_agents
from muntin.tables.sources import Source as Topic
from muntin.tables.sources import source
from muntin.tables.spec import TableSpec
from muntin.tables.step import AgentOperator

if TYPE_CHECKING:
    from muntin.sinks.sink import SinkLike
    from muntin.spark.query import WindowedQuery


def on_spark(
    app: App,
    sources: Mapping[str, Any],
    *,
    types: Mapping[str, Any] | None = None,
    shards: int | None = None,
) -> AgentsOnSpark:
    """Run an app's agents inside Spark's state.

    An agent is called once per shard and batch, and loops over the batch's events. Its local
    variables end with the batch; keep lasting values in a table. Its function and everything that
    it refers to are sent to the workers.

    Args:
        app: The app.
        sources: A DataFrame for each topic that agents read, or ``muntin.source(frame, key=…,
            time=…)``, streaming or batch. Without a key all of a topic's events are in one shard.
        types: Value types of tables that replace those of their definitions, as in
            ``{"totals": float}``.
        shards: The number of partitions of the tables; by default one for each core. It is part
            of the checkpoint.

    Returns:
        The app on Spark: ``.start(…)`` runs it, ``.table(name)``, ``.results(agent)`` and
        ``.rejected`` are DataFrames.

    Raises:
        OptionError: When an option can't work. The error names it, its value and a fix, and is
            raised before anything runs.
        SettingError: When the session lacks a setting that state needs.

    Example:
        >>> run = on_spark(app, {"clicks": source(clicks, key="page", time="at")})  # doctest: +SKIP
        >>> run.table("views")  # doctest: +SKIP
    """
    _check_app(app)
    routes = group_agents(app)
    topics = {
        name: data if isinstance(data, Topic) else source(data) for name, data in sources.items()
    }
    _check_topics(app, routes, topics)
    frames = [one.data for one in topics.values()]
    require(frames[0].sparkSession)
    if len({frame.isStreaming for frame in frames}) > 1:
        hint = "give streaming or batch DataFrames, not both"
        raise OptionError("sources", ", ".join(topics), "stream in part", hint)
    return AgentsOnSpark(app, routes, topics, dict(types or {}), shards)


def _check_app(app: App) -> None:
    """Refuse features that need one process with all partitions."""
    for name, spec in app.tables.items():
        if spec.everywhere:
            hint = "make it with app.Table, and read it with open_table"
            problem = "would be read across shards, which don't see each other on Spark"
            raise OptionError("GlobalTable", name, problem, hint)
    for name in app.timers:
        hint = "send events from outside, or use on_window_close"
        raise OptionError("timer", name, "doesn't run on Spark", hint)


def _check_topics(app: App, routes: tuple[Route, ...], topics: Mapping[str, Topic]) -> None:
    read = {route.topic for route in routes}
    if not read:
        raise OptionError("app", app.name, "has no agents", "write @app.agent(topic)")
    for name in sorted(read - topics.keys()):
        hint = "give its DataFrame; agents on Spark can't read what other agents send"
        raise OptionError("sources", name, "is read by an agent and is missing", hint)
    for name, one in topics.items():
        if name not in read:
            hint = f"give some of {', '.join(sorted(read))}"
            raise OptionError("sources", name, "is read by no agent", hint)
        if not isinstance(one.data, DataFrame):
            hint = "give a Spark DataFrame; app.run() takes other data"
            raise OptionError("sources", name, f"is a {type(one.data).__name__}", hint)
        _check_columns(name, one)


def _check_columns(topic: str, source: Topic) -> None:
    names = source.data.columns
    fields = {"key": source.key and source.key.field, "time": source.time and source.time.field}
    for option, field in (fields | {"value": source.value}).items():
        if field is not None and field not in names:
            raise OptionError(
                option, field, f"isn't a column of {topic}", f"give one of {', '.join(names)}"
            )
    if source.time is not None and source.time.field is None:
        hint = "name a column; compute one with Spark before"
        raise OptionError("time", source.time.name, "is a function", hint)


class AgentsOnSpark:
    """An app's agents over DataFrames, as ``on_spark`` returns them."""

    def __init__(
        self,
        app: App,
        routes: tuple[Route, ...],
        topics: Mapping[str, Topic],
        types: Mapping[str, Any],
        shards: int | None,
    ) -> None:
        self.app = app
        self._routes = routes
        self._topics = topics
        self._types = types
        for table in types:
            self._check_name("types", table, app.tables)
        first = next(iter(topics.values())).data
        self._spark = first.sparkSession
        self._is_streaming = first.isStreaming
        self._requested_shards = shards
        self.shards = count_shards(self._spark, shards)
        self._build_cached = lru_cache(maxsize=None)(self._build)

    def table(self, name: str) -> DataFrame:
        """Return a table's changes: a row for every key (and window) that a batch has changed.

        Columns: ``key``, ``window_start`` and ``window_end`` for tables with windows, ``value``,
        ``emission`` (``early``; ``full`` when the window has expired; ``retract`` for a deleted
        entry) and ``revision``, which grows with each batch. Keys and values have columns of the
        table's ``key_type`` and ``value_type``, else of its default's type, else text (JSON).
        ``(key, window_start, window_end)`` identifies an entry, and its greatest revision is the
        newest. A sink that upserts by these columns holds the table, also when batches are repeated
        after a crash. A batch DataFrame yields the final table.
        """
        self._check_name("table", name, self.app.tables)
        return self._unpack_rows(format_kind(TABLE, name))

    def _unpack_rows(self, kind: str) -> DataFrame:
        emitted = self._build_cached(frozenset([kind]), self.shards)
        return unpack_rows(emitted, kind, self._schema_of(kind))

    def _schema_of(self, kind: str) -> StructType:
        what, _, name = kind.partition(":")
        if what == TABLE:
            return make_agent_table_schema(self._spec_of(name))
        if what == RESULT:
            return make_agent_schema(self.app.agents[name].result_type)
        return make_rejected_schema() if kind == REJECTED else make_agent_schema(None)

    def _spec_of(self, table: str) -> TableSpec:
        spec = self.app.tables[table]
        return replace(spec, value_type=self._types.get(table, spec.value_type))

    def results(self, agent: str) -> DataFrame:
        """Return an agent's results: ``result_type``'s fields, or ``key``, ``time``, ``value``."""
        self._check_name("agent", agent, self.app.agents)
        return self._unpack_rows(format_kind(RESULT, agent))

    def sent(self, topic: str) -> DataFrame:
        """Return the events that agents send to a topic: ``key``, ``time``, ``value`` (JSON)."""
        return self._unpack_rows(format_kind(SENT, topic))

    @property
    def rejected(self) -> DataFrame:
        """The rejected events.

        Columns: ``topic``, ``reason``, ``agent``, ``table``, ``key``, ``value`` (JSON), ``time``,
        ``detail``, ``watermark``.
        """
        return self._unpack_rows(REJECTED)

    def start(
        self,
        *,
        checkpoint: str | PathLike[str],
        tables: Mapping[str, SinkLike] | None = None,
        results: Mapping[str, SinkLike] | None = None,
        sent: Mapping[str, SinkLike] | None = None,
        rejected: SinkLike | None = None,
        name: str | None = None,
        every: Duration | None = None,
        available_now: bool = False,
    ) -> WindowedQuery:
        """Start one streaming query that maintains the tables and writes to the sinks.

        Each batch reaches the sinks at least once, and a repeated batch has the same rows under the
        same number. The sinks of muntin make that exactly once.

        Args:
            checkpoint: Folder of the query's progress and tables; the same after a restart.
            tables: Sinks for the changes of tables, by table.
            results: Sinks for the results of agents, by agent.
            sent: Sinks for the events that agents send, by topic.
            rejected: A sink for rejected events.
            name: The query's name.
            every: The shortest time between batches; without it, batches run as fast as possible.
            available_now: Read the input that is available now, then end.

        Raises:
            OptionError: When the frames aren't streams, or a name isn't the app's.
            SpecChangedError: When a table used the wall clock at the checkpoint and none does now,
                or the other way round.
        """
        from muntin.spark.starting import launch
        from muntin.spark.writing import Destination

        wanted: dict[str, tuple[SinkLike | None, tuple[str, ...] | None]] = {}
        for table, sink in (tables or {}).items():
            self._check_name("tables", table, self.app.tables)
            wanted[format_kind(TABLE, table)] = (sink, ("key",))
        for agent, sink in (results or {}).items():
            self._check_name("results", agent, self.app.agents)
            wanted[format_kind(RESULT, agent)] = (sink, None)
        for topic, sink in (sent or {}).items():
            wanted[format_kind(SENT, topic)] = (sink, None)
        if rejected is not None:
            wanted[REJECTED] = (rejected, None)
        outputs = [
            Destination(kind, self._schema_of(kind), keys, sink)
            for kind, (sink, keys) in wanted.items()
        ]
        folder, kinds = parse_folder("checkpoint", checkpoint), frozenset(wanted)

        def run(handle: WindowedQuery | None) -> WindowedQuery:
            emitted, shards = self._prepare_start(folder, kinds)
            return launch(emitted, outputs, folder, shards, name, every, available_now, handle)

        query = run(None)
        if self._requested_shards is None and not is_connected(self._spark):
            query.restarts(run)
        return query

    def _prepare_start(self, folder: str, kinds: frozenset[str]) -> tuple[DataFrame, int]:
        """Return the output of the shards, with their number, which fits the checkpoint."""
        from muntin.spark.rescale import fit_checkpoint

        stored_shards = read_stored_shards(self._spark, folder)
        shards = self._requested_shards or stored_shards or self.shards
        emitted = self._build_cached(kinds, shards)
        if emitted.isStreaming:
            fit_checkpoint(self._spark, folder, stored_shards, shards)
            check_ticks(emitted, folder)
        return emitted, shards

    def explain(self) -> str:
        """Return a description of the topics, their partitioning and the tables."""
        lines = []
        for route in self._routes:
            own = self._topics[route.topic].key
            by = route.by or own
            how = f"by {by.name}" if by else "nowhere: it has no key, so one shard has all"
            lines.append(f"{', '.join(route.agents)} reads {route.topic}, partitioned {how}")
        lines += [f"table     {spec}" for spec in self.app.tables.values()]
        lines.append(f"state     {self.shards} shards, each a partition of all tables")
        lines += [
            f"{name:10}{text}" for name, text in MAX_AHEAD.describe(self.app.max_ahead, "time")
        ]
        return "\n".join(lines)

    def _check_name(self, option: str, name: str, names: Mapping[str, Any]) -> None:
        if name not in names:
            hint = f"give one of {', '.join(names)}" if names else "define one"
            raise OptionError(option, name, "isn't the app's", hint)

    @property
    def _needs_ticks(self) -> bool:
        """True if ticks bring the wall clock."""
        return self._is_streaming and (self.app.clocked or self.app.follows_wall_clock)

    def _create_input(self, frame: DataFrame, time: str | None) -> Input:
        """Return a topic's input, whose messages carry the batch's clock only where it is needed.

        Without the clock, and with no bound on times, the code that Spark generates stays the same
        from batch to batch, so Spark compiles it once.
        """
        limits = self.app.limits
        several = len(self._topics) > 1 or bool(self.app.clocks)
        needs_clock = (
            time is None
            or bool(limits)
            or (several and self.app.idle is not None)
            or (self.app.clocked and not self._needs_ticks)
        )
        return Input(frame, time, limits=limits, stamped=needs_clock)

    def _build(self, wanted: frozenset[str], shards: int) -> DataFrame:
        """Return the output of the shards for some kinds of rows: blobs and progress."""
        formats, sources = {}, []
        for name, topic in self._topics.items():
            time = topic.time.field if topic.time is not None else None
            read = self._create_input(topic.data, time)
            # Spark numbers the parts of a file in the order of its rows, so tasks keep that order.
            source = OperatorInput.of(read, read.columns(), name)
            zone = zone_of(source.messages, time)
            formats[name] = TopicFormat(source.schema, topic.key, topic.value, zone)
            sources.append(replace(source, used=frozenset(source.schema)))
        schemas = {kind: self._schema_of(kind) for kind in wanted}
        specs = {name: self._spec_of(name) for name in self.app.tables}
        stage = AgentStage(self.app, self._routes, formats, wanted, specs)
        operator = Stage(
            partial(AgentOperator, stage), slots(shards), schemas, identity(), is_reused=False
        )
        return build_output(operator, tuple(sources), SECOND if self._needs_ticks else None)
