"""The message store: the messages of past and current windows, each exactly once.

Source: the Samza SQL window operator design, "Message Store". It asks for R.1 range queries over
all retained messages, R.2 fast access within a window, R.3 a fast way to drop expired ones, and
R.4 that a replayed message isn't stored twice.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from muntin.model.axis import Duration
from muntin.model.errors import OptionError
from muntin.stores import keys
from muntin.stores.kv import KeyValue, Row
from muntin.stores.layout import Layout, MessageKey, StorePosition, message_layout
from muntin.stores.namespace import (
    NamedStore,
    Namespace,
    NamespaceView,
    encode_required_key,
    parse_axis_length,
)


class Message(NamedTuple):
    """One stored message; ``time`` (microseconds) is ``None`` on the rows axis."""

    time: int | None
    offset: int
    payload: Any
    equal: Any = None
    session: Any = None


class MessageStore(NamedStore):
    """Messages by position, in the order that ``message_layout`` chose.

    Guarantees:
        - A message whose position (time and offset) is stored already changes nothing (R.4). One
          at or before the retention's edge, or before what was retired, isn't stored. Both are
          counted (``duplicates``, ``expired``).
        - ``get_messages`` returns a snapshot as of the call, in order of the layout's key;
          ``reverse=True`` is exactly the opposite. Expired messages are left out.
        - ``retire`` deletes the oldest first; messages with equal times are deleted together.

    Args:
        kv: The rows, which other stores may share.
        layout: The order of keys; by default time, then offset.
        name: The store's name in ``kv``.
        retention: How long a message is kept: those with ``time > observed - retention`` (on the
            rows axis, a number of offsets); ``None`` for forever.
        most_rows: The number of messages kept by ``retire``; ``None`` for unlimited.
        codec: ``"json"`` or ``"raw"`` (bytes).

    Raises:
        OptionError: When an option can't work.
        SpecChangedError: When the rows were written with other options.

    Example:
        >>> from muntin.stores import memory
        >>> store = MessageStore(memory(), retention="1 minute")
        >>> for time, offset in [(0, 1), (50_000_000, 2), (50_000_000, 2), (70_000_000, 3)]:
        ...     _ = store.add("payload", time=time, offset=offset)
        >>> [m.offset for m in store.get_messages(reverse=True)], store.duplicates
        ([3, 2], 1)
        >>> store.retire(), store.rows
        (1, 2)
    """

    def __init__(
        self,
        kv: KeyValue,
        *,
        layout: Layout | None = None,
        name: str = "messages",
        retention: Duration | int | None = None,
        most_rows: int | None = None,
        codec: str = "json",
    ) -> None:
        self.layout = layout or message_layout()
        self.retention = None if retention is None else parse_axis_length("retention", retention)
        self.most_rows = None if most_rows is None else parse_axis_length("most_rows", most_rows)
        identity = {"kind": "message", "layout": f"{self.layout.axis}: {self.layout}"}
        super().__init__(Namespace(kv, name, identity, codec))

    @property
    def rows(self) -> int:
        """Number of stored messages, including expired ones that aren't deleted yet."""
        return self._namespace.counts.get("rows", 0)

    @property
    def duplicates(self) -> int:
        """Number of messages that were stored already when they were added again."""
        return self._namespace.counts.get("duplicates", 0)

    def add(
        self,
        payload: Any,
        *,
        offset: int,
        time: int | None = None,
        equal: Any = None,
        session: Any = None,
    ) -> bool:
        """Store a message.

        Args:
            payload: A value that the codec can write.
            offset: The offset in the source.
            time: The event time, microseconds; required on the time axis.
            equal: The fields that a join compares, for ``get_messages(equal=)``.
            session: The session key, if the layout has one.

        Returns:
            Whether it was stored; false for a duplicate and an expired message.

        Raises:
            OptionError: When a part of the layout's key is null, or the codec can't write the
                payload.
        """
        message_key = self._make_key(offset, time, equal, session)
        value = self._namespace.codec.to_bytes(payload)
        position = self.layout.position(message_key)
        self._namespace.observe(position)
        key = self.layout.key(offset=offset, time=message_key.time, equal=equal, session=session)
        if self._namespace.get(key) is not None:
            self._namespace.count("duplicates")
            return False
        edge = self._find_edge()
        if edge is not None and position <= edge:
            self._namespace.count("expired")
            return False
        if "equal" not in self.layout.parts:
            value = keys.encode_part(equal) + value
        self._namespace.put(key, value)
        self._namespace.count("rows")
        return True

    def advance(self, position: int) -> None:
        """Advance the axis to a position; ``retire`` deletes what expires by it."""
        self._namespace.observe(position)

    def get_messages(
        self,
        start: StorePosition = None,
        end: StorePosition = None,
        *,
        equal: Any = None,
        session: Any = None,
        reverse: bool = False,
    ) -> Iterator[Message]:
        """Return the messages between two positions, both included.

        If equal fields or a session come first in the layout and are given, expired messages
        among them are deleted (the design's lazy clean-up).

        Args:
            start: A time, ``(time, offset)``, or an offset on the rows axis; ``None`` for open.
            end: The last position, in the form of ``start``.
            equal: Only messages with these equal fields.
            session: Only messages of this session key.
            reverse: Whether to return the last first.

        Raises:
            OptionError: When ``(time, offset)`` is given on the rows axis, or a session that the
                layout doesn't have.
        """
        for option, position in (("start", start), ("end", end)):
            if self.layout.axis == "rows" and isinstance(position, tuple):
                raise OptionError(option, position, "has a time", "give an offset on this axis")
        self._check_session(session)
        self._sweep(equal, session)
        start = self._clip_start(start)
        low, high, exact = self.layout.in_window(start, end, equal=equal, session=session)
        view = self._namespace.rows(low, high)
        messages = (self._read_row(row) for row in (reversed(view) if reverse else view))
        if exact:
            return messages
        return (m for m in messages if self._matches(m, start, end, equal, session))

    def retire(self, limit: int | None = None) -> int:
        """Delete the messages that the retention no longer keeps, oldest first.

        If the layout starts with the position, they are one range; otherwise every key is read.

        Args:
            limit: The approximate maximum to delete. Messages with equal times are deleted
                together, so a call may delete more, and always deletes something if there is
                something to delete.

        Returns:
            The number of deleted messages; 0 when there is nothing left to delete.

        Raises:
            OptionError: When the limit is below 1.
        """
        most = self.rows if limit is None else parse_axis_length("limit", limit)
        last_position, deleted_count = self._find_cut(most)
        if last_position is None:
            return 0
        if self.layout.along_axis:
            low, high, _ = self.layout.in_window(None, last_position)
            self._namespace.delete_range(low, high)
            self._namespace.count("rows", -deleted_count)
        else:
            deleted_count = self._delete_through(self._namespace.rows(), last_position)
        self._namespace.counts["floor"] = last_position
        return deleted_count

    def _find_edge(self) -> int | None:
        """Return the greatest position that isn't kept any more."""
        edges = []
        if self.retention is not None and self.observed is not None:
            edges.append(self.observed - self.retention)
        if "floor" in self._namespace.counts:
            edges.append(self._namespace.counts["floor"])
        return max(edges, default=None)

    def _clip_start(self, start: StorePosition) -> StorePosition:
        edge = self._find_edge()
        first = start[0] if isinstance(start, tuple) else start
        return start if edge is None or (first is not None and first > edge) else edge + 1

    def _make_key(self, offset: int, time: int | None, equal: Any, session: Any) -> MessageKey:
        self._check_session(session)
        if self.layout.axis == "rows":
            time = None
        for option, value in (("time", time), ("equal", equal), ("session", session)):
            if option in self.layout.parts:
                encode_required_key(option, value)
        return MessageKey(session, equal, time, offset)

    def _check_session(self, session: Any) -> None:
        if session is not None and "session" not in self.layout.parts:
            hint = "choose message_layout(session=True)"
            raise OptionError("session", session, f"isn't in the layout {self.layout}", hint)

    def _read_row(self, row: Row) -> Message:
        message_key = self.layout.read(row[0])
        equal, value = message_key.equal, row[1]
        if "equal" not in self.layout.parts:
            equal, at = keys.decode_part(value)
            value = value[at:]
        payload = self._namespace.codec.from_bytes(value)
        return Message(message_key.time, message_key.offset, payload, equal, message_key.session)

    def _matches(
        self,
        message: Message,
        start: StorePosition,
        end: StorePosition,
        equal: Any,
        session: Any,
    ) -> bool:
        # Compare encoded keys, so that all layouts agree; in Python, 1 == True.
        for wanted, actual in ((equal, message.equal), (session, message.session)):
            if wanted is not None and keys.encode_part(wanted) != keys.encode_part(actual):
                return False
        message_key = MessageKey(message.session, message.equal, message.time, message.offset)
        return self.layout.holds(message_key, start, end)

    def _iterate_positions(self) -> Iterator[int]:
        return (self.layout.position(self.layout.read(key)) for key, _ in self._namespace.rows())

    def _find_cut(self, most: int) -> tuple[int | None, int]:
        """Return the position up to which to delete, and the number of messages along the axis."""
        ordered: Iterable[int] = self._iterate_positions()
        if not self.layout.along_axis:
            ordered = heapq.nsmallest(most, ordered)
        excess = 0 if self.most_rows is None else self.rows - self.most_rows
        edge = self._find_edge()
        last_position: int | None = None
        count = 0
        for position in ordered:
            if position != last_position:
                if count >= most or not (count < excess or (edge is not None and position <= edge)):
                    break
                last_position = position
            count += 1
        return last_position, count

    def _sweep(self, equal: Any, session: Any) -> None:
        """Delete expired messages with the given leading key parts."""
        edge = self._find_edge()
        values = {"session": session, "equal": equal}
        leading_parts = {part: values[part] for part in self.layout.parts if part in values}
        if edge is None or self.layout.along_axis or None in leading_parts.values():
            return
        low, high, _ = self.layout.in_window(None, edge, **leading_parts)
        self._delete_through(self._namespace.rows(low, high), edge)

    def _delete_through(self, view: NamespaceView, last_position: int) -> int:
        deleted_count = 0
        for key, _ in view:
            if self.layout.position(self.layout.read(key)) <= last_position:
                self._namespace.delete(key)
                deleted_count += 1
        self._namespace.count("rows", -deleted_count)
        return deleted_count
