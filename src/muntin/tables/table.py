"""Tables as agents use them: ``table[key] += 1``, and what makes windows of them.

A table is only a name for its entries. Those are in the partition of the event that the agent is
at, or, outside of agents, in the app that is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSet, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from muntin.model import sessions, windows
from muntin.model.axis import SECOND, phrase
from muntin.model.errors import OptionError
from muntin.model.sessions import Closed
from muntin.tables.cells import GONE, MISSING
from muntin.tables.copartition import belongs
from muntin.tables.current import EventCursor, current, current_cursor
from muntin.tables.moments import Seconds, expiry, length
from muntin.tables.plain_shard import PlainTableShard
from muntin.tables.set_shard import SetShard, SetTableShard
from muntin.tables.shard import TableShard
from muntin.tables.spec import TableSpec

if TYPE_CHECKING:
    from muntin.tables.app import App
    from muntin.tables.partition import Partition
    from muntin.tables.windowed import WindowedTable

_S = TypeVar("_S", bound=TableShard)


class Handle(Generic[_S]):
    """What every table that a user holds can do: find its entries.

    Args:
        app: The app that it belongs to.
        name: Its name.

    Attributes:
        kind: What the table is in a partition.
    """

    kind: Any

    def __init__(self, app: App, name: str) -> None:
        self.app = app
        self.name = name
        self._everywhere = self.spec.everywhere

    @property
    def spec(self) -> TableSpec:
        """What the table is."""
        return self.app.tables[self.name]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.spec}>"

    def shards(self) -> list[_S]:
        """The table in the partition at work; outside of agents, and if it is global, in all.

        Raises:
            OutsideStreamError: Where there is neither.
        """
        cursor = current()
        if cursor is not None and not self._everywhere:
            return [self._shard_of(cursor.part)]
        return [self._shard_of(part) for part in self.app.opened(self.name).parts]

    def shard(self, key: Any) -> _S:
        """The table where a key is read: in the partition at work, or wherever it is."""
        cursor = current()
        if cursor is not None:
            mine = self._shard_of(cursor.part)
            if not self._everywhere or (cursor.key is not None and belongs(key, cursor.key)):
                return mine
        there = self._shard_of(self.app.opened(self.name).partition_of(self.name, key))
        return there if cursor is None or there.holds(key) else mine

    def at_work(self) -> tuple[EventCursor, _S]:
        """Where the agent is, and the table in its partition, the only one that is written.

        Raises:
            OutsideStreamError: Outside of an agent.
        """
        cursor = current_cursor(f"table {self.name!r} is written")
        return cursor, self._shard_of(cursor.part)

    def _shard_of(self, part: Partition | None) -> _S:
        assert part is not None
        shard = part.shards[self.name]
        if not isinstance(shard, self.kind):
            problem = "has windows" if self.spec.windows is not None else "has no windows"
            hint = "use what .tumbling(), .hopping() or .session() returned"
            raise OptionError("table", self.name, problem, hint)
        return shard


class Table(Handle[PlainTableShard]):
    """A dictionary that is spread over partitions; made by ``app.Table``.

    Reading a key that has no value gives the default, and stores nothing. What is changed inside of
    a value that was read (``table[key].append(x)``) is kept as well; Faust would lose it.
    """

    kind = PlainTableShard

    def __getitem__(self, key: Any) -> Any:
        """The value of a key.

        Raises:
            KeyError: When there is none, and the table has no default.
        """
        return self.shard(key).read(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set a value.

        Raises:
            PartitionError: When the key belongs to another partition than the event.
            OutsideStreamError: Outside of an agent.
        """
        cursor = current_cursor(f"table {self.name!r} is written")
        self._shard_of(cursor.part).write(key, value, cursor)

    def __delitem__(self, key: Any) -> None:
        self[key] = GONE

    def __contains__(self, key: Any) -> bool:
        return self.shard(key).current_value(0, key) is not MISSING

    def __iter__(self) -> Iterator[Any]:
        return iter([key for shard in self.shards() for key in shard.all_keys()])

    def __len__(self) -> int:
        return sum(shard.count() for shard in self.shards())

    def keys(self) -> list[Any]:
        """The keys in the partition at work; outside of agents, all keys."""
        return list(self)

    def items(self) -> list[tuple[Any, Any]]:
        """Keys and values, likewise."""
        found = (shard.borrow_all(0, shard.values()) for shard in self.shards())
        return [item for values in found for item in values.items()]

    def values(self) -> list[Any]:
        """Values, likewise."""
        return [value for _, value in self.items()]

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key, or another; the table's own default doesn't count."""
        found = self.shard(key).current_value(0, key)
        return default if found is MISSING else self[key]

    def pop(self, key: Any, *default: Any) -> Any:
        """Take a value away and return it.

        Raises:
            KeyError: When there is none, and no default was given.
        """
        shard = self.shard(key)
        found = shard.current_value(0, key)
        if found is MISSING:
            if default:
                return default[0]
            raise KeyError(key)
        value = shard.borrow(0, key, found)
        del self[key]
        return value

    def setdefault(self, key: Any, default: Any) -> Any:
        """The value of a key, which is set first where there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, values: Mapping[Any, Any]) -> None:
        """Set several values."""
        for key, value in values.items():
            self[key] = value

    def tumbling(
        self,
        size: Seconds,
        expires: Seconds | None = None,
        *,
        key_index: bool = False,
    ) -> WindowedTable:
        """Keep a value per window; windows follow each other without overlap.

        Args:
            size: Length of a window.
            expires: How long after its end a window takes events and can be read; without end where
                it isn't given. It is measured by the table's watermark.
            key_index: Whether all keys may be walked (``len(table)``, ``for key in table``).
        """
        return self.hopping(size, size, expires, key_index=key_index)

    def hopping(
        self,
        size: Seconds,
        step: Seconds,
        expires: Seconds | None = None,
        *,
        key_index: bool = False,
    ) -> WindowedTable:
        """Keep a value per window; windows overlap, and an event counts in all that hold its time.

        As in Faust, windows end at multiples of the step, so that those of ``hopping(10, 3)`` start
        at 2, 5, 8.

        Args:
            size: Length of a window.
            step: Distance between two windows, at most the size.
            expires: As of ``tumbling``.
            key_index: As of ``tumbling``.

        Raises:
            OptionError: When the step is greater than the size: times in between would be lost.
        """
        long, apart = length("size", size, zero=False), length("step", step, zero=False)
        if apart > long:
            problem = f"is greater than the size {phrase(long)}"
            raise OptionError("step", step, problem, f"give at most {phrase(long)}")
        made = windows.Windows(long, apart, -long % apart)
        return self._windowed(
            replace(self.spec, windows=made, expires=expiry(expires), key_index=key_index)
        )

    def session(
        self,
        gap: Seconds,
        expires: Seconds | None = None,
        *,
        merge: Callable[[Any, Any], Any] | None = None,
        closed: Closed = "both",
        key_index: bool = False,
    ) -> WindowedTable:
        """Keep a value per session: a stretch of events of a key, separated by silence.

        A session begins and grows by being written (``table[key] += x``). What is changed inside of
        its value (``table[key].current().append(x)``) is kept and has no time, so it doesn't
        lengthen the session; inside of the default, which is read where none is, it is lost.

        Args:
            gap: The silence that ends a session.
            expires: As of ``tumbling``.
            merge: What becomes of two values when an event joins their sessions; ``+`` where it
                isn't given.
            closed: Whether events exactly a gap apart share a session: ``both`` or ``left``.
            key_index: As of ``tumbling``.

        Raises:
            OptionError: When ``+`` doesn't join two values, and ``merge`` isn't given.
        """
        quiet = length("gap", gap, zero=False)
        made = sessions.session(f"{quiet / SECOND:.6f} s", closed=closed)
        spec = replace(self.spec, windows=made, expires=expiry(expires), key_index=key_index)
        if merge is not None:
            spec = replace(spec, merge=merge)
        spec.check_sessions()
        return self._windowed(spec)

    def _windowed(self, spec: TableSpec) -> WindowedTable:
        from muntin.tables.windowed import WindowedTable

        if self.spec.windows is not None:
            hint = "make another table"
            raise OptionError("table", self.name, "has windows already", hint)
        self.app.define(spec)
        return WindowedTable(self.app, self.name)


