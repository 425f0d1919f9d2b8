"""One table in one partition: its clock, and the values that its agent holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

from muntin.model.errors import StateCorruptedError
from muntin.state.blobs import Blobs
from muntin.stores.keys import encode_part
from muntin.tables import copartition
from muntin.tables.cells import MISSING
from muntin.tables.clocks import (
    OUTSIDE,
    WALL_CLOCK,
    ArrivalMarks,
    FieldClock,
    Relative,
    Visibility,
    reached,
)
from muntin.tables.current import EventCursor, current
from muntin.tables.entries import Entries
from muntin.tables.late import Late
from muntin.tables.moments import BEGINNING, moment
from muntin.tables.spec import TableSpec
from muntin.tables.typed import codec_of

if TYPE_CHECKING:
    from muntin.tables.partition import Partition

# What can't change behind the table's back.
_FROZEN = {type(None), bool, int, float, str, bytes}


class Emitted(NamedTuple):
    """One entry of a table as it is after a batch.

    Attributes:
        key: Its key.
        window: Start and end, microseconds; ``None`` without windows.
        value: Its value; ``GONE`` where it was deleted.
        closed: Whether the window has expired, so that this is its last word.
    """

    key: Any
    window: tuple[int, int] | None
    value: Any
    closed: bool


class TableShard:
    """What all kinds of tables share.

    Attributes:
        watermark: Up to where the table's clock has come; it never goes back.
        closed: The greatest place that has expired.
        latest: The newest place that was written.
        feeds: The clocks that write it.
        known: The agent whose clock has been taken note of.
        partitionings: How the table's keys belong to partitions.
        span: How many places (of sessions: how long a stretch of ends) are stored together. It
            stays what it was when the first batch was written, whatever ``expires`` is now.
        paired: Whether entries are stored under pairs: the key, and what else names them.
    """

    paired = False

    def __init__(self, spec: TableSpec, part: Partition) -> None:
        self.spec = spec
        self.part = part
        self.watermark = BEGINNING
        self.closed: int | None = None
        self.latest: int | None = None
        self.feeds: dict[str, None] = {}
        self.known: EventCursor | None = None
        self.partitionings: dict[copartition.Partitioning, None] = {}
        self.span = 1
        # Values that agents hold and may change in place, the clock such a change counts for, and
        # the event, where the key isn't its own.
        self._borrowed: dict[tuple[int, Any], Any] = {}
        self._asked: dict[tuple[int, Any], tuple[str, EventCursor | None]] = {}
        self._late: dict[tuple[int, Any], Late] = {}
        self._refused: dict[tuple[Any, ...], ArrivalMarks] = {}

    def entries(self) -> dict[str, Entries]:
        """Everything that is stored, by a name of its own."""
        raise NotImplementedError

    def new_entries(self, span: int, on_load: Callable[[int], None] | None = None) -> Entries:
        """Entries that keep this table's values."""
        return Entries(span, codec_of(self.spec.value_type), on_load)

    def begin(self, blobs: Blobs | None, stored: Mapping[str, Any] | None) -> None:
        """Start a batch.

        Args:
            blobs: Where the journal is.
            stored: The table's part of the manifest; ``None`` where memory is the last commit.
        """
        self.known = None
        self._borrowed, self._asked, self._late, self._refused = {}, {}, {}, {}
        if stored is not None:
            try:
                self._restore(stored)
            except (KeyError, TypeError) as error:
                raise StateCorruptedError(
                    f"the manifest's part for the table {self.spec.name!r} can't be read"
                ) from error
        runs = None if stored is None else stored.get("runs", {})
        dropped = self.dropped()
        for name, entries in self.entries().items():
            entries.begin(blobs, None if runs is None else runs.get(name, ()), dropped.get(name))

    def dropped(self) -> dict[str, int | None]:
        """The greatest place that has expired, for each name in ``entries``."""
        return {}

    def _restore(self, stored: Mapping[str, Any]) -> None:
        if stored:
            self.spec.check_same(stored["spec"])
        self.watermark = stored.get("watermark", BEGINNING)
        self.closed = stored.get("closed")
        self.latest = stored.get("latest")
        self.feeds = dict.fromkeys(stored.get("feeds", ()))
        self.partitionings = dict.fromkeys(map(_partitioning, stored.get("lies", ())))
        if stored:
            self.lay_out(stored["span"])

    def lay_out(self, span: int) -> None:
        """Store so many places together."""
        self.span = span

    def manifest(self) -> dict[str, Any]:
        """The table's part of the manifest."""
        return {
            "span": self.span,
            "watermark": self.watermark,
            "closed": self.closed,
            "latest": self.latest,
            "feeds": list(self.feeds),
            "lies": list(self.partitionings),
        }

    def placed(self, cursor: EventCursor, relative: Relative) -> tuple[int, int] | None:
        """The time that a write belongs to, and the watermark that it is judged by.

        It is judged by its own clock, as far as that had come when the event arrived. Whatever
        other clocks have done in the meantime depends on how the input was cut into batches.

        Returns:
            ``None`` where the value has no time; the event is rejected then.
        """
        if relative is None:
            if cursor is not self.known:
                self.feeds[cursor.topic] = None
                self.known = cursor
            return cursor.time, cursor.judged
        if isinstance(relative, FieldClock):
            return self._by_field(cursor, relative)
        self.feeds[WALL_CLOCK] = None
        return self.part.wall, BEGINNING

    def _by_field(self, cursor: EventCursor, clock: FieldClock) -> tuple[int, int] | None:
        found = clock.by.of(cursor.value)
        try:
            time = None if found is None else moment(found)
        except ValueError as error:
            self.reject(cursor, "malformed", str(error))
            return None
        if time is None:
            self.reject(cursor, "null_time")
            return None
        if self.part.is_future(time):
            self.reject(cursor, "future")
            return None
        self.feeds[clock.feed(cursor.topic)] = None
        return time, cursor.arrival.of(clock)

    def visibility(self, relative: Relative) -> Visibility:
        """What the agent at work sees of this table; from outside, everything is seen.

        A window that has expired by the clocks of the agent's own events isn't seen any more, also
        where the batch that lets it go hasn't ended yet: so a batch shows what several would.
        """
        cursor = current()
        if cursor is None or cursor.part is None:
            return OUTSIDE
        if relative is None and len(self.feeds) == 1 and cursor.topic in self.feeds:
            return Visibility(cursor.judged, cursor.topic)
        marks = {cursor.topic: cursor.judged, WALL_CLOCK: self.part.wall}
        for clock in self.part.rules.clocks:
            marks[clock.feed(cursor.topic)] = cursor.arrival.of(clock)
        feed = cursor.topic
        if relative is not None:
            feed = relative.feed(feed) if isinstance(relative, FieldClock) else WALL_CLOCK
        known = self.feeds or (feed,)
        return Visibility(min((marks[f] for f in known if f in marks), default=BEGINNING), feed)

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
        borrowed = self._borrowed.get((place, key), MISSING)
        if borrowed is not MISSING:
            return borrowed if mine else deepcopy(borrowed)
        value = self.default(key) if found is MISSING else self.copied(found)
        if type(value) not in _FROZEN and cursor is not None and mine:
            self._borrowed[place, key] = value
            foreign = key != cursor.key or type(key) is tuple
            self._asked[place, key] = feed or cursor.topic, cursor.copy() if foreign else None
        return value

    def borrow_late(self, place: int, key: Any) -> Any:
        """The default, for a window that has expired: an event that changes it is late."""
        value = self.default(key)
        cursor = current()
        if cursor is None or cursor.part is not self.part or type(value) in _FROZEN:
            return value
        before = self._late.get((place, key))
        if before is not None:
            if before.cursor.place == cursor.place:
                return before.value
            self._judge(before)
        self._late[place, key] = Late(value, cursor)
        return value

    def _judge(self, late: Late) -> None:
        if late.changed:
            self.reject(late.cursor, "late")

    def borrow_all(
        self, place: int, stored: Mapping[Any, Any], feed: str | None = None
    ) -> dict[Any, Any]:
        """All values of a place for the agent; see ``borrow``."""
        new_keys = self.new_keys(place, stored)
        borrowed = {key: self.borrow(place, key, value, feed) for key, value in stored.items()}
        return borrowed | {key: self.borrow(place, key, MISSING, feed) for key in new_keys}

    def current_value(self, place: int, key: Any) -> Any:
        """The value now, also where agents have only changed it in place.

        A batch that ended now would store it, so a read between two events must see it.

        Returns:
            ``MISSING`` where there is none.
        """
        found = self.found(place, key)
        if not self._borrowed:
            return found
        borrowed = self._borrowed.get((place, key), MISSING)
        if borrowed is MISSING or not self._keeps(place, borrowed, found):
            return found
        return borrowed

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

    def return_value(self, place: int, key: Any) -> None:
        """Store what agents changed inside of one value, which they hold no longer.

        Raises:
            PartitionError: When the key belongs to another partition.
        """
        borrowed = self._borrowed.pop((place, key), MISSING)
        if borrowed is MISSING:
            return
        found = self.found(place, key)
        if self._keeps(place, borrowed, found):
            feed, cursor = self._asked[place, key]
            if cursor is not None and found is MISSING:
                # A value that is stored may be changed by any event that iterates over it.
                self.check(key, cursor)
            self.feeds[feed] = None
            self.put(place, key, borrowed)

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

    def found(self, place: int, key: Any) -> Any:
        """The stored value of a place and key; ``MISSING`` where there is none."""
        raise NotImplementedError

    def holds(self, key: Any) -> bool:
        """Whether a key has any value."""
        raise NotImplementedError

    def put(self, place: int, key: Any, value: Any) -> None:
        """Set the value of a place and key."""
        raise NotImplementedError

    def advance(self) -> None:
        """Move the table's clock: as far as the slowest of the clocks that write it."""
        part = self.part
        marks = {**part.marks, WALL_CLOCK: part.wall}
        upto = reached(self.feeds, marks, part.moved, part.wall, part.rules.idle)
        self.watermark = max(self.watermark, upto)

    def close(self, *, emit: bool, final: bool) -> list[Emitted]:
        """Drop the windows that have expired.

        Returns:
            What they held, by start, then key; nothing where it isn't wanted.
        """
        return []

    def changes(self) -> Iterator[Emitted]:
        """Every entry that has changed since the last commit."""
        raise NotImplementedError

    def snapshot(self) -> Iterator[Emitted]:
        """Every entry that hasn't expired."""
        raise NotImplementedError

    def expired(self, window: tuple[int, int]) -> bool:
        """Whether a window (or a session) with these bounds has expired."""
        return False

    def commit(self) -> None:
        """Write what has changed to the journal."""
        for entries in self.entries().values():
            entries.commit()


def _partitioning(stored: Sequence[Any]) -> copartition.Partitioning:
    parts, way = stored
    return parts, way


def in_order(keys: Any) -> list[Any]:
    """Keys in their own order, or in that of stored keys where they can't be compared."""
    try:
        return sorted(keys)
    except TypeError:
        return sorted(keys, key=encode_part)
