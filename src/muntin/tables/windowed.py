"""Tables of windows as agents use them.

``table[key]`` stands for all windows of a key. Writing goes to every window that holds the event's
time; reading has to say which window is meant: ``now()``, ``current()``, ``value()``, ``delta()``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from muntin.model.errors import OptionError
from muntin.model.windows import Windows
from muntin.tables.cells import GONE, MISSING
from muntin.tables.clocks import WALL_CLOCK, FieldClock, Relative, Visibility
from muntin.tables.current import CURRENT, Event, current, current_cursor, time_of
from muntin.tables.moments import Seconds, length, moment
from muntin.tables.record import keying
from muntin.tables.session_shard import SessionTableShard
from muntin.tables.set_shard import SetShard
from muntin.tables.shard import Operation
from muntin.tables.spec import WindowRange, window_range
from muntin.tables.table import Handle
from muntin.tables.views import View
from muntin.tables.window_shard import WindowTableShard

if TYPE_CHECKING:
    from muntin.tables.app import App

GridOrSessions = WindowTableShard | SessionTableShard


class WindowedTable(Handle[GridOrSessions]):
    """A table with a value per window; made by ``tumbling``, ``hopping`` or ``session``.

    Args:
        app: The app.
        name: The table's name.
        relative: What its times are: the events' own (``None``), the wall clock, or a field.
    """

    kind = GridOrSessions

    def __init__(self, app: App, name: str, relative: Relative = None) -> None:
        super().__init__(app, name)
        self.relative = relative

    def relative_to_now(self) -> WindowedTable:
        """The same table, by the wall clock: of the machine, or of the batch on Spark."""
        self.app.clocked = True
        return WindowedTable(self.app, self.name, WALL_CLOCK)

    def relative_to_stream(self) -> WindowedTable:
        """The same table, by the times of events; so it is from the beginning."""
        return WindowedTable(self.app, self.name)

    def relative_to_field(self, field: Any) -> WindowedTable:
        """The same table, by a time in the value.

        Args:
            field: The field, its name, or a function of the value; it gives seconds, a
                ``datetime`` or ISO 8601. An event without one is rejected.

        Raises:
            OptionError: When an agent asks for it first at an event.
        """
        by = keying("relative_to_field", field)
        return WindowedTable(self.app, self.name, self.app.clock(self.name, by))

    def __getitem__(self, key: Any) -> WindowSet:
        """The windows of a key."""
        return WindowSet(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set the value of every window that holds the event's time."""
        # After `table[key] += x` Python stores what came back: it has been written already.
        if type(value) is not WindowSet:
            cursor, shard = self.at_work()
            shard.write(key, value, cursor, self.relative)

    def __delitem__(self, key: Any) -> None:
        """Delete the key from every window that holds the event's time.

        Raises:
            KeyError: When none of them has it.
        """
        self[key] = GONE

    def __contains__(self, key: Any) -> bool:
        return self[key].found(self.time()) is not MISSING

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all_keys())

    def __len__(self) -> int:
        return len(self._all_keys())

    def _all_keys(self) -> list[Any]:
        if not self.spec.key_index:
            hint = "define it with key_index=True, or ask for one window: table.keys().now()"
            raise OptionError("key_index", False, f"doesn't let {self.name!r} be walked", hint)
        shards = self.shards()
        found = (key for shard in shards for key in shard.keys(shard.visibility(self.relative)))
        return list(dict.fromkeys(found))

    def keys(self, event: Any = None) -> View:
        """The keys of a window: ``keys()`` itself, ``.now()``, ``.current()``, ``.delta(d)``.

        Args:
            event: Of which event, or at what time; what the agent is at, where it isn't given.
        """
        return View(self, event, lambda key, _: key, borrows=False)

    def values(self, event: Any = None) -> View:
        """The values of a window, likewise."""
        return View(self, event, lambda _, value: value)

    def items(self, event: Any = None) -> View:
        """Keys and values of a window, likewise."""
        return View(self, event, lambda key, value: (key, value))

    def ranges(self, event: Any = None) -> list[WindowRange]:
        """The windows that hold the time that the table goes by, oldest first.

        Raises:
            OptionError: Of a table of sessions, which each key has its own of.
        """
        windows = self.spec.windows
        if not isinstance(windows, Windows):
            hint = f"write {self.name}[key].windows()"
            raise OptionError("table", self.name, "has sessions, which keys differ in", hint)
        pane = windows.pane_of(self.time(event))
        found = range(windows.first_window(pane), windows.last_window(pane) + 1)
        return [window_range(windows.start(number), windows.end(number)) for number in found]

    def time(self, event: Any = None) -> int:
        """The time that the table goes by, of an event or of the one that the agent is at.

        Raises:
            OutsideStreamError: Outside of an agent, without an event, unless it is the wall clock.
        """
        if self.relative == WALL_CLOCK:
            cursor = current()
            at_work = None if cursor is None else cursor.part
            return self.app.wall() if at_work is None else at_work.wall
        meant = self._event(event)
        if self.relative is None or meant.value is None:
            return meant.time
        assert isinstance(self.relative, FieldClock)
        return moment(self.relative.by.of(meant.value))

    def event_time(self, event: Any = None) -> int:
        """The event's own time, whatever the table goes by."""
        return self._event(event).time

    def _event(self, event: Any) -> Event:
        if isinstance(event, Event):
            return event
        cursor = current()
        if cursor is None and event is not None:
            return Event(None, None, time_of(event), "", 0, -1)
        cursor = cursor or current_cursor(f"table {self.name!r} is read without an event")
        return cursor.event() if event is None else cursor.meant(event)

    def now_time(self, shard: GridOrSessions) -> int | None:
        """Where ``now()`` looks; ``None`` where nothing was written yet.

        In an agent it is the newest time written in the partition; outside, the wall clock.
        """
        return self.app.wall() if current() is None else shard.newest


