"""Tables of windows as agents use them.

``table[key]`` stands for all windows of a key. A write goes to every window that contains the
event's time. A read has to name the window: ``now()``, ``current()``, ``value()``, ``delta()``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from muntin.model.errors import OptionError
from muntin.tables.cells import GONE, MISSING
from muntin.tables.clocks import WALL_CLOCK, FieldClock, Relative, Visibility
from muntin.tables.current import CURRENT, Event, event_time, find_cursor, require_cursor
from muntin.tables.handle import Handle
from muntin.tables.record import parse_keying
from muntin.tables.session_shard import SessionTableShard
from muntin.tables.shard import Operation
from muntin.tables.spec import WindowRange, to_window_range
from muntin.tables.time_values import Seconds, parse_point_in_time, parse_seconds
from muntin.tables.window_shard import WindowTableShard

if TYPE_CHECKING:
    from muntin.tables.app import App

WindowedTableShard = WindowTableShard | SessionTableShard


class WindowedTable(Handle[WindowedTableShard]):
    """A table with a value per window, created by ``tumbling``, ``hopping`` or ``session``.

    Args:
        app: The app.
        name: The table's name.
        relative: The clock of the table: the events' own times (``None``), the wall clock, or a
            field.
    """

    kind = WindowedTableShard

    def __init__(self, app: App, name: str, relative: Relative = None) -> None:
        super().__init__(app, name)
        self.relative = relative

    def relative_to_now(self) -> WindowedTable:
        """Return this table with the wall clock: of the machine, or of the batch on Spark."""
        self.app.clocked = True
        return WindowedTable(self.app, self.name, WALL_CLOCK)

    def relative_to_stream(self) -> WindowedTable:
        """Return this table with the times of events, its default clock."""
        return WindowedTable(self.app, self.name)

    def relative_to_field(self, field: Any) -> WindowedTable:
        """Return this table with a time in the values as its clock.

        Args:
            field: The field, its name, or a function of the value, with seconds, a ``datetime`` or
                ISO 8601. An event without a time is rejected.

        Raises:
            OptionError: When an agent asks for this clock for the first time at an event.
        """
        by = parse_keying("relative_to_field", field)
        return WindowedTable(self.app, self.name, self.app.find_clock(self.name, by))

    def __getitem__(self, key: Any) -> WindowSet:
        """Return the windows of a key."""
        return WindowSet(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set the value of every window that contains the event's time."""
        # After `table[key] += x` Python assigns the result, which has been written already.
        if type(value) is not WindowSet:
            cursor, shard = self.require_own_shard()
            shard.write(key, value, cursor, self.relative)

    def __delitem__(self, key: Any) -> None:
        """Delete the key from every window that contains the event's time.

        Raises:
            KeyError: When none of them has the key.
        """
        self[key] = GONE

    def __contains__(self, key: Any) -> bool:
        return self[key].get_stored(self.time()) is not MISSING

    def __iter__(self) -> Iterator[Any]:
        return iter(self._list_keys())

    def __len__(self) -> int:
        return len(self._list_keys())

    def _list_keys(self) -> list[Any]:
        if not self.spec.key_index:
            hint = "define it with key_index=True, or ask for one window: table.keys().now()"
            raise OptionError("key_index", False, f"doesn't let {self.name!r} be walked", hint)
        shards = self.get_shards()
        keys = (
            key for shard in shards for key in shard.list_keys(shard.find_visibility(self.relative))
        )
        return list(dict.fromkeys(keys))

    def keys(self, event: Any = None) -> View:
        """Return the keys of a window: iterate, or use ``.now()``, ``.current()``, ``.delta()``.

        Args:
            event: An event, its value, or a time; the event being processed by default.
        """
        return View(self, event, lambda key, _: key, borrows=False)

    def values(self, event: Any = None) -> View:
        """Return the values of a window; iterate, or choose the window as in ``keys``.

        Args:
            event: An event, its value, or a time; the event being processed by default.
        """
        return View(self, event, lambda _, value: value)

    def items(self, event: Any = None) -> View:
        """Return keys and values of a window; iterate, or choose the window as in ``keys``.

        Args:
            event: An event, its value, or a time; the event being processed by default.
        """
        return View(self, event, lambda key, value: (key, value))

    def ranges(self, event: Any = None) -> list[WindowRange]:
        """Return the windows that contain the time of the table's clock, oldest first.

        Raises:
            OptionError: For a table of sessions, which differ by key.
        """
        windows = self.spec.windows
        if windows is None or not windows.is_numbered:
            hint = f"write {self.name}[key].windows()"
            raise OptionError("table", self.name, "has sessions, which keys differ in", hint)
        numbers = windows.windows_at(self.time(event))
        return [to_window_range(windows.start(number), windows.end(number)) for number in numbers]

    def time(self, event: Any = None) -> int:
        """Return the time of the table's clock: of an event, or of the event being processed.

        Raises:
            OutsideStreamError: Outside of an agent, without an event, unless the clock is the wall
                clock.
        """
        if self.relative == WALL_CLOCK:
            cursor = find_cursor()
            partition = None if cursor is None else cursor.part
            return self.app.read_wall_clock() if partition is None else partition.wall
        resolved = self._resolve_event(event)
        if self.relative is None or resolved.value is None:
            return resolved.time
        assert isinstance(self.relative, FieldClock)
        return parse_point_in_time(self.relative.by.get_key(resolved.value))

    def event_time(self, event: Any = None) -> int:
        """Return the event's own time, whatever the table's clock is."""
        return self._resolve_event(event).time

    def _resolve_event(self, event: Any) -> Event:
        if isinstance(event, Event):
            return event
        cursor = find_cursor()
        if cursor is None and event is not None:
            return Event(None, None, event_time(event), "", 0, -1)
        cursor = cursor or require_cursor(f"table {self.name!r} is read without an event")
        return cursor.event() if event is None else cursor.resolve_event(event)

    def now_time(self, shard: WindowedTableShard) -> int | None:
        """Return the time at which ``now()`` reads; ``None`` if nothing was written yet.

        In an agent it is the newest time written in the partition; outside, the wall clock.
        """
        return self.app.read_wall_clock() if find_cursor() is None else shard.newest


