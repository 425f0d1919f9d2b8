"""The session store: the aggregates of sessions, found by where they end and start.

Source: KIP-94 (SessionStore). A session here is its first and its last event time, both included;
one of a single event starts where it ends. Rows lie in segments of the session's end, so that what
has expired goes by whole segments, and a key's sessions lie together within a segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from muntin.model.axis import Duration
from muntin.model.errors import OptionError
from muntin.stores import keys
from muntin.stores.kv import KeyValue
from muntin.stores.namespace import Namespace, NamespaceView, length, required_key
from muntin.stores.segments import SegmentedStore, segment_interval


class Session(NamedTuple):
    """One session of a key: its first and last event time (microseconds), both included."""

    key: Any
    start: int
    end: int


SessionRow = tuple[Session, Any]


class SessionStore(SegmentedStore):
    """Aggregates by key and session.

    Guarantees:
        - Sessions come in order of their end, then key, then start; ``reverse=True`` is exactly
          the opposite.
        - Only sessions with ``end > observed - retention`` are read or taken, where ``observed``
          is the greatest end that this store was given.
        - What a method returns is what was there when it was called, however late it is read.
        - A put that isn't taken is counted (``expired``), never an error.

    Args:
        kv: Where rows are kept; other stores may be in it.
        retention: How long after its end a session is kept.
        name: The store's name in ``kv``.
        segments: Into how many segments the retention is cut.
        minimum: The least length of a segment.
        codec: ``"json"`` or ``"raw"`` (bytes).

    Lengths are durations, or plain numbers in the axis' own unit (microseconds; offsets).

    Raises:
        OptionError: When an option can't work.
        SpecChangedError: When the rows were written with other options, among them another
            segment interval: rows lie by it.

    Example:
        >>> from muntin.stores import memory
        >>> store = SessionStore(memory(), retention=10_000, minimum=1)
        >>> for start, end in [(0, 99), (101, 200), (201, 300), (301, 400)]:
        ...     _ = store.put(Session("any", start, end), 1)
        >>> [s.start for s, _ in store.find_sessions("any", 150, 300)]
        [101, 201]
    """

    def __init__(
        self,
        kv: KeyValue,
        *,
        retention: Duration | int,
        name: str = "sessions",
        segments: int = 3,
        minimum: Duration | int = "1 minute",
        codec: str = "json",
    ) -> None:
        kept = length("retention", retention)
        interval = segment_interval(kept, segments, minimum)
        identity = {"kind": "session", "segment interval": str(interval)}
        super().__init__(Namespace(kv, name, identity, codec), kept, interval)

    def put(self, session: Session, aggregate: Any) -> bool:
        """Keep the aggregate of a session; ``None`` removes the session.

        Returns:
            Whether the session was taken.

        Raises:
            OptionError: When the key is null, the session ends before it starts, or the codec
                can't write the aggregate.
        """
        row = self._row(session)
        written = None if aggregate is None else self._namespace.codec.to_bytes(aggregate)
        self.advance(session.end)
        edge = self._edge()
        if edge is not None and session.end <= edge:
            self._namespace.count("expired")
            return False
        if written is None:
            self._namespace.delete(row)
        else:
            self._namespace.put(row, written)
        return True

    def remove(self, session: Session) -> None:
        """Forget a session, if it is here; the store's time doesn't move.

        Raises:
            OptionError: When the key is null, or the session ends before it starts.
        """
        self._expire()
        self._namespace.delete(self._row(session))

    def find_sessions(
        self,
        key: Any,
        earliest_end: int | None = None,
        latest_start: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[SessionRow]:
        """The sessions of a key that end at or after a time and start at or before another.

        These are the ones that a message at ``t`` joins, with a gap of ``g``:
        ``find_sessions(key, t - g, t + g)``. A bound that is ``None`` is open.

        Raises:
            OptionError: When the key is null.
        """
        within = required_key("key", key)
        self._expire()
        segments = self._segments(earliest_end, None)
        view, first = self._namespace.rows(), self._first(earliest_end)
        return self._found(view, segments, within, first, latest_start, reverse)

    def fetch(self, key: Any, *, reverse: bool = False) -> Iterator[SessionRow]:
        """All sessions of a key.

        Raises:
            OptionError: When the key is null.
        """
        return self.find_sessions(key, reverse=reverse)

    def fetch_all(
        self,
        earliest_end: int | None = None,
        latest_end: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[SessionRow]:
        """The sessions of all keys that end within two times, both included; ``None`` is open.

        One segment at a time is sorted in memory.
        """
        self._expire()
        segments = self._segments(earliest_end, latest_end)
        view, first = self._namespace.rows(), self._first(earliest_end)
        return self._sorted(view, segments, first, latest_end, reverse)

    def _row(self, session: Session) -> bytes:
        within = required_key("key", session.key)
        if session.start > session.end:
            hint = "give the first event time as start and the last as end"
            raise OptionError("session", session, "ends before it starts", hint)
        segment = keys.encode_part(self.segment(session.end))
        return segment + within + keys.encode((session.end, session.start))

    def _first_part(self, segment: int) -> int:
        return segment

    def _first(self, earliest_end: int | None) -> int:
        """The earliest end that may be read."""
        edge = self._edge()
        alive = 0 if edge is None else edge + 1
        return alive if earliest_end is None else max(alive, earliest_end)

    def _segments(self, earliest_end: int | None, latest_end: int | None) -> range:
        if self.observed is None:
            return range(0)
        last = self.observed if latest_end is None else min(latest_end, self.observed)
        return range(self.segment(self._first(earliest_end)), self.segment(last) + 1)

    def _found(
        self,
        view: NamespaceView,
        segments: range,
        within: bytes,
        first: int,
        latest_start: int | None,
        reverse: bool,
    ) -> Iterator[SessionRow]:
        for segment in reversed(segments) if reverse else segments:
            prefix = keys.encode_part(segment) + within
            low = prefix + keys.encode_part(first)
            for row, value in view.scan(low, prefix + keys.AFTER, reverse=reverse):
                _, key, end, start = keys.decode(row)
                if latest_start is None or start <= latest_start:
                    yield Session(key, start, end), self._namespace.codec.from_bytes(value)

    def _sorted(
        self, view: NamespaceView, segments: range, first: int, last: int | None, reverse: bool
    ) -> Iterator[SessionRow]:
        for segment in reversed(segments) if reverse else segments:
            low = keys.encode_part(segment)
            rows = []
            for row, value in view.scan(low, low + keys.AFTER):
                _, key, end, start = keys.decode(row)
                if end >= first and (last is None or end <= last):
                    order = (end, keys.encode_part(key), start)
                    rows.append((order, Session(key, start, end), value))
            for _, session, value in sorted(rows, key=lambda found: found[0], reverse=reverse):
                yield session, self._namespace.codec.from_bytes(value)
