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
from muntin.tables.moments import BEGINNING, END
from muntin.tables.shard import Emitted, Operation, TableShard, in_order
from muntin.tables.spec import TableSpec
from muntin.tables.typed import ValueCodec

if TYPE_CHECKING:
    from muntin.tables.partition import Partition


@dataclass(slots=True)
class TableSession:
    """One session: the times of its first and last event, and its value."""

    start: int
    end: int
    value: Any


class SessionTableShard(TableShard):
    """Sessions of a gap; what agents ask of it is what they ask of ``WindowTableShard``."""

    paired = True

    def __init__(self, spec: TableSpec, part: Partition) -> None:
        super().__init__(spec, part)
        assert isinstance(spec.windows, Sessions)
        self.sessions = spec.windows
        # By the stretch of time that they end in.
        self.stored_sessions = self.new_entries("sessions", 1)
        self._of: dict[Any, list[TableSession]] | None = None
        # The last event of each key's latest expired session, as long as it is remembered.
        self._expired_ends: dict[Any, int] = {}
        self._closed_upto = BEGINNING
        # What was touched since the last commit, by key and start: the end then.
        self._before: dict[tuple[Any, int], int | None] = {}
        self._closed_ends: dict[tuple[Any, int], int] = {}

    def codec(self) -> ValueCodec:
        """See ``TableShard``; it is a list of the end and the value, which expired ones lack."""
        values = super().codec()

        def dumps(session: Any) -> str:
            end, value = session
            return f"[{end}]" if value is GONE else f"[{end},{values.dumps(value)}]"

        def loads(text: str) -> Any:
            end, comma, value = text[1:-1].partition(",")
            return [int(end), values.loads(value) if comma else GONE]

        return ValueCodec(dumps, loads)

    def begin(self, blobs: Any, stored: Any) -> None:
        super().begin(blobs, stored)
        self._before, self._closed_ends = {}, {}

    def forget_index(self) -> None:
        self._of = None
        self._closed_upto = BEGINNING

    def _by_key(self) -> dict[Any, list[TableSession]]:
        """All sessions that haven't been closed, by key."""
        if self._of is None:
            self._of, self._expired_ends = {}, {}
            for place in self.stored_sessions.places():
                for (key, start), (end, value) in self.stored_sessions.at(place).items():
                    if value is GONE:
                        self._remember(key, end)
                    else:
                        self._of.setdefault(key, []).append(TableSession(start, end, value))
        return self._of

    def _remember(self, key: Any, end: int) -> None:
        self._expired_ends[key] = max(end, self._expired_ends.get(key, end))

    def _sessions(self, key: Any) -> list[TableSession]:
        """The sessions of a key, in order."""
        return sorted(self._by_key().get(key, ()), key=lambda session: session.start)

    def _starting(self, key: Any, start: int) -> TableSession | None:
        """The session of a key that starts at a time."""
        return next((one for one in self._by_key().get(key, ()) if one.start == start), None)

    def _is_expired(self, end: int, watermark: int) -> bool:
        """Whether a session that ends there has expired."""
        if self.spec.expires is None:
            return False
        return end <= self.sessions.ended(watermark - self.spec.expires)

    def _belongs_to_expired(self, key: Any, time: int, judged: int) -> bool:
        """Whether a time is before, or within the gap behind, an expired session of its key.

        It is remembered until the watermark is a gap past its expiry, so that sessions of a key
        never overlap.
        """
        ends = [one.end for one in self._by_key().get(key, ()) if self._is_expired(one.end, judged)]
        if key in self._expired_ends:
            ends.append(self._expired_ends[key])
        gap, reach = self.sessions.gap, self.sessions.reach
        return any(time - end < reach and not self._is_expired(end + gap, judged) for end in ends)

    def _touched(self, key: Any, time: int, judged: int) -> list[TableSession]:
        reach = self.sessions.reach
        return [
            session
            for session in self._sessions(key)
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
        if self._is_expired(end, judged) or self._belongs_to_expired(key, time, judged):
            self.reject(cursor, "late", judged=judged)
            return None
        self.latest = time if self.latest is None else max(self.latest, time)
        return time, touched

    def apply(
        self, operation: Operation, key: Any, operand: Any, cursor: EventCursor, relative: Relative
    ) -> None:
        entered = self._enter(key, cursor, relative)
        if entered is not None:
            time, touched = entered
            old = self._merged(key, touched)
            self._replace(key, time, touched, operation(old, operand))

    def write(self, key: Any, value: Any, cursor: EventCursor, relative: Relative) -> None:
        entered = self._enter(key, cursor, relative)
        if entered is not None:
            time, touched = entered
            if value is GONE and not touched:
                raise KeyError(key)
            for session in touched:
                # A borrowed value of it is overwritten, and must not be stored.
                self.take_back(session.start, key, None)
            self._replace(key, time, touched, self.stored_copy(time, key, value))

    def _merged(self, key: Any, touched: list[TableSession]) -> Any:
        if not touched:
            return self.default(key)
        values = [self.take_back(session.start, key, session.value) for session in touched]
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

    def _add(self, key: Any, session: TableSession) -> None:
        fresh, _ = self.stored_sessions.pair(session.end // self.span)
        fresh[key, session.start] = [session.end, session.value]
        self._by_key().setdefault(key, []).append(session)
        self._before.setdefault((key, session.start), None)

    @property
    def newest(self) -> int | None:
        return self.latest

    def _at(self, key: Any, time: int, visibility: Visibility) -> TableSession | None:
        """The session of a key that an event of some time would join."""
        touched = self._touched(key, time, visibility.horizon)
        return touched[-1] if touched else None

    def _seen(self, key: Any, visibility: Visibility) -> list[TableSession]:
        """The sessions of a key that haven't expired for the agent at work, in order."""
        sessions = self._sessions(key)
        return [one for one in sessions if not self._is_expired(one.end, visibility.horizon)]

    def read(self, key: Any, time: int, visibility: Visibility, *, oldest: bool = False) -> Any:
        """See ``WindowTableShard``; the default isn't borrowed: a session begins with a write."""
        session = self._at(key, time, visibility)
        if session is not None:
            return self._lent(key, session, visibility)
        if self._is_expired(time, max(visibility.horizon, self.watermark)):
            return self.borrow_late(time, key)
        return self.default(key)

    def _lent(self, key: Any, session: TableSession, visibility: Visibility) -> Any:
        return self.borrow(session.start, key, session.value, visibility.feed)

    def stored(self, key: Any, time: int, visibility: Visibility) -> Any:
        session = self._at(key, time, visibility)
        return MISSING if session is None else session.value

    def read_all(
        self, time: int, visibility: Visibility, *, oldest: bool = False, borrows: bool = True
    ) -> dict[Any, Any]:
        found = {key: self._at(key, time, visibility) for key in self._by_key()}
        return {
            key: self._lent(key, session, visibility) if borrows else None
            for key, session in found.items()
            if session is not None
        }

    def windows_of(self, key: Any, visibility: Visibility) -> dict[tuple[int, int], Any]:
        return {
            self._bounds(session.start, session.end): self._lent(key, session, visibility)
            for session in self._seen(key, visibility)
        }

    def keys(self, visibility: Visibility) -> list[Any]:
        return [key for key in self._by_key() if self._seen(key, visibility)]

    def found(self, place: int, key: Any) -> Any:
        """See ``Lender``; the place is a session's start."""
        session = self._starting(key, place)
        return MISSING if session is None else session.value

    def holds(self, key: Any) -> bool:
        return key in self._by_key()

    def put(self, place: int, key: Any, value: Any) -> None:
        """See ``Lender``; the place is a session's start."""
        session = self._starting(key, place)
        if session is not None:
            self._remove(key, session)
            value = self.stored_copy(place, key, value)
            self._add(key, TableSession(place, session.end, value))

    def snapshot(self) -> Iterator[Emitted]:
        """See ``TableShard``; by key, then start."""
        for key in in_order(self._by_key()):
            for session in self._sessions(key):
                if not self._is_expired(session.end, self.watermark):
                    bounds = self._bounds(session.start, session.end)
                    yield Emitted(key, bounds, session.value, False)

    def expired(self, window: tuple[int, int]) -> bool:
        return self._is_expired(window[1] - self.sessions.gap, self.watermark)

    def _bounds(self, start: int, end: int) -> tuple[int, int]:
        """Start and end as windows have them, which end a gap behind the last event."""
        return start, end + self.sessions.gap

    def has_expired(self, place: int) -> bool:
        """See ``Lender``; a session that has expired isn't found any more."""
        return False

    def close(self, *, emit: bool, final: bool) -> list[Emitted]:
        watermark = END if final else self.watermark
        if watermark == BEGINNING or (self.spec.expires is None and not final):
            return []
        upto = self.sessions.ended(watermark - (self.spec.expires or 0))
        over = [
            (key, TableSession(start, end, value))
            for place in self.stored_sessions.places(upto // self.span)
            if place >= self._closed_upto // self.span
            for (key, start), (end, value) in self.stored_sessions.at(place).items()
            if end <= upto and value is not GONE
        ]
        self._closed_upto = max(upto, self._closed_upto)
        for key, session in over:
            self._remove(key, session)
            self._remember(key, session.end)
            ended, _ = self.stored_sessions.pair(session.end // self.span)
            ended[key, session.start] = [session.end, GONE]
            self._closed_ends[key, session.start] = session.end
        self._forget(upto - self.sessions.gap)
        if not emit:
            return []
        number = {key: n for n, key in enumerate(in_order({key for key, _ in over}))}
        over.sort(key=lambda one: (one[1].start, number[one[0]]))
        return [
            Emitted(key, self._bounds(one.start, one.end), one.value, True) for key, one in over
        ]

    def _forget(self, upto: int) -> None:
        """Forget the expired sessions that ended a gap and more before the latest expired one."""
        through = (upto + 1) // self.span - 1
        if self.closed is not None and through <= self.closed:
            return
        for place in self.stored_sessions.places(through):
            for (key, _), (end, _) in self.stored_sessions.at(place).items():
                if self._expired_ends.get(key) == end:
                    del self._expired_ends[key]
        self.closed = through
        self.stored_sessions.drop_through(through)

    def changes(self) -> Iterator[Emitted]:
        """See ``TableShard``; a session that has other bounds now is deleted under the old ones."""
        for (key, start), before in self._before.items():
            session = self._starting(key, start)
            end = self._closed_ends.get((key, start)) if session is None else session.end
            if before is not None and before != end:
                yield Emitted(key, self._bounds(start, before), GONE, False)
            if session is not None:
                yield Emitted(key, self._bounds(start, session.end), session.value, False)