class View:
    """A view of one window, with the keys that have a value in it.

    In an agent it shows the current partition; outside of agents, all partitions.

    Args:
        table: The table.
        event: The event, its value, or a time; ``None`` for the event being processed.
        pick: Selects what to show of a key and its value.
        borrows: True if values are shown, which the agent may change in place.
    """

    def __init__(
        self,
        table: WindowedTable,
        event: Any,
        pick: Callable[[Any, Any], Any],
        *,
        borrows: bool = True,
    ) -> None:
        self._table = table
        self._event = event
        self._pick = pick
        self._borrows = borrows

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the window at the time of the table's clock."""
        return self._iterate_all(self._table.time(self._event))

    def now(self) -> Iterator[Any]:
        """Iterate over the window that ``table[key].now()`` reads."""
        for shard in self._table.get_shards():
            time = self._table.now_time(shard)
            if time is not None:
                yield from self._iterate_shard(shard, time, oldest=True)

    def current(self, event: Any = None) -> Iterator[Any]:
        """Iterate over the newest window that contains the event's own time."""
        return self._iterate_all(self._table.event_time(self._resolve_event(event)))

    def delta(self, before: Seconds, event: Any = None) -> Iterator[Any]:
        """Iterate over the window that ``table[key].delta(before, event)`` reads."""
        return self._iterate_all(
            self._table.time(self._resolve_event(event)) - parse_seconds("delta", before)
        )

    def _resolve_event(self, event: Any) -> Any:
        return self._event if event is None else event

    def _iterate_all(self, time: int) -> Iterator[Any]:
        for shard in self._table.get_shards():
            yield from self._iterate_shard(shard, time)

    def _iterate_shard(
        self, shard: WindowedTableShard, time: int, *, oldest: bool = False
    ) -> Iterator[Any]:
        visibility = shard.find_visibility(self._table.relative)
        values = shard.read_all(time, visibility, oldest=oldest, borrows=self._borrows)
        return (self._pick(key, value) for key, value in values.items())


