"""Apps: tables, topics and the agents that write tables, on any host.

Source: Faust. The same app runs in this process (``run``, ``open``) and on Spark
(``muntin.on_spark``), where the state of a query holds its tables.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from muntin.model.attribute_hints import WithoutRows
from muntin.model.axis import Duration, parse_duration
from muntin.model.errors import OptionError, OutsideStreamError
from muntin.model.inputs import MAX_AHEAD, Limits
from muntin.tables.agent import Agent, AgentSink
from muntin.tables.clocks import FieldClock, is_same_function
from muntin.tables.crontab import Crontab
from muntin.tables.current import find_cursor
from muntin.tables.partition import Rules
from muntin.tables.record import Keying, parse_keying
from muntin.tables.sources import Memory
from muntin.tables.spec import TableSpec, WindowClose
from muntin.tables.table import SetTable, Table
from muntin.tables.time_values import Seconds, parse_seconds
from muntin.tables.timers import Timer, TimerDecorator, make_timer_decorator, schedule_multiples
from muntin.tables.topic import Topic, require_name

if TYPE_CHECKING:
    from muntin.stores import KeyValue
    from muntin.tables.running import Running

ErrorPolicy = Literal["raise", "reject"]

RESTING: Final = timedelta(minutes=10)
"""The default of ``App(idle=)``: with this very object, time stands still while no event comes."""


class App(WithoutRows):
    """A set of tables, and of agents that write them.

    Args:
        name: The app's name.
        source: The data of ``run`` by default: topics in memory, or data by topic.
        lateness: How far a topic's watermark trails its greatest time. Windows are closed, and
            late events rejected, by watermarks; see ``expires`` of ``Table.tumbling``.
        max_ahead: How far ahead of the wall clock a time may be. Later times are rejected as
            ``future`` and don't move the watermark. ``None`` or ``"any"`` accepts any time.
        idle: How long a clock (a topic, or a time in values) may rest, by the wall clock, until the
            tables that it writes stop waiting for it. If you give it and no event has come for that
            long, the tables' watermarks follow the wall clock, so that the last windows close too:
            in this process at each ``tick()``, on Spark every second. By default, tables stop
            waiting after ten minutes, and time stands still in silence. ``None`` waits forever.
        errors: How to handle an exception in an agent: ``raise`` ends the run without committing
            the batch; ``reject`` rejects the event and continues with the next one.

    Example:
        >>> app = App("shop", max_ahead=None)
        >>> views = app.Table("views", default=int).tumbling("1 minute", expires="1 hour")
        >>> @app.agent(app.topic("clicks"))
        ... async def count(clicks):
        ...     async for click in clicks:
        ...         views[click["page"]] += 1
        >>> with app.open() as shop:
        ...     shop.send("clicks", {"page": "home"}, key="home", timestamp=3.0)
        ...     views["home"].current(3.0)
        1
    """

    _kind_of_words = "app"

    def __init__(
        self,
        name: str,
        *,
        source: Memory | Mapping[str, Any] | None = None,
        lateness: Duration = "0 seconds",
        max_ahead: Duration | None = "15 minutes",
        idle: Duration | None = RESTING,
        errors: ErrorPolicy = "raise",
    ) -> None:
        self.name = require_name(name, "app")
        self.source = source
        self.tables: dict[str, TableSpec] = {}
        self.topics: dict[str, Topic] = {}
        self.agents: dict[str, Agent] = {}
        self.timers: dict[str, Timer] = {}
        self.lateness = parse_duration("lateness", lateness)
        self.max_ahead = MAX_AHEAD.parse(max_ahead)
        self.idle = None if idle is None else parse_duration("idle", idle)
        self.follows_wall_clock = idle is not None and idle is not RESTING
        if errors not in ("raise", "reject"):
            raise OptionError("errors", errors, "isn't known", 'give "raise" or "reject"')
        self.errors = errors
        self.clocked = False
        self.clocks: list[FieldClock] = []
        self.running: Running | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Another process gets the app without its state in this process.
        return {**self.__dict__, "running": None, "source": None}

    def __repr__(self) -> str:
        return f"<app {self.name}: {', '.join([*self.tables, *self.agents])}>"

    def topic(
        self,
        name: str,
        *,
        value_type: Any = None,
        key_type: Any = None,
        lateness: Duration | None = None,
    ) -> Topic:
        """Define a topic, or return the one already defined under this name.

        Args:
            name: The topic's name.
            value_type: A dataclass, a pydantic model, a ``muntin.Record`` or any other annotation.
                Values of other types are rejected as ``malformed``, with the reason.
            key_type: The type of the keys, checked like ``value_type``.
            lateness: How far the topic's watermark trails its greatest time; the app's by default.

        Raises:
            OptionError: When the topic is already defined with other options.
        """
        lateness_micros = (
            self.lateness if lateness is None else parse_duration("lateness", lateness)
        )
        topic = Topic(require_name(name, "topic"), value_type, key_type, lateness_micros)
        defined = self.topics.setdefault(name, topic)
        if defined != topic and topic != Topic(name, None, None, self.lateness):
            raise OptionError("topic", name, "is there with other options", "define it once")
        return defined

    def GlobalTable(self, name: str, **options: Any) -> Table:  # noqa: N802
        """Define a table that agents of every partition can read whole; in this process only.

        Entries of other partitions are read as they are at that moment, in no guaranteed order, and
        as copies. A key is written only in its own partition, as in any table.

        Args:
            name: The table's name.
            options: The options of ``Table``.
        """
        self.redefine_table(replace(self.Table(name, **options).spec, everywhere=True))
        return Table(self, name)

    def Table(  # noqa: N802
        self,
        name: str,
        *,
        default: Callable[[], Any] | None = None,
        value_type: Any = None,
        key_type: Any = None,
        on_window_close: WindowClose | None = None,
    ) -> Table:
        """Define a table.

        Args:
            name: The table's name.
            default: Creates the value of a key that has none: ``int``, ``list``, or a function.
            value_type: The dataclass or pydantic model of the values; built-in types need none.
                On Spark it also sets the type of the value column: ``float``.
            key_type: The type of the key column on Spark: ``int``; text by default.
            on_window_close: A function, or coroutine function, that is called with ``(key,
                window)`` and the value once for each expired window, also after a restart. Its
                writes to tables are committed with the closing; other effects may repeat after a
                crash.
        """
        spec = TableSpec(
            self._check_new_table(name),
            default=_check_default(default),
            value_type=value_type,
            key_type=key_type,
            on_window_close=on_window_close,
        )
        self.tables[name] = spec
        return Table(self, name)

    def SetTable(  # noqa: N802
        self, name: str, *, on_window_close: WindowClose | None = None
    ) -> SetTable:
        """Define a table of sets, changed by ``add`` and ``discard``.

        Args:
            name: The table's name.
            on_window_close: Called when a window has expired, as in ``Table``.
        """
        self.tables[self._check_new_table(name)] = TableSpec(
            name, default=set, sets=True, on_window_close=on_window_close
        )
        return SetTable(self, name)

    def _check_new_table(self, name: str) -> str:
        """Check that a table's name is free, and return it."""
        if require_name(name, "table") in self.tables:
            raise OptionError("table", name, "is there already", "give each table its own name")
        return name

    def redefine_table(self, spec: TableSpec) -> None:
        """Replace the definition of a table."""
        self.tables[spec.name] = spec

    def find_clock(self, table: str, by: Keying) -> FieldClock:
        """Return the clock of a table that follows a time in the values, creating it at first use.

        Raises:
            OptionError: When an agent creates a clock while it processes an event: the clock hasn't
                followed the events before that one.
        """
        for clock in self.clocks:
            is_of_table = clock.name.startswith(f"{table} by ") and clock.by.field == by.field
            if is_of_table and is_same_function(clock.by.function, by.function):
                return clock
        if find_cursor() is not None:
            hint = f"write other = {table}.relative_to_field(...) outside of the loop over events"
            field = by.field or by.name
            raise OptionError("relative_to_field", field, "is first made at an event", hint)
        names = {clock.name for clock in self.clocks}
        name = f"{table} by {by.name}"
        while name in names:
            name += "'"
        self.clocks.append(FieldClock(len(self.clocks), name, by))
        return self.clocks[-1]

    def agent(
        self,
        topic: Topic | str | None = None,
        *,
        name: str | None = None,
        sink: Sequence[AgentSink] = (),
        group_by: Any = None,
        result_type: Any = None,
    ) -> Callable[[Callable[..., Any]], Agent]:
        """Decorate a function that processes the events of a topic.

        Args:
            topic: The topic; by default, a topic with the agent's name.
            name: The agent's name; the function's by default.
            sink: Where the results go that the function yields or returns: functions of a value,
                topics or their names, agents.
            group_by: How the events of a plain function are partitioned, if not by the topic's key.
                A function that takes the stream calls ``stream.group_by`` instead.
            result_type: The type of the results, for typed columns on Spark.
        """

        def decorate(function: Callable[..., Any]) -> Agent:
            agent_name = name or str(getattr(function, "__name__", "agent"))
            input_topic = self.topic(topic or agent_name) if not isinstance(topic, Topic) else topic
            grouping = None if group_by is None else parse_keying("group_by", group_by)
            sinks = [self.topic(one) if isinstance(one, str) else one for one in sink]
            return self._add_agent(
                Agent(function, input_topic, agent_name, sinks, result_type, grouping)
            )

        return decorate

    def task(self, function: Callable[..., Any]) -> Agent:
        """Decorate a coroutine function that opens its own stream with ``topic.stream()``."""
        if not inspect.iscoroutinefunction(function):
            hint = "write async def"
            raise OptionError("task", function, "isn't a coroutine function", hint)
        return self._add_agent(Agent(function, None, function.__name__))

    def timer(self, interval: Seconds, *, name: str | None = None) -> TimerDecorator:
        """Decorate a function that runs at the multiples of an interval, by the wall clock.

        Each batch and each ``tick()`` runs the timers that are due. A timer that was missed, also
        while the app was down, runs once. It reads all tables, and sends to topics and agents,
        which is committed with the batch. It can't write tables, and an exception ends the run.
        Timers run in this process only.

        Args:
            interval: The interval in seconds, a ``timedelta`` or ``"10 minutes"``.
            name: The name under which a store remembers its last run; the function's by default.

        Example:
            >>> app = App("shop")
            >>> views = app.Table("views", default=int)
            >>> @app.timer("10 seconds")
            ... async def report():
            ...     await app.topic("reports").send(value=len(views))
        """
        return make_timer_decorator(
            self.timers, schedule_multiples(parse_seconds("interval", interval, zero=False)), name
        )

    def crontab(
        self, expression: str, *, timezone: Any = "UTC", name: str | None = None
    ) -> TimerDecorator:
        """Decorate a function that runs at calendar times: ``@app.crontab("0 9 * * mon-fri")``.

        Args:
            expression: Minute, hour, day of the month, month, weekday: numbers, ``*``, lists,
                ranges and steps; months and weekdays also by their first three letters.
            timezone: The time zone of the expression.
            name: The name under which a store remembers when it last ran, as in ``timer``.
        """
        return make_timer_decorator(self.timers, Crontab.parse(expression, timezone).next_due, name)

    def _add_agent(self, agent: Agent) -> Agent:
        if agent.name in self.agents:
            hint = "give it another: @app.agent(topic, name=...)"
            raise OptionError("name", agent.name, "is the name of another agent", hint)
        self.agents[agent.name] = agent
        return agent

    @property
    def limits(self) -> Limits:
        """The bounds of an event's time, relative to the wall clock."""
        return MAX_AHEAD.limit(self.max_ahead)

    def get_rules(self) -> Rules:
        """Return the definitions and options that all partitions share."""
        lateness = {topic.name: topic.lateness for topic in self.topics.values()}
        return Rules(
            dict(self.tables), lateness, self.limits, self.clocks, self.idle,
            self.follows_wall_clock,
        )  # fmt: skip

    def open(
        self,
        *,
        store: KeyValue | None = None,
        partitions: int = 1,
        clock: Callable[[], float] = time.time,
    ) -> Running:
        """Start the app in this process; pass it messages with ``send`` and ``feed``.

        Args:
            store: Where to keep tables, source offsets and rejected events between runs:
                ``muntin.stores.rocks(folder)``, or ``memory(image)``. Without a store they are lost
                when the app is closed.
            partitions: The number of partitions; a store can only be opened with the number it has.
            clock: The wall clock, in seconds since the epoch.

        Returns:
            The running app, a context manager.

        Raises:
            SpecChangedError: When the store was written with other definitions of the tables.
        """
        from muntin.tables.running import Running

        return Running(self, store, partitions, clock)

    def run(
        self,
        sources: Memory | Mapping[str, Any] | None = None,
        *,
        store: KeyValue | None = None,
        partitions: int = 1,
        batch: int = 1000,
        clock: Callable[[], float] = time.time,
    ) -> Running:
        """Process everything that the sources have.

        Args:
            sources: Topics in memory, or data by topic: each a ``muntin.source``, or data for one.
            store: Where to keep the state, as in ``open``; messages of earlier runs are skipped.
            partitions: The number of partitions, as in ``open``.
            batch: Messages of a topic that are committed together.
            clock: The wall clock, as in ``open``.

        Returns:
            The app, still open, so that its tables can be read. Close it, or use it in a ``with``.
        """
        running = self.open(store=store, partitions=partitions, clock=clock)
        try:
            chosen = sources if sources is not None else self.source
            if chosen is not None:
                running.feed(chosen, batch=batch)
        except BaseException:
            running.close()
            raise
        return running

    def read_wall_clock(self) -> int:
        """Return the wall clock in microseconds since the epoch."""
        if self.running is not None:
            return self.running.read_wall_clock()
        return time.time_ns() // 1000

    def require_running(self, table: str) -> Running:
        """Return the open app, from which a table is read.

        Raises:
            OutsideStreamError: When the app isn't open in this process.
        """
        if self.running is None:
            raise OutsideStreamError(
                f"table {table!r} is read, and its app isn't open here; "
                "read it in an agent, or use app.open() or app.run()"
            )
        return self.running


def _check_default(default: Any) -> Callable[[], Any] | None:
    if default is not None and not callable(default):
        hint = "give a function that makes the value, for example default=int"
        raise OptionError("default", default, "can't be called", hint)
    return default
