"""Lends the values of a table to agents, so that changes made inside a value are stored too."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

from muntin.tables import copartition
from muntin.tables.cells import MISSING
from muntin.tables.clocks import EventArrival
from muntin.tables.current import EventCursor, find_cursor
from muntin.tables.spec import TableSpec

if TYPE_CHECKING:
    from muntin.tables.partition import Partition

# Immutable types, which need no tracking.
_IMMUTABLE = {type(None), bool, int, float, str, bytes}


class LentValue(NamedTuple):
    """A value that an agent holds.

    Attributes:
        value: The value, which the agent may change in place.
        clock: The clock on whose behalf it is changed.
        cursor: The event at which it was read, if needed to check the key's partition.
    """

    value: Any
    clock: str
    cursor: EventCursor | None


class LateValue(NamedTuple):
    """A value of an expired window; an event that changes it is late."""

    value: Any
    before: Any
    cursor: EventCursor


class Lender:
    """Lends values to agents by position and key, and takes them back.

    Attributes:
        closed: The last position that has expired.
        feeds: The clocks that write the table.
        partitionings: How the table's keys are partitioned.
    """

    def __init__(self, spec: TableSpec, part: Partition) -> None:
        self.spec = spec
        self.part = part
        self.closed: int | None = None
        self.feeds: dict[str, None] = {}
        self.partitionings: dict[copartition.Partitioning, None] = {}
        self._borrowed: dict[tuple[int, Any], LentValue] = {}
        self._late: dict[tuple[int, Any], LateValue] = {}
        self._rejected: dict[tuple[Any, ...], EventArrival] = {}

    def forget_events(self) -> None:
        """Start a batch: forget the lent values and the rejected events."""
        self._borrowed, self._late, self._rejected = {}, {}, {}

    def create_default(self, key: Any) -> Any:
        """Return the value of a key that has none."""
        if self.spec.default is None:
            raise KeyError(key)
        return self.spec.default()

    def borrow(self, position: int, key: Any, stored: Any, feed: str | None = None) -> Any:
        """Return a value that the agent may change in place; the changes are stored, too."""
        if type(stored) in _IMMUTABLE:
            return stored
        cursor = find_cursor()
        # Changes made outside of agents, or to another partition's table, aren't stored.
        is_own_partition = cursor is not None and cursor.part is self.part
        lent = self._borrowed.get((position, key))
        if lent is not None:
            return lent.value if is_own_partition else deepcopy(lent.value)
        value = self.create_default(key) if stored is MISSING else self._copy_stored(stored)
        if type(value) not in _IMMUTABLE and cursor is not None and is_own_partition:
            needs_check = key != cursor.key or type(key) is tuple
            read_at = cursor.copy() if needs_check else None
            self._borrowed[position, key] = LentValue(value, feed or cursor.topic, read_at)
        return value

    def borrow_late(self, position: int, key: Any) -> Any:
        """Return the default for an expired window; an event that changes it is late."""
        value = self.create_default(key)
        cursor = find_cursor()
        if cursor is None or cursor.part is not self.part or type(value) in _IMMUTABLE:
            return value
        earlier = self._late.get((position, key))
        if earlier is not None:
            if earlier.cursor.event_id == cursor.event_id:
                return earlier.value
            self._reject_if_changed(earlier)
        self._late[position, key] = LateValue(value, deepcopy(value), cursor.copy())
        return value

    def _reject_if_changed(self, late: LateValue) -> None:
        if late.value != late.before:
            self.reject(late.cursor, "late")

    def borrow_all(
        self, position: int, stored: Mapping[Any, Any], feed: str | None = None
    ) -> dict[Any, Any]:
        """Return all values of a position, each as from ``borrow``."""
        keys = [*stored, *self.list_new_keys(position, stored)]
        return {key: self.borrow(position, key, stored.get(key, MISSING), feed) for key in keys}

    def get_current(self, position: int, key: Any) -> Any:
        """Return the present value, including changes that agents made in place.

        A batch that ended now would store them, so a read between two events must see them.

        Returns:
            ``MISSING`` if there is no value.
        """
        stored = self.get_stored(position, key)
        lent = self._borrowed.get((position, key)) if self._borrowed else None
        return (
            lent.value
            if lent is not None and self._is_change_to_store(position, lent.value, stored)
            else stored
        )

    def list_new_keys(self, position: int, stored: Mapping[Any, Any]) -> list[Any]:
        """Return the keys of a position whose only value is a default changed in place."""
        borrowed = [key for at, key in self._borrowed if at == position and key not in stored]
        return [key for key in borrowed if self.get_current(position, key) is not MISSING]

    def _copy_stored(self, stored: Any) -> Any:
        """Copy a stored value; a stored set is a copy already."""
        return stored if self.spec.sets else deepcopy(stored)

    def copy_to_store(self, position: int, key: Any, value: Any) -> Any:
        """Return the value to store: a copy, unless it is immutable."""
        if self._borrowed:
            self._borrowed.pop((position, key), None)
        return value if type(value) in _IMMUTABLE else deepcopy(value)

    def take_back(self, position: int, key: Any, stored: Any) -> Any:
        """Return the value as the agent left it and end the loan; ``stored`` if it wasn't lent."""
        lent = self._borrowed.pop((position, key), None)
        return stored if lent is None else lent.value

    def return_value(self, position: int, key: Any) -> None:
        """End the loan of a value, and store the changes that the agent made inside it.

        Raises:
            PartitionError: When the key belongs to another partition.
        """
        lent = self._borrowed.pop((position, key), None)
        if lent is None:
            return
        stored = self.get_stored(position, key)
        if self._is_change_to_store(position, lent.value, stored):
            if lent.cursor is not None and stored is MISSING:
                # Any event that iterates over stored values may change one.
                self.check_key(key, lent.cursor)
            self.feeds[lent.clock] = None
            self.put(position, key, lent.value)

    def return_all(self) -> None:
        """End all loans, and store the changes that agents made inside the values."""
        for position, key in list(self._borrowed):
            self.return_value(position, key)
        for late in self._late.values():
            self._reject_if_changed(late)
        self._late = {}

    def _is_change_to_store(self, position: int, borrowed: Any, stored: Any) -> bool:
        """Return whether a lent value differs from the stored one, and its position is open."""
        if self.has_expired(position):
            return False
        if stored is MISSING and self.spec.default is not None:
            stored = self.spec.default()
        return bool(borrowed != stored)

    def has_expired(self, position: int) -> bool:
        """Return whether a position has expired."""
        return self.closed is not None and position <= self.closed

    def check_key(self, key: Any, cursor: EventCursor) -> None:
        """Refuse a key of another partition, and record how the key is partitioned."""
        if key != cursor.key or type(key) is tuple:
            self.partitionings[copartition.check_partitioning(self.spec.name, key, cursor)] = None

    def reject(
        self,
        cursor: EventCursor,
        reason: str,
        detail: str | None = None,
        watermark: int | None = None,
    ) -> None:
        """Reject an event, once for this table and reason however often the event writes it."""
        event = (*cursor.event_id, reason)
        if event not in self._rejected:
            self._rejected[event] = cursor.arrival
            self.part.reject(cursor, reason, self.spec.name, detail, watermark)

    def get_stored(self, position: int, key: Any) -> Any:
        """Return the stored value of a position and key, or ``MISSING``."""
        raise NotImplementedError

    def put(self, position: int, key: Any, value: Any) -> None:
        """Set the value at a position and key."""
        raise NotImplementedError
