"""One table in one partition: its watermark and its entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from muntin.engine.clocks import InputClocks
from muntin.model.axis import MIN_POSITION
from muntin.model.errors import StateCorruptedError
from muntin.state.blobs import Blobs
from muntin.tables.cells import GONE, MISSING, sort_keys
from muntin.tables.clocks import EVERYTHING_VISIBLE, WALL_CLOCK, FieldClock, Relative, Visibility
from muntin.tables.current import EventCursor, find_cursor
from muntin.tables.entries import Entries, SetEntries
from muntin.tables.lending import Lender
from muntin.tables.spec import TableSpec
from muntin.tables.time_values import parse_point_in_time
from muntin.tables.typed import ValueCodec, make_codec

if TYPE_CHECKING:
    from muntin.tables.partition import Partition

Operation = Callable[[Any, Any], Any]


class TableEntry(NamedTuple):
    """An entry of a table after a batch.

    Attributes:
        window: Start and end, microseconds; ``None`` without windows.
        value: The entry's value; ``GONE`` if it was deleted.
        closed: True if the window has expired, so that this is its final value.
    """

    key: Any
    window: tuple[int, int] | None
    value: Any
    closed: bool


class TableShard(Lender):
    """The behaviour that all kinds of tables share.

    Attributes:
        entries: All stored entries, by the name of their journal.
        watermark: The table's watermark, which never goes back.
        latest: The latest position that was written.
        last_writer: The agent whose clock was recorded last.
        span: Number of positions (for sessions: the length of a stretch of ends) stored together.
            It stays as it was when the first batch was written, whatever ``expires`` is now.
        paired: True if entries are stored under pairs of the key and a second part: the member of
            a set, or the start of a session.
        stored: The values by key, of tables without sessions.
    """

    stored: Entries

    def __init__(self, spec: TableSpec, part: Partition) -> None:
        super().__init__(spec, part)
        self.entries: dict[str, Entries] = {}
        self.watermark = MIN_POSITION
        self.latest: int | None = None
        self.last_writer: EventCursor | None = None
        self.span = spec.span
        self.paired = spec.sets

    def create_entries(self, name: str, span: int) -> Entries:
        """Create the entries of a journal."""
        kind = SetEntries if self.spec.sets else Entries
        entries = self.entries[name] = kind(span, self.create_codec())
        return entries

    def create_codec(self) -> ValueCodec:
        """Return the codec of the stored values."""
        return make_codec(self.spec.value_type)

    def begin(self, blobs: Blobs | None, stored: Mapping[str, Any] | None) -> None:
        """Start a batch from a manifest entry; ``None`` if memory is the last commit."""
        self.last_writer = None
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
        dropped = self.last_dropped()
        for name, entries in self.entries.items():
            entries.begin(blobs, None if runs is None else runs.get(name, ()), dropped[name])

    def last_dropped(self) -> dict[str, int | None]:
        """Return the last position that has expired, for each name in ``entries``."""
        return dict.fromkeys(self.entries, self.closed)

    def forget_index(self) -> None:
        """Forget what was derived from entries, which another worker may have changed."""

    def _restore(self, stored: Mapping[str, Any]) -> None:
        if stored:
            self.spec.check_same(stored["spec"])
            self.set_span(stored["span"])
        self.watermark = stored.get("watermark", MIN_POSITION)
        self.closed = stored.get("closed")
        self.latest = stored.get("latest")
        self.feeds = dict.fromkeys(stored.get("feeds", ()))
        self.partitionings = dict.fromkeys((parts, way) for parts, way in stored.get("lies", ()))

    def set_span(self, span: int) -> None:
        """Set the number of positions that are stored together."""
        self.span = span

    def describe_state(self) -> dict[str, Any]:
        """Return the table's manifest entry."""
        return {
            "span": self.span,
            "watermark": self.watermark,
            "closed": self.closed,
            "latest": self.latest,
            "feeds": list(self.feeds),
            "lies": list(self.partitionings),
        }

    def resolve_time(self, cursor: EventCursor, relative: Relative) -> tuple[int, int] | None:
        """Return the time of a write, and the watermark that the write is judged by.

        A write is judged by its own clock as of the event's arrival. The progress of other clocks
        since then depends on how the input was cut into batches.

        Returns:
            ``None`` if the value has no valid time; then the event is rejected.
        """
        if relative is None:
            if cursor is not self.last_writer:
                self.feeds[cursor.topic] = None
                self.last_writer = cursor
            return cursor.time, cursor.watermark
        if isinstance(relative, FieldClock):
            return self._resolve_field_time(cursor, relative)
        self.feeds[WALL_CLOCK] = None
        return self.part.wall, MIN_POSITION

    def _resolve_field_time(self, cursor: EventCursor, clock: FieldClock) -> tuple[int, int] | None:
        field_value = clock.by.get_key(cursor.value)
        try:
            time = None if field_value is None else parse_point_in_time(field_value)
        except ValueError as error:
            self.reject(cursor, "malformed", str(error))
            return None
        if time is None:
            self.reject(cursor, "null_time")
            return None
        excluded = self.part.judge_time(time)
        if excluded is not None:
            self.reject(cursor, excluded)
            return None
        self.feeds[clock.name_for(cursor.topic)] = None
        return time, cursor.arrival.watermark_of(clock)

    def find_visibility(self, relative: Relative) -> Visibility:
        """Return the windows that the current agent sees; from outside, all are visible.

        A window that has expired by the clocks of the agent's own events isn't visible any more,
        even if the batch that closes it hasn't ended. So one batch shows the same as several would.
        """
        cursor = find_cursor()
        if cursor is None:
            return EVERYTHING_VISIBLE
        if relative is None and len(self.feeds) == 1 and cursor.topic in self.feeds:
            return Visibility(cursor.watermark, cursor.topic)
        watermarks = {cursor.topic: cursor.watermark, WALL_CLOCK: self.part.wall}
        for clock in self.part.rules.clocks:
            watermarks[clock.name_for(cursor.topic)] = cursor.arrival.watermark_of(clock)
        feed = relative.name_for(cursor.topic) if isinstance(relative, FieldClock) else relative
        feed = feed or cursor.topic
        writing_clocks = self.feeds or (feed,)
        return Visibility(
            min(
                (
                    watermarks[clock_name]
                    for clock_name in writing_clocks
                    if clock_name in watermarks
                ),
                default=MIN_POSITION,
            ),
            feed,
        )

    def window_bounds(self, position: int) -> tuple[int, int] | None:
        """Return start and end of a position, microseconds; ``None`` without windows."""
        return None

    def list_positions(self, key: Any, cursor: EventCursor, relative: Relative) -> Sequence[int]:
        """Return the positions that a write at the event's time may change."""
        raise NotImplementedError

    def has_key(self, key: Any) -> bool:
        """Return whether a key has any value."""
        raise NotImplementedError

    def change_members(
        self,
        key: Any,
        add: Iterable[Any],
        discard: Iterable[Any],
        cursor: EventCursor,
        relative: Relative = None,
    ) -> None:
        """Add and remove members in all sets that contain the event's time."""
        assert isinstance(self.stored, SetEntries)
        for position in self.list_positions(key, cursor, relative):
            # Otherwise the lent set would overwrite this change.
            self.return_value(position, key)
            self.stored.change_members(position, key, add, discard)

    def advance(self) -> None:
        """Advance the table's watermark to that of the slowest active clock that writes it.

        If none is active, it is that of the latest clock, which follows the wall clock in silence.
        """
        part = self.part
        watermarks = {**part.watermarks, WALL_CLOCK: part.wall}
        clocks = InputClocks(
            {
                feed: [watermarks[feed], None, part.moved.get(feed, part.wall)]
                for feed in self.feeds
                if feed in watermarks
            }
        )
        upto = clocks.find_slowest_time(part.rules.idle, part.wall)
        if upto is None:
            return
        is_silent = clocks.holder(part.rules.idle, part.wall) is None
        self.watermark = max(self.watermark, upto + part.silence if is_silent else upto)

    def close(self, *, emit: bool, final: bool) -> list[TableEntry]:
        """Drop the windows that have expired, or all windows if the input has ended (``final``).

        Returns:
            Their values by start, then key; empty without ``emit``.
        """
        return []

    def changes(self) -> Iterator[TableEntry]:
        """Iterate over the entries that have changed since the last commit."""
        raise NotImplementedError

    def list_entries(self, position: int, keys: Iterable[Any]) -> Iterator[TableEntry]:
        """Iterate over the present entries of some keys; none if the position has expired."""
        if not self.has_expired(position):
            for key in sort_keys(keys):
                value = self.get_stored(position, key)
                yield TableEntry(
                    key, self.window_bounds(position), GONE if value is MISSING else value, False
                )

    def snapshot(self) -> Iterator[TableEntry]:
        """Iterate over all entries that haven't expired."""
        raise NotImplementedError

    def is_expired_session(self, window: tuple[int, int]) -> bool:
        """Return whether a session with these bounds has expired; changes may still include it."""
        return False

    def commit(self) -> None:
        """Write the changes to the journals."""
        for entries in self.entries.values():
            entries.commit()

    def shrink(self) -> None:
        """Free the memory of committed entries, which can be read again."""
        self.forget_index()
        for entries in self.entries.values():
            entries.shrink()


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
        self.stored.put(position, key, self.copy_to_store(position, key, value))

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
