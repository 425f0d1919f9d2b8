"""Tables of sets in one partition: a member is an entry of its own.

A set isn't rewritten because one member was added; the changelog has a row per member.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from muntin.tables.cells import GONE, MISSING
from muntin.tables.clocks import Relative
from muntin.tables.current import EventCursor
from muntin.tables.entries import Entries
from muntin.tables.plain_shard import PlainTableShard
from muntin.tables.shard import Emitted, TableShard, in_order
from muntin.tables.spec import TableSpec
from muntin.tables.window_shard import Operation, WindowTableShard

if TYPE_CHECKING:
    from muntin.tables.partition import Partition


class Members:
    """The members of sets, by place and key; kept up while entries are read and written."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self._of: dict[int, dict[Any, set[Any]]] = {}
        entries.on_load = self._forget

    def begin(self, stored: Any) -> None:
        """Start a batch: what another worker may have changed is read anew.

        Args:
            stored: The table's part of the manifest; ``None`` where memory is the last commit.
        """
        if stored is not None:
            self._of = {}

    def _forget(self, segment: int) -> None:
        for place in [p for p in self._of if p // self.entries.span == segment]:
            del self._of[place]

    def at(self, place: int) -> dict[Any, set[Any]]:
        """All sets of a place."""
        values = self.entries.at(place) if place not in self._of else ()
        found = self._of.setdefault(place, {})
        for key, member in values:
            found.setdefault(key, set()).add(member)
        return found

    def of(self, place: int, key: Any) -> Any:
        """A copy of one set; ``MISSING`` where there is none."""
        members = self.at(place).get(key)
        return set(members) if members else MISSING

    def change(self, place: int, key: Any, add: Iterable[Any], discard: Iterable[Any]) -> None:
        """Add members to a set and take others away."""
        members = self.at(place).setdefault(key, set())
        fresh, _ = self.entries.pair(place)
        for member in add:
            if member not in members:
                members.add(member)
                fresh[key, member] = True
        for member in discard:
            if member in members:
                members.discard(member)
                fresh[key, member] = GONE

    def put(self, place: int, key: Any, value: Any) -> None:
        """Make a set equal to another; ``GONE`` deletes it."""
        wanted = set() if value is GONE else set(value)
        now = self.at(place).get(key, set())
        self.change(place, key, wanted - now, now - wanted)

    def drop_through(self, place: int) -> None:
        """Forget the sets up to a place."""
        for expired in [p for p in self._of if p <= place]:
            del self._of[expired]

    def changed(self) -> Iterator[tuple[int, Any, Any]]:
        """Place, key and set (or ``GONE``) of every set that has changed."""
        for place, values in self.entries.changed():
            for key in in_order({key for key, _ in values}):
                members = self.of(place, key)
                yield place, key, GONE if members is MISSING else members


class _SetShard(TableShard):
    """What tables of sets have in common."""

    paired = True

    members: Members

    def begin(self, blobs: Any, stored: Any) -> None:
        super().begin(blobs, stored)
        self.members.begin(stored)

    def copied(self, found: Any) -> Any:
        """See ``TableShard``; members give out copies anyway."""
        return found

    def put(self, place: int, key: Any, value: Any) -> None:
        self.members.put(place, key, self.stored_copy(place, key, value))


class SetTableShard(_SetShard, PlainTableShard):
    """Sets without windows."""

    def __init__(self, spec: TableSpec, part: Partition) -> None:
        super().__init__(spec, part)
        self.members = Members(self.values)

    def found(self, place: int, key: Any) -> Any:
        return self.members.of(place, key)

    def change(
        self, key: Any, add: Iterable[Any], discard: Iterable[Any], cursor: EventCursor
    ) -> None:
        """Add members and take others away."""
        self.check(key, cursor)
        self.return_value(0, key)
        self.members.change(0, key, add, discard)

    def items(self) -> dict[Any, Any]:
        return {key: set(members) for key, members in self.members.at(0).items() if members}

    def changes(self) -> Iterator[Emitted]:
        return (Emitted(key, None, value, False) for _, key, value in self.members.changed())


class SetWindowTableShard(_SetShard, WindowTableShard):
    """Sets in tumbling or hopping windows."""

    def __init__(self, spec: TableSpec, part: Partition) -> None:
        super().__init__(spec, part)
        self.members = Members(self.whole)

    def apply(
        self, operation: Operation, key: Any, operand: Any, cursor: EventCursor, relative: Relative
    ) -> None:
        for window in self.places(key, cursor, relative):
            self.return_value(window, key)
            old = self.value(window, key)
            self.put(window, key, operation(set() if old is MISSING else old, operand))

    def change(
        self,
        key: Any,
        add: Iterable[Any],
        discard: Iterable[Any],
        cursor: EventCursor,
        relative: Relative,
    ) -> None:
        """Add members and take others away, in all windows that hold the event's time."""
        for window in self.places(key, cursor, relative):
            # A borrowed set would be stored as it was before this change.
            self.return_value(window, key)
            self.members.change(window, key, add, discard)

    def value(self, window: int, key: Any) -> Any:
        return self.members.of(window, key)

    def values(self, window: int) -> dict[Any, Any]:
        return {key: set(found) for key, found in self.members.at(window).items() if found}

    def close(self, *, emit: bool, final: bool) -> list[Emitted]:
        emitted = super().close(emit=emit, final=final)
        if self.closed is not None:
            self.members.drop_through(self.closed)
        return emitted

    def changes(self) -> Iterator[Emitted]:
        for window, key, value in self.members.changed():
            if not self.has_expired(window):
                yield Emitted(key, self.window(window), value, False)
