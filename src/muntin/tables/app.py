"""Apps: tables, topics and the agents that work on them, whatever runs them.

Source: Faust. The same app runs in this process (``run``, ``open``) and in Spark's state
(``muntin.on_spark``).
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from muntin.model.axis import Duration, micros
from muntin.model.errors import OptionError, OutsideStreamError
from muntin.tables.agent import Agent, AgentSink
from muntin.tables.clocks import FieldClock, same
from muntin.tables.crontab import Crontab
from muntin.tables.current import current
from muntin.tables.moments import Seconds, length
from muntin.tables.partition import Rules
from muntin.tables.record import Keying, keying
from muntin.tables.sources import Memory
from muntin.tables.spec import TableSpec, WindowClose
from muntin.tables.table import SetTable, Table
from muntin.tables.timers import Timed, Timer, adding, multiples
from muntin.tables.topic import Topic, checked

if TYPE_CHECKING:
    from muntin.stores import KeyValue
    from muntin.tables.running import Running

Errors = Literal["raise", "reject"]


class App:
    """A set of tables and of agents that write them.

    Args:
        name: The app's name.
        source: Topics in memory (``muntin.memory()``), or data by topic, for runs that are given
            none.
        lateness: How far a topic's watermark trails its greatest time. Windows are closed, and
            late events rejected, by watermarks; see ``expires`` of ``Table.tumbling``.
        max_ahead: How far ahead of the wall clock a time may be; what is further is rejected as
            ``future`` and moves no watermark. ``None`` takes anything.
        idle: From how long a rest on, by the wall clock, a table doesn't wait any longer for one
            of several clocks that write it (topics, and times in values); ``None`` waits for all.
        errors: What an exception in an agent does: ``raise`` ends the run, and nothing of the batch
            is committed; ``reject`` hands the event back and goes on with the next one.

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

    def __init__(
        self,
        name: str,
        *,
        source: Memory | Mapping[str, Any] | None = None,
        lateness: Duration = "0 seconds",
        max_ahead: Duration | None = "15 minutes",
        idle: Duration | None = "10 minutes",
        errors: Errors = "raise",
    ) -> None:
        self.name = checked(name, "app")
        self.source = source
        self.tables: dict[str, TableSpec] = {}
        self.topics: dict[str, Topic] = {}
        self.agents: dict[str, Agent] = {}
        self.timers: dict[str, Timer] = {}
        self.lateness = micros("lateness", lateness)
        self.max_ahead = None if max_ahead is None else micros("max_ahead", max_ahead)
        self.idle = None if idle is None else micros("idle", idle)
        if errors not in ("raise", "reject"):
            raise OptionError("errors", errors, "isn't known", 'give "raise" or "reject"')
        self.errors = errors
        self.clocked = False
        self.clocks: list[FieldClock] = []
        self.running: Running | None = None

    def __getstate__(self) -> dict[str, Any]:
        # What is sent to another process is the app, not where it runs here.
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
        """A stream of values of one type.

        Args:
            name: Its name; the same one again is the same topic.
            value_type: A dataclass, a pydantic model, a ``muntin.Record`` or any other annotation.
                What isn't of it is rejected as ``malformed``, with what is wrong.
            key_type: The same for keys.
            lateness: How far its watermark trails; the app's where it isn't given.

        Raises:
            OptionError: When the name is used for another type of values.
        """
        behind = self.lateness if lateness is None else micros("lateness", lateness)
        made = Topic(checked(name, "topic"), value_type, key_type, behind)
        known = self.topics.setdefault(name, made)
        if known != made and made != Topic(name, None, None, self.lateness):
            raise OptionError("topic", name, "is there with other options", "define it once")
        return known

    def GlobalTable(self, name: str, **options: Any) -> Table:  # noqa: N802
        """A table of which the agents of every partition read every key; in this process only.

        What another partition has is read as it is at that moment, in no promised order, and as a
        copy. A key is written in its own partition, as that of any table.

        Args:
            name: Its name.
            options: As of ``Table``.
        """
        self.define(replace(self.Table(name, **options).spec, everywhere=True))
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
        """A table.

        Args:
            name: Its name.
            default: Makes the value of a key that has none: ``int``, ``list``, a function.
            value_type: A dataclass or pydantic model that the values are; values of Python's own
                types need none. On Spark it also says which column they get: ``float``.
            key_type: Which column keys get on Spark: ``int``; text where it isn't given.
            on_window_close: Called with ``(key, window)`` and value when a window has expired, once
                each, also after a restart; a function or a coroutine function. What it writes to
                tables is committed with the closing, anything else may be repeated after a crash.
        """
        spec = TableSpec(
            self._new(name),
            default=_maker(default),
            value_type=value_type,
            key_type=key_type,
            on_window_close=on_window_close,
        )
        self.tables[name] = spec
        return Table(self, name)

    def SetTable(  # noqa: N802
        self, name: str, *, on_window_close: WindowClose | None = None
    ) -> SetTable:
        """A table of sets, changed by ``add`` and ``discard``.

        Args:
            name: Its name.
            on_window_close: As of ``Table``.
        """
        self.tables[self._new(name)] = TableSpec(
            name, default=set, sets=True, on_window_close=on_window_close
        )
        return SetTable(self, name)

    def _new(self, name: str) -> str:
        if checked(name, "table") in self.tables:
            raise OptionError("table", name, "is there already", "give each table its own name")
        return name

    def define(self, spec: TableSpec) -> None:
        """Say more of a table that is there."""
        self.tables[spec.name] = spec

    def clock(self, table: str, by: Keying) -> FieldClock:
        """The clock of a time in values that a table goes by; the same for the same time.

        Raises:
            OptionError: When an agent asks for a new one at an event: those before weren't looked
                at.
        """
        for known in self.clocks:
            mine = known.name.startswith(f"{table} by ") and known.by.field == by.field
            if mine and same(known.by.function, by.function):
                return known
        if current() is not None:
            hint = f"write other = {table}.relative_to_field(...) outside of the loop over events"
            given = by.field or by.name
            raise OptionError("relative_to_field", given, "is first made at an event", hint)
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
        """Let a function work through a topic.

        Args:
            topic: The topic; one of the agent's own where it isn't given.
            name: The agent's name; the function's where it isn't given.
            sink: Where results go that the function yields (or returns, if it is a plain one):
                functions of a value, topics or their names, agents.
            group_by: What a plain function's events are partitioned by, where it isn't the
                topic's key; agents that are given the stream write ``stream.group_by``.
            result_type: What results are, so that they get columns on Spark.
        """

        def made(function: Callable[..., Any]) -> Agent:
            known = name or str(getattr(function, "__name__", "agent"))
            reads = self.topic(topic or known) if not isinstance(topic, Topic) else topic
            by = None if group_by is None else keying("group_by", group_by)
            sinks = [self.topic(one) if isinstance(one, str) else one for one in sink]
            return self._add(Agent(function, reads, known, sinks, result_type, by))

        return made

    def task(self, function: Callable[..., Any]) -> Agent:
        """Let a coroutine function run that opens its stream by itself: ``topic.stream()``."""
        if not inspect.iscoroutinefunction(function):
            hint = "write async def"
            raise OptionError("task", function, "isn't a coroutine function", hint)
        return self._add(Agent(function, None, function.__name__))

    def timer(self, interval: Seconds, *, name: str | None = None) -> Timed:
        """Let a function run by the wall clock: at the multiples of an interval.

        Every batch and every ``tick()`` looks whether it is due; what was missed in between, or
        while the app was down, it makes up for by running once. It reads all tables as from
        outside, and sends to topics and agents, which is committed with the batch. Writing a table
        there is an error, and an exception ends the run. In this process only.

        Args:
            interval: Seconds, a ``timedelta`` or ``"10 minutes"``.
            name: The name by which a store knows when it last ran; the function's where it isn't
                given.

        Example:
            >>> app = App("shop")
            >>> views = app.Table("views", default=int)
            >>> @app.timer("10 seconds")
            ... async def report():
            ...     await app.topic("reports").send(value=len(views))
        """
        return adding(self.timers, multiples(length("interval", interval, zero=False)), name)

    def crontab(self, expression: str, *, timezone: Any = "UTC", name: str | None = None) -> Timed:
        """The same at times of the calendar: ``@app.crontab("0 9 * * mon-fri")``.

        Args:
            expression: Minute, hour, day of the month, month, weekday: numbers, ``*``, lists,
                ranges and steps; months and weekdays also by the first three letters.
            timezone: Whose clocks it means.
            name: As of ``timer``.
        """
        return adding(self.timers, Crontab.parse(expression, timezone).after, name)

    def _add(self, agent: Agent) -> Agent:
        if agent.name in self.agents:
            hint = "give it another: @app.agent(topic, name=...)"
            raise OptionError("name", agent.name, "is the name of another agent", hint)
        self.agents[agent.name] = agent
        return agent

    def rules(self) -> Rules:
        """What holds for all partitions."""
        lateness = {topic.name: topic.lateness for topic in self.topics.values()}
        return Rules(dict(self.tables), lateness, self.max_ahead, self.clocks, self.idle)

    def open(
        self,
        *,
        store: KeyValue | None = None,
        partitions: int = 1,
        clock: Callable[[], float] = time.time,
    ) -> Running:
        """Start the app in this process, and hand it messages with ``send`` and ``feed``.

        Args:
            store: Where tables, the offsets of sources and rejected events are kept between runs:
                ``muntin.stores.rocks(folder)``, or ``memory(image)``. Without one they are
                forgotten at the end.
            partitions: In how many partitions tables are kept; it belongs to the store.
            clock: The wall clock, in seconds since the epoch.

        Returns:
            The running app, to be used in a ``with``.

        Raises:
            SpecChangedError: When the store was written by other tables.
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
        """Work through all that the sources have.

        Args:
            sources: Data by topic, each what ``muntin.source`` gives or takes; or topics in memory.
            store: As of ``open``; what it has worked through already is left out.
            partitions: As of ``open``.
            batch: How many messages are committed together.
            clock: As of ``open``.

        Returns:
            The app, still open, so that its tables can be read; close it, or use it in a ``with``.
        """
        running = self.open(store=store, partitions=partitions, clock=clock)
        try:
            given = sources if sources is not None else self.source
            if given is not None:
                running.feed(given, batch=batch)
        except BaseException:
            running.close()
            raise
        return running

    def wall(self) -> int:
        """The wall clock, microseconds."""
        if self.running is not None:
            return self.running.wall()
        return time.time_ns() // 1000

    def opened(self, table: str) -> Running:
        """The app as it runs here, in which a table is read.

        Raises:
            OutsideStreamError: When it doesn't.
        """
        if self.running is None:
            raise OutsideStreamError(
                f"table {table!r} is read, and its app isn't open here; "
                "read it in an agent, or use app.open() or app.run()"
            )
        return self.running


def _maker(default: Any) -> Callable[[], Any] | None:
    if default is not None and not callable(default):
        hint = "give a function that makes the value, for example default=int"
        raise OptionError("default", default, "can't be called", hint)
    return default