class WindowSet:
    """All windows of one key.

    ``+=`` and the other in-place operators change every window that contains the event's time.
    """

    __slots__ = ("key", "table")

    def __init__(self, table: WindowedTable, key: Any) -> None:
        self.table = table
        self.key = key

    def apply(self, operation: Operation, operand: Any) -> WindowSet:
        """Set ``value = operation(value, operand)`` in every window that contains the event's time.

        Raises:
            PartitionError: When the key belongs to another partition than the event.
            OutsideStreamError: Outside of an agent.
        """
        cursor = CURRENT.get()
        if cursor is None or cursor.part is None:
            cursor = require_cursor(f"table {self.table.name!r} is written")
        table = self.table
        shard: Any = cursor.part.shards[table.name]  # type: ignore[union-attr]
        shard.apply(operation, self.key, operand, cursor, table.relative)
        return self

    def __iadd__(self, operand: Any) -> WindowSet:
        """Add to the value of every window that contains the event's time."""
        # Inlined ``apply``, because most agents do this for each event.
        cursor = CURRENT.get()
        if cursor is None or cursor.part is None:
            return self.apply(operator.add, operand)
        table = self.table
        shard: Any = cursor.part.shards[table.name]
        shard.apply(operator.add, self.key, operand, cursor, table.relative)
        return self

    def now(self) -> Any:
        """Return the value of the newest window that was written in the partition, by any key.

        Outside of agents, it is that of the oldest window that contains the wall clock.
        """
        shard, _ = self._find_shard()
        time = self.table.now_time(shard)
        if time is None:
            return shard.create_default(self.key)
        return self._read(time, oldest=True)

    def current(self, event: Any = None) -> Any:
        """Return the value of the newest window that contains the event's own time.

        Args:
            event: An event, its value, or a time; the event being processed by default.
        """
        return self._read(self.table.event_time(event))

    def value(self, event: Any = None) -> Any:
        """Return the value of the newest window at the time of the table's clock.

        Args:
            event: An event, its value, or a time; the event being processed by default.
        """
        return self._read(self.table.time(event))

    def earliest(self, event: Any = None) -> Any:
        """Return the value of the oldest window at the time of the table's clock."""
        return self._read(self.table.time(event), oldest=True)

    def delta(self, before: Seconds, event: Any = None) -> Any:
        """Return the value of the newest window some time earlier, by the table's clock.

        Args:
            before: How much earlier, in seconds or as ``"10 minutes"``.
            event: An event, its value, or a time, as in ``current``.
        """
        return self._read(self.table.time(event) - parse_seconds("delta", before))

    def windows(self) -> dict[WindowRange, Any]:
        """Return the values of all windows of the key that are kept, oldest first."""
        shard, visibility = self._find_shard()
        values = shard.get_windows(self.key, visibility)
        return {to_window_range(*window): value for window, value in values.items()}

    def get_stored(self, time: int) -> Any:
        """Return the value at a time, or ``MISSING``."""
        shard, visibility = self._find_shard()
        return shard.get_stored_at(self.key, time, visibility)

    def _read(self, time: int, *, oldest: bool = False) -> Any:
        shard, visibility = self._find_shard()
        return shard.read(self.key, time, visibility, oldest=oldest)

    def _find_shard(self) -> tuple[WindowedTableShard, Visibility]:
        """Return the shard where the key is read, and the visible windows."""
        shard = self.table.get_shard(self.key)
        return shard, shard.find_visibility(self.table.relative)

    def __getitem__(self, which: Any) -> Any:
        """Return the value at an event or a time, or of a ``WindowRange`` from ``windows()``.

        Raises:
            KeyError: When there is no such window.
        """
        if not isinstance(which, WindowRange):
            return self.value(which)
        return self.windows()[which]

    def add(self, member: Any) -> None:
        """Add a member to the set of every window that contains the event's time."""
        self._change_members((member,), ())

    def discard(self, member: Any) -> None:
        """Remove a member from the set of every window that contains the event's time."""
        self._change_members((), (member,))

    def _change_members(self, add: Any, discard: Any) -> None:
        cursor, shard = self.table.require_own_shard()
        if not shard.spec.sets:
            hint = "make it with app.SetTable(), or write table[key] |= {member}"
            raise OptionError("table", self.table.name, "isn't a table of sets", hint)
        shard.change_members(self.key, add, discard, cursor, self.table.relative)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, WindowSet):
            return (self.table, self.key) == (other.table, other.key)
        _refuse_expression("{} == x")(self)

    def __hash__(self) -> int:
        return hash((self.table, self.key))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in self.__slots__:
            raise AttributeError(name)
        problem = f"table {self.table.name!r} has many windows, and none of its keys has .{name}"
        raise AttributeError(f"{problem}; write {self.table.name}[key].current().{name}")

    def __repr__(self) -> str:
        return f"<windows of {self.table.name}[{self.key!r}]>"


