"""A table without windows in one partition: a value per key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from muntin.tables.cells import GONE, MISSING
from muntin.tables.clocks import Relative
from muntin.tables.current import EventCursor
from muntin.tables.shard import TableEntry, TableShard
from muntin.tables.spec import TableSpec

if TYPE_CHECKING:
    from muntin.tables.partition import Partition


class PlainTableShard(TableShard):
    """A table without windows: all of its entries are at position 0."""

    def __init__(self, spec: TableSpec, part: Partition) -> None:
        super().__init__(spec, part)
        self.stored = self.create_entries("values", spec.span)

    def read(self, key: Any) -> Any:
        """Return the value of a key, or the default."""
        return self.borrow(0, key, self.stored.get(0, key))

    def get_stored(self, position: int, key: Any) -> Any:
        return self.stored.get(position, key)

    def has_key(self, key: Any) -> bool:
        return self.get_stored(0, key) is not MISSING

    def put(self, position: int, key: Any, value: Any) -> None:
        self.stored.pair(position)[0][key] = self.copy_to_store(position, key, value)

    def write(self, key: Any, value: Any, cursor: EventCursor) -> None:
        """Set the value of a key; ``GONE`` deletes it.

        Raises:
            KeyError: When there is no value to delete.
        """
        self.check_key(key, cursor)
        if value is GONE and self.get_current(0, key) is MISSING:
            raise KeyError(key)
        self.put(0, key, value)

    def list_positions(self, key: Any, cursor: EventCursor, relative: Relative) -> Sequence[int]:
        self.check_key(key, cursor)
        return (0,)

    def get_values(self, position: int = 0) -> dict[Any, Any]:
        """Return all stored keys and values."""
        return self.stored.values_at(position)

    def list_keys(self) -> list[Any]:
        """Return all keys, including those whose default an agent changed in place."""
        stored = self.get_values()
        return [*stored, *self.list_new_keys(0, stored)]

    def count_keys(self) -> int:
        """Return the number of keys."""
        stored = self.get_values()
        return len(stored) + len(self.list_new_keys(0, stored))

    def snapshot(self) -> Iterator[TableEntry]:
        return (TableEntry(key, None, value, False) for key, value in self.get_values().items())

    def changes(self) -> Iterator[TableEntry]:
        for _, values in self.stored.iterate_changes():
            for key, value in values.items():
                yield TableEntry(key, None, value, False)
