"""One table in one partition: its clock, and what is stored of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from muntin.model.errors import StateCorruptedError
from muntin.state.blobs import Blobs
from muntin.stores.keys import encode_part
from muntin.tables.cells import GONE, MISSING
from muntin.tables.clocks import (
    OUTSIDE,
    WALL_CLOCK,
    FieldClock,
    Relative,
    Visibility,
    reached,
)
from muntin.tables.current import EventCursor, current
from muntin.tables.entries import Entries
from muntin.tables.lending import Lender
from muntin.tables.moments import BEGINNING, moment
from muntin.tables.spec import TableSpec
from muntin.tables.typed import ValueCodec, codec_of

if TYPE_CHECKING:
    from muntin.tables.partition import Partition

Operation = Callable[[Any, Any], Any]


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


class TableShard(Lender):
    """What all kinds of tables share.

    Attributes:
        entries: Everything that is stored, by a name of its own.
        watermark: Up to where the table's clock has come; it never goes back.
        latest: The newest place that was written.
        known: The agent whose clock has been taken note of.
        span: How many places (of sessions: how long a stretch of ends) are stored together. It
            stays what it was when the first batch was written, whatever ``expires`` is now.
        paired: Whether entries are stored under pairs: the key, and what else names them.
    """

    paired = False

    def __init__(self, spec: TableSpec, part: Partition) -> None:
        super().__init__(spec, part)
        self.entries: dict[str, Entries] = {}
        self.watermark = BEGINNING
        self.latest: int | None = None
        self.known: EventCursor | None = None
        self.span = spec.span

    def new_entries(self, name: str, span: int) -> Entries:
        """Entries that keep this table's values, under a name."""
        found = self.entries[name] = Entries(span, self.codec())
        return found

    def codec(self) -> ValueCodec:
        """How what is under a key is written."""
        return codec_of(self.spec.value_type)

    def begin(self, blobs: Blobs | None, stored: Mapping[str, Any] | None) -> None:
        """Start a batch.

        Args:
            blobs: Where the journal is.
            stored: The table's part of the manifest; ``None`` where memory is the last commit.
        """
        self.known = None
        self.forget_events()
        if stored is not None:
            self.forget_index()
            try:
                self._restore(stored)
            except (KeyError, TypeError) as error:
                raise StateCorruptedError(
                    f"the manifest's part for the table {self.spec.name!r} can't be read"
                ) from error
        runs = None if stored is None else stored.get("runs", {})
        dropped = self.dropped()
        for name, entries in self.entries.items():
            entries.begin(blobs, None if runs is None else runs.get(name, ()), dropped[name])

    def dropped(self) -> dict[str, int | None]:
        """The greatest place that has expired, for each name in ``entries``."""
        return dict.fromkeys(self.entries, self.closed)

    def forget_index(self) -> None:
        """Forget what was put together of entries: another worker may have changed them."""

    def _restore(self, stored: Mapping[str, Any]) -> None:
        if stored:
            self.spec.check_same(stored["spec"])
            self.lay_out(stored["span"])
        self.watermark = stored.get("watermark", BEGINNING)
        self.closed = stored.get("closed")
        self.latest = stored.get("latest")
        self.feeds = dict.fromkeys(stored.get("feeds", ()))
        self.partitionings = dict.fromkeys((parts, way) for parts, way in stored.get("lies", ()))

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
        feed = relative.feed(cursor.topic) if isinstance(relative, FieldClock) else relative
        feed = feed or cursor.topic
        known = self.feeds or (feed,)
        return Visibility(min((marks[f] for f in known if f in marks), default=BEGINNING), feed)

    def window(self, place: int) -> tuple[int, int] | None:
        """Start and end of a place, microseconds; ``None`` without windows."""
        return None

    def places(self, key: Any, cursor: EventCursor, relative: Relative) -> Sequence[int]:
        """The places that a write at the event's time may change."""
        raise NotImplementedError

    def holds(self, key: Any) -> bool:
        """Whether a key has any value."""
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

    def current_entries(self, place: int, keys: Iterable[Any]) -> Iterator[Emitted]:
        """The entries of some keys as they are now; none where the place has expired."""
        if not self.has_expired(place):
            for key in in_order(keys):
                value = self.found(place, key)
                yield Emitted(key, self.window(place), GONE if value is MISSING else value, False)

    def snapshot(self) -> Iterator[Emitted]:
        """Every entry that hasn't expired."""
        raise NotImplementedError

    def expired(self, window: tuple[int, int]) -> bool:
        """Whether a session with these bounds has expired, though it may be among the changes."""
        return False

    def commit(self) -> None:
        """Write what has changed to the journal."""
        for entries in self.entries.values():
            entries.commit()

    def shrink(self) -> None:
        """Forget all that is committed, and could be read again."""
        self.forget_index()
        for entries in self.entries.values():
            entries.shrink()


def in_order(keys: Iterable[Any]) -> list[Any]:
    """Keys in their own order, or in that of stored keys where they can't be compared."""
    keys = list(keys)
    try:
        return sorted(keys)
    except TypeError:
        return sorted(keys, key=encode_part)
