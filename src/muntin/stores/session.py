"""The session store: the aggregates of sessions, looked up by their ends and starts.

Source: KIP-94 (SessionStore). A session is its first and its last event time, both included; a
session of a single event starts where it ends. Rows are in segments of the session's end, so that
expired ones are dropped by whole segments, and a key's sessions are adjacent within a segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from muntin.model.axis import Duration
from muntin.model.errors import OptionError
from muntin.stores import keys
from muntin.stores.kv import KeyValue
from muntin.stores.namespace import Namespace, NamespaceView, encode_required_key, parse_axis_length
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
        - Sessions are in order of their end, then key, then start; ``reverse=True`` is exactly
          the opposite.
        - Only sessions with ``end > observed - retention`` are read or accepted, where ``observed``
          is the greatest end so far.
        - A method returns a snapshot as of its call, however late it is read.
        - A put that isn't accepted is counted (``expired``), never an error.

    Args:
        kv: The rows, which other stores may share.
        retention: How long after its end a session is kept.
        name: The store's name in ``kv``.
        segments: The number of segments that the retention is divided into.
        minimum: The least length of a segment.
        codec: ``"json"`` or ``"raw"`` (bytes).

    Lengths are durations, or plain numbers in the axis' own unit (microseconds; offsets).

    Raises:
        OptionError: When an option can't work.
        SpecChangedError: When the rows were written with other options, including another
            segment interval, which determines their keys.

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
        retention_length = parse_axis_length("retention", retention)
        interval = segment_interval(retention_length, segments, minimum)
        identity = {"kind": "session", "segment interval": str(interval)}
        super().__init__(Namespace(kv, name, identity, codec), retention_length, interval)

    def put(self, session: Session, aggregate: Any) -> bool:
        """Store the aggregate of a session; ``None`` removes the session.

        Returns:
            Whether the session was accepted.

        Raises:
            OptionError: When the key is null, the session ends before it starts, or the codec
                can't write the aggregate.
        """
        row = self._make_row_key(session)
        encoded = None if aggregate is None else self._namespace.codec.to_bytes(aggregate)
        self.advance(session.end)
        edge = self._find_edge()
        if edge is not None and session.end <= edge:
            self._namespace.count("expired")
            return False
        if encoded is None:
            self._namespace.delete(row)
        else:
            self._namespace.put(row, encoded)
        return True

    def remove(self, session: Session) -> None:
        """Remove a session, if it is stored; the store's time doesn't advance.

        Raises:
            OptionError: When the key is null, or the session ends before it starts.
        """
        self._expire()
        self._namespace.delete(self._make_row_key(session))

    def get(self, session: Session) -> Any:
        """Return the aggregate of one session, or ``None``.

        Raises:
            OptionError: When the key is null, or the session ends before it starts.
        """
        row = self._make_row_key(session)
        self._expire()
        if session.end < self._find_first_end(None):
            return None
        value = self._namespace.get(row)
        return None if value is None else self._namespace.codec.from_bytes(value)

    def find_sessions(
        self,
        key: Any,
        earliest_end: int | None = None,
        latest_start: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[SessionRow]:
        """Return the sessions of a key that end at or after a time and start at or before another.

        These are the sessions that a message at ``t`` joins with a gap of ``g``:
        ``find_sessions(key, t - g, t + g)``. A bound of ``None`` is open.

        Raises:
            OptionError: When the key is null.
        """
        key_part = encode_required_key("key", key)
        self._expire()
        segments = self._list_segments(earliest_end, None)
        view, first = self._namespace.rows(), self._find_first_end(earliest_end)
        return self._scan_key(view, segments, key_part, first, latest_start, reverse)

    def fetch(self, key: Any, *, reverse: bool = False) -> Iterator[SessionRow]:
        """Return all sessions of a key.

        Raises:
            OptionError: When the key is null.
        """
        return self.find_sessions(key, reverse=reverse)

    def fetch_all(
        self,
        earliest_end: int | None = None,
        latest_end: int | None = None,
        *,
        first_key: Any = None,
        last_key: Any = None,
        reverse: bool = False,
    ) -> Iterator[SessionRow]:
        """Return the sessions within bounds of their end and key, bounds included.

        A bound of ``None`` is open; a range whose bounds are reversed is empty. One segment at a
        time is sorted in memory.
        """
        self._expire()
        segments = self._list_segments(earliest_end, latest_end)
        view, first = self._namespace.rows(), self._find_first_end(earliest_end)
        low = b"" if first_key is None else keys.encode_part(first_key)
        high = keys.AFTER if last_key is None else keys.encode_part(last_key) + keys.AFTER
        if low > high:
            return iter(())
        return self._scan_sorted(view, segments, (low, high), (first, latest_end), reverse)

    def _make_row_key(self, session: Session) -> bytes:
        key_part = encode_required_key("key", session.key)
        if session.start > session.end:
            hint = "give the first event time as start and the last as end"
            raise OptionError("session", session, "ends before it starts", hint)
        segment = keys.encode_part(self.segment(session.end))
        return segment + key_part + keys.encode_key((session.end, session.start))

    def _first_part(self, segment: int) -> int:
        return segment

    def _find_first_end(self, earliest_end: int | None) -> int:
        """Return the earliest end that may be read."""
        edge = self._find_edge()
        alive = 0 if edge is None else edge + 1
        return alive if earliest_end is None else max(alive, earliest_end)

    def _list_segments(self, earliest_end: int | None, latest_end: int | None) -> range:
        if self.observed is None:
            return range(0)
        last = self.observed if latest_end is None else min(latest_end, self.observed)
        return range(self.segment(self._find_first_end(earliest_end)), self.segment(last) + 1)

    def _scan_key(
        self,
        view: NamespaceView,
        segments: range,
        key_part: bytes,
        first: int,
        latest_start: int | None,
        reverse: bool,
    ) -> Iterator[SessionRow]:
        for segment in reversed(segments) if reverse else segments:
            prefix = keys.encode_part(segment) + key_part
            low = prefix + keys.encode_part(first)
            for row, value in view.scan(low, prefix + keys.AFTER, reverse=reverse):
                _, key, end, start = keys.decode_key(row)
                if latest_start is None or start <= latest_start:
                    yield Session(key, start, end), self._namespace.codec.from_bytes(value)

    def _scan_sorted(
        self,
        view: NamespaceView,
        segments: range,
        key_range: tuple[bytes, bytes],
        ends: tuple[int, int | None],
        reverse: bool,
    ) -> Iterator[SessionRow]:
        first, last = ends
        for segment in reversed(segments) if reverse else segments:
            prefix = keys.encode_part(segment)
            rows = []
            for row, value in view.scan(prefix + key_range[0], prefix + key_range[1]):
                _, key, end, start = keys.decode_key(row)
                if end >= first and (last is None or end <= last):
                    order = (end, keys.encode_part(key), start)
                    rows.append((order, Session(key, start, end), value))
            for _, session, value in sorted(
                rows, key=lambda ordered_row: ordered_row[0], reverse=reverse
            ):
                yield session, self._namespace.codec.from_bytes(value)
