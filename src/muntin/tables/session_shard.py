"""A table of sessions in one partition: a write goes to the session that its time belongs to.

A write merges the sessions that it connects. Sessions are stored by their ends, so that expired
ones are dropped by whole segments (source: the session store of KIP-94).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from muntin.model.axis import MAX_POSITION, MIN_POSITION
from muntin.model.sessions import Sessions
from muntin.tables.cells import GONE, MISSING, sort_keys
from muntin.tables.clocks import Relative, Visibility
from muntin.tables.current import EventCursor
from muntin.tables.shard import Operation, TableEntry, TableShard
from muntin.tables.spec import TableSpec
from muntin.tables.typed import ValueCodec

if TYPE_CHECKING:
    from muntin.tables.partition import Partition


@dataclass(slots=True)
class TableSession:
    """A session: the times of its first and last event, and its value."""

    start: int
    end: int
    value: Any


class SessionTableShard(TableShard):
    """Sessions with a gap, with the same interface as ``WindowTableShard``."""

    def __init__(self, spec: TableSpec, part: Partition, sessions: Sessions) -> None:
        super().__init__(spec, part)
        self.paired = True
        self.sessions = sessions
        # By the stretch of time in which they end.
        self.stored_sessions = self.create_entries("sessions", 1)
        self._sessions_by_key: dict[Any, list[TableSession]] | None = None
        # The end of each key's latest expired session, until it is forgotten.
        self._expired_ends: dict[Any, int] = {}
        self._closed_upto = MIN_POSITION
        # Sessions changed since the last commit, by key and start: their end at the commit.
        self._ends_before: dict[tuple[Any, int], int | None] = {}
        self._closed_ends: dict[tuple[Any, int], int] = {}

    def create_codec(self) -> ValueCodec:
        """Return a codec for lists of an end and a value; expired sessions have no value."""
        values = super().create_codec()

        def dumps(session: Any) -> str:
            end, value = session
            return f"[{end}]" if value is GONE else f"[{end},{values.dumps(value)}]"

        def loads(text: str) -> Any:
            end, comma, value = text[1:-1].partition(",")
            return [int(end), values.loads(value) if comma else GONE]

        return ValueCodec(dumps, loads)

    def begin(self, blobs: Any, stored: Any) -> None:
        super().begin(blobs, stored)
        self._ends_before, self._closed_ends = {}, {}

    def forget_index(self) -> None:
        self._sessions_by_key = None
        self._closed_upto = MIN_POSITION

    def _load_sessions(self) -> dict[Any, list[TableSession]]:
        if self._sessions_by_key is None:
            self._sessions_by_key, self._expired_ends = {}, {}
            for position in self.stored_sessions.list_positions():
                for (key, start), (end, value) in self.stored_sessions.values_at(position).items():
                    if value is GONE:
                        self._remember_expired(key, end)
                    else:
                        self._sessions_by_key.setdefault(key, []).append(
                            TableSession(start, end, value)
                        )
        return self._sessions_by_key

    def _remember_expired(self, key: Any, end: int) -> None:
        self._expired_ends[key] = max(end, self._expired_ends.get(key, end))

    def _list_sessions(self, key: Any) -> list[TableSession]:
        return sorted(self._load_sessions().get(key, ()), key=lambda session: session.start)

    def _find_by_start(self, key: Any, start: int) -> TableSession | None:
        return next(
            (session for session in self._load_sessions().get(key, ()) if session.start == start),
            None,
        )

    def _is_expired(self, end: int, watermark: int) -> bool:
        """Return whether a session with this end has expired."""
        if self.spec.expires is None:
            return False
        return end <= self.sessions.last_ended(watermark - self.spec.expires)

    def _belongs_to_expired(self, key: Any, time: int, watermark: int) -> bool:
        """Return whether a time is before, or within the gap after, an expired session of its key.

        Expired sessions are remembered until the watermark is a gap past their expiry, so that the
        sessions of a key never overlap.
        """
        ends = [
            session.end
            for session in self._load_sessions().get(key, ())
            if self._is_expired(session.end, watermark)
        ]
        if key in self._expired_ends:
            ends.append(self._expired_ends[key])
        gap, reach = self.sessions.gap, self.sessions.reach
        return any(
            time - end < reach and not self._is_expired(end + gap, watermark) for end in ends
        )

    def _find_joined_sessions(self, key: Any, time: int, watermark: int) -> list[TableSession]:
        reach = self.sessions.reach
        return [
            session
            for session in self._list_sessions(key)
            if session.start - reach < time < session.end + reach
            and not self._is_expired(session.end, watermark)
        ]

    def _resolve_write(
        self, key: Any, cursor: EventCursor, relative: Relative
    ) -> tuple[int, list[TableSession]] | None:
        """Return the time of a write and the sessions it joins; ``None`` if it is too late."""
        time_and_watermark = self.resolve_time(cursor, relative)
        self.check_key(key, cursor)
        if time_and_watermark is None:
            return None
        time, watermark = time_and_watermark[0], max(time_and_watermark[1], self.watermark)
        joined = self._find_joined_sessions(key, time, watermark)
        end = max([time, *(session.end for session in joined)])
        if self._is_expired(end, watermark) or self._belongs_to_expired(key, time, watermark):
            self.reject(cursor, "late", watermark=watermark)
            return None
        self.latest = time if self.latest is None else max(self.latest, time)
        return time, joined

    def apply(
        self, operation: Operation, key: Any, operand: Any, cursor: EventCursor, relative: Relative
    ) -> None:
        resolved = self._resolve_write(key, cursor, relative)
        if resolved is not None:
            time, joined = resolved
            old = self._merge_values(key, joined)
            self._replace(key, time, joined, operation(old, operand))

    def write(self, key: Any, value: Any, cursor: EventCursor, relative: Relative) -> None:
        resolved = self._resolve_write(key, cursor, relative)
        if resolved is not None:
            time, joined = resolved
            if value is GONE and not joined:
                raise KeyError(key)
            for session in joined:
                # Its lent value is overwritten, and must not be stored.
                self.take_back(session.start, key, None)
            self._replace(key, time, joined, self.copy_to_store(time, key, value))

    def _merge_values(self, key: Any, joined: list[TableSession]) -> Any:
        if not joined:
            return self.create_default(key)
        values = [self.take_back(session.start, key, session.value) for session in joined]
        return reduce(self.spec.merge, values)

    def _replace(self, key: Any, time: int, joined: list[TableSession], value: Any) -> None:
        for session in joined:
            self._remove(key, session)
        if value is GONE:
            return
        start = min([time, *(session.start for session in joined)])
        end = max([time, *(session.end for session in joined)])
        self._add(key, TableSession(start, end, value))

    def _remove(self, key: Any, session: TableSession) -> None:
        sessions = self._load_sessions()
        self.stored_sessions.pair(session.end // self.span)[0][key, session.start] = GONE
        sessions[key] = [one for one in sessions[key] if one.start != session.start]
        if not sessions[key]:
            del sessions[key]
        self._ends_before.setdefault((key, session.start), session.end)

    def _add(self, key: Any, session: TableSession) -> None:
        fresh, _ = self.stored_sessions.pair(session.end // self.span)
        fresh[key, session.start] = [session.end, session.value]
        self._load_sessions().setdefault(key, []).append(session)
        self._ends_before.setdefault((key, session.start), None)

    @property
    def newest(self) -> int | None:
        return self.latest

    def _find_session(self, key: Any, time: int, visibility: Visibility) -> TableSession | None:
        """Find the session of a key that an event at a time would join."""
        joined = self._find_joined_sessions(key, time, visibility.watermark)
        return joined[-1] if joined else None

    def _list_visible(self, key: Any, visibility: Visibility) -> list[TableSession]:
        """Return the sessions of a key that are visible to the agent, in order."""
        sessions = self._list_sessions(key)
        return [
            session
            for session in sessions
            if not self._is_expired(session.end, visibility.watermark)
        ]

    def read(self, key: Any, time: int, visibility: Visibility, *, oldest: bool = False) -> Any:
        """Return the value at a time; the default isn't lent, as only a write starts a session."""
        session = self._find_session(key, time, visibility)
        if session is not None:
            return self._lend(key, session, visibility)
        if self._is_expired(time, max(visibility.watermark, self.watermark)):
            return self.borrow_late(time, key)
        return self.create_default(key)

    def _lend(self, key: Any, session: TableSession, visibility: Visibility) -> Any:
        return self.borrow(session.start, key, session.value, visibility.feed)

    def get_stored_at(self, key: Any, time: int, visibility: Visibility) -> Any:
        session = self._find_session(key, time, visibility)
        return MISSING if session is None else session.value

    def read_all(
        self, time: int, visibility: Visibility, *, oldest: bool = False, borrows: bool = True
    ) -> dict[Any, Any]:
        sessions = {key: self._find_session(key, time, visibility) for key in self._load_sessions()}
        return {
            key: self._lend(key, session, visibility) if borrows else None
            for key, session in sessions.items()
            if session is not None
        }

    def get_windows(self, key: Any, visibility: Visibility) -> dict[tuple[int, int], Any]:
        return {
            self._to_window(session.start, session.end): self._lend(key, session, visibility)
            for session in self._list_visible(key, visibility)
        }

    def list_keys(self, visibility: Visibility) -> list[Any]:
        return [key for key in self._load_sessions() if self._list_visible(key, visibility)]

    def get_stored(self, position: int, key: Any) -> Any:
        """Return the stored value of a session; the position is its start."""
        session = self._find_by_start(key, position)
        return MISSING if session is None else session.value

    def has_key(self, key: Any) -> bool:
        return key in self._load_sessions()

    def put(self, position: int, key: Any, value: Any) -> None:
        """Set the value of a session; the position is its start."""
        session = self._find_by_start(key, position)
        if session is not None:
            self._remove(key, session)
            value = self.copy_to_store(position, key, value)
            self._add(key, TableSession(position, session.end, value))

    def snapshot(self) -> Iterator[TableEntry]:
        """Iterate over all sessions, by key, then start."""
        for key in sort_keys(self._load_sessions()):
            for session in self._list_sessions(key):
                if not self._is_expired(session.end, self.watermark):
                    bounds = self._to_window(session.start, session.end)
                    yield TableEntry(key, bounds, session.value, False)

    def is_expired_session(self, window: tuple[int, int]) -> bool:
        return self._is_expired(window[1] - self.sessions.gap, self.watermark)

    def _to_window(self, start: int, end: int) -> tuple[int, int]:
        """Return the window of a session, which ends a gap after the last event."""
        return start, end + self.sessions.gap

    def has_expired(self, position: int) -> bool:
        """Return false: an expired session can't be found by its start."""
        return False

    def close(self, *, emit: bool, final: bool) -> list[TableEntry]:
        watermark = MAX_POSITION if final else self.watermark
        if watermark == MIN_POSITION or (self.spec.expires is None and not final):
            return []
        upto = self.sessions.last_ended(watermark - (self.spec.expires or 0))
        expired_sessions = [
            (key, TableSession(start, end, value))
            for position in self.stored_sessions.list_positions(upto // self.span)
            if position >= self._closed_upto // self.span
            for (key, start), (end, value) in self.stored_sessions.values_at(position).items()
            if end <= upto and value is not GONE
        ]
        self._closed_upto = max(upto, self._closed_upto)
        for key, session in expired_sessions:
            self._remove(key, session)
            self._remember_expired(key, session.end)
            closed_values, _ = self.stored_sessions.pair(session.end // self.span)
            closed_values[key, session.start] = [session.end, GONE]
            self._closed_ends[key, session.start] = session.end
        self._forget_expired(upto - self.sessions.gap)
        if not emit:
            return []
        key_order = {
            key: n for n, key in enumerate(sort_keys({key for key, _ in expired_sessions}))
        }
        expired_sessions.sort(key=lambda one: (one[1].start, key_order[one[0]]))
        return [
            TableEntry(key, self._to_window(one.start, one.end), one.value, True)
            for key, one in expired_sessions
        ]

    def _forget_expired(self, last_end: int) -> None:
        """Forget expired sessions that ended at least a gap before the latest expired one."""
        last_position = (last_end + 1) // self.span - 1
        if self.closed is not None and last_position <= self.closed:
            return
        for position in self.stored_sessions.list_positions(last_position):
            for (key, _), (end, _) in self.stored_sessions.values_at(position).items():
                if self._expired_ends.get(key) == end:
                    del self._expired_ends[key]
        self.closed = last_position
        self.stored_sessions.drop_through(last_position)

    def changes(self) -> Iterator[TableEntry]:
        """Iterate over changed sessions; one with new bounds is deleted under the old ones."""
        for (key, start), before in self._ends_before.items():
            session = self._find_by_start(key, start)
            end = self._closed_ends.get((key, start)) if session is None else session.end
            if before is not None and before != end:
                yield TableEntry(key, self._to_window(start, before), GONE, False)
            if session is not None:
                yield TableEntry(key, self._to_window(start, session.end), session.value, False)