class SetValue(MutableSet[Any]):
    """One set of a ``SetTable``: looks like a set, and is changed in place."""

    # What operators between sets give is a set of its own.
    _from_iterable = set

    def __init__(self, table: SetTable, key: Any) -> None:
        self._table = table
        self._key = key

    def _members(self) -> set[Any]:
        found = self._table.shard(self._key).current_value(0, self._key)
        return set() if found is MISSING else found

    def _change(self, add: Iterable[Any], discard: Iterable[Any]) -> None:
        cursor, shard = self._table.at_work()
        assert isinstance(shard, SetShard)
        shard.change(self._key, add, discard, cursor)

    def add(self, value: Any) -> None:
        """Add a member."""
        self._change((value,), ())

    def discard(self, value: Any) -> None:
        """Take a member away, if it is there."""
        self._change((), (value,))

    def update(self, *others: Iterable[Any]) -> None:
        """Add the members of others."""
        self._change([member for other in others for member in other], ())

    def __ior__(self, other: Set[Any]) -> Self:  # type: ignore[misc]
        self.update(other)
        return self

    def clear(self) -> None:
        """Take all members away."""
        self._change((), self._members())

    def __contains__(self, member: Any) -> bool:
        return member in self._members()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._members())

    def __len__(self) -> int:
        return len(self._members())

    def __eq__(self, other: object) -> bool:
        return self._members() == (other._members() if isinstance(other, SetValue) else other)

    def __repr__(self) -> str:
        return f"<{self._table.name}[{self._key!r}]: {self._members()!r}>"


class SetTable(Table):
    """A table of sets; made by ``app.SetTable``. A member is stored by itself."""

    kind = SetTableShard

    def __getitem__(self, key: Any) -> SetValue:
        """The set of a key, perhaps empty."""
        return SetValue(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        # After `table[key] |= x` Python stores what came back: it has been written already.
        if not isinstance(value, SetValue):
            super().__setitem__(key, value if value is GONE else set(value))

    def session(self, *args: Any, **options: Any) -> WindowedTable:
        """Sets have no sessions.

        Raises:
            OptionError: Always.
        """
        hint = "use app.Table(name, default=set).session(gap, merge=set.union)"
        raise OptionError("SetTable", self.name, "can't be kept by sessions", hint)
