"""An app of agents and tables on Spark: DataFrames in, DataFrames out.

Source: Faust's agents; the runtime is Spark's ``transformWithState``. A topic is a DataFrame, a
partition is a bucket of Spark's state, ``group_by`` is a shuffle, and a commit is a batch's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin.model.axis import SECOND, Duration, phrase
from muntin.model.errors import OptionError
from muntin.spark.agent_processor import RESULT, SENT, TABLE, AgentProcessor, kind_of
from muntin.spark.agent_route import (
    ROW,
    AgentStage,
    Arrival,
    Route,
    RouteTask,
    typed_spec,
)
from muntin.spark.agent_rows import MESSAGE, REJECTED_SCHEMA, result_schema, table_schema
from muntin.spark.combiner import identity, slots
from muntin.spark.flags import NOW
from muntin.spark.inputs import OWN, WALL, Input, check_ticks, ticks
from muntin.spark.processor import REJECTED, TOLD, buckets_of, unpacked
from muntin.spark.schema import polars_schema
from muntin.spark.session import require
from muntin.spark.zones import zone_of
from muntin.tables.agent import reads
from muntin.tables.app import App
from muntin.tables.loop import Loop
from muntin.tables.record import Keying
from muntin.tables.sources import Source, source

if TYPE_CHECKING:
    from muntin.spark.query import WindowedQuery
    from muntin.spark.sinks import SinkLike


def on_spark(
    app: App,
    sources: Mapping[str, Any],
    *,
    types: Mapping[str, Any] | None = None,
    buckets: int | None = None,
) -> AgentsOnSpark:
    """Run an app's agents inside Spark's state.

    An agent is called once a bucket and batch and loops over the batch's events: what it keeps in
    variables of its own ends with the batch, what is to last belongs into a table. Its function,
    and what it refers to, is sent to the workers.

    Args:
        app: The app.
        sources: A DataFrame for each topic that agents read, or ``muntin.source(frame, key=…,
            time=…)``, streaming or batch. Without a key all of a topic's events are in one bucket.
        types: What values of a table are, where its columns are to have another type than its
            definition says: ``{"totals": float}``.
        buckets: In how many partitions tables are kept; one a shuffle partition by default. It is
            part of the checkpoint.

    Raises:
        OptionError: Naming the option, its value and the cure, before anything runs.
        SettingError: When the session lacks a setting that state needs.

    Example:
        >>> run = on_spark(app, {"clicks": source(clicks, key="page", time="at")})  # doctest: +SKIP
        >>> run.table("views")  # doctest: +SKIP
    """
    routes = _routes(app)
    given = {
        name: data if isinstance(data, Source) else source(data) for name, data in sources.items()
    }
    _check_topics(app, routes, given)
    frames = [one.data for one in given.values()]
    require(frames[0].sparkSession)
    if len({frame.isStreaming for frame in frames}) > 1:
        cure = "give streaming or batch DataFrames, not both"
        raise OptionError("sources", ", ".join(given), "stream in part", cure)
    return AgentsOnSpark(app, routes, given, dict(types or {}), buckets)


def _routes(app: App) -> tuple[Route, ...]:
    """How agents want events partitioned, found by asking each for its first event."""
    loop = Loop()
    found: dict[tuple[Any, ...], Route] = {}
    for agent in app.agents.values():
        topic, by = loop.complete(reads(agent))
        known = (topic, by.field if by else None, _same(by))
        first = not any(place[0] == topic for place in found)
        route = found.get(known, Route(topic, by, (), first))
        found[known] = replace(route, agents=(*route.agents, agent.name))
    loop.close()
    return tuple(found.values())


def _same(by: Keying | None) -> Any:
    """What tells two ways to partition apart; each function is its own."""
    return None if by is None or by.function is None else id(by)


def _check_topics(app: App, routes: tuple[Route, ...], given: Mapping[str, Source]) -> None:
    read = {route.topic for route in routes}
    if not read:
        raise OptionError("app", app.name, "has no agents", "write @app.agent(topic)")
    for name in sorted(read - given.keys()):
        cure = "give its DataFrame; agents on Spark can't read what other agents send"
        raise OptionError("sources", name, "is read by an agent and isn't there", cure)
    for name, one in given.items():
        if name not in read:
            cure = f"give some of {', '.join(sorted(read))}"
            raise OptionError("sources", name, "is read by no agent", cure)
        if not isinstance(one.data, DataFrame):
            cure = "give a Spark DataFrame; app.run() takes other data"
            raise OptionError("sources", name, f"is a {type(one.data).__name__}", cure)
        _check_columns(name, one)


def _check_columns(topic: str, given: Source) -> None:
    columns_of = given.data.columns
    for option, by in (("key", given.key), ("time", given.time)):
        if by is not None and by.field is not None and by.field not in columns_of:
            cure = f"give one of {', '.join(columns_of)}"
            raise OptionError(option, by.field, f"isn't a column of {topic}", cure)
    if given.time is not None and given.time.field is None:
        cure = "name a column; compute one with Spark before"
        raise OptionError("time", given.time.name, "is a function", cure)
    if given.value is not None and given.value not in columns_of:
        cure = f"give one of {', '.join(columns_of)}"
        raise OptionError("value", given.value, f"isn't a column of {topic}", cure)


class AgentsOnSpark:
    """An app's agents over DataFrames; made by ``on_spark``."""

    def __init__(
        self,
        app: App,
        routes: tuple[Route, ...],
        given: Mapping[str, Source],
        types: Mapping[str, Any],
        buckets: int | None,
    ) -> None:
        self.app = app
        self._routes = routes
        self._given = given
        self._types = types
        for table in types:
            self._known("types", table, app.tables)
        first = next(iter(given.values())).data
        self._spark = first.sparkSession
        self._streams = first.isStreaming
        self.buckets = buckets_of(self._spark, buckets)
        self._told = lru_cache(maxsize=None)(self._build)

    def table(self, name: str) -> DataFrame:
        """A table's changes: a row for every key (and window) that a batch has changed.

        Columns: ``key``, ``window_start`` and ``window_end`` for tables with windows, ``value``,
        ``emission`` (``early``; ``full`` when the window has expired; ``retract`` for what was
        deleted) and ``revision``, which grows with each batch. Keys and values have columns of the
        table's ``key_type`` and ``value_type``, else of its default's type, else text (JSON).
        ``(key, window_start, window_end)`` identifies an entry, and its greatest revision is the
        newest: sinks that upsert by them hold the table, whatever is repeated after a crash. A
        batch DataFrame gives the table as it is in the end.
        """
        self._known("table", name, self.app.tables)
        told = self._told(frozenset([name]))
        return unpacked(told, kind_of(TABLE, name), self._schema(name))

    def _schema(self, table: str) -> StructType:
        return table_schema(typed_spec(self.app, table, self._types))

    def results(self, agent: str) -> DataFrame:
        """What an agent yields: ``result_type``'s fields, else ``key``, ``time``, ``value``."""
        self._known("agent", agent, self.app.agents)
        schema = result_schema(self.app.agents[agent].result_type)
        return unpacked(self._told(frozenset()), kind_of(RESULT, agent), schema)

    def sent(self, topic: str) -> DataFrame:
        """What agents send to a topic: ``key``, ``time`` and ``value`` (JSON)."""
        return unpacked(self._told(frozenset()), kind_of(SENT, topic), MESSAGE)

    @property
    def rejected(self) -> DataFrame:
        """Every event that was handed back.

        Columns: ``topic``, ``reason``, ``agent``, ``table``, ``key``, ``value`` (JSON), ``time``,
        ``detail``, ``watermark``.
        """
        return unpacked(self._told(frozenset()), REJECTED, REJECTED_SCHEMA)

    def start(
        self,
        *,
        checkpoint: str,
        tables: Mapping[str, SinkLike] | None = None,
        results: Mapping[str, SinkLike] | None = None,
        sent: Mapping[str, SinkLike] | None = None,
        rejected: SinkLike | None = None,
        name: str | None = None,
        every: Duration | None = None,
        available_now: bool = False,
    ) -> WindowedQuery:
        """Start one streaming query that keeps the tables and writes what was asked for.

        Each batch reaches the sinks at least once, and a repeated batch carries the same rows under
        the same number; the sinks of muntin make that exactly once.

        Args:
            checkpoint: Folder of the query's progress and tables; the same after a restart.
            tables: A sink for each table whose changes are wanted.
            results: The same for what agents yield.
            sent: The same for topics that agents send to.
            rejected: A sink for rejected events.
            name: The query's name.
            every: A batch at most this often; as fast as possible where it isn't given.
            available_now: Read what is there now, then end.

        Raises:
            OptionError: When the frames don't stream, or something isn't the app's.
            SpecChangedError: When a table went by the wall clock and none does now, or the other
                way round.
        """
        from muntin.spark.query import Output, launch

        outputs = []
        for table, sink in (tables or {}).items():
            self._known("tables", table, self.app.tables)
            outputs.append(Output(kind_of(TABLE, table), self._schema(table), ("key",), sink))
        for agent, sink in (results or {}).items():
            self._known("results", agent, self.app.agents)
            schema = result_schema(self.app.agents[agent].result_type)
            outputs.append(Output(kind_of(RESULT, agent), schema, None, sink))
        for topic, sink in (sent or {}).items():
            outputs.append(Output(kind_of(SENT, topic), MESSAGE, None, sink))
        if rejected is not None:
            outputs.append(Output(REJECTED, REJECTED_SCHEMA, None, rejected))
        told = self._told(frozenset(tables or ()))
        if told.isStreaming:
            check_ticks(told, checkpoint, None)
        return launch(told, outputs, checkpoint, name, every, available_now)

    def explain(self) -> str:
        """The topics, how they are partitioned, and the tables, in words."""
        lines = []
        for route in self._routes:
            own = self._given[route.topic].key
            by = route.by or own
            how = f"by {by.name}" if by else "nowhere: it has no key, so one bucket has all"
            lines.append(f"{', '.join(route.agents)} reads {route.topic}, partitioned {how}")
        lines += [f"table     {spec}" for spec in self.app.tables.values()]
        lines.append(f"state     {self.buckets} buckets, each a partition of all tables")
        ahead = self.app.max_ahead
        late = (
            "any time is taken"
            if ahead is None
            else (f"rejected beyond {phrase(ahead)} ahead of the wall clock")
        )
        lines.append(f"future    {late}")
        return "\n".join(lines)

    def _known(self, option: str, name: str, known: Mapping[str, Any]) -> None:
        if name not in known:
            cure = f"give one of {', '.join(known)}" if known else "define one"
            raise OptionError(option, name, "isn't the app's", cure)

    @property
    def _ticks(self) -> bool:
        """Whether the wall clock comes with ticks."""
        return self._streams and self.app.clocked

    def _input(self, frame: DataFrame, time: str | None) -> Input:
        """A topic's input; it brings the batch's clock along only where somebody may look at it.

        Without that, and with any time allowed, nothing that Spark runs changes from batch to
        batch, and nothing is compiled anew.
        """
        ahead = self.app.max_ahead
        several = len(self._given) > 1 or bool(self.app.clocks)
        looked_at = (
            time is None
            or ahead is not None
            or (several and self.app.idle is not None)
            or (self.app.clocked and not self._ticks)
        )
        return Input(frame, time, max_ahead=ahead, stamped=looked_at)

    def _build(self, tell: frozenset[str]) -> DataFrame:
        """What the buckets tell: blobs and figures."""
        arrivals, inputs, frames, holders = {}, {}, {}, {}
        for name, given in self._given.items():
            time = given.time.field if given.time is not None else None
            inputs[name] = self._input(given.data, time)
            sent = inputs[name].columns()
            holders[name] = inputs[name].flag(sent)
            frames[name] = given.data.select(*(c.alias(n) for n, c in sent.items()))
            schema = polars_schema(frames[name].schema)
            shown = {n: t for n, t in schema.items() if n not in OWN}
            zone = zone_of(frames[name], time)
            arrivals[name] = Arrival(shown, holders[name] or NOW, given.key, given.value, zone)
        stage = AgentStage(
            self.app,
            self._routes,
            arrivals,
            identity(),
            slots(self.buckets),
            tell,
            self._types,
        )
        parts = []
        for name, frame in frames.items():
            # Parts of a file are numbered as its rows are, so tasks are in the order of events.
            columns_of = dict(polars_schema(frame.schema))
            reader, rows = inputs[name].read(frame, columns_of, holders[name])
            parts.append(rows.mapInArrow(RouteTask(stage, name, reader), ROW))
        rows = reduce(DataFrame.unionByName, parts).withColumn(WALL, F.lit(None).cast("long"))
        if self._ticks:
            beats = ticks(self._spark, stage.slots, SECOND)
            rows = rows.unionByName(beats, allowMissingColumns=True)
        processor = AgentProcessor(stage, final=not self._streams)
        return rows.groupBy("slot").transformWithState(
            processor, TOLD, outputMode="append", timeMode="None"
        )
