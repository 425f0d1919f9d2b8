"""Tables as agents use them: ``table[key] += 1``, and the methods that add windows.

A table holds no entries itself. Within an agent it reads and writes the partition of the current
event; outside of agents it reads all partitions of the open app.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSet, Set
from dataclasses import replace
from typing import Any, Self

from muntin.model import sessions, windows
from muntin.model.axis import SECOND, format_duration
from muntin.model.errors import OptionError
from muntin.model.sessions import Closed
from muntin.tables.cells import GONE, MISSING
from muntin.tables.current import require_cursor
from muntin.tables.handle import Handle
from muntin.tables.shard import PlainTableShard
from muntin.tables.spec import TableSpec
from muntin.tables.time_values import Seconds, parse_retention, parse_seconds
from muntin.tables.windowed import WindowedTable


class Table(Handle[PlainTableShard]):
    """A dictionary that is spread over partitions, created by ``app.Table``.

    Reading a key without a value returns the default and stores nothing. Changes made inside a
    value (``table[key].append(x)``) are stored as well; Faust would lose them.
    """

    kind = PlainTableShard

    def __getitem__(self, key: Any) -> Any:
        """Return the value of a key.

        Raises:
            KeyError: When the key has no value, and the table no default.
        """
        return self.get_shard(key).read(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set the value of a key.

        Raises:
            PartitionError: When the key belongs to another partition than the event.
            OutsideStreamError: Outside of an agent.
        """
        cursor = require_cursor(f"table {self.name!r} is written")
        self._get_shard_of(cursor.part).write(key, value, cursor)

    def __delitem__(self, key: Any) -> None:
        self[key] = GONE

    def __contains__(self, key: Any) -> bool:
        return self.get_shard(key).get_current(0, key) is not MISSING

    def __iter__(self) -> Iterator[Any]:
        return iter([key for shard in self.get_shards() for key in shard.list_keys()])

    def __len__(self) -> int:
        return sum(shard.count_keys() for shard in self.get_shards())

    def keys(self) -> list[Any]:
        """Return the keys in the current partition; outside of agents, all keys."""
        return list(self)

    def items(self) -> list[tuple[Any, Any]]:
        """Return keys and values in the current partition; outside of agents, all of them."""
        values_by_shard = (shard.borrow_all(0, shard.get_values()) for shard in self.get_shards())
        return [item for values in values_by_shard for item in values.items()]

    def values(self) -> list[Any]:
        """Return the values in the current partition; outside of agents, all of them."""
        return [value for _, value in self.items()]

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or ``default``; the table's own default isn't used."""
        value = self.get_shard(key).get_current(0, key)
        return default if value is MISSING else self[key]

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove a key and return its value.

        Raises:
            KeyError: When the key has no value, and no default was given.
        """
        shard = self.get_shard(key)
        stored = shard.get_current(0, key)
        if stored is MISSING:
            if default:
                return default[0]
            raise KeyError(key)
        value = shard.borrow(0, key, stored)
        del self[key]
        return value

    def setdefault(self, key: Any, default: Any) -> Any:
        """Return the value of a key, setting it to ``default`` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, values: Mapping[Any, Any]) -> None:
        """Set several values."""
        for key, value in values.items():
            self[key] = value

    def tumbling(
        self, size: Seconds, expires: Seconds | None = None, *, key_index: bool = False
    ) -> WindowedTable:
        """Keep a value per window; windows follow each other without overlap.

        Args:
            size: The length of a window, in seconds or as ``"10 minutes"``.
            expires: How long after its end a window accepts events and can be read, by the table's
                watermark; forever by default.
            key_index: Whether all keys can be iterated over (``len(table)``, ``for key in table``).
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
        """Keep a value per window; windows overlap, and an event counts in several of them.

        As in Faust, windows end at multiples of the step, so that those of ``hopping(10, 3)`` start
        at 2, 5, 8.

        Args:
            size: The length of a window, in seconds or as ``"10 minutes"``.
            step: The distance between two windows, at most the size.
            expires: How long a window is kept after its end, as in ``tumbling``.
            key_index: Whether all keys can be iterated over, as in ``tumbling``.

        Raises:
            OptionError: When the step is greater than the size: some times would have no window.
        """
        size_micros = parse_seconds("size", size, zero=False)
        step_micros = parse_seconds("step", step, zero=False)
        if step_micros > size_micros:
            problem = f"is greater than the size {format_duration(size_micros)}"
            raise OptionError("step", step, problem, f"give at most {format_duration(size_micros)}")
        grid = windows.Windows(size_micros, step_micros, -size_micros % step_micros)
        return self._add_windows(
            replace(self.spec, windows=grid, expires=parse_retention(expires), key_index=key_index)
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
        """Keep a value per session: a stretch of events of a key, separated by inactivity.

        A write (``table[key] += x``) starts or extends a session. Changes made inside its value
        (``table[key].current().append(x)``) are stored but have no time, so they don't extend the
        session. Changes made inside the default, where there is no session, are lost.

        Args:
            gap: The inactivity that ends a session.
            expires: How long a session is kept after its end, as in ``tumbling``.
            merge: Merges two values when an event joins their sessions; ``+`` by default.
            closed: Whether events exactly a gap apart share a session: ``both`` or ``left``.
            key_index: Whether all keys can be iterated over, as in ``tumbling``.

        Raises:
            OptionError: When ``+`` doesn't merge two values, and ``merge`` isn't given.
        """
        gap_micros = parse_seconds("gap", gap, zero=False)
        gaps = sessions.make_sessions(f"{gap_micros / SECOND:.6f} s", closed=closed)
        spec = replace(
            self.spec, windows=gaps, expires=parse_retention(expires), key_index=key_index
        )
        if merge is not None:
            spec = replace(spec, merge=merge)
        spec.check_sessions()
        return self._add_windows(spec)

    def _add_windows(self, spec: TableSpec) -> WindowedTable:
        if self.spec.windows is not None:
            hint = "define another table"
            raise OptionError("table", self.name, "has windows already", hint)
        self.app.redefine_table(spec)
        return WindowedTable(self.app, self.name)


def _make_set_method(name: str) -> Callable[..., Any]:
    def method(self: SetValue, *others: Iterable[Any]) -> Any:
        return getattr(set(self), name)(*others)

    method.__doc__ = f"Return the result of ``set.{name}``; it isn't stored."
    return method


class SetValue(MutableSet[Any]):
    """One set of a ``SetTable``, which behaves like a set and is changed in place."""

    # Operators between sets return a plain set.
    _from_iterable = set

    union = _make_set_method("union")
    intersection = _make_set_method("intersection")
    difference = _make_set_method("difference")
    symmetric_difference = _make_set_method("symmetric_difference")
    issubset = _make_set_method("issubset")
    issuperset = _make_set_method("issuperset")
    copy = _make_set_method("copy")

    def __init__(self, table: SetTable, key: Any) -> None:
        self._table = table
        self._key = key

    def _get_members(self) -> set[Any]:
        members = self._table.get_shard(self._key).get_current(0, self._key)
        return set() if members is MISSING else members

    def _change_members(self, add: Iterable[Any], discard: Iterable[Any]) -> None:
        cursor, shard = self._table.require_own_shard()
        shard.change_members(self._key, add, discard, cursor)

    def add(self, value: Any) -> None:
        """Add a member."""
        self._change_members((value,), ())

    def discard(self, value: Any) -> None:
        """Remove a member, if present."""
        self._change_members((), (value,))

    def update(self, *others: Iterable[Any]) -> None:
        """Add the members of other sets."""
        self._change_members([member for other in others for member in other], ())

    def difference_update(self, *others: Iterable[Any]) -> None:
        """Remove the members of other sets."""
        self._change_members((), self._get_members().intersection(set().union(*others)))

    def intersection_update(self, *others: Iterable[Any]) -> None:
        """Remove the members that some other set doesn't have."""
        members = self._get_members()
        self._change_members((), members.difference(members.intersection(*others)))

    def symmetric_difference_update(self, other: Iterable[Any]) -> None:
        """Remove the members of another set, and add those of its members that were missing."""
        members, others = self._get_members(), set(other)
        self._change_members(others - members, others & members)

    def __ior__(self, other: Set[Any]) -> Self:  # type: ignore[misc]
        self.update(other)
        return self

    def clear(self) -> None:
        """Remove all members."""
        self._change_members((), self._get_members())

    def __contains__(self, member: Any) -> bool:
        return member in self._get_members()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._get_members())

    def __len__(self) -> int:
        return len(self._get_members())

    def __eq__(self, other: object) -> bool:
        return self._get_members() == (
            other._get_members() if isinstance(other, SetValue) else other
        )

    def __repr__(self) -> str:
        return f"<{self._table.name}[{self._key!r}]: {self._get_members()!r}>"


class SetTable(Table):
    """A table of sets, created by ``app.SetTable``; each member is stored separately."""

    def __getitem__(self, key: Any) -> SetValue:
        """Return the set of a key, which may be empty."""
        return SetValue(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        # After `table[key] |= x` Python assigns the result, which has been written already.
        if not isinstance(value, SetValue):
            super().__setitem__(key, value if value is GONE else set(value))

    def session(self, *args: Any, **options: Any) -> WindowedTable:
        """Refuse sessions of sets.

        Raises:
            OptionError: Always.
        """
        hint = "use app.Table(name, default=set).session(gap, merge=set.union)"
        raise OptionError("SetTable", self.name, "can't be kept by sessions", hint)