class WindowSet:
    """All windows of one key.

    ``+=`` and its like are applied to every window that holds the event's time.
    """

    __slots__ = ("key", "table")

    def __init__(self, table: WindowedTable, key: Any) -> None:
        self.table = table
        self.key = key

    def apply(self, operation: Operation, operand: Any) -> WindowSet:
        """Set ``value = operation(value, operand)`` in every window that holds the event's time.

        Raises:
            PartitionError: When the key belongs to another partition than the event.
            OutsideStreamError: Outside of an agent.
        """
        cursor = CURRENT.get()
        if cursor is None or cursor.part is None:
            cursor = current_cursor(f"table {self.table.name!r} is written")
        table = self.table
        shard: Any = cursor.part.shards[table.name]  # type: ignore[union-attr]
        shard.apply(operation, self.key, operand, cursor, table.relative)
        return self

    def __iadd__(self, operand: Any) -> WindowSet:
        """``operator.add`` in every window of the event's time."""
        # As ``apply``, without the call: this is what most agents do with each event.
        cursor = CURRENT.get()
        if cursor is None or cursor.part is None:
            return self.apply(operator.add, operand)
        table = self.table
        shard: Any = cursor.part.shards[table.name]
        shard.apply(operator.add, self.key, operand, cursor, table.relative)
        return self

    def now(self) -> Any:
        """The value of the newest window that was written in the partition, by any key.

        Outside of agents: of the oldest window that holds the wall clock.
        """
        shard, _ = self._shard()
        time = self.table.now_time(shard)
        if time is None:
            return shard.default(self.key)
        return self._read(time, oldest=True)

    def current(self, event: Any = None) -> Any:
        """The value of the newest window that holds the event's own time.

        Args:
            event: An event, its value, or a time; what the agent is at, where it isn't given.
        """
        return self._read(self.table.event_time(event))

    def value(self, event: Any = None) -> Any:
        """The same, at the time that the table goes by (see ``relative_to_field``)."""
        return self._read(self.table.time(event))

    def earliest(self, event: Any = None) -> Any:
        """The value of the oldest window that holds the time that the table goes by."""
        return self._read(self.table.time(event), oldest=True)

    def delta(self, before: Seconds, event: Any = None) -> Any:
        """The value as it was some time before: of the newest window that held that time.

        Args:
            before: How long before.
            event: As of ``current``.
        """
        return self._read(self.table.time(event) - length("delta", before))

    def windows(self) -> dict[WindowRange, Any]:
        """All windows of the key that are kept, oldest first."""
        shard, visibility = self._shard()
        found = shard.windows_of(self.key, visibility)
        return {window_range(*window): value for window, value in found.items()}

    def found(self, time: int) -> Any:
        """The value at a time; ``MISSING`` where there is none."""
        shard, visibility = self._shard()
        return shard.stored(self.key, time, visibility)

    def _read(self, time: int, *, oldest: bool = False) -> Any:
        shard, visibility = self._shard()
        return shard.read(self.key, time, visibility, oldest=oldest)

    def _shard(self) -> tuple[GridOrSessions, Visibility]:
        """The table where the key is read, and what is seen of it."""
        shard = self.table.shard(self.key)
        return shard, shard.visibility(self.table.relative)

    def __getitem__(self, which: Any) -> Any:
        """The value at an event or a time, or of a ``WindowRange`` as ``windows()`` gives it.

        Raises:
            KeyError: When there is no such window.
        """
        if not isinstance(which, WindowRange):
            return self.value(which)
        return self.windows()[which]

    def add(self, member: Any) -> None:
        """Add a member to the set of every window that holds the event's time."""
        self._change((member,), ())

    def discard(self, member: Any) -> None:
        """Take a member away from those sets."""
        self._change((), (member,))

    def _change(self, add: Any, discard: Any) -> None:
        cursor, shard = self.table.at_work()
        if not isinstance(shard, SetShard):
            hint = "make it with app.SetTable(), or write table[key] |= {member}"
            raise OptionError("table", self.table.name, "isn't a table of sets", hint)
        shard.change(self.key, add, discard, cursor, self.table.relative)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, WindowSet):
            return (self.table, self.key) == (other.table, other.key)
        _unsaid("{} == x")(self)

    def __hash__(self) -> int:
        return hash((self.table, self.key))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in self.__slots__:
            raise AttributeError(name)
        problem = f"table {self.table.name!r} has many windows, and none of its keys has .{name}"
        raise AttributeError(f"{problem}; write {self.table.name}[key].current().{name}")

    def __repr__(self) -> str:
        return f"<windows of {self.table.name}[{self.key!r}]>"


