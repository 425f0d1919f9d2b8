"""A table without windows in one partition: a value per key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from muntin.tables.cells import GONE, MISSING
from muntin.tables.clocks import Relative
from muntin.tables.current import EventCursor
from muntin.tables.shard import Emitted, TableShard
from muntin.tables.spec import TableSpec

if TYPE_CHECKING:
    from muntin.tables.partition import Partition


class PlainTableShard(TableShard):
    """A table without windows: all of its entries lie at the place 0."""

    def __init__(self, spec: TableSpec, part: Partition) -> None:
        super().__init__(spec, part)
        self.whole = self.new_entries("values", spec.span)

    def read(self, key: Any) -> Any:
        """The value of a key, or the default."""
        return self.borrow(0, key, self.whole.get(0, key))

    def found(self, place: int, key: Any) -> Any:
        return self.whole.get(place, key)

    def holds(self, key: Any) -> bool:
        return self.found(0, key) is not MISSING

    def put(self, place: int, key: Any, value: Any) -> None:
        self.whole.pair(place)[0][key] = self.stored_copy(place, key, value)

    def write(self, key: Any, value: Any, cursor: EventCursor) -> None:
        """Set a value; ``GONE`` deletes it.

        Raises:
            KeyError: When there is nothing to delete.
        """
        self.check(key, cursor)
        if value is GONE and self.current_value(0, key) is MISSING:
            raise KeyError(key)
        self.put(0, key, value)

    def places(self, key: Any, cursor: EventCursor, relative: Relative) -> Sequence[int]:
        self.check(key, cursor)
        return (0,)

    def values(self, place: int = 0) -> dict[Any, Any]:
        """All keys and values that are stored."""
        return self.whole.at(place)

    def all_keys(self) -> list[Any]:
        """All keys, also those of values that agents have only changed in place."""
        stored = self.values()
        return [*stored, *self.new_keys(0, stored)]

    def count(self) -> int:
        """How many keys there are."""
        stored = self.values()
        return len(stored) + len(self.new_keys(0, stored))

    def snapshot(self) -> Iterator[Emitted]:
        return (Emitted(key, None, value, False) for key, value in self.values().items())

    def changes(self) -> Iterator[Emitted]:
        for _, values in self.whole.changed():
            for key, value in values.items():
                yield Emitted(key, None, value, False)
