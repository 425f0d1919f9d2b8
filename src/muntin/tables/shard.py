"""One table in one partition: whose clock it goes by, and the values that were lent to an agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

from muntin.engine.runs import Blobs
from muntin.model.errors import StateCorruptedError
from muntin.stores.keys import encode_part
from muntin.tables import copartition
from muntin.tables.cells import MISSING
from muntin.tables.current import Cursor, current
from muntin.tables.entries import Entries
from muntin.tables.moments import BEGINNING, moment
from muntin.tables.spec import TableSpec
from muntin.tables.typed import written

if TYPE_CHECKING:
    from muntin.tables.partition import Partition

NOW, FIELD = "@now", "@field"
"""Clocks besides those of topics: the wall clock, and times in the values themselves."""

Relative = Callable[[Any], Any] | str | None
"""What a table's times are: the events' own (``None``), ``NOW``, or taken from a value."""

# What can't change behind the table's back.
_FROZEN = {type(None), bool, int, float, str, bytes}


class Told(NamedTuple):
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


class Shard:
    """What all kinds of tables share.

    Args:
        spec: The table.
        part: The partition that it is in.

    Attributes:
        watermark: Up to where the table's clock has come; it never goes back.
        closed: The greatest place that has expired.
        latest: The newest place that was written.
        single: Whether no more than one clock drives it, so that events can be judged one by one.
        known: The agent whose clock has been taken note of.
        lies: How the table's keys lie.
        span: How many places (of sessions: how long a stretch of ends) are stored together. It
            stays what it was when the first batch was written, whatever ``expires`` is now.
    """

    def __init__(self, spec: TableSpec, part: Partition) -> None:
        self.spec = spec
        self.part = part
        self.watermark = BEGINNING
        self.closed: int | None = None
        self.latest: int | None = None
        self.single = True
        self.known: Cursor | None = None
        self.lies: dict[copartition.Lie, None] = {}
        self.span = 1
        self._spec = spec.to_dict()
        self._feeds: dict[str, None] = {}
        self._field = BEGINNING
        self._ahead: dict[Cursor, int] = {}
        # What agents were lent, and in which topic's name.
        self._lent: dict[tuple[int, Any], Any] = {}
        self._asked: dict[tuple[int, Any], str] = {}
        self._refused: tuple[str, str, int] | None = None

    def kept(self) -> dict[str, Entries]:
        """Everything that is stored, by a name of its own."""
        raise NotImplementedError

    def entries(self, span: int, on_load: Callable[[int], None] | None = None) -> Entries:
        """Entries that keep this table's values."""
        return Entries(span, written(self.spec.value_type), on_load)

    def begin(self, blobs: Blobs | None, stored: Mapping[str, Any] | None) -> None:
        """Start a batch.

        Args:
            blobs: Where the journal is.
            stored: The table's part of the manifest; ``None`` where memory is the last commit.
        """
        self.known = None
        self._ahead, self._refused = {}, None
        self._lent, self._asked = {}, {}
        if stored is not None:
            try:
                self._restore(stored)
            except (KeyError, TypeError) as error:
                raise StateCorruptedError(
                    f"the manifest's part for the table {self.spec.name!r} can't be read"
                ) from error
        runs = None if stored is None else stored.get("runs", {})
        dropped = self.dropped()
        for name, entries in self.kept().items():
            entries.begin(blobs, None if runs is None else runs.get(name, {}), dropped.get(name))

    def dropped(self) -> dict[str, int | None]:
        """The greatest place that has expired, for each name in ``kept``."""
        return {}

    def _restore(self, stored: Mapping[str, Any]) -> None:
        if stored:
            self.spec.check_same(stored["spec"])
        self.watermark = stored.get("watermark", BEGINNING)
        self.closed = stored.get("closed")
        self.latest = stored.get("latest")
        self._feeds = dict.fromkeys(stored.get("feeds", ()))
        self._field = stored.get("field", BEGINNING)
        self.lies = dict.fromkeys(map(_lie, stored.get("lies", ())))
        if stored:
            self.lay_out(stored["span"])
        self.single = len(self._feeds) <= 1

    def lay_out(self, span: int) -> None:
        """Store so many places together."""
        self.span = span

    def stored(self) -> dict[str, Any]:
        """The table's part of the manifest."""
        return {
            "spec": self._spec,
            "span": self.span,
            "watermark": self.watermark,
            "closed": self.closed,
            "latest": self.latest,
            "feeds": list(self._feeds),
            "field": self._field,
            "lies": list(self.lies),
            "runs": {name: entries.journal.entries() for name, entries in self.kept().items()},
        }

    def _admit(self, feed: str) -> None:
        """Take note of whose clock comes with a write."""
        if feed not in self._feeds:
            self._feeds[feed] = None
            self.single = len(self._feeds) == 1

    def placed(self, cursor: Cursor, relative: Relative) -> tuple[int, int] | None:
        """The time that a write belongs to, and the watermark that it is judged by.

        Returns:
            ``None`` where the value has no time; the event is rejected then.
        """
        if relative is None:
            if cursor is not self.known:
                self._admit(cursor.topic)
                self.known = cursor
            return cursor.time, cursor.judged if self.single else self.watermark
        if relative == NOW:
            self._admit(NOW)
            return self.part.wall, BEGINNING if self.single else self.watermark
        assert callable(relative)
        self._admit(FIELD)
        return self._by_field(cursor, relative(cursor.value))

    def _by_field(self, cursor: Cursor, found: Any) -> tuple[int, int] | None:
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
        judged = max(self._field, self._ahead.get(cursor, BEGINNING))
        ahead = time - self.part.lateness(cursor.topic)
        self._ahead[cursor] = max(self._ahead.get(cursor, BEGINNING), ahead)
        return time, judged if self.single else self.watermark

    def check(self, key: Any, cursor: Cursor) -> None:
        """Refuse a key that belongs to another partition, and take note of how it lies."""
        if key != cursor.key or type(key) is tuple:
            self.lies[copartition.check(self.spec.name, key, cursor)] = None

    def reject(self, cursor: Cursor, reason: str, detail: str | None = None) -> None:
        """Hand an event back, once for this table however often it is written."""
        event = (cursor.agent, reason, cursor.offset)
        if event != self._refused:
            self._refused = event
            self.part.reject(cursor, reason, self.spec.name, detail)

    def default(self, key: Any) -> Any:
        """What a key without a value has.

        Raises:
            KeyError: When the table has no default.
        """
        if self.spec.default is None:
            raise KeyError(key)
        return self.spec.default()

    def lend(self, place: int, key: Any, found: Any) -> Any:
        """A value for the agent; what it changes inside of it is kept, too.

        Args:
            place: Where it lies.
            key: Under which key.
            found: The value; ``MISSING`` where there is none.
        """
        if type(found) in _FROZEN:
            return found
        lent = self._lent.get((place, key), MISSING)
        if lent is not MISSING:
            return lent
        value = self.default(key) if found is MISSING else self.copied(found)
        # Outside of agents tables are only read: what is changed there is never taken back.
        cursor = current()
        if type(value) not in _FROZEN and cursor is not None:
            self._lent[place, key] = value
            self._asked[place, key] = cursor.topic
        return value

    def lend_all(self, place: int, stored: Mapping[Any, Any]) -> dict[Any, Any]:
        """All values of a place for the agent, as ``lend`` gives one.

        Args:
            place: Where they lie.
            stored: What is stored there.
        """
        begun = self.begun(place, stored)
        lent = {key: self.lend(place, key, value) for key, value in stored.items()}
        return lent | {key: self._lent[place, key] for key in begun}

    def left(self, place: int, key: Any) -> Any:
        """A value as agents have left it, also where they have only changed it in place.

        A batch that ended now would store it, so whoever asks between two events must see it.

        Returns:
            ``MISSING`` where there is none.
        """
        found = self.found(place, key)
        if not self._lent:
            return found
        lent = self._lent.get((place, key), MISSING)
        if lent is MISSING or not self._keeps(place, lent, found):
            return found
        return lent

    def begun(self, place: int, stored: Mapping[Any, Any]) -> list[Any]:
        """Keys of a place that have nothing but a default which agents have changed in place."""
        lent = [key for at, key in self._lent if at == place and key not in stored]
        return [key for key in lent if self.left(place, key) is not MISSING]

    def copied(self, found: Any) -> Any:
        """A stored value apart from what is stored."""
        return deepcopy(found)

    def own(self, place: int, key: Any, value: Any) -> Any:
        """A value as it goes into the table, apart from what the agent holds."""
        if self._lent:
            self._lent.pop((place, key), None)
        return value if type(value) in _FROZEN else deepcopy(value)

    def take_back(self, place: int, key: Any) -> None:
        """Take over what agents changed inside of one value, which is lent no longer."""
        lent = self._lent.pop((place, key), MISSING)
        if lent is not MISSING and self._keeps(place, lent, self.found(place, key)):
            self.put(place, key, lent)
            if not self._feeds:
                # Nobody writes: then it is by whoever changes it in place that windows expire.
                self._admit(self._asked[place, key])

    def settle(self) -> None:
        """Take over what agents changed inside of values that they were lent."""
        for place, key in list(self._lent):
            self.take_back(place, key)

    def _keeps(self, place: int, lent: Any, found: Any) -> bool:
        """Whether a lent value differs from what is stored, and its place takes it."""
        if self.gone(place):
            return False
        if found is MISSING and self.spec.default is not None:
            found = self.spec.default()
        return bool(lent != found)

    def gone(self, place: int) -> bool:
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

    def advance(self, marks: Mapping[str, int], wall: int) -> None:
        """Move the table's clock: as far as the slowest of the clocks that it is written by.

        Args:
            marks: The watermark of each topic.
            wall: The wall clock.
        """
        self._field = max([self._field, *self._ahead.values()])
        clocks = {NOW: wall, FIELD: self._field}
        reached = [clocks.get(feed, marks.get(feed, BEGINNING)) for feed in self._feeds]
        if reached:
            self.watermark = max(self.watermark, min(reached))

    def close(self, *, tell: bool, final: bool) -> list[Told]:
        """Let windows go that have expired.

        Args:
            tell: Whether what they held is wanted.
            final: Whether all windows have expired.

        Returns:
            What they held, by start, then key; nothing where it isn't wanted.
        """
        return []

    def changes(self) -> Iterator[Told]:
        """Every entry that has changed since the last commit."""
        raise NotImplementedError

    def standing(self) -> Iterator[Told]:
        """Every entry that hasn't expired."""
        raise NotImplementedError

    def expired(self, window: tuple[int, int]) -> bool:
        """Whether a window (or a session) with these bounds has expired."""
        return False

    def commit(self) -> None:
        """Write what has changed to the journal."""
        for entries in self.kept().values():
            entries.commit()


def _lie(stored: Sequence[Any]) -> copartition.Lie:
    parts, way = stored
    return parts, way


def in_order(keys: Any) -> list[Any]:
    """Keys in their own order, or in that of stored keys where they can't be compared."""
    try:
        return sorted(keys)
    except TypeError:
        return sorted(keys, key=encode_part)