def _unsaid(asked: str) -> Callable[..., NoReturn]:
    """What asks all windows of a key at once for one value.

    Args:
        asked: How it is written, with the key's windows as ``{}``.
    """

    def refuse(self: WindowSet, *_: Any) -> NoReturn:
        name = self.table.name
        shown = asked.format(f"{name}[key]")
        problem = f"has many windows, and `{shown}` doesn't say which is meant"
        hint = f"write {asked.format(f'{name}[key].current()')}, or .now(), .value(), .delta()"
        raise OptionError("table", name, problem, hint)

    refuse.__doc__ = f"Which window is meant by ``{asked.format('table[key]')}`` has to be said."
    return refuse


def _in_place(operation: Operation) -> Callable[[WindowSet, Any], WindowSet]:
    def apply(self: WindowSet, operand: Any) -> WindowSet:
        return self.apply(operation, operand)

    apply.__doc__ = f"``operator.{operation.__name__}`` in every window of the event's time."
    return apply


_SIGNS = {
    "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "lshift": "<<", "rshift": ">>", "and_": "&", "xor": "^", "or_": "|",
}  # fmt: skip
for _name in _SIGNS:
    _plain = _name.rstrip("_")
    setattr(WindowSet, f"__i{_plain}__", _in_place(getattr(operator, f"__{_plain}__")))
    setattr(WindowSet, f"__{_plain}__", _unsaid(f"{{}} {_SIGNS[_name]} x"))
    setattr(WindowSet, f"__r{_plain}__", _unsaid(f"x {_SIGNS[_name]} {{}}"))

# Without these Python would compare by identity, take any key for true, or ask for [0], [1] and so
# on, which are times here and never end.
for _name, _asked in {
    "add": "{} + x", "radd": "x + {}", "lt": "{} < x", "le": "{} <= x", "gt": "{} > x",
    "ge": "{} >= x", "neg": "-{}", "pos": "+{}", "abs": "abs({})", "round": "round({})",
    "int": "int({})", "float": "float({})", "index": "x[{}]", "bool": "bool({})",
    "len": "len({})", "iter": "for x in {}", "contains": "x in {}", "reversed": "reversed({})",
}.items():  # fmt: skip
    setattr(WindowSet, f"__{_name}__", _unsaid(_asked))
