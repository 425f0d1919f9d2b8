"""The values of a table that agents hold: what they change inside of them is stored as well."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

from muntin.tables import copartition
from muntin.tables.cells import MISSING
from muntin.tables.clocks import ArrivalMarks
from muntin.tables.current import EventCursor, current
from muntin.tables.spec import TableSpec

if TYPE_CHECKING:
    from muntin.tables.partition import Partition

# What can't change behind the table's back.
_FROZEN = {type(None), bool, int, float, str, bytes}


class Borrowed(NamedTuple):
    """A value that an agent holds.

    Attributes:
        value: The value, which the agent may change in place.
        feed: The clock that such a change counts for.
        cursor: The event that it was read at, where it says how the key belongs to the partition.
    """

    value: Any
    feed: str
    cursor: EventCursor | None


class Late(NamedTuple):
    """A value of a window that has expired: an event that changes it is late."""

    value: Any
    before: Any
    cursor: EventCursor


class Lender:
    """What gives agents values by place and key, and takes them back.

    Attributes:
        closed: The greatest place that has expired.
        feeds: The clocks that write the table.
        partitionings: How the table's keys belong to partitions.
    """

    def __init__(self, spec: TableSpec, part: Partition) -> None:
        self.spec = spec
        self.part = part
        self.closed: int | None = None
        self.feeds: dict[str, None] = {}
        self.partitionings: dict[copartition.Partitioning, None] = {}
        self._borrowed: dict[tuple[int, Any], Borrowed] = {}
        self._late: dict[tuple[int, Any], Late] = {}
        self._refused: dict[tuple[Any, ...], ArrivalMarks] = {}

    def forget_events(self) -> None:
        """Forget what agents hold, and which events were handed back: another batch begins."""
        self._borrowed, self._late, self._refused = {}, {}, {}

    def default(self, key: Any) -> Any:
        """What a key without a value has."""
        if self.spec.default is None:
            raise KeyError(key)
        return self.spec.default()

    def borrow(self, place: int, key: Any, found: Any, feed: str | None = None) -> Any:
        """A value for the agent, which may change it in place: that is stored, too."""
        if type(found) in _FROZEN:
            return found
        cursor = current()
        # What is changed outside of agents, or in another partition's table, isn't taken back.
        mine = cursor is not None and cursor.part is self.part
        held = self._borrowed.get((place, key))
        if held is not None:
            return held.value if mine else deepcopy(held.value)
        value = self.default(key) if found is MISSING else self.copied(found)
        if type(value) not in _FROZEN and cursor is not None and mine:
            foreign = key != cursor.key or type(key) is tuple
            read_at = cursor.copy() if foreign else None
            self._borrowed[place, key] = Borrowed(value, feed or cursor.topic, read_at)
        return value

    def borrow_late(self, place: int, key: Any) -> Any:
        """The default, for a window that has expired: an event that changes it is late."""
        value = self.default(key)
        cursor = current()
        if cursor is None or cursor.part is not self.part or type(value) in _FROZEN:
            return value
        late = self._late.get((place, key))
        if late is not None:
            if late.cursor.place == cursor.place:
                return late.value
            self._judge(late)
        self._late[place, key] = Late(value, deepcopy(value), cursor.copy())
        return value

    def _judge(self, late: Late) -> None:
        if late.value != late.before:
            self.reject(late.cursor, "late")

    def borrow_all(
        self, place: int, stored: Mapping[Any, Any], feed: str | None = None
    ) -> dict[Any, Any]:
        """All values of a place for the agent; see ``borrow``."""
        keys = [*stored, *self.new_keys(place, stored)]
        return {key: self.borrow(place, key, stored.get(key, MISSING), feed) for key in keys}

    def current_value(self, place: int, key: Any) -> Any:
        """The value now, also where agents have only changed it in place.

        A batch that ended now would store it, so a read between two events must see it.

        Returns:
            ``MISSING`` where there is none.
        """
        found = self.found(place, key)
        held = self._borrowed.get((place, key)) if self._borrowed else None
        return held.value if held is not None and self._keeps(place, held.value, found) else found

    def new_keys(self, place: int, stored: Mapping[Any, Any]) -> list[Any]:
        """Keys of a place that have nothing but a default which agents have changed in place."""
        borrowed = [key for at, key in self._borrowed if at == place and key not in stored]
        return [key for key in borrowed if self.current_value(place, key) is not MISSING]

    def copied(self, found: Any) -> Any:
        """A stored value apart from what is stored."""
        return deepcopy(found)

    def stored_copy(self, place: int, key: Any, value: Any) -> Any:
        """A value as it goes into the table, apart from what the agent holds."""
        if self._borrowed:
            self._borrowed.pop((place, key), None)
        return value if type(value) in _FROZEN else deepcopy(value)

    def take_back(self, place: int, key: Any, found: Any) -> Any:
        """The value as an agent has left it, which holds it no longer; else what was found."""
        held = self._borrowed.pop((place, key), None)
        return found if held is None else held.value

    def return_value(self, place: int, key: Any) -> None:
        """Store what agents changed inside of one value, which they hold no longer.

        Raises:
            PartitionError: When the key belongs to another partition.
        """
        held = self._borrowed.pop((place, key), None)
        if held is None:
            return
        found = self.found(place, key)
        if self._keeps(place, held.value, found):
            if held.cursor is not None and found is MISSING:
                # A value that is stored may be changed by any event that iterates over it.
                self.check(key, held.cursor)
            self.feeds[held.feed] = None
            self.put(place, key, held.value)

    def return_all(self) -> None:
        """Store what agents changed inside of the values that they hold."""
        for place, key in list(self._borrowed):
            self.return_value(place, key)
        for late in self._late.values():
            self._judge(late)
        self._late = {}

    def _keeps(self, place: int, borrowed: Any, found: Any) -> bool:
        """Whether a borrowed value differs from what is stored, and its place takes it."""
        if self.has_expired(place):
            return False
        if found is MISSING and self.spec.default is not None:
            found = self.spec.default()
        return bool(borrowed != found)

    def has_expired(self, place: int) -> bool:
        """Whether a place has expired."""
        return self.closed is not None and place <= self.closed

    def check(self, key: Any, cursor: EventCursor) -> None:
        """Refuse a key that belongs to another partition, and note how it belongs to this one."""
        if key != cursor.key or type(key) is tuple:
            self.partitionings[copartition.partitioning_of(self.spec.name, key, cursor)] = None

    def reject(
        self, cursor: EventCursor, reason: str, detail: str | None = None, judged: int | None = None
    ) -> None:
        """Hand an event back, once for this table however often it is written."""
        event = (*cursor.place, reason)
        if event not in self._refused:
            self._refused[event] = cursor.arrival
            self.part.reject(cursor, reason, self.spec.name, detail, judged)

    def found(self, place: int, key: Any) -> Any:
        """The stored value of a place and key; ``MISSING`` where there is none."""
        raise NotImplementedError

    def put(self, place: int, key: Any, value: Any) -> None:
        """Set the value of a place and key."""
        raise NotImplementedError
