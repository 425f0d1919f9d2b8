"""Tables of sets in one partition, stored member by member.

Adding a member doesn't rewrite the set; the changelog has a row per member.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from muntin.tables.cells import GONE, MISSING
from muntin.tables.clocks import Relative
from muntin.tables.current import EventCursor
from muntin.tables.entries import Entries
from muntin.tables.plain_shard import PlainTableShard
from muntin.tables.shard import TableEntry, TableShard
from muntin.tables.spec import TableSpec
from muntin.tables.window_shard import WindowTableShard

if TYPE_CHECKING:
    from muntin.tables.partition import Partition


class SetShard(TableShard):
    """The behaviour that tables of sets share: entries are stored under pairs of key and member."""

    paired = True

    stored: Entries

    def __init__(self, spec: TableSpec, part: Partition) -> None:
        super().__init__(spec, part)
        # By position and key; built from the entries on demand, and updated by changes.
        self._members: dict[int, dict[Any, set[Any]]] = {}

    def forget_index(self) -> None:
        self._members = {}

    def _load_sets(self, position: int) -> dict[Any, set[Any]]:
        """Return all sets of a position."""
        sets = self._members.get(position)
        if sets is None:
            sets = self._members[position] = {}
            for key, member in self.stored.values_at(position):
                sets.setdefault(key, set()).add(member)
        return sets

    def get_stored(self, position: int, key: Any) -> Any:
        members = self._load_sets(position).get(key)
        return set(members) if members else MISSING

    def get_values(self, position: int = 0) -> dict[Any, Any]:
        return {key: set(members) for key, members in self._load_sets(position).items() if members}

    def copy_stored(self, stored: Any) -> Any:
        """Return the set itself, which is a copy already."""
        return stored

    def change_members(
        self,
        key: Any,
        add: Iterable[Any],
        discard: Iterable[Any],
        cursor: EventCursor,
        relative: Relative = None,
    ) -> None:
        """Add and remove members in all windows that contain the event's time."""
        for position in self.list_positions(key, cursor, relative):
            # Otherwise the lent set would overwrite this change.
            self.return_value(position, key)
            self._change_entries(position, key, add, discard)

    def put(self, position: int, key: Any, value: Any) -> None:
        value = self.copy_to_store(position, key, value)
        new_members = set() if value is GONE else set(value)
        old_members = self._load_sets(position).get(key, set())
        self._change_entries(position, key, new_members - old_members, old_members - new_members)

    def _change_entries(
        self, position: int, key: Any, add: Iterable[Any], discard: Iterable[Any]
    ) -> None:
        members = self._load_sets(position).setdefault(key, set())
        fresh, _ = self.stored.pair(position)
        for member in add:
            if member not in members:
                members.add(member)
                fresh[key, member] = True
        for member in discard:
            if member in members:
                members.discard(member)
                fresh[key, member] = GONE

    def close(self, *, emit: bool, final: bool) -> list[TableEntry]:
        emitted = super().close(emit=emit, final=final)
        for expired in [position for position in self._members if self.has_expired(position)]:
            del self._members[expired]
        return emitted

    def changes(self) -> Iterator[TableEntry]:
        for position, values in self.stored.iterate_changes():
            yield from self.list_entries(position, {key for key, _ in values})


class SetTableShard(SetShard, PlainTableShard):
    """Sets without windows."""


class SetWindowTableShard(SetShard, WindowTableShard):
    """Sets in tumbling or hopping windows."""