def _refuse_expression(expression: str) -> Callable[..., NoReturn]:
    """Create a method that refuses an expression on all windows of a key at once.

    Args:
        expression: The expression, with ``{}`` for the windows.
    """

    def refuse(self: WindowSet, *_: Any) -> NoReturn:
        name = self.table.name
        example = expression.format(f"{name}[key]")
        problem = f"has many windows, and `{example}` doesn't say which is meant"
        hint = f"write {expression.format(f'{name}[key].current()')}, or .now(), .value(), .delta()"
        raise OptionError("table", name, problem, hint)

    refuse.__doc__ = f"Refuse ``{expression.format('table[key]')}``, which doesn't name a window."
    return refuse


def _make_in_place(operation: Operation) -> Callable[[WindowSet, Any], WindowSet]:
    def apply(self: WindowSet, operand: Any) -> WindowSet:
        return self.apply(operation, operand)

    apply.__doc__ = f"Apply ``operator.{operation.__name__}`` in every window of the event's time."
    return apply


_SIGNS = {
    "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "lshift": "<<", "rshift": ">>", "and_": "&", "xor": "^", "or_": "|",
}  # fmt: skip
for _name in _SIGNS:
    _plain = _name.rstrip("_")
    setattr(WindowSet, f"__i{_plain}__", _make_in_place(getattr(operator, f"__{_plain}__")))
    setattr(WindowSet, f"__{_plain}__", _refuse_expression(f"{{}} {_SIGNS[_name]} x"))
    setattr(WindowSet, f"__r{_plain}__", _refuse_expression(f"x {_SIGNS[_name]} {{}}"))

# Without these Python would compare by identity, treat every key as true, or iterate with [0], [1]
# and so on, which are times here and never end.
for _name, _asked in {
    "add": "{} + x", "radd": "x + {}", "lt": "{} < x", "le": "{} <= x", "gt": "{} > x",
    "ge": "{} >= x", "neg": "-{}", "pos": "+{}", "abs": "abs({})", "round": "round({})",
    "int": "int({})", "float": "float({})", "index": "x[{}]", "bool": "bool({})",
    "len": "len({})", "iter": "for x in {}", "contains": "x in {}", "reversed": "reversed({})",
}.items():  # fmt: skip
    setattr(WindowSet, f"__{_name}__", _refuse_expression(_asked))
