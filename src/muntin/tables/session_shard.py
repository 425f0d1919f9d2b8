"""A table of sessions in one partition: a write lands in the session that its time belongs to.

Sessions that a write brings together are merged. They are stored by their ends, so that what has
expired is dropped by whole segments (source: the session store of KIP-94).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from muntin.model.sessions import Sessions
from muntin.tables.cells import GONE, MISSING
from muntin.tables.clocks import Relative, Visibility
from muntin.tables.current import EventCursor
from muntin.tables.entries import Entries
from muntin.tables.moments import BEGINNING, END
from muntin.tables.shard import Emitted, TableShard, in_order
from muntin.tables.spec import TableSpec
from muntin.tables.window_shard import Operation

if TYPE_CHECKING:
    from muntin.tables.partition import Partition


@dataclass(slots=True)
class TableSession:
    """One session: the times of its first and last event, and its value."""

    start: int
    end: int
    value: Any


class SessionTableShard(TableShard):
    """Sessions of a gap."""

    paired = True

    def __init__(self, spec: TableSpec, part: Partition) -> None:
        super().__init__(spec, part)
        assert isinstance(spec.windows, Sessions)
        self.sessions = spec.windows
        self.span = spec.unit
        self.stored_sessions = self.new_entries(1, self._forget)
        self._of: dict[Any, list[TableSession]] | None = None
        # What was touched since the last commit, by key and start: the end then, and what is now.
        self._before: dict[tuple[Any, int], int | None] = {}
        self._now: dict[tuple[Any, int], TableSession | None] = {}
        self._closed_ends: dict[tuple[Any, int], int] = {}

    def entries(self) -> dict[str, Entries]:
        return {"sessions": self.stored_sessions}

    def dropped(self) -> dict[str, int | None]:
        return {"sessions": self.closed}

    def begin(self, blobs: Any, stored: Any) -> None:
        super().begin(blobs, stored)
        if stored is not None:
            # Another worker may have committed since, and nothing is read until it's asked for.
            self._of = None
        self._before, self._now, self._closed_ends = {}, {}, {}

    def _forget(self, segment: int) -> None:
        self._of = None

    def _by_key(self) -> dict[Any, list[TableSession]]:
        """All sessions that are kept, by key."""
        # Asking for the places reads what isn't in memory, which makes the list of no use.
        places = self.stored_sessions.places() if self._of is None else ()
        if self._of is None:
            self._of = {}
            for place in places:
                for (key, start), (end, value) in self.stored_sessions.at(place).items():
                    self._of.setdefault(key, []).append(TableSession(start, end, value))
        return self._of

    def of(self, key: Any) -> list[TableSession]:
        """The sessions of a key, in order."""
        return sorted(self._by_key().get(key, ()), key=lambda session: session.start)

    def _is_expired(self, end: int, watermark: int) -> bool:
        """Whether a session that ends there has expired."""
        if self.spec.expires is None:
            return False
        return end <= self.sessions.ended(watermark - self.spec.expires)

    def _touched(self, key: Any, time: int, judged: int) -> list[TableSession]:
        reach = self.sessions.reach
        return [
            session
            for session in self.of(key)
            if session.start - reach < time < session.end + reach
            and not self._is_expired(session.end, judged)
        ]

    def _enter(
        self, key: Any, cursor: EventCursor, relative: Relative
    ) -> tuple[int, list[TableSession]] | None:
        """The time of a write and the sessions that it joins; ``None`` where it is too late."""
        placed = self.placed(cursor, relative)
        self.check(key, cursor)
        if placed is None:
            return None
        time, judged = placed[0], max(placed[1], self.watermark)
        touched = self._touched(key, time, judged)
        end = max([time, *(session.end for session in touched)])
        if self._is_expired(end, judged):
            self.reject(cursor, "late", judged=judged)
            return None
        self.latest = time if self.latest is None else max(self.latest, time)
        return time, touched

    def apply(
        self, operation: Operation, key: Any, operand: Any, cursor: EventCursor, relative: Relative
    ) -> None:
        """Set ``value = operation(value, operand)`` in the session of the event's time."""
        entered = self._enter(key, cursor, relative)
        if entered is not None:
            time, touched = entered
            old = self._merged(key, touched)
            self._replace(key, time, touched, operation(old, operand))

    def write(self, key: Any, value: Any, cursor: EventCursor, relative: Relative) -> None:
        """Set the value of the session of the event's time; ``GONE`` deletes it."""
        entered = self._enter(key, cursor, relative)
        if entered is not None:
            time, touched = entered
            if value is GONE and not touched:
                raise KeyError(key)
            for session in touched:
                # A borrowed value of it is overwritten, and must not be stored.
                self._borrowed.pop((session.start, key), None)
            self._replace(key, time, touched, self.stored_copy(time, key, value))

    def _merged(self, key: Any, touched: list[TableSession]) -> Any:
        if not touched:
            return self.default(key)
        values = [self._borrowed.pop((s.start, key), s.value) for s in touched]
        return reduce(self.spec.merge, values)

    def _replace(self, key: Any, time: int, touched: list[TableSession], value: Any) -> None:
        for session in touched:
            self._remove(key, session)
        if value is GONE:
            return
        start = min([time, *(session.start for session in touched)])
        end = max([time, *(session.end for session in touched)])
        self._add(key, TableSession(start, end, value))

    def _remove(self, key: Any, session: TableSession) -> None:
        sessions = self._by_key()
        self.stored_sessions.pair(session.end // self.span)[0][key, session.start] = GONE
        sessions[key] = [one for one in sessions[key] if one.start != session.start]
        if not sessions[key]:
            del sessions[key]
        self._before.setdefault((key, session.start), session.end)
        self._now[key, session.start] = None

    def _add(self, key: Any, session: TableSession) -> None:
        fresh, _ = self.stored_sessions.pair(session.end // self.span)
        fresh[key, session.start] = [session.end, session.value]
        self._by_key().setdefault(key, []).append(session)
        self._before.setdefault((key, session.start), None)
        self._now[key, session.start] = session

    def at(self, key: Any, time: int, visibility: Visibility) -> TableSession | None:
        """The session of a key that an event of some time would join."""
        touched = self._touched(key, time, visibility.horizon)
        return touched[-1] if touched else None

    def seen(self, key: Any, visibility: Visibility) -> list[TableSession]:
        """The sessions of a key that haven't expired for the agent at work, in order."""
        return [one for one in self.of(key) if not self._is_expired(one.end, visibility.horizon)]

    def read(self, key: Any, time: int, visibility: Visibility) -> Any:
        """The value of the session of a time, or the default.

        The default isn't borrowed: a session begins with a write.
        """
        session = self.at(key, time, visibility)
        if session is not None:
            return self.borrow(session.start, key, session.value, visibility.feed)
        if self._is_expired(time, max(visibility.horizon, self.watermark)):
            return self.borrow_late(time, key)
        return self.default(key)

    def found(self, place: int, key: Any) -> Any:
        """See ``TableShard``; the place is a session's start."""
        for session in self.of(key):
            if session.start == place:
                return session.value
        return MISSING

    def holds(self, key: Any) -> bool:
        return bool(self.of(key))

    def put(self, place: int, key: Any, value: Any) -> None:
        """See ``TableShard``; the place is a session's start."""
        for session in self.of(key):
            if session.start == place:
                self._remove(key, session)
                self._add(
                    key, TableSession(place, session.end, self.stored_copy(place, key, value))
                )

    def joined_at(self, time: int, visibility: Visibility) -> dict[Any, TableSession]:
        """By key, the sessions that an event of some time would join."""
        found = {key: self.at(key, time, visibility) for key in self._by_key()}
        return {key: session for key, session in found.items() if session is not None}

    def keys(self, visibility: Visibility) -> list[Any]:
        """All keys that have a session."""
        return [key for key in self._by_key() if self.seen(key, visibility)]

    def snapshot(self) -> Iterator[Emitted]:
        """See ``TableShard``; by key, then start."""
        for key in in_order(self._by_key()):
            for session in self.of(key):
                if not self._is_expired(session.end, self.watermark):
                    yield Emitted(key, self.window(session), session.value, False)

    def expired(self, window: tuple[int, int]) -> bool:
        return self._is_expired(window[1] - self.sessions.gap, self.watermark)

    def window(self, session: TableSession) -> tuple[int, int]:
        """Start and end of a session as windows have them: the end is a gap behind the last."""
        return session.start, session.end + self.sessions.gap

    def has_expired(self, place: int) -> bool:
        """See ``TableShard``; a session that has expired isn't found any more."""
        return False

    def close(self, *, emit: bool, final: bool) -> list[Emitted]:
        watermark = END if final else self.watermark
        if watermark == BEGINNING or (self.spec.expires is None and not final):
            return []
        upto = self.sessions.ended(watermark - (self.spec.expires or 0))
        over = []
        for place in self.stored_sessions.places(None, upto // self.span):
            for (key, start), (end, value) in self.stored_sessions.at(place).items():
                if end <= upto:
                    over.append((start, key, TableSession(start, end, value)))
        for _, key, session in over:
            self._remove(key, session)
            self._closed_ends[key, session.start] = session.end
        self.closed = (upto + 1) // self.span - 1
        self.stored_sessions.drop_through(self.closed)
        if not emit:
            return []
        by_start: dict[int, dict[Any, TableSession]] = {}
        for start, key, session in over:
            by_start.setdefault(start, {})[key] = session
        return [
            Emitted(key, self.window(sessions[key]), sessions[key].value, True)
            for _, sessions in sorted(by_start.items())
            for key in in_order(sessions)
        ]

    def changes(self) -> Iterator[Emitted]:
        """See ``TableShard``; a session that has other bounds now is deleted under the old ones."""
        for touched, before in self._before.items():
            key, start = touched
            session = self._now[touched]
            end = session.end if session is not None else self._closed_ends.get(touched)
            if before is not None and before != end:
                yield Emitted(key, self.window(TableSession(start, before, None)), GONE, False)
            if session is not None:
                yield Emitted(key, self.window(session), session.value, False)
