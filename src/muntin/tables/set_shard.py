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
from muntin.tables.shard import Emitted, TableShard
from muntin.tables.spec import TableSpec
from muntin.tables.window_shard import WindowTableShard

if TYPE_CHECKING:
    from muntin.tables.partition import Partition


class SetShard(TableShard):
    """What tables of sets have in common: entries under pairs of a key and a member."""

    paired = True

    whole: Entries

    def __init__(self, spec: TableSpec, part: Partition) -> None:
        super().__init__(spec, part)
        # By place and key; made of the entries when it is asked for, and kept up by changes.
        self._members: dict[int, dict[Any, set[Any]]] = {}

    def forget_index(self) -> None:
        self._members = {}

    def _sets(self, place: int) -> dict[Any, set[Any]]:
        """All sets of a place."""
        found = self._members.get(place)
        if found is None:
            found = self._members[place] = {}
            for key, member in self.whole.at(place):
                found.setdefault(key, set()).add(member)
        return found

    def found(self, place: int, key: Any) -> Any:
        members = self._sets(place).get(key)
        return set(members) if members else MISSING

    def values(self, place: int = 0) -> dict[Any, Any]:
        return {key: set(members) for key, members in self._sets(place).items() if members}

    def copied(self, found: Any) -> Any:
        """See ``Lender``; what is found is a copy already."""
        return found

    def change(
        self,
        key: Any,
        add: Iterable[Any],
        discard: Iterable[Any],
        cursor: EventCursor,
        relative: Relative = None,
    ) -> None:
        """Add members and take others away, in all windows that hold the event's time."""
        for place in self.places(key, cursor, relative):
            # A borrowed set would be stored as it was before this change.
            self.return_value(place, key)
            self._change(place, key, add, discard)

    def put(self, place: int, key: Any, value: Any) -> None:
        value = self.stored_copy(place, key, value)
        wanted = set() if value is GONE else set(value)
        now = self._sets(place).get(key, set())
        self._change(place, key, wanted - now, now - wanted)

    def _change(self, place: int, key: Any, add: Iterable[Any], discard: Iterable[Any]) -> None:
        members = self._sets(place).setdefault(key, set())
        fresh, _ = self.whole.pair(place)
        for member in add:
            if member not in members:
                members.add(member)
                fresh[key, member] = True
        for member in discard:
            if member in members:
                members.discard(member)
                fresh[key, member] = GONE

    def close(self, *, emit: bool, final: bool) -> list[Emitted]:
        emitted = super().close(emit=emit, final=final)
        for expired in [place for place in self._members if self.has_expired(place)]:
            del self._members[expired]
        return emitted

    def changes(self) -> Iterator[Emitted]:
        for place, values in self.whole.changed():
            yield from self.current_entries(place, {key for key, _ in values})


class SetTableShard(SetShard, PlainTableShard):
    """Sets without windows."""


class SetWindowTableShard(SetShard, WindowTableShard):
    """Sets in tumbling or hopping windows."""
